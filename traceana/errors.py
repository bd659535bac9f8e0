"""The one error a command turns into one line and an exit code."""

from __future__ import annotations

#: exit codes of the command line (see docs/cli.md)
EXIT_OK = 0
EXIT_FAILED_CHECK = 1
EXIT_UNUSABLE = 2
EXIT_INCONCLUSIVE = 3
EXIT_INTERRUPTED = 130


class TraceanaError(Exception):
    """Something the user can act on: what is wrong, where, and what to do, in one line.

    Args:
        message: one line for the user; never a traceback.
        exit_code: the process's exit code; 2 (unusable input or arguments) unless said.
    """

    def __init__(self, message: str, exit_code: int = EXIT_UNUSABLE) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code

"""`traceana env`: did the variables reach the workers of a live server, and were they used?"""

from __future__ import annotations

import os
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from traceana.cli import output
from traceana.errors import TraceanaError

if TYPE_CHECKING:
    from traceana.environment.audit import Logs
    from traceana.environment.servers import Server
    from traceana.facts.model import Facts


class EnvFormat(str, Enum):
    """How the audit is written."""

    TERMINAL = "terminal"
    JSON = "json"


def env(
    target: Annotated[
        str | None,
        typer.Argument(metavar="PID|NAME", help="A process of the server, or a word of its command line."),
    ] = None,
    log: Annotated[
        list[str] | None,
        typer.Option("--log", metavar="FILE", help="The server's log or launch script; may be given several times."),
    ] = None,
    output_format: Annotated[EnvFormat, typer.Option("--format", help="terminal or json.")] = EnvFormat.TERMINAL,
    out: Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file.")] = None,
) -> None:
    """Audit a live server's environment: which variables were asked for, reached the workers, and were used.

    Without PID or NAME every SGLang and vLLM server of this machine; with --log alone, what the logs show.

    Example: traceana env 4242 --log server.log
    """
    from traceana.environment import audit
    from traceana.environment.model import SCHEMA, EnvReport
    from traceana.report import jsonout, terminal

    paths = log or []
    for path in paths:
        output.keep(path, out)
    logs = _logs(paths)
    found = [] if target is None and paths else _servers(target)
    servers = tuple(audit.live(server, logs) for server in found) if found else (audit.from_logs(logs),)
    report = EnvReport(SCHEMA, servers)
    if output_format is EnvFormat.JSON:
        output.write(jsonout.render_document(report), out)
        return
    from traceana.environment.text import env_sections

    width = output.width() if out is None else None
    output.write(terminal.render_sections(env_sections(report), width=width, color=output.color(out)), out)


def _servers(target: str | None) -> list[Server]:
    """The servers that are meant. Raises TraceanaError where there is none, or too many."""
    from traceana.environment import procfs, servers

    if not procfs.available():
        raise TraceanaError("there is no /proc here (Linux has one): give the server's log with --log")
    everyone = procfs.processes()
    if target is None:
        found = servers.find(everyone, os.getpid())
        hint = "no SGLang or vLLM process is running here: give its pid, or its log with --log"
    elif target.isascii() and target.isdigit():
        pid = int(target[:20])
        found = [servers.of_pid(pid, everyone)] if pid in everyone else []
        hint = f"no process has the pid {target[:20]}: it may have ended, or run in another container"
    else:
        found = servers.matching(target, everyone, os.getpid())
        hint = f"no process has {target[:80]!r} in its command line"
    if not found:
        raise TraceanaError(hint)
    if len(found) > servers.MOST_SERVERS:
        some = ", ".join(str(server.top.pid) for server in found[: servers.MOST_SERVERS])
        raise TraceanaError(f"{len(found)} servers match (pid {some} ...): give the pid of one of them")
    return found


def _logs(paths: list[str]) -> Logs:
    """What the logs say. Raises TraceanaError where they say nothing of an environment."""
    from traceana import api
    from traceana.environment import start_lines
    from traceana.environment.audit import Logs

    if not paths:
        return Logs()
    if "-" in paths:
        raise TraceanaError("--log cannot be standard input: give a file")
    starts = tuple(start_lines.read(paths))
    try:
        facts: Facts | None = api.read_facts(paths)
    except TraceanaError:
        if not starts:
            raise
        facts = None
    return Logs(starts, facts)

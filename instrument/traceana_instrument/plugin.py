"""Where the timers begin: entry points of both engines, and the wait for an engine in a process that may have none."""

from __future__ import annotations

import os
import sys

ENGINES = ("sglang", "vllm")


def register() -> None:
    """Install the timers where EAGLE3_PROFILE asks for them; without it nothing more is imported. Never raises.

    The entry points `sglang.srt.plugins` and `vllm.general_plugins` call this in each of the engine's processes.
    """
    if os.environ.get("EAGLE3_PROFILE", "") in {"", "0"}:
        return
    try:
        from traceana_instrument.install import install

        install()
    except Exception as error:  # a server must start without its timers
        sys.stderr.write(f"EAGLE3_PROFILE_NOTE timers are not installed: {error!r}\n")


class _Waiting:
    """Installs when an engine is first imported: compilers and trackers that a server starts import none."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Never finds anything."""
        if name in ENGINES and self in sys.meta_path:
            sys.meta_path.remove(self)
            register()


def wait_for_engine() -> None:
    """Install the timers as soon as this process imports an engine."""
    if any(name in sys.modules for name in ENGINES):
        register()
    else:
        sys.meta_path.insert(0, _Waiting())  # nothing of typing or importlib.abc: every process pays

"""Entry points: `sglang.srt.plugins` and `vllm.general_plugins` call `register` in each of the engine's processes."""

from __future__ import annotations

import os


def register() -> None:
    """Install the timers where EAGLE3_PROFILE asks for them; without it nothing more is imported. Never raises."""
    if os.environ.get("EAGLE3_PROFILE", "") in {"", "0"}:
        return
    try:
        from traceana_instrument.install import install

        install()
    except Exception as error:  # a server must start without its timers
        import sys

        sys.stderr.write(f"EAGLE3_PROFILE_NOTE timers are not installed: {error!r}\n")

"""Comparison with stored reports.

To accept new output: `TRACEANA_UPDATE_GOLDEN=1 python -m pytest tests/report`, then read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

_FOLDER = Path(__file__).parent / "golden"


def check_golden(name: str, text: str) -> None:
    """Fails when the text differs from the file `golden/<name>`; writes the file when TRACEANA_UPDATE_GOLDEN is 1."""
    file = _FOLDER / name
    if os.environ.get("TRACEANA_UPDATE_GOLDEN") == "1":
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{name} changed; see tests/report/golden.py"

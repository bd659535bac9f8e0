"""What SGLang's bench_sglang_eagle.py prints of a run: `#questions: 80, Throughput: 240.1 token/s, Acceptance ...`."""

from __future__ import annotations

import re

from traceana_parsers.bench.rows import Point, Rows
from traceana_parsers.bench.words import loads

_LINE = re.compile(
    r"#questions: (?P<n>\d{1,9}), Throughput: (?P<tps>\d{1,9}(?:\.\d+)?) token/s, "
    r"Acceptance length: (?P<al>\d{1,4}(?:\.\d+)?)"
)
_STEPS = re.compile(r"num[_-]steps\s*[= ]\s*(\d{1,4})")
_LONGEST = 120  # characters of the line before that may name the run


class EagleLines:
    """Reads such lines; the line before names the run."""

    marks = ("#questions:",)
    open = False

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._name: str | None = None

    def line(self, text: str, number: int, offset: int) -> bool:
        """True when the line is such a result."""
        match = _LINE.search(text) if "#questions:" in text else None
        if match is None:
            if text.strip() and not text.lstrip().startswith("```"):
                before = re.sub(r"^[\s#>*-]+|[\s:*]+$", "", text[: _LONGEST + 1])
                self._name = before if before and len(before) <= _LONGEST else None
            return False
        length, name = float(match["al"]), self._name
        steps = _STEPS.search(name or "")
        point = Point("bench_sglang_eagle", number, offset)
        point.values = {
            "series": name,
            "requests": int(match["n"]),
            "output_tps": float(match["tps"]),
            "accept_length_printed": length,
            "speculative": length > 1,  # the script prints 1.000 for a server that does not speculate
            "num_steps": int(steps[1]) if steps else None,
            **loads(name or "")[0],
        }
        self._rows.point(point)
        self._name = None
        return True

    def end(self) -> None:
        """Nothing is kept from line to line."""

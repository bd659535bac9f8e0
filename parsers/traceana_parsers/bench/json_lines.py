"""Results as JSON, one object a line, in a text that holds other lines too."""

from __future__ import annotations

from collections.abc import Mapping

from traceana_parsers.bench.rows import Rows


class JsonLines:
    """Reads lines that are an object of a known form."""

    marks = (
        '"output_throughput"',
        '"output_token_throughput"',
        '"step_time"',
        '"meta_info"',
        '"speculative_decoding"',
    )
    open = False

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def line(self, text: str, number: int, offset: int) -> bool:
        """True when the line is such an object."""
        if not (text.startswith('{"') and text.rstrip().endswith("}")):
            return False
        from traceana_parsers.bench.catalog import form_of, forms
        from traceana_parsers.bench.objects import decoded

        value = decoded(text.encode())
        obj = None if isinstance(value, str) else value[0]
        form = form_of(obj, forms()) if isinstance(obj, Mapping) else None
        if form is None or not isinstance(obj, Mapping):
            return False
        form.read(obj, self._rows, number, offset)
        self._rows.tools.setdefault(form.tool, 1)
        return True

    def end(self) -> None:
        """Nothing is kept from line to line."""

"""The Diagnosis as JSON and back: the schema is `diagnosis.py` itself."""

from __future__ import annotations

import re

from traceana.errors import TraceanaError
from traceana.report.diagnosis import SCHEMA, Diagnosis
from traceana.report.escape import HIDDEN_IN_JSON
from traceana.report.walk import map_texts

_SURROGATE = re.compile("[\ud800-\udfff]")


def render(diagnosis: Diagnosis, *, width: int | None = None, color: bool = False, redacted: bool = False) -> str:
    """The Diagnosis as JSON, indented by two blanks, ending with a newline.

    Absent knowledge, NaN and infinity are null. Characters that are invisible or control a terminal are written as
    `\\uXXXX`; half surrogates, which JSON readers refuse, become U+FFFD. The other arguments change nothing.
    """
    return render_document(diagnosis)


def render_document(document: object) -> str:
    """Any dataclass of plain data as JSON, as `render` writes a Diagnosis."""
    return _indented(map_texts(document, _encodable))


def render_trace(diagnosis: Diagnosis, *, width: int | None = None, color: bool = False, redacted: bool = False) -> str:
    """The field `trace` of the Diagnosis alone, as `render` writes it; `null` when the run has no trace."""
    return render_document(diagnosis.trace)


def _indented(value: object) -> str:
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return HIDDEN_IN_JSON.sub(lambda match: _as_json(match[0]), text) + "\n"


def decode(text: str | bytes) -> Diagnosis:
    """The Diagnosis of a JSON document that `render` wrote.

    Raises:
        TraceanaError: not JSON, another schema, or a field of the wrong type.
    """
    import msgspec

    try:
        found = msgspec.json.decode(text, type=Diagnosis)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise TraceanaError(f"not a {SCHEMA} document: {error}") from error
    if found.schema != SCHEMA:
        raise TraceanaError(f"not a {SCHEMA} document: its schema is {found.schema[:80]!r}")
    return found


def _encodable(_name: str, text: str) -> str:
    return _SURROGATE.sub("\ufffd", text)


def _as_json(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))

"""The words above a printed result that say whether it speculates: `### With MTP`, `Baseline:`, `no spec, conc=8`."""

from __future__ import annotations

import re

from traceana_parsers.bench.words import loads, speculates

_HEADING = re.compile(r"\s*#{1,6}\s+\S")
_FENCE = re.compile(r"\s*(?:```|~~~|<)")
_COMMAND = re.compile(r"\s--?[a-z]|^\s*(?:\$|python|vllm |sglang |export |curl )|[{}]|\d:\d\d:\d\d")
_LONGEST = 80  # characters of a title
_NEAR = 2  # lines of text between words that are no heading and the result


class Titles:
    """Keeps the last heading, and the last short words near, that tell with from without speculation."""

    def __init__(self) -> None:
        self._heading: str | None = None
        self._words: str | None = None
        self._ago = 0

    def line(self, text: str) -> None:
        """A line before a result."""
        if not text.strip() or _FENCE.match(text):
            return
        heading = _HEADING.match(text) is not None
        self._ago += 1
        if len(text) > _LONGEST or (not heading and _COMMAND.search(text)):
            return
        words = re.sub(r"^[\s#>*_|)-]+|[\s:*_|`#]+$", "", text)
        told = speculates(words) is not None or speculates(_bare(words)) is not None
        if heading:
            self._heading, self._words = words if told else None, None
        elif told and not words.endswith("."):
            self._words, self._ago = words, 0

    def take(self) -> tuple[str | None, int | None]:
        """The title of a result that begins now, without the loads in it, and the draft tokens it names; None where
        none says with or without."""
        title = self._words if self._words is not None and self._ago <= _NEAR else self._heading
        self._words = None
        if title is None:
            return None, None
        return _bare(title) or title, loads(title)[0].get("k")


def _bare(title: str) -> str:
    """The title without the loads in it; draft tokens stay, as they name the run."""
    found, rest = loads(title)
    return (rest if found.keys() - {"k"} else title).strip(" ,;:-()")

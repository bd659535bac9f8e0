"""Short names of input files in the body of a report; the list of inputs at its end has the full paths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from traceana.report.diagnosis import Diagnosis
from traceana.report.walk import map_texts


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Path -> the shortest tail of it (whole components) that no other of the paths ends with."""
    every = list(dict.fromkeys(paths))
    found = {}
    for path in every:
        parts = path.split("/")
        others = [other for other in every if other != path]
        tails = ("/".join(parts[-n:]) for n in range(1, len(parts) + 1))
        found[path] = next((t for t in tails if not any(o == t or o.endswith("/" + t) for o in others)), path)
    return found


def with_short_names(diagnosis: Diagnosis) -> Diagnosis:
    """A copy whose evidence names files shortly. `inputs` keep their paths."""
    baseline = diagnosis.baseline.inputs if diagnosis.baseline is not None else ()
    names = short_names(entry.path for entry in (*diagnosis.inputs, *baseline))
    body = map_texts(
        replace(diagnosis, inputs=(), baseline=None),
        lambda field, text: names.get(text, text) if field == "path" else text,
    )
    return replace(body, inputs=diagnosis.inputs, baseline=diagnosis.baseline)

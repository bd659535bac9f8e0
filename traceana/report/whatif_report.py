"""The document of `traceana whatif`: plain data, schema traceana/whatif/1. Field names are the contract."""

from __future__ import annotations

from dataclasses import dataclass

from traceana.facts.whatif_model import Base, Prediction, WhatIf

SCHEMA = "traceana/whatif/1"


@dataclass(frozen=True, slots=True)
class Score:
    """A stored prediction beside what a later run measured. `inside` tells whether the range held it."""

    change: str
    predicted_low_tps: float
    predicted_high_tps: float
    measured_tps: float
    inside: bool


@dataclass(frozen=True, slots=True)
class WhatIfReport:
    """Predictions for one run. Ranges are `{low, high}`; what is not known is null. All of it is modelled."""

    base: Base | None
    predictions: tuple[Prediction, ...]
    reason: str | None
    provenance: str = "modelled"
    schema: str = SCHEMA


def whatif_report(found: WhatIf) -> WhatIfReport:
    """The document of what was found."""
    return WhatIfReport(found.base, found.predictions, found.reason)

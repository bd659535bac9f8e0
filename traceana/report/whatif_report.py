"""The document of `traceana whatif`: plain data, schema traceana/whatif/1. Field names are the contract."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from traceana.errors import TraceanaError
from traceana.facts.whatif_model import Base, Prediction, WhatIf

SCHEMA = "traceana/whatif/1"
_MOST_BYTES = 16 << 20


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


def predictions(path: str) -> tuple[Base, tuple[Prediction, ...]]:
    """The run that stored predictions start from, and the predictions.

    Raises TraceanaError when the file cannot be read, is no such document, or predicts no tok/s at a load level.
    """
    import msgspec

    try:
        with Path(path).open("rb") as stream:
            report = msgspec.json.decode(stream.read(_MOST_BYTES), type=WhatIfReport)
    except OSError as error:
        raise TraceanaError(f"{path}: {error.strerror or error}") from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise TraceanaError(f"{path}: not written by traceana whatif --format json ({error})") from error
    numbers = any(p.tps is not None for p in report.predictions)
    if report.schema != SCHEMA or report.base is None or report.base.running is None or not numbers:
        raise TraceanaError(f"{path}: holds no predictions of tok/s at a load level")
    return report.base, report.predictions

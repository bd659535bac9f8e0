"""Which SGLang releases print lines like these: the log names no version, its fields and their meaning tell a range.

Source: the format strings of the released wheels, 0.4.6 to 0.5.23.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from traceana.facts.acceptance import printed_pairs
from traceana.speculation.sglang_rates import RateDefinition, infer_sglang_rate

if TYPE_CHECKING:
    import polars as pl


def sglang_range(decode: pl.DataFrame, prefill: pl.DataFrame) -> str | None:
    """A range of versions in words, e.g. `0.5.11 or later`; None when the lines tell nothing or contradict."""
    lows, highs = [Version(v) for v in _lows(decode, prefill)], [Version(v) for v in _highs(decode, prefill)]
    low, high = max(lows, default=None), min(highs, default=None)
    if low is not None and high is not None:
        return None if low > high else f"{low} to {high}" if low != high else str(low)
    return f"{low} or later" if low is not None else f"{high} or earlier" if high is not None else None


def _some(frame: pl.DataFrame, column: str) -> bool:
    return bool(frame[column].is_not_null().any())


def _definition(decode: pl.DataFrame) -> RateDefinition | None:
    found = infer_sglang_rate(printed_pairs(decode))
    return found[0] if found else None


def _lows(decode: pl.DataFrame, prefill: pl.DataFrame) -> list[str]:
    """Releases before which the lines could not look like this."""
    signs = (
        ("0.4.7", _some(decode, "cuda_graph")),
        ("0.5.3.post3", _some(decode, "accept_rate_printed")),
        ("0.5.4", _some(decode, "forward_ct")),
        ("0.5.9", _some(prefill, "cuda_graph")),
        ("0.5.11", _definition(decode) is RateDefinition.STRICT),
    )
    return [version for version, seen in signs if seen]


def _highs(decode: pl.DataFrame, prefill: pl.DataFrame) -> list[str]:
    """Releases after which the lines would hold more, or mean something else."""
    drafting = _some(decode, "accept_length_printed")
    signs = (
        ("0.4.6", _some(decode, "gen_tps") and not _some(decode, "cuda_graph")),
        ("0.5.3", drafting and not _some(decode, "accept_rate_printed")),
        ("0.5.8", prefill.height > 0 and not _some(prefill, "cuda_graph")),
        ("0.5.10.post1", _definition(decode) is RateDefinition.PER_DRAFT_TOKEN),
    )
    return [version for version, seen in signs if seen]

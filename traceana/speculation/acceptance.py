"""What drafting earns: accept length, accept rate, tokens per cycle, and the chain model behind them.

`accept_length` counts the bonus token everywhere. What each engine version prints is in `sglang_rates` and
`vllm_lengths`; their functions are offered here as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from traceana.speculation.common import Normalised, accept_length_of, not_negative, positive, share, whole_drafts
from traceana.speculation.common import shares as checked_shares
from traceana.speculation.sglang_rates import (
    RateDefinition,
    RateMatch,
    identify_sglang_rate_definition,
    identify_sglang_rate_definition_from_pairs,
    infer_num_draft_tokens,
    infer_sglang_rate,
    sglang_accepted_share,
    sglang_rate_definition,
)
from traceana.speculation.vllm_lengths import (
    V0Counters,
    vllm_accept_length,
    vllm_v0_accept_length,
    vllm_v0_accept_length_from_efficiency,
    vllm_v0_window,
)

__all__ = [
    "Normalised",
    "RateDefinition",
    "RateMatch",
    "V0Counters",
    "accept_length_from_positions",
    "accept_length_from_rate",
    "accept_rate",
    "expected_accept_length",
    "identify_sglang_rate_definition",
    "identify_sglang_rate_definition_from_pairs",
    "infer_num_draft_tokens",
    "infer_sglang_rate",
    "llamacpp_tokens_per_step",
    "sglang_accepted_share",
    "sglang_rate_definition",
    "solve_acceptance_probability",
    "tokens_per_cycle",
    "vllm_accept_length",
    "vllm_v0_accept_length",
    "vllm_v0_accept_length_from_efficiency",
    "vllm_v0_window",
    "with_bonus",
]

_BISECTIONS = 200  # halves 0 ... 1 to below the spacing of floats


def tokens_per_cycle(accept_length: float, coverage: float = 1.0) -> float:
    """Tokens per request and engine step: 1 + coverage * (accept_length - 1). The multiplier of all break-even maths.

    `coverage` is the share of decode steps that had a draft (n-gram, suffix: below 1). ValueError when accept_length
    is below 1 or coverage outside 0 ... 1. Source: docs/arithmetic.md.
    """
    return 1.0 + share("coverage", coverage) * (accept_length_of(accept_length) - 1.0)


def with_bonus(accepted_drafts: float) -> float:
    """The accept length of a source that prints accepted drafts only: accepted_drafts + 1 tokens per cycle.

    ValueError when negative or not finite. Source: docs/arithmetic.md.
    """
    return not_negative("accepted drafts per cycle", accepted_drafts) + 1.0


def accept_rate(accept_length: float, drafted: float) -> float:
    """Accepted drafts / drafted tokens, 0 ... 1: (accept_length - 1) / drafted, with `drafted` per request and cycle.

    A chain drafts k; a tree num_draft_tokens - 1. ValueError when drafted is not positive or fewer than accepted.
    Source: docs/arithmetic.md.
    """
    accepted = accept_length_of(accept_length) - 1.0
    if accepted > positive("drafted tokens per cycle", drafted) * (1 + 1e-12):
        raise ValueError(f"accept length {accept_length!r} needs more than the {drafted!r} drafted tokens")
    return min(1.0, accepted / drafted)


def accept_length_from_rate(rate: float, drafted: float) -> float:
    """The inverse of `accept_rate`: 1 + rate * drafted tokens per request and cycle. ValueError as there."""
    return 1.0 + share("accept rate", rate) * positive("drafted tokens per cycle", drafted)


def accept_length_from_positions(rates: Sequence[float]) -> float:
    """Accept length from unconditional per-position rates (accepted at position i / drafts): 1 + sum of rates.

    ValueError when a rate lies outside 0 ... 1. Source: docs/arithmetic.md; vLLM's "Per-position acceptance rate".
    """
    return 1.0 + math.fsum(checked_shares("per-position rate", rates))


def expected_accept_length(p: float, k: float | None) -> float:
    """Accept length of a chain of k drafts, each accepted with probability p when the one before was.

    (1 - p^(k+1)) / (1 - p) tokens per cycle, k + 1 at p = 1; k None or math.inf is an unlimited chain, 1 / (1 - p).
    ValueError when p is outside 0 ... 1 or k is no whole number of drafts.
    Source: docs/arithmetic.md; Leviathan et al. 2023, arXiv 2211.17192, equation 1.
    """
    p, k = share("p", p), whole_drafts(k)
    if p == 1.0:
        return k + 1.0
    miss = 1.0 - p
    if math.isinf(k):
        return 1.0 / miss
    if miss == 1.0:  # p below the spacing of floats at 1: log1p(-1) is not defined, and only the first draft counts
        return 1.0 + (p if k else 0.0)
    return min(k + 1.0, max(1.0, -math.expm1((k + 1.0) * math.log1p(-miss)) / miss))


def solve_acceptance_probability(accept_length: float, k: float | None) -> float | None:
    """The p with expected_accept_length(p, k) == accept_length; None when k drafts cannot reach it (above k + 1).

    k None or math.inf is an unlimited chain: p = 1 - 1 / accept_length. By bisection otherwise, to float precision.
    ValueError when accept_length is below 1 or k is no whole number of drafts. Source: docs/arithmetic.md.
    """
    wanted, k = accept_length_of(accept_length), whole_drafts(k)
    if wanted > k + 1.0:
        return None
    if math.isinf(k):
        return 1.0 - 1.0 / wanted
    if wanted == 1.0:
        return 0.0
    if wanted == k + 1.0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        if expected_accept_length(middle, k) < wanted:
            low = middle
        else:
            high = middle
    return high


def llamacpp_tokens_per_step(predicted_n: int, draft_n_accepted: int) -> float:
    """llama.cpp's tokens per step of the target, for one request: predicted_n / (predicted_n - draft_n_accepted).

    Counts every step, also those without a draft, so this is `tokens_per_cycle`, not the accept length.
    ValueError unless 0 <= draft_n_accepted < predicted_n. Source: docs/arithmetic.md; llama.cpp server "timings".
    """
    if not 0 <= draft_n_accepted < predicted_n:
        raise ValueError(
            f"accepted drafts must be fewer than predicted tokens, not {draft_n_accepted} of {predicted_n}"
        )
    return predicted_n / (predicted_n - draft_n_accepted)

"""What acceptance says of the drafter: chain probability, and the reasons why accept length 1.00 is meant."""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.rules._levels import gate
from traceana.rules._text import span
from traceana.rules.interface import CannotTell, Clear, NotApplicable
from traceana.speculation.acceptance import solve_acceptance_probability

#: share of lines that are nearly all: a prefill in the window can lift one
NEARLY_ALL = 0.95


def chain_length(facts: Facts) -> int | None:
    """Draft tokens per cycle along one path: num_steps of a tree (topk > 1), else k, or what the ceiling says."""
    spec, acceptance = facts.speculation, facts.acceptance
    if (spec.topk.value or 1) > 1:
        return spec.num_steps.value
    if spec.k.value:
        return spec.k.value
    if acceptance.ceiling is not None and acceptance.ceiling > 1:
        return acceptance.ceiling - 1
    return len(acceptance.per_position.value) if acceptance.per_position.value else None


def chain_rate(facts: Facts) -> float | None:
    """Chance that a draft is accepted when the ones before it were (0 ... 1), solved from accept length and k.

    Independent of k, unlike the printed rates; None when accept length or k is not known.
    """
    accept_length, k = facts.acceptance.accept_length.value, chain_length(facts)
    if accept_length is None or not k or accept_length < 1.0:
        return None
    return solve_acceptance_probability(min(accept_length, k + 1.0), k)


def head_gate(facts: Facts, sparse: str) -> NotApplicable | CannotTell | Clear | None:
    """What a rule about a draft head answers before it looks: no drafting, no head (`sparse`), off on purpose."""
    stopped = gate(facts)
    if stopped is not None:
        return stopped
    if sparse_drafts(facts):
        return NotApplicable(sparse)
    meant = off_on_purpose(facts)
    return None if meant is None else Clear(meant)


def sparse_drafts(facts: Facts) -> bool:
    """True for n-gram and suffix drafting, where many steps have no draft at all."""
    return facts.speculation.drafts_every_step is False


def stats_lines(facts: Facts) -> int:
    """Stats lines with an accept length: those behind the mean, or those counted at a bound where they are more."""
    acceptance = facts.acceptance
    return max(acceptance.n_samples, acceptance.exactly_one, acceptance.exactly_ceiling)


def nearly_all_rejected(facts: Facts) -> bool:
    """True when nearly all stats lines stand at exactly 1.00; False without any."""
    lines = stats_lines(facts)
    return lines > 0 and facts.acceptance.exactly_one / lines >= NEARLY_ALL


def all_rejected(facts: Facts) -> bool:
    """True when every stats line stands at exactly 1.00."""
    acceptance = facts.acceptance
    return acceptance.other_running is None and acceptance.exactly_one == stats_lines(facts) > 0


def off_on_purpose(facts: Facts) -> str | None:
    """Why lines at exactly 1.00 are meant: adaptive speculation, or drafting that stops above a load; else None."""
    acceptance = facts.acceptance
    if facts.speculation.adaptive.value:
        return "speculation is adaptive and may drop to no drafts by itself"
    ones, others = acceptance.exactly_one_running, acceptance.other_running
    if acceptance.exactly_one and ones and others and ones[0] > others[1]:
        return (
            f"accept length is exactly 1.00 only at {span(*ones)} running requests and not at {span(*others)}: "
            "drafting stops above a load"
        )
    return None


def eagle3_under_eagle(facts: Facts) -> bool:
    """True when SGLang's algorithm is EAGLE and the draft model's name says EAGLE-3 (vLLM reads the draft's config)."""
    if facts.identity.engine.value not in (None, "sglang"):
        return False
    method, draft = facts.speculation.method.value, facts.speculation.draft_model.value
    if method is None or draft is None or method.upper() != "EAGLE":
        return False
    name = draft.lower()
    return any(word in name for word in ("eagle3", "eagle-3", "eagle_3"))

"""The answer of `traceana breakeven`: everything that follows from a handful of given figures, each marked."""

from __future__ import annotations

from dataclasses import dataclass, field

from traceana.speculation import acceptance, breakeven

#: how far accept length, cycle and throughput may contradict one another, in tokens per cycle
CONTRADICTION = breakeven.STEADY_TOLERANCE


@dataclass(frozen=True, slots=True)
class Question:
    """What the user gave; None is not given. Throughputs are of the whole batch, accept_length counts the bonus."""

    running: float = 1
    cycle_ms: float | None = None
    baseline_tps: float | None = None
    spec_tps: float | None = None
    accept_length: float | None = None
    accepted_drafts: float | None = None  # an accept length printed without the bonus token
    accept_rate: float | None = None
    k: int | None = None
    target_tps: float | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """What a target throughput needs. `p_needed` is for k drafts, `p_unlimited_chain` for any number of them.

    `drafts_needed` is the smallest chain that reaches it with p < 1, and `p_with_drafts_needed` that p. None: not known
    (no k given) or not reachable.
    """

    tps: float
    accept_length_needed: float
    max_accept_length: float | None
    reachable: bool | None
    p_needed: float | None
    p_unlimited_chain: float
    drafts_needed: int
    p_with_drafts_needed: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """The figures that follow from a Question; None where it does not carry them.

    `derived` maps each figure that was computed to the formula with its numbers; figures not in it were given.
    """

    cycle_ms: float | None = None
    baseline_step_ms: float | None = None
    accept_length: float | None = None
    max_accept_length: float | None = None
    break_even_accept_length: float | None = None
    break_even_p: float | None = None
    gen_tps: float | None = None
    speedup: float | None = None
    pays: bool | None = None
    target: Target | None = None
    derived: dict[str, str] = field(default_factory=dict)


def figure(value: float) -> str:
    """A number for a sentence: four significant digits, thousands with commas."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def answer(question: Question) -> Answer:
    """All that follows from `question`. ValueError for senseless or contradicting numbers.

    Source: docs/arithmetic.md.
    """
    q = question
    derived: dict[str, str] = {}
    cycle, length, tps = _cycle_length_tps(q, derived)
    running, step, even, gain = figure(q.running), None, None, None
    if q.baseline_tps is not None:
        step = breakeven.step_ms(q.running, q.baseline_tps)
        derived["baseline_step_ms"] = f"1000 x {running} / {figure(q.baseline_tps)} tok/s"
        if cycle is not None:
            even = breakeven.break_even_accept_length(cycle, step)
            derived["break_even_accept_length"] = f"{figure(cycle)} ms / {figure(step)} ms"
        if tps is not None:
            gain = tps / q.baseline_tps
            derived["speedup"] = f"{figure(tps)} tok/s / {figure(q.baseline_tps)} tok/s"
    ceiling = None if q.k is None else breakeven.max_accept_length(q.k)
    return Answer(
        cycle_ms=cycle,
        baseline_step_ms=step,
        accept_length=length,
        max_accept_length=ceiling,
        break_even_accept_length=even,
        break_even_p=None if even is None or q.k is None else _probability(even, q.k),
        gen_tps=tps,
        speedup=gain,
        pays=_pays(gain, even, ceiling),
        target=None if q.target_tps is None or cycle is None else _target(q.target_tps, cycle, q.running, q.k),
        derived=derived,
    )


def _cycle_length_tps(q: Question, derived: dict[str, str]) -> tuple[float | None, float | None, float | None]:
    """Cycle in ms, accept length and tokens/s: any two of them give the third. ValueError when all three disagree."""
    cycle, length, tps, running = q.cycle_ms, q.accept_length, q.spec_tps, figure(q.running)
    if length is None and q.accepted_drafts is not None:
        length = acceptance.with_bonus(q.accepted_drafts)
        derived["accept_length"] = f"{figure(q.accepted_drafts)} accepted drafts + 1 bonus token"
    elif length is None and q.accept_rate is not None and q.k is not None:
        length = acceptance.accept_length_from_rate(q.accept_rate, q.k)
        derived["accept_length"] = f"1 + {figure(q.accept_rate)} x {q.k}"
    if cycle is None and length is not None and tps is not None:
        cycle = breakeven.cycle_ms(length, q.running, tps)
        derived["cycle_ms"] = f"1000 x {figure(length)} x {running} / {figure(tps)} tok/s"
    elif cycle is not None and length is not None and tps is None:
        tps = breakeven.generation_tps(length, q.running, cycle)
        derived["gen_tps"] = f"1000 x {figure(length)} x {running} / {figure(cycle)} ms"
    elif cycle is not None and tps is not None:
        implied = breakeven.accept_length_for_target(tps, cycle, q.running)
        _check_implied(q, implied, length)
        if length is None:
            length = max(1.0, implied)  # rounding of the figures may leave it a little below
            derived["accept_length"] = f"{figure(tps)} tok/s x {figure(cycle)} ms / (1000 x {running})"
    return cycle, length, tps


def _check_implied(q: Question, implied: float, length: float | None) -> None:
    """ValueError when the accept length that cycle and throughput imply cannot be, or is not the given one."""
    what = f"a cycle of {q.cycle_ms:g} ms at {q.spec_tps:g} tok/s and {q.running:g} running means {implied:.2f} tokens"
    if length is not None and abs(implied - length) > CONTRADICTION:
        raise ValueError(f"{what} per request and cycle, not {length:.2f}: leave one of the three out")
    if implied < 1 - CONTRADICTION:
        raise ValueError(f"{what} per request and cycle, and fewer than 1 cannot be: check the running requests")
    if q.k is not None and implied > q.k + 1 + CONTRADICTION:
        raise ValueError(f"{what} per request and cycle, above the {q.k + 1} that k = {q.k} allows: check the figures")


def _probability(accept_length: float, k: int | None) -> float | None:
    """The chance of each draft that `accept_length` needs; 0 when 1 token or less per cycle will do."""
    return acceptance.solve_acceptance_probability(max(1.0, accept_length), k)


def _pays(gain: float | None, even: float | None, ceiling: float | None) -> bool | None:
    """Whether speculation pays: by the speed-up, or where the break-even lies outside what an accept length can be."""
    if gain is not None:
        return gain > 1.0 + 1e-9  # rounding of the division is no gain
    if even is not None and even < 1.0:
        return True
    if even is not None and ceiling is not None and even >= ceiling:
        return False
    return None


def _target(tps: float, cycle: float, running: float, k: int | None) -> Target:
    """What `tps` needs at this cycle."""
    needed = breakeven.accept_length_for_target(tps, cycle, running)
    ceiling = None if k is None else breakeven.max_accept_length(k)
    drafts = breakeven.drafts_for_accept_length(needed)
    unlimited = _probability(needed, None)
    return Target(
        tps=tps,
        accept_length_needed=needed,
        max_accept_length=ceiling,
        reachable=None if ceiling is None else needed <= ceiling,
        p_needed=None if k is None else _probability(needed, k),
        p_unlimited_chain=0.0 if unlimited is None else unlimited,
        drafts_needed=drafts,
        p_with_drafts_needed=_probability(needed, drafts),
    )

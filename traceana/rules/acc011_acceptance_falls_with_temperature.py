"""Acceptance falls when the target samples: the drafter still proposes its likeliest token.

What it sees:
    Benchmarks of the same load, data and number of drafts at temperature 0 and above it, of which the second accepts
    a fifth less of its drafts or worse, while no setting makes the drafter sample too.

Why it matters:
    A draft that is always the likeliest token is accepted with just the probability that the target gives it. With
    sampled drafts and their probabilities kept, the target accepts whatever both distributions share, which is more
    where they are flat. A benchmark at temperature 0 shows nothing of this, and the service then runs at 0.7.

How sure and why:
    Medium at best, with the same prompts on both sides: that acceptance falls with the temperature is measured. How
    much of it the sampling of drafts would bring back is not: a flat target accepts less in any case, and a drafter
    that is right but unsure does better with its likeliest token (vllm #40551).

Rivals:
    Other texts at a higher temperature, of which the drafter has seen less; other prompts in the two benchmarks.

Confirm:
    The same benchmark at the same temperature with sampled drafts: does the accept length rise?

Fix:
    vLLM: "draft_sample_method": "probabilistic" in --speculative-config (0.22 and newer; "gumbel" in 0.21). SGLang:
    --speculative-use-rejection-sampling for EAGLE and EAGLE3 with topk 1 (0.5.14 and newer). Fewer drafts at that
    temperature.

References:
    vllm PR #16899, PR #41044 (both at temperature 1: accept rate 10 % with the likeliest token, 49 % with sampled
    drafts), #40551; vllm config/speculative.py 0.21 to 0.33; SGLang server_args.py 0.5.14; rtx6kpro thresholds; rule
    catalogue R11.
"""

from __future__ import annotations

from dataclasses import dataclass

from traceana.facts.bench_model import LoadPoint, PointSource
from traceana.facts.model import Facts, Provenance, Setting
from traceana.facts.versions import in_range, parse_version
from traceana.rules._drafts import chain_length, sparse_drafts
from traceana.rules._text import length, pct, picked
from traceana.rules.interface import (
    CannotTell,
    Clear,
    Confidence,
    Explains,
    Finding,
    NotApplicable,
    Outcome,
    Rule,
    Severity,
    Threshold,
)

LOST = Threshold("lost", 0.2, "share of accepted drafts", "lost with the temperature, at least", "a choice", False)
LOW = Threshold(
    "low", 1.5, "tokens", "accept length that raises the question where temperature 0 was not run", "a choice", False
)
_SAMPLED = ("probabilistic", "gumbel")


@dataclass(frozen=True, slots=True)
class _Pair:
    """The same load at temperature 0 and above; `alike`: the same data and prompt tokens on both sides."""

    cold: LoadPoint
    hot: LoadPoint
    lengths: tuple[float, float]  # accept length at 0 and above
    alike: bool

    @property
    def lost(self) -> float:
        """Share of the accepted drafts that the temperature costs."""
        return 1 - (self.lengths[1] - 1) / (self.lengths[0] - 1)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when benchmarks at two temperatures differ in acceptance and the drafter is not known to sample."""
    hot = [p for p in _drafted(facts) if p.temperature]
    if not hot:
        return NotApplicable("no benchmark of this run names a temperature above 0 while it speculates")
    if sparse_drafts(facts):
        return NotApplicable("n-gram and suffix drafting have no probabilities")
    sampled = _sampled(facts)
    if sampled is not None:
        return Clear(f"drafts are sampled: {sampled.name}={sampled.value[:40]}")
    cold = [(p, facts) for p in _drafted(facts) if p.temperature == 0]
    if baseline is not None and chain_length(baseline) == chain_length(facts):
        cold += [(p, baseline) for p in _drafted(baseline) if p.temperature == 0]
    pairs = [pair for h in hot for c, side in cold if (pair := _pair(c, side, h, facts)) is not None]
    if not pairs:
        return _one_temperature(facts, hot)
    worst = max(pairs, key=lambda p: (p.alike, p.lost))
    if worst.lost < LOST.value:
        return Clear(
            f"accept length {length(worst.lengths[1])} at temperature {worst.hot.temperature:g} and "
            f"{length(worst.lengths[0])} at 0"
        )
    return _finding(facts, worst)


def _drafted(facts: Facts) -> list[LoadPoint]:
    """Benchmark points of a run that speculates."""
    active = facts.speculation.active.value
    benched = [p for p in facts.points if p.source is PointSource.BENCH]
    return [p for p in benched if (p.speculative if p.speculative is not None else active) is True]


def _sampled(facts: Facts) -> Setting | None:
    """The setting that makes the drafter sample, where there is one."""
    for row in facts.settings.rows:
        name = row.name.rpartition(".")[2].replace("-", "_")
        if name == "draft_sample_method" and row.value.strip("'\"") in _SAMPLED:
            return row
        if name == "speculative_use_rejection_sampling" and row.parsed is True:
            return row
        if name == "speculative_config" and any(f"'{word}'" in row.value for word in _SAMPLED):
            return row
    return None


def _accepted(point: LoadPoint, facts: Facts) -> float | None:
    """The point's accept length, else the log's where all benchmarks of the run have one temperature."""
    if point.accept_length.value is not None:
        return point.accept_length.value
    one = len({p.temperature for p in facts.points if p.source is PointSource.BENCH}) == 1
    return facts.acceptance.accept_length.value if one else None


def _pair(cold: LoadPoint, side: Facts, hot: LoadPoint, facts: Facts) -> _Pair | None:
    same = (cold.concurrency, cold.request_rate, cold.k) == (hot.concurrency, hot.request_rate, hot.k)
    before, after = _accepted(cold, side), _accepted(hot, facts)
    if not same or before is None or after is None or before <= 1:
        return None
    if None not in (cold.dataset, hot.dataset) and cold.dataset != hot.dataset:
        return None
    alike = cold.dataset is not None and cold.input_tokens is not None and cold.input_tokens == hot.input_tokens
    return _Pair(cold, hot, (before, after), alike)


def _one_temperature(facts: Facts, hot: list[LoadPoint]) -> CannotTell | Clear:
    lengths = [earned for p in hot if (earned := _accepted(p, facts)) is not None]
    if lengths and min(lengths) >= LOW.value:
        return Clear(f"accept length {length(min(lengths))} at temperature {hot[0].temperature:g}")
    return CannotTell(
        f"the benchmark samples at temperature {hot[0].temperature:g}, and nothing shows acceptance at 0",
        "run the same benchmark once with --temperature 0 and give log and result as --baseline",
    )


def _finding(facts: Facts, pair: _Pair) -> Finding:
    hot, (before, after) = pair.hot, pair.lengths
    temperature = f"{hot.temperature:g}"
    return Finding(
        code=RULE.code,
        title=f"Accept length is {length(after)} at temperature {temperature} and {length(before)} at 0",
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM if pair.alike else Confidence.LOW,
        why=f"{pct(pair.lost)} of the accepted drafts are lost. A drafter that always proposes its likeliest token is "
        "accepted with the target's probability of that token, which sinks as the temperature rises.",
        fix=(*_switch(facts), "fewer draft tokens at that temperature"),
        evidence=picked(hot.evidence, pair.cold.evidence, facts.acceptance.evidence),
        confirm=f"the same benchmark at temperature {temperature} with sampled drafts: does the accept length rise?",
        rivals=(
            "texts at a higher temperature are harder to draft in any case",
            *(() if pair.alike else ("other prompts in the two benchmarks",)),
        ),
        explains_ms_per_token=_explains(pair),
    )


def _switch(facts: Facts) -> tuple[str, ...]:
    """The setting that makes the drafter sample, for the engine that ran; for both where it is not known."""
    engine, version = facts.identity.engine.value, parse_version(facts.identity.version.value or "")
    word = "gumbel" if in_range(version, ">=0.21.0,<0.22.0") else "probabilistic"
    other = "" if version is not None else '; "gumbel" in 0.21'
    switches = {
        "vllm": f'"draft_sample_method": "{word}" in --speculative-config (vLLM 0.21 and newer{other})',
        "sglang": "--speculative-use-rejection-sampling (SGLang 0.5.14 and newer, EAGLE and EAGLE3, topk 1)",
    }
    return (switches[engine],) if engine in switches else tuple(switches.values())


def _explains(pair: _Pair) -> Explains | None:
    cycle = pair.hot.cycle_ms.value
    if cycle is None:
        return None
    return Explains(
        0.0,
        cycle / pair.lengths[1] - cycle / pair.lengths[0],
        Provenance.DERIVED,
        "time per token of one request with the accept length of temperature 0: the most that can be won back, since a "
        "sampling target accepts less whatever the drafter does",
    )


RULE = Rule(
    code="ACC011",
    name="acceptance-falls-with-temperature",
    severity=Severity.WARNING,
    check=check,
    thresholds=(LOST, LOW),
    asks="whether the temperature costs acceptance",
    needs="any",
)

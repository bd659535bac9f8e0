"""The benchmark's requests say little about real acceptance, or differ from the baseline's.

What it sees:
    The client's own words: prompts of random tokens (vLLM's dataset "random", SGLang's "random-ids") in a benchmark of
    a run that speculates; benchmarks at the same concurrency and number of requests whose generated tokens differ from
    the baseline's by more than 5 %; and benchmarks of which one ignores the end-of-sequence token, or applies the chat
    template, and the baseline's does not.

Why it matters:
    Acceptance depends on the text. After random tokens a model writes noise or falls into repetition, and the drafter
    guesses the first badly and the second too well. With other output lengths a batch empties at another pace, so two
    throughputs are not the same work. Behind its own end (ignore_eos) a model rambles or repeats itself, and without
    the chat template it writes what no drafter was trained on.

How sure and why:
    Medium: that the prompts are random, or that totals differ, is certain; which way it moved the result is not known.

Rivals:
    Other totals can themselves come from the runs: sampling at a temperature, or outputs that differ with speculation.

Confirm:
    The same benchmark with real prompts of your own (dataset sharegpt or custom, chat template applied) at the same
    lengths: does the accept length change?

Fix:
    Real prompts with the chat template; the same seed, the same output length with --ignore-eos in both runs when
    throughput is compared, and without it when acceptance is measured.

References:
    vllm #33497, #16258, #54677, #56797; TensorRT-LLM #4802; ATOM #609; vllm benchmarks/datasets.py (random token ids);
    sglang bench_serving.py ("random" there cuts real texts, "random-ids" does not); rule catalogue R12.
"""

from __future__ import annotations

from dataclasses import dataclass

from traceana.facts.bench_model import LoadPoint, PointSource
from traceana.facts.model import Facts
from traceana.rules._text import length, listing, num, pct, picked
from traceana.rules._wording import clip
from traceana.rules.interface import Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity, Threshold

SAME_TOKENS = Threshold(
    "same_tokens", 0.05, "share of output tokens", "totals that differ by more are other work", "vllm #33497", False
)
#: benchmark tool -> its names for prompts of random token ids
_RANDOM = {"vllm_bench": ("random",), "sglang_bench": ("random-ids",)}
#: client arguments that decide what is written
_TEXTS = ("ignore_eos", "apply_chat_template", "skip_chat_template")


@dataclass(frozen=True, slots=True)
class _Other:
    """A client argument that differs between two points at one load."""

    name: str
    run: LoadPoint
    base: LoadPoint
    mine: str
    theirs: str


@dataclass(frozen=True, slots=True)
class _Uneven:
    """Two points at one load that did different work."""

    run: LoadPoint
    base: LoadPoint
    share: float


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when prompts are random tokens under speculation, or the work differs from the baseline's."""
    benched = [p for p in facts.points if p.source is PointSource.BENCH]
    if not benched:
        return NotApplicable("no benchmark result is among the inputs")
    random = [p for p in benched if _drafts(p, facts) and p.dataset in _RANDOM.get(p.tool, ())]
    uneven = _uneven(benched, baseline)
    other = _other_arguments(benched, baseline)
    if random or uneven or other:
        return _finding(random, uneven, other)
    names = sorted({clip(p.dataset, 40) for p in benched if p.dataset is not None})
    ignored = "; answers run past their own end (ignore_eos)" if any(_ignores_eos(p) for p in benched) else ""
    return Clear((f"prompts: {listing(names)}" if names else "the results do not name their prompts") + ignored)


def _ignores_eos(point: LoadPoint) -> bool:
    return dict(point.arguments).get("ignore_eos") == "True"


def _other_arguments(benched: list[LoadPoint], baseline: Facts | None) -> list[_Other]:
    """Client arguments that decide the texts and differ from the baseline's at the same load, each name once."""
    found: dict[str, _Other] = {}
    for point in benched:
        for base in baseline.points if baseline is not None else ():
            if base.source is not PointSource.BENCH or base.concurrency != point.concurrency:
                continue
            mine, theirs = dict(point.arguments), dict(base.arguments)
            for name in _TEXTS:
                if mine.get(name, theirs.get(name)) != theirs.get(name, mine.get(name)):
                    found.setdefault(name, _Other(name, point, base, mine[name], theirs[name]))
    return list(found.values())


def _drafts(point: LoadPoint, facts: Facts) -> bool:
    known = point.speculative if point.speculative is not None else facts.speculation.active.value
    return known is True


def _uneven(benched: list[LoadPoint], baseline: Facts | None) -> list[_Uneven]:
    """Points with the baseline's at the same load, requests and input tokens, and other output tokens."""
    found = []
    for point in benched:
        for base in baseline.points if baseline is not None else ():
            same = (point.concurrency, point.requests, point.request_rate) == (
                base.concurrency,
                base.requests,
                base.request_rate,
            )
            if not same or base.source is not PointSource.BENCH or not point.output_tokens or not base.output_tokens:
                continue
            share = point.output_tokens / base.output_tokens - 1
            if abs(share) > SAME_TOKENS.value:
                found.append(_Uneven(point, base, share))
    return found


def _finding(random: list[LoadPoint], uneven: list[_Uneven], other: list[_Other]) -> Finding:
    parts, fix = [], []
    title = ""
    if random:
        earned = [p.accept_length.value for p in random if p.accept_length.value is not None]
        told = f": accept length {length(earned[0])} was measured on them, not on your texts" if earned else ""
        title = f"The benchmark sends random tokens{told}"
        parts.append(
            "After random tokens a model writes noise or repeats itself; a drafter accepts less on the one and more on "
            "the other than on real text, so neither the acceptance nor the speed-up carries over."
        )
        fix.append("real prompts with the chat template: --dataset-name sharegpt or custom")
    if uneven:
        worst = max(uneven, key=lambda u: abs(u.share))
        at = f" at concurrency {num(worst.run.concurrency)}" if worst.run.concurrency is not None else ""
        lead = f"{worst.run.output_tokens:,} against {worst.base.output_tokens:,} tokens generated{at}"
        title = title or f"The two benchmarks are not the same work: {lead}"
        parts.append(f"The run generated {pct(abs(worst.share))} {'more' if worst.share > 0 else 'less'}: {lead}.")
        fix.append("the same prompts and seed in both runs, and --ignore-eos with one output length")
    if other:
        differ = "; ".join(f"{o.name} is {clip(o.mine, 20)}, in the baseline {clip(o.theirs, 20)}" for o in other)
        title = title or f"The two benchmarks do not ask for the same texts: {differ}"
        parts.append(f"{differ[0].upper()}{differ[1:]}: other texts, other lengths, other acceptance.")
        fix.append("the same client arguments in both runs")
    pairs = [*((u.run, u.base) for u in uneven), *((o.run, o.base) for o in other)]
    points = (*random, *(point for pair in pairs for point in pair))
    return Finding(
        code=RULE.code,
        title=title,
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
        why=" ".join(parts),
        fix=tuple(fix),
        evidence=picked(*(p.evidence for p in points)),
        confirm="the same benchmark with real prompts of the same lengths: does the accept length change?",
        rivals=("the outputs themselves differ: a temperature above 0",) if uneven else (),
    )


RULE = Rule(
    code="BEN001",
    name="benchmark-not-representative",
    severity=Severity.WARNING,
    check=check,
    thresholds=(SAME_TOKENS,),
    asks="whether the benchmark is representative",
    needs="any",
)

"""Sentences of a sweep: its verdict, its crossings, what to set. Figures are rounded as the report rounds them."""

from __future__ import annotations

from collections.abc import Sequence

from traceana.facts.sweep_model import DraftRow, LoadSpan, PlainNeed, StepCliff, SweepBlock, SweepCrossing, SweepLevel

_WORDS = {
    "pays": "pays at {loads}",
    "loses": "loses at {loads}",
    "even": "is even at {loads}",
    "inconclusive": "is within the noise at {loads}",
}
_MOST_LOADS = 6


def verdict(levels: Sequence[SweepLevel]) -> str:
    """`Speculation pays at 1 to 4 users (1.50-1.62x), loses at 8 and 16 users (0.73-0.80x).`

    Where one side is ahead throughout and the noise leaves some loads open, that comes first.
    """
    judged = [level for level in levels if level.ratio is not None and not level.queues]
    waiting = [level for level in levels if level.ratio is not None and level.queues]
    if not judged and not waiting:
        return "No load was measured both with speculation and without."
    parts = (_judged(judged, levels), _doubtful(judged, levels), _waiting(waiting, levels))
    return " ".join(part for part in parts if part)


def _judged(judged: Sequence[SweepLevel], every: Sequence[SweepLevel]) -> str:
    if not judged:
        return ""
    groups: dict[str, list[SweepLevel]] = {}
    for level in judged:
        if level.ratio is not None:
            groups.setdefault(level.ratio.verdict, []).append(level)
    winners = {level.winner for level in judged}
    open_ = groups.get("inconclusive", [])
    if open_ and len(judged) > 1 and len(winners) == 1 and len(groups) <= 2 and "even" not in winners:
        who = "Speculation" if winners == {"speculation"} else "The baseline"
        sure = [level for level in judged if level not in open_]
        beyond = f"at {loads(sure, every)} beyond the noise" if sure else "nowhere beyond the noise"
        return f"{who} is ahead at every load, {beyond}: speculation gives {_span(_ratios(judged))}."
    parts = [
        f"{_WORDS[word].format(loads=loads(these, every))} ({_span(_ratios(these))})" for word, these in groups.items()
    ]
    return f"Speculation {', '.join(parts)}."


def _doubtful(judged: Sequence[SweepLevel], every: Sequence[SweepLevel]) -> str:
    """Loads whose cycle is shorter than the step: drafts only add work to a forward, so the two are not alike."""
    odd = [level for level in judged if level.break_even is not None and level.break_even < 1.0]
    if not odd:
        return ""
    return (
        f"Doubtful at {loads(odd, every)}: a cycle with drafts is shorter there than a step without, so the baseline "
        "was slowed by something else or decodes more requests at once; repeat both."
    )


def _waiting(waiting: Sequence[SweepLevel], every: Sequence[SweepLevel]) -> str:
    if not waiting:
        return ""
    users = [level.user_ratio.value for level in waiting if level.user_ratio]
    per_user = f", {_span(users)} per request while it decodes" if users else ""
    at = f" at {loads(waiting, every)}" if any(level.load for level in waiting) else ""
    return f"Requests queue{at}: {_span(_ratios(waiting))} in throughput{per_user}; no verdict on drafting."


def _ratios(levels: Sequence[SweepLevel]) -> list[float]:
    return [level.ratio.value for level in levels if level.ratio is not None]


def block(found: SweepBlock) -> str:
    """The block's name: its series and its context length, where it has them."""
    context = f"context {found.context_tokens:,.0f}" if found.context_tokens is not None else ""
    return ", ".join(piece for piece in (found.name, context) if piece) or "the inputs"


def loads(these: Sequence[SweepLevel], every: Sequence[SweepLevel]) -> str:
    """Labels of loads; a run of neighbours as `1 to 4`, and `users` after numbers."""
    labels = [level.label for level in every]
    at = [labels.index(level.label) for level in these]
    if len(at) > 2 and at == list(range(at[0], at[0] + len(at))):
        text = f"{these[0].label} to {these[-1].label}"
    else:
        shown = [level.label for level in these[:_MOST_LOADS]]
        text = f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else shown[0]
        if len(these) > _MOST_LOADS:
            text += f" and {len(these) - _MOST_LOADS} more loads"
    if all(level.load is not None for level in these):
        return f"{text} user{'' if text == '1' else 's'}{' (output tokens)' if '(' in text else ''}"
    return "the load measured" if text == "-" else text


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return f"{low}x" if low == high else f"{low}-{high}x"


def crossing(found: SweepCrossing) -> str:
    """Where one crossing lies and how well that is known."""
    does = "starts to pay" if found.rises else "stops paying"
    text = f"{does} at about {found.at:.3g} users, interpolated between {found.after:g} and {found.before:g}"
    if found.cliff:
        return f"{text}; a step-cost cliff lies between them, so that it may be anywhere in there"
    if not found.known:
        return f"{text}; the noise is not known"
    if found.low is None and found.high is None:
        return f"{text}; within the noise it may be at any load measured"
    low = "below the lowest load" if found.low is None else f"{found.low:.3g}"
    high = "above the highest load" if found.high is None else f"{found.high:.3g}"
    return f"{text}; the noise allows {low} to {high}"


def shared_cliff(found: Sequence[StepCliff], changes: Sequence[SweepCrossing]) -> tuple[str, ...]:
    """Words for one jump that both runs show at the same number of tokens per forward, and for what it does."""
    here, there = ([c for c in found if c.of == of] for of in ("speculation", "baseline"))
    for one in here:
        for other in there:
            low = max(one.below_tokens, other.below_tokens)
            high = min(one.above_tokens, other.above_tokens)
            if low < high:
                again = any(change.rises and change.cliff for change in changes)
                return (
                    f"both runs jump between {low:.0f} and {high:.0f} tokens per forward: a forward costs more from "
                    f"there on, with speculation at {one.above_load:.0f} users already, without at "
                    f"{other.above_load:.0f}{', where speculation pays again only because of that' if again else ''}; "
                    f"compare one profiled step of {low:.0f} and of {high:.0f} tokens (kernel path, allreduce path, "
                    "graph padding)",
                )
    return ()


_MULTIPLIER = 1.05


def acceptance(levels: Sequence[SweepLevel]) -> tuple[str, ...]:
    """What the accept lengths mean where that is assumed, and where they are not what a cycle emits."""
    assumed = dict.fromkeys(
        v.spec.accept_length_means for v in levels if v.spec.provenance.get("accept_length") == "assumed"
    )
    notes = [f"accept length: {means}" for means in assumed if means]
    if any(
        v.spec.accept_length
        and v.spec.tokens_per_cycle
        and v.spec.accept_length > _MULTIPLIER * v.spec.tokens_per_cycle
        for v in levels
    ):
        notes.append(
            "the accept length counts cycles with a draft only; tokens/cycle counts all of them and is what multiplies "
            "the speed"
        )
    return tuple(notes)


def plain_verdict(found: Sequence[PlainNeed]) -> str:
    """What a drafter of 3 tokens (or the length most loads tell of) needs, from the lowest load to the highest."""
    if not found:
        return (
            "No run with speculation was given, and no load was measured together with one k + 1 times as high: what a "
            "drafter would need cannot be told."
        )
    ks = [row.k for row in found]
    k = _USUAL_K if _USUAL_K in ks else max(set(ks), key=lambda n: (ks.count(n), -n))
    rows = sorted((row for row in found if row.k == k), key=lambda row: row.load)
    if all(row.accept_length <= 1.0 for row in rows):
        return (
            f"A forward of {k + 1} times the requests takes no longer than one of {_users(rows[0].load)} here: what a "
            f"drafter with {k} draft tokens needs cannot be told from these steps."
        )
    first, last = rows[0], rows[-1]
    text = f"{max(first.accept_length, 1.0):.2f} at {_users(first.load)}"
    if last is not first:
        text += f" and {max(last.accept_length, 1.0):.2f} at {_users(last.load)}"
    plural = "s" if k > 1 else ""
    return (
        f"A drafter with {k} draft token{plural} needs an accept length above {text} to pay, and more for its own time."
    )


_USUAL_K = 3


def _users(load: float) -> str:
    return f"{load:,.0f} user{'' if load == 1 else 's'}"


_FLAT, _MOVES = 1.15, 1.3


def flat_acceptance(levels: Sequence[SweepLevel]) -> tuple[str, ...]:
    """Words for an accept length that stays while the ratio of throughputs does not: the cycle moves it."""
    pairs = [
        (v.spec.tokens_per_cycle, v.ratio.value)
        for v in levels
        if v.ratio is not None and v.spec.tokens_per_cycle is not None and not v.queues
    ]
    if len(pairs) < 2:
        return ()
    lengths, ratios = [a for a, _ in pairs], [b for _, b in pairs]
    if max(lengths) > _FLAT * min(lengths) or max(ratios) < _MOVES * min(ratios):
        return ()
    least, most = f"{min(lengths):.2f}", f"{max(lengths):.2f}"
    emitted = least if least == most else f"{least} to {most}"
    return (
        f"a cycle emits {emitted} tokens at every load: what changes with the load is what a cycle costs against a "
        "step, not what the drafter earns",
    )


def no_crossing(levels: Sequence[SweepLevel]) -> str:
    """Who wins throughout, where one does."""
    winners = {level.winner for level in levels if level.winner is not None}
    if len(levels) < 2 or len(winners) != 1:
        return ""
    who = "speculation" if winners == {"speculation"} else "the baseline"
    return f"none: {who} wins at every load measured, by the figures" if winners != {"even"} else ""


def spans(found: Sequence[LoadSpan]) -> str:
    """`k=3 up to 4, speculation off from 5 to 16 users`."""
    named = [f"speculation {span.use}" if span.use in ("on", "off") else span.use for span in found]
    if len(found) == 1 and len(found[0].measured) == 1:
        return f"{named[0]} at {_users(found[0].last)}, the only load measured"
    where = [
        f"up to {s.last}" if i == 0 else f"at {s.last}" if s.first == s.last else f"from {s.first} to {s.last}"
        for i, s in enumerate(found)
    ]
    parts = ", ".join(f"{what} {loads_}" for what, loads_ in zip(named, where, strict=True))
    return f"{parts} users" if parts else ""


def foretold(rows: Sequence[DraftRow]) -> tuple[str, ...]:
    """Draft lengths that a model says are better than the one measured, to be tried."""
    return tuple(
        f"{row.draft} at {_users(row.load)} might give {row.ratio:.2f}x (modelled from step costs and acceptance per "
        "position): measure it"
        for row in rows
        if row.modelled and row.load is not None and row.ratio is not None
    )

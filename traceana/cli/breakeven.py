"""`traceana breakeven`: does speculation pay, from a handful of numbers and without any file."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from enum import Enum
from typing import Annotated

import typer

from traceana.cli import output
from traceana.errors import TraceanaError
from traceana.speculation.answer import Answer, Question, Target, answer, figure

SCHEMA = "traceana/breakeven/1"

#: beyond these a number is a slip of the keyboard, and its products leave the range of floats
_SMALLEST, _LARGEST = 1e-6, 1e12
_MOST_DRAFTS = 1_000_000
_JSON_DIGITS = 10  # keeps 2.46 from being written as 2.4600000000000004


class Format(str, Enum):
    """How the answer is written."""

    WORDS = "words"
    JSON = "json"


def breakeven(
    *,
    cycle_ms: Annotated[
        float | None, typer.Option(help="One draft, verify, re-extend round of the batch, in milliseconds.")
    ] = None,
    baseline_tps: Annotated[
        float | None, typer.Option(help="Throughput of the whole batch without speculation, in tokens/s.")
    ] = None,
    running: Annotated[float, typer.Option(help="Running requests behind the throughputs.")] = 1,
    k: Annotated[int | None, typer.Option(help="Draft tokens per cycle (SGLang: num_draft_tokens - 1).")] = None,
    accept_length: Annotated[
        float | None, typer.Option(help="Tokens emitted per request and cycle, bonus token included.")
    ] = None,
    target_tps: Annotated[
        float | None, typer.Option(help="A throughput of the whole batch to reach, in tokens/s.")
    ] = None,
    accept_rate: Annotated[
        float | None,
        typer.Option(help="Accepted / drafted tokens, 0 ... 1; needs --k. SGLang before 0.5.11 prints another rate."),
    ] = None,
    spec_tps: Annotated[
        float | None,
        typer.Option(help="Throughput of the whole batch with speculation; with --accept-length it gives the cycle."),
    ] = None,
    no_bonus: Annotated[
        bool, typer.Option("--no-bonus", help="--accept-length counts accepted drafts only, without the bonus token.")
    ] = False,
    output_format: Annotated[Format, typer.Option("--format", help="Plain sentences, or JSON.")] = Format.WORDS,
) -> None:
    """Say whether speculation pays, from a handful of numbers.

    Break-even accept length, speed-up, and what a target throughput needs. No file is read.

    Example:

    traceana breakeven --cycle-ms 30 --baseline-tps 82 --k 3 --target-tps 150
    """
    inputs = {
        "cycle_ms": cycle_ms,
        "baseline_tps": baseline_tps,
        "running": running,
        "k": k,
        "accept_length": accept_length,
        "no_bonus": no_bonus,
        "accept_rate": accept_rate,
        "spec_tps": spec_tps,
        "target_tps": target_tps,
    }
    _check_numbers(inputs)
    _check_accept_length(accept_length, no_bonus, k)
    question = Question(
        running=running,
        cycle_ms=cycle_ms,
        baseline_tps=baseline_tps,
        spec_tps=spec_tps,
        accept_length=None if no_bonus else accept_length,
        accepted_drafts=accept_length if no_bonus else None,
        accept_rate=accept_rate,
        k=k,
        target_tps=target_tps,
    )
    _check_enough(question)
    try:
        found = answer(question)
    except ValueError as error:
        raise TraceanaError(str(error)) from error
    output.write(_json(inputs, found) if output_format is Format.JSON else _words(question, found), None)


def _check_numbers(inputs: dict[str, float | int | bool | None]) -> None:
    """TraceanaError for a number that cannot be what its option means."""
    for name in ("cycle_ms", "baseline_tps", "running", "spec_tps", "target_tps"):
        value, option = inputs[name], "--" + name.replace("_", "-")
        if value is not None and not _SMALLEST <= value <= _LARGEST:
            unit = {"ms": "milliseconds", "tps": "tokens/s"}.get(name.split("_")[-1], "requests")
            raise TraceanaError(f"{option} is {value:g}: give a number of {unit} above zero")
    k, rate, length = inputs["k"], inputs["accept_rate"], inputs["accept_length"]
    if k is not None and not 1 <= k <= _MOST_DRAFTS:
        raise TraceanaError(f"--k is {k}: give the number of draft tokens per cycle, 1 or more")
    if rate is not None and not 0 <= rate <= 1:
        raise TraceanaError(f"--accept-rate is {rate:g}: give accepted / drafted tokens, 0 ... 1 (27 % is 0.27)")
    if rate is not None and k is None:
        raise TraceanaError("--accept-rate needs the number of drafts per cycle: add --k")
    if rate is not None and length is not None:
        raise TraceanaError("--accept-rate and --accept-length say the same thing: leave one out")


def _check_accept_length(accept_length: float | None, no_bonus: bool, k: int | None) -> None:
    """TraceanaError unless the accept length, its bonus token counted, lies in 1 ... k + 1."""
    if accept_length is None:
        if no_bonus:
            raise TraceanaError("--no-bonus says how to read --accept-length: add it")
        return
    if not (0 <= accept_length <= _LARGEST and math.isfinite(accept_length)):
        raise TraceanaError(f"--accept-length is {accept_length:g}: give tokens per request and cycle, 1 or more")
    if not no_bonus and accept_length < 1:
        raise TraceanaError(
            f"--accept-length is {accept_length:g}, but the bonus token alone makes it 1: if it counts accepted drafts "
            f"only, add --no-bonus (it is then {accept_length + 1:g})"
        )
    length = accept_length + 1 if no_bonus else accept_length
    if k is not None and length > k + 1:
        advice = "leave --no-bonus out if it counts the bonus token already" if no_bonus else "check --k"
        raise TraceanaError(
            f"an accept length of {length:g} needs more than --k {k} drafts (at most {k + 1}): {advice}"
        )


def _check_enough(q: Question) -> None:
    """TraceanaError when the given numbers answer nothing, or not what was asked."""
    length_known = any(value is not None for value in (q.accept_length, q.accepted_drafts, q.accept_rate))
    cycle_known = q.cycle_ms is not None or (q.spec_tps is not None and length_known)
    how = "add --cycle-ms, or --spec-tps with --accept-length"
    if q.target_tps is not None and not cycle_known:
        raise TraceanaError(f"--target-tps needs the length of a cycle: {how}")
    if q.baseline_tps is None and q.target_tps is None:
        raise TraceanaError(
            "nothing to compare with: add --baseline-tps (throughput without speculation) or --target-tps"
        )
    if q.baseline_tps is not None and not cycle_known and q.spec_tps is None:
        raise TraceanaError(f"a break-even needs the length of a cycle: {how}")


def _json(inputs: dict[str, float | int | bool | None], found: Answer) -> str:
    """The answer as one JSON document; what the numbers do not carry is null."""
    document: dict[str, object] = {"schema": SCHEMA, "inputs": inputs, **asdict(found)}
    return json.dumps(_rounded(document), indent=2, allow_nan=False)


def _rounded(value: object) -> object:
    """`value` with every float cut to ten significant digits."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return float(f"{value:.{_JSON_DIGITS}g}") if isinstance(value, float) else value


def _words(q: Question, found: Answer) -> str:
    """The answer in sentences, each figure with its unit and where it came from."""
    lines = [*_costs(found), *_break_even(q, found), *_verdict(q, found)]
    if found.target is not None:
        lines += _target(q, found.target)
    return "\n".join(lines)


def _origin(found: Answer, name: str) -> str:
    """ "(given)" or "(derived: how)"."""
    return f"(derived: {found.derived[name]})" if name in found.derived else "(given)"


def _costs(found: Answer) -> list[str]:
    """What a cycle and a step take."""
    lines = []
    if found.cycle_ms is not None:
        lines.append(f"A cycle takes {figure(found.cycle_ms)} ms {_origin(found, 'cycle_ms')}.")
    if found.baseline_step_ms is not None:
        origin = _origin(found, "baseline_step_ms")
        lines.append(f"A step without speculation takes {figure(found.baseline_step_ms)} ms {origin}.")
    return lines


def _break_even(q: Question, found: Answer) -> list[str]:
    """At which accept length speculation starts to pay, and whether k drafts can get there."""
    even = found.break_even_accept_length
    if even is None:
        return []
    origin = _origin(found, "break_even_accept_length")
    if even < 1:
        return [
            f"Speculation breaks even at {even:.2f} tokens per cycle {origin}: it pays at any accept length, since the "
            "bonus token alone is 1."
        ]
    lines = [f"Speculation breaks even at an accept length of {even:.2f}, bonus token included {origin}."]
    if found.pays is None:
        lines.append("Whether it pays depends on the accept length: add --accept-length, or --accept-rate with --k.")
    if found.max_accept_length is None:
        return lines
    most = f"With k = {q.k} the accept length is at most {figure(found.max_accept_length)} (derived: k + 1)"
    if even >= found.max_accept_length:
        return [*lines, f"{most}: speculation cannot pay with a cycle this long."]
    return [*lines, f"{most}; {_chain(q.k, found.break_even_p)} breaks even."]


def _chain(k: int | None, p: float | None) -> str:
    """The chain model's subject: "a chain of 3 drafts, each accepted with probability 0.71 (modelled),"."""
    drafts = "an unlimited chain of drafts" if k is None else f"a chain of {k} draft{'' if k == 1 else 's'}"
    return f"{drafts}, each accepted with probability {p:.2f} (modelled)," if p is not None else drafts


def _verdict(q: Question, found: Answer) -> list[str]:
    """What the present accept length or throughput gives against the baseline."""
    if found.gen_tps is None:
        return []
    at = "" if found.accept_length is None else f" at an accept length of {found.accept_length:.2f} "
    at += "" if found.accept_length is None else _origin(found, "accept_length")
    lines = [f"Generation is {figure(found.gen_tps)} tok/s {_origin(found, 'gen_tps')}{at}."]
    if found.speedup is None or q.baseline_tps is None:
        return lines
    word = "pays" if found.pays else "breaks even" if abs(found.speedup - 1) <= 1e-9 else "loses"
    lines.append(f"Speculation {word}: {found.speedup:.2f}x the baseline {_origin(found, 'speedup')}.")
    if word == "loses" and found.accept_length is not None and found.baseline_step_ms is not None:
        needed_ms = found.accept_length * found.baseline_step_ms
        even = found.break_even_accept_length or 0.0
        lines.append(
            f"To break even it lacks {even - found.accept_length:.2f} tokens per cycle, or the cycle must shrink to "
            f"{figure(needed_ms)} ms (derived: accept length x step)."
        )
    lines.append("These are single figures: a speed-up closer to 1 than the spread of repeated runs decides nothing.")
    return lines


def _target(q: Question, target: Target) -> list[str]:
    """What the target throughput needs, and which chain reaches it."""
    how = f"{figure(target.tps)} tok/s x cycle / (1000 x {figure(q.running)})"
    wanted = f"{figure(target.tps)} tok/s need an accept length of {target.accept_length_needed:.2f} (derived: {how})"
    if target.accept_length_needed <= 1:
        return [f"{wanted}: every accept length reaches that."]
    lines = [f"{wanted}."]
    if target.reachable:
        lines.append(_sentence(f"{_chain(q.k, target.p_needed)} reaches it."))
    else:
        if target.max_accept_length is not None:
            most = figure(target.max_accept_length)
            lines.append(_sentence(f"{_chain(q.k, None)} cannot reach it: the accept length is at most {most}."))
        shortest = _chain(target.drafts_needed, target.p_with_drafts_needed)
        lines.append(_sentence(f"{shortest} is the shortest that does, if further drafts did not lengthen the cycle."))
    lines.append(_sentence(f"{_chain(None, target.p_unlimited_chain)} reaches it at the same cycle."))
    return lines


def _sentence(text: str) -> str:
    """`text` with its first letter large."""
    return text[:1].upper() + text[1:]

"""Verdicts on variables: asked for -> reached the workers -> used, each with what says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from traceana.environment.evidence import Known, View, clean
from traceana.environment.model import NO, SOME, UNKNOWN, YES, Answer, ProcessVerdict, VariableVerdict
from traceana.environment.names import Standing
from traceana.facts.nccl_variables import variable
from traceana.facts.versions import Override
from traceana_instrument.envreport import SET

_ECHO = "NCCL_DEBUG=INFO for one start: NCCL echoes what it reads"
UNREADABLE = {
    "blanked": "its title overwrote its environment (setproctitle): unreadable, not missing",
    "denied": "its environment belongs to another user",
    "gone": "it ended while it was looked at",
    "not running": "no line of the logs shows its environment",
}


@dataclass(frozen=True, slots=True)
class Context:
    """What verdicts rest on beside the processes themselves.

    `asked`: what a launch command or the first process has; `launcher`: where that was read, None where it could not
    be. `overrides`: what this engine version sets itself, and whether its condition holds; `sets`: "SGLang 0.5.9 sets".
    `idle`: variables that change nothing here -> why. `one_gpu`: no collective is on the decode path. `standing`: what
    each name is worth.
    """

    asked: Mapping[str, Known]
    launcher: str | None
    overrides: Sequence[tuple[Override, bool | None]]
    sets: str
    idle: Mapping[str, str]
    one_gpu: bool
    standing: Mapping[str, Standing]


def verdict(name: str, workers: Sequence[View], context: Context) -> VariableVerdict:
    """The verdict on one variable, over all workers."""
    asked = context.asked.get(name)
    each = tuple(_in_process(name, view, context) for view in workers)
    seen = next((p.value for p in each if p.value is not None), None)
    return VariableVerdict(
        name=name,
        value=asked.value if asked else seen or SET,
        asked=_asked(name, context),
        reached=_all([p.reached for p in each], [p.pid for p in each]),
        used=_all([p.used for p in each], [p.pid for p in each]),
        processes=each,
    )


def _asked(name: str, context: Context) -> Answer:
    known = context.asked.get(name)
    if known:
        return Answer(YES, known.where)
    own = next((o for o, _ in context.overrides if o.variable == name), None)
    if own:
        return Answer(NO, f"{context.sets} it itself")
    if context.launcher:
        return Answer(NO, f"not in {context.launcher}: set on the way to the workers")
    return Answer(UNKNOWN, "no launch command is known: the first process cannot be read")


def _in_process(name: str, view: View, context: Context) -> ProcessVerdict:
    asked = context.asked.get(name)
    own, said = view.variables.get(name), view.nccl.get(name)
    conf = None if own else _from_conf(name, view)
    here = said or own or conf
    reached = _reached(name, view, here, asked, context)
    return ProcessVerdict(
        pid=view.pid,
        value=here.value if here else None,
        reached=reached,
        used=_used(name, view, reached, context),
    )


def _from_conf(name: str, view: View) -> Known | None:
    for file in view.conf:
        if name in file.variables:
            return Known(clean(name, file.variables[name]), file.path)
    return None


def same(asked: Known | None, here: Known) -> bool:
    """Whether a value is the one asked for, as far as both may be shown."""
    return asked is None or SET in (asked.value, here.value) or asked.value.lower() == here.value.lower()


def _reached(name: str, view: View, here: Known | None, asked: Known | None, context: Context) -> Answer:
    if here is not None and same(asked, here):
        return Answer(YES, here.where)
    if here is not None:
        who = next((f"{context.sets} it" for o, _ in context.overrides if _sets(o, name, here.value)), "")
        return Answer(NO, f"has {here.value} instead ({who or here.where})")
    if view.complete:
        return Answer(NO, f"not in its environment ({view.sources[0]})")
    row = variable(name)
    hidden = name == "NCCL_P2P_LEVEL" and "NCCL_P2P_DISABLE" in view.nccl
    if view.nccl and view.nccl_finished and row is not None and row.at_init and not hidden:
        return Answer(NO, f"NCCL echoed others and not this one ({next(iter(view.nccl.values())).where})")
    forced = next(
        (o for o, holds in context.overrides if o.variable == name and holds and o.behaviour != "default"), None
    )
    if forced and asked and forced.value.lower() != asked.value.lower():
        return Answer(NO, f"{context.sets} it to {forced.value}")
    if view.environment == "read" or view.nccl:
        return Answer(UNKNOWN, "NCCL's lines need not show it")
    return Answer(UNKNOWN, UNREADABLE.get(view.environment, "its environment is not known"))


def _sets(override: Override, name: str, value: str) -> bool:
    return override.variable == name and override.value.lower() == value.lower()


def _used(name: str, view: View, reached: Answer, context: Context) -> Answer:
    standing, idle = context.standing.get(name, Standing(None)), context.idle.get(name)
    if standing.read is False:
        meant = f"; meant: {standing.instead}?" if standing.instead else ""
        return Answer(NO, standing.why + meant)
    if reached.state == NO:
        return Answer(NO, "it did not reach the process")
    if context.one_gpu and name.startswith("NCCL_"):
        return Answer(NO, "one GPU per replica: no collective is on the decode path")
    if idle:
        return Answer(NO, idle)
    if name in view.nccl:
        return Answer(YES, f"NCCL's own line, {view.nccl[name].where}")
    if name.startswith("NCCL_"):
        return Answer(UNKNOWN, _ECHO)
    return Answer(UNKNOWN, "no line shows whether it was read")


def _all(answers: Sequence[Answer], pids: Sequence[int]) -> Answer:
    """One answer for all workers: the common one, `some` where they differ."""
    if not answers:
        return Answer(UNKNOWN, "no worker was found")
    states = [answer.state for answer in answers]
    total = len(answers)
    if len(set(states)) == 1:
        whys = list(dict.fromkeys(answer.why for answer in answers))
        more = f" and {len(whys) - 1} more" if len(whys) > 1 else ""
        return Answer(states[0], whys[0] + more)
    state = SOME if NO in states and YES in states else UNKNOWN
    odd = [i for i, each in enumerate(states) if each == (NO if state == SOME else UNKNOWN)]
    first = answers[odd[0]]
    where = f"pid {pids[odd[0]]}" + (f" and {len(odd) - 1} more" if len(odd) > 1 else "")
    return Answer(state, f"{states.count(YES)} of {total}; {where}: {first.why}")


def called(row: VariableVerdict) -> str:
    """The variable with its value, or alone where only that it is set may be said."""
    return row.name if row.value == SET else f"{row.name}={row.value}"

"""What to mend in a server's environment: the verdicts turned into findings, with the catalogue's codes."""

from __future__ import annotations

from collections.abc import Sequence

from traceana.environment.evidence import View
from traceana.environment.model import NO, SOME, UNKNOWN, YES, Problem, ProcessVerdict, VariableVerdict
from traceana.environment.verdicts import Context, called
from traceana.facts.nccl_variables import variable
from traceana.facts.versions import Override
from traceana.rules._text import count
from traceana.rules._wording import names
from traceana_instrument.envreport import FILE_MISSING

_MOST_PIDS = 4
_ORDER = {"critical": 0, "warning": 1, "info": 2}


def problems(verdicts: Sequence[VariableVerdict], views: Sequence[View], context: Context) -> list[Problem]:
    """Findings of an audit, the most severe first."""
    found: list[Problem | None] = []
    for row in verdicts:
        found += [
            _misnamed(row, context),
            _overwritten(row, context),
            _missing_file(row),
        ]
    found += [*_lost(verdicts, context), *_without_effect(verdicts, context)]
    found += [_odd_lines(views), _debug_hidden(verdicts)]
    return sorted(filter(None, found), key=lambda p: _ORDER[p.severity])


def _misnamed(row: VariableVerdict, context: Context) -> Problem | None:
    standing = context.standing.get(row.name)
    if standing is None or standing.read is not False:
        return None
    return Problem(
        code=standing.code,
        title=f"{row.name} does nothing: {standing.why}",
        severity="warning" if standing.instead or standing.code == "ENV002" else "info",
        confidence="high" if standing.instead and standing.code != "ENV002" else "medium",  # a plugin may read it
        why="Names that are not known are passed over in silence.",
        fix=f"use {standing.instead}" if standing.instead else "correct the name, or leave it out",
    )


def override_of(row: VariableVerdict, context: Context) -> Override | None:
    """What the engine does to a variable that was asked for with another value, where a worker shows its value."""
    values = {p.value.lower() for p in row.processes if p.value is not None}
    for override, holds in context.overrides:
        differs = override.variable == row.name and override.value.lower() != row.value.lower()
        if differs and (override.value.lower() in values or (holds and override.behaviour != "default")):
            return override
    return None


def _overwritten(row: VariableVerdict, context: Context) -> Problem | None:
    override = override_of(row, context) if row.asked.state == YES and row.reached.state != YES else None
    if override is None:
        return None
    vague = context.sets.startswith("some ")
    shown = any((p.value or "").lower() == override.value.lower() for p in row.processes)
    return Problem(
        code="ENV005",
        title=f"{context.sets} {row.name}={override.value} over the {row.value} that was asked for",
        severity="warning",
        confidence="high" if shown and not vague else "medium",
        why=f"{override.condition or 'Always in these versions'} ({override.source})"
        + ("; a worker shows the engine's value." if shown else "; no worker shows which value won."),
        fix="use the engine's own flag for it where there is one, or leave the variable out",
    )


def _lost(rows: Sequence[VariableVerdict], context: Context) -> list[Problem]:
    """Variables that did not reach all workers: one finding each for NCCL's, one for the others of the same workers."""
    found: dict[tuple[object, ...], list[tuple[VariableVerdict, list[ProcessVerdict]]]] = {}
    for row in rows:
        missing = _missing(row, context)
        if missing:
            own = row.name if _of_nccl(row.name) else None
            found.setdefault((own, *(p.pid for p in missing)), []).append((row, missing))
    return [_loss([row for row, _ in group], group[0][1]) for group in found.values()]


def _of_nccl(name: str) -> bool:
    return name.startswith(("NCCL_", "RCCL_", "TORCH_NCCL_"))


def _missing(row: VariableVerdict, context: Context) -> list[ProcessVerdict]:
    """Workers that a variable should have reached and did not."""
    asked, standing = row.asked.state == YES, context.standing.get(row.name)
    missing = [p for p in row.processes if p.reached.state == NO]
    if not _of_nccl(row.name):  # others may differ from rank to rank on purpose (CUDA_VISIBLE_DEVICES)
        missing = [p for p in missing if asked and p.value is None]
    told = override_of(row, context) or (standing is not None and standing.read is False)
    return [] if told or not (asked or row.reached.state == SOME) else missing


def _loss(rows: Sequence[VariableVerdict], missing: Sequence[ProcessVerdict]) -> Problem:
    first, asked = rows[0], rows[0].asked.state == YES
    other = [p for p in missing if p.value is not None]
    verb = "is" if len(rows) == 1 else "are"
    how = f"has another value ({other[0].value})" if len(other) == len(missing) else f"{verb} missing"
    table = variable(first.name)
    what = first.name if len(rows) > 1 else called(first)
    more = f" and {count(len(rows) - 1, 'more variable')}" if len(rows) > 1 else ""
    was = "was" if len(rows) == 1 else "were"
    pids = ", ".join(str(p.pid) for p in missing[:_MOST_PIDS]) + (" ..." if len(missing) > _MOST_PIDS else "")
    origin = f"asked for in {first.asked.why}; " if asked else ""
    cost = f"{_cost(first.name)} " if _of_nccl(first.name) else ""
    return Problem(
        code="ENV001",
        title=f"{what}{more} {f'{was} asked for' if asked else f'{verb} set in the others'} and {how} in "
        f"{len(missing)} of {len(first.processes)} workers (pid {pids})",
        severity="warning" if table is not None and table.weight == "tens" else "info",
        confidence="high",
        why=f"{cost}Seen: {origin}{missing[0].reached.why}.",
        fix="set it where every worker starts (unit file, docker -e, ray runtime_env, each node)"
        + (", or in /etc/nccl.conf" if first.name.startswith("NCCL_") else ""),
    )


def _cost(name: str) -> str:
    table = variable(name)
    if table is None or table.weight is None:
        return f"What {name} costs was not sized."
    if table.weight == "none":
        return f"{name} does nothing to allreduces below about 0.5 MB."
    if table.small_allreduce_us is None:
        return f"{name} can cost tens of us per small allreduce; it was not sized."
    return f"{name} can cost up to {table.small_allreduce_us:.0f} us per small allreduce on 8 PCIe ranks (modelled)."


def _without_effect(rows: Sequence[VariableVerdict], context: Context) -> list[Problem]:
    """One finding for all variables that change nothing for the same reason."""
    groups: dict[str, list[VariableVerdict]] = {}
    for row in rows:
        if row.name in context.idle:
            groups.setdefault(context.idle[row.name], []).append(row)
    return [
        Problem(
            code="ENV004",
            title=f"{names(called(row) for row in group)}: {why}",
            severity="info",
            confidence="high",
            why="Time is lost on knobs that cannot move a decode step.",
            fix=f"leave out {names(row.name for row in group)}, or keep it for prefill only",
        )
        for why, group in groups.items()
    ]


def _missing_file(row: VariableVerdict) -> Problem | None:
    missing = [p for p in row.processes if p.value == FILE_MISSING]
    if not missing:
        return None
    return Problem(
        code="ENV001",
        title=f"{row.name} names a file that pid {missing[0].pid} cannot see",
        severity="warning",
        confidence="high",
        why="The path is looked up in the process's own file system: a container has only what is mounted into it. "
        + _cost(row.name),
        fix="mount the file into the container, or correct the path",
    )


def _odd_lines(views: Sequence[View]) -> Problem | None:
    odd = {(file.path, number): why for view in views for file in view.conf for number, why in file.odd}
    if not odd:
        return None
    (path, number), why = next(iter(odd.items()))
    more = f", and {len(odd) - 1} more lines" if len(odd) > 1 else ""
    return Problem(
        code="ENV003",
        title=f"{path}:{number} does not set what it seems to: {why}{more}",
        severity="warning",
        confidence="high",
        why="NCCL reads NAME=value, one a line, and trims nothing.",
        fix="write NAME=value without blanks and quotes",
    )


def _debug_hidden(verdicts: Sequence[VariableVerdict]) -> Problem | None:
    by_name = {row.name: row for row in verdicts}
    row = by_name.get("NCCL_DEBUG_SUBSYS")
    if row is None or row.value.startswith(("^", "(")) or not any(v.used.state == UNKNOWN for v in verdicts):
        return None
    shown = [word.strip().upper() for word in row.value.split(",")]
    if {"ENV", "ALL"} & set(shown):
        return None
    return Problem(
        code="ENV004",
        title=f"NCCL_DEBUG_SUBSYS={row.value} hides the lines that show which variables NCCL read",
        severity="info",
        confidence="high",
        why="The subsystems INIT and ENV are shown unless NCCL_DEBUG_SUBSYS leaves them out.",
        fix=f"NCCL_DEBUG_SUBSYS={','.join(dict.fromkeys(['INIT', 'ENV', *shown]))}",
    )

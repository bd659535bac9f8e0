"""The audit and the hooks of an engine as sections of a terminal report."""

from __future__ import annotations

from traceana.environment.hooks import LOST, Coverage, Found
from traceana.environment.model import UNKNOWN, YES, EnvReport, ProcessReport, ServerReport, VariableVerdict
from traceana.environment.verdicts import UNREADABLE, called
from traceana.report.page import Item, Labelled, Row, Section, Table
from traceana.report.text import ENGINES
from traceana_instrument.envreport import SET, SINGLES

_MOST_PROCESSES = 24
_MOST_PIDS = 6
_STEPS = ("asked for:", "reached:  ", "used:     ")
_METHOD_PHASES = ("cycle", "draft", "verify", "re_extend", "count")


def env_sections(report: EnvReport) -> list[Section]:
    """All servers, one after the other."""
    return [section for server in report.servers for section in _server(server)]


def _server(server: ServerReport) -> list[Section]:
    sections = [_head(server), *([_processes(server)] if server.processes else [])]
    if server.variables:
        sections.append(_variables(server))
    if server.problems:
        sections.append(_problems(server))
    rest = (*_how(server), *server.notes)
    if rest:
        sections.append(Section("To see more", texts=tuple(Labelled("", (text,)) for text in rest)))
    return sections


def _head(server: ServerReport) -> Section:
    engine = ENGINES.get(server.engine or "", server.engine or "engine not recognised")
    pieces = [f"{engine} {server.version or '(version not found)'}" if server.engine else engine]
    if server.nccl_version:
        pieces.append(f"NCCL {server.nccl_version}")
    workers = sum(process.worker for process in server.processes)
    total = len(server.processes)
    of = f"{workers} worker{'' if workers == 1 else 's'} of {total} process{'' if total == 1 else 'es'}"
    pieces.append(of if total else "no process, only what was asked for")
    lead = [" · ".join(pieces)]
    if server.command:
        lead.append(server.command)
    return Section(f"pid {server.pid}" if server.pid is not None else "From logs", lead=tuple(lead))


def _processes(server: ServerReport) -> Section:
    shown = server.processes[:_MOST_PROCESSES]
    rows = tuple(Row(f"{p.pid} {p.role} {p.rank}".rstrip(), (_state(p), str(p.variables), _source(p))) for p in shown)
    left_out = len(server.processes) - len(shown)
    remarks = (f"and {left_out} more processes (--format json has all)",) if left_out else ()
    table = Table("process", ("/proc/PID/environ", "variables", "other source"), rows, remarks)
    return Section("Processes", aside="variables: those of NCCL, CUDA and the engine", tables=(table,))


def _state(process: ProcessReport) -> str:
    return "unreadable, not missing" if process.environment == "blanked" else process.environment


def _source(process: ProcessReport) -> str:
    kinds = [source.split(",")[0] for source in process.sources if not source.startswith("/proc")]
    return " + ".join(kinds) or "-"


def _variables(server: ServerReport) -> Section:
    told = [row for row in server.variables if not _untold(row)]
    rows = tuple(Row(called(row), (row.asked.state, _count(row, "reached"), _count(row, "used"))) for row in told)
    untold = [row.name for row in server.variables if _untold(row)]
    rest = (f"also set, and nothing to say of them: {', '.join(untold)}",) if untold else ()
    aside = "asked for -> reached -> used"
    if not rows:
        return Section("Variables", aside=aside, texts=(Labelled("", rest),))
    table = Table("variable", ("asked for", "reached workers", "used"), rows, rest)
    return Section("Variables", aside=aside, tables=(table,), texts=tuple(_reasons(told)))


def _untold(row: VariableVerdict) -> bool:
    """A name whose value says nothing, and of which nothing is wrong: it is only listed."""
    quiet = row.value == SET or row.name.startswith("EAGLE3_") or row.name in SINGLES
    return quiet and row.used.state == UNKNOWN and row.reached.state in (YES, UNKNOWN)


def _count(row: VariableVerdict, step: str) -> str:
    states = [getattr(process, step).state for process in row.processes]
    answer = str(getattr(row, step).state)
    yes = states.count(YES)
    return f"{answer}, {yes} of {len(states)}" if len(states) > 1 and (answer != UNKNOWN or yes) else answer


def _reasons(rows: list[VariableVerdict]) -> list[Labelled]:
    """What the answers rest on; variables with the same reasons together."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        groups.setdefault((row.asked.why, row.reached.why, row.used.why), []).append(row.name)
    return [
        Labelled("", (", ".join(names), *(f"{step} {why}" for step, why in zip(_STEPS, whys, strict=True))))
        for whys, names in groups.items()
    ]


def _problems(server: ServerReport) -> Section:
    items = tuple(
        Item(
            number=number,
            code=problem.code,
            name="",
            title=problem.title,
            severity=problem.severity,
            confidence=problem.confidence,
            texts=(Labelled("why", (problem.why,)), Labelled("fix", (problem.fix,))),
        )
        for number, problem in enumerate(server.problems, 1)
    )
    return Section("Findings", aside="severity · confidence; `traceana explain CODE` says more", items=items)


def _how(server: ServerReport) -> list[str]:
    """How to see what could not be seen, one line per reason."""
    texts = []
    for state in dict.fromkeys(p.environment for p in server.processes if p.how):
        pids = [str(p.pid) for p in server.processes if p.how and p.environment == state]
        more = " ..." if len(pids) > _MOST_PIDS else ""
        how = next(p.how for p in server.processes if p.how and p.environment == state)
        texts.append(f"pid {', '.join(pids[:_MOST_PIDS])}{more}: {UNREADABLE[state]}. {how}")
    if any(row.used.state == UNKNOWN and row.name.startswith("NCCL_") for row in server.variables):
        texts.append(
            "Used: NCCL_DEBUG=INFO for one start, and its log with --log; NCCL echoes every variable it reads."
        )
    return texts


def hook_sections(coverages: list[Coverage]) -> list[Section]:
    """What of each engine can be timed, by phase."""
    return [_coverage(coverage) for coverage in coverages]


def _coverage(coverage: Coverage) -> Section:
    version = coverage.version or "of a version that its metadata does not name"
    return Section(
        f"{ENGINES[coverage.engine]} {version}",
        aside=_knowledge(coverage),
        tables=(_by_method(coverage),),
        texts=tuple(_phase(coverage, phase) for phase in LOST),
    )


def _by_method(coverage: Coverage) -> Table:
    rows = tuple(
        Row(method, tuple(coverage.timed(method, phase) for phase in _METHOD_PHASES)) for method in coverage.methods()
    )
    remark = "no: its hook is missing here; -: no such phase, or none that can be told apart"
    lost = [
        f"{phase} of {', '.join(methods)}: {LOST[phase]}"
        for phase in _METHOD_PHASES
        if (methods := [method for method in coverage.methods() if coverage.timed(method, phase) == "no"])
    ]
    return Table("method", _METHOD_PHASES, rows, (remark, *lost))


def _phase(coverage: Coverage, phase: str) -> Labelled:
    """A phase: how many hooks are there, then each of them, or what a report loses."""
    found = coverage.phase(phase)
    missing = sum(row.state == "missing" for row in found)
    head = f"{phase}: {sum(row.present for row in found)} present" + (f", {missing} missing" if missing else "")
    if not any(row.present for row in found):
        head += f" ({LOST[phase]})"
    return Labelled("", (head, *(_hook(row) for row in found)))


def _hook(row: Found) -> str:
    mark = {"present": "", "surprise": "not expected in this version: "}.get(row.state, "missing: ")
    note = f": {row.hook.note}" if row.hook.note else ""
    return f"{mark}{row.hook.target} in {row.hook.module}{note}"


def _knowledge(coverage: Coverage) -> str:
    first, last = coverage.read
    if coverage.known is None:
        return "no version: everything that exists is wrapped"
    if coverage.known:
        return f"read: {first} to {last}"
    return f"not among the releases that were read ({first} to {last}): everything that exists is wrapped"

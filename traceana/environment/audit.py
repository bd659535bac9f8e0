"""The audit of a server's environment: evidence, verdicts and problems put together as plain data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from traceana.environment import evidence, servers
from traceana.environment.evidence import Known, View, clean, place
from traceana.environment.model import (
    NO,
    SOME,
    YES,
    ConfReport,
    ProcessReport,
    ServerReport,
    VariableVerdict,
)
from traceana.environment.names import standing
from traceana.environment.problems import problems
from traceana.environment.procfs import PROC
from traceana.environment.servers import Server
from traceana.environment.start_lines import StartLine
from traceana.environment.verdicts import Context, verdict
from traceana.facts.model import Fact, Facts, NcclFacts, Provenance, Setting, Settings
from traceana.facts.versions import Override, holds, load, overrides
from traceana.report.redact import Redactor
from traceana.report.text import ENGINES
from traceana.rules._collectives import one_gpu
from traceana.rules.env004_nccl_variable_without_effect import without_effect
from traceana_instrument import envreport

_TITLE = 300
_MOST_NAMES = 400
#: labels that CUDA images carry and nobody reads
_LABELS = {"NCCL_VERSION", "CUDA_VERSION"}
HOW = {
    "blanked": (
        "A spawned worker inherits the environment of the process above it; to see it start the server with "
        "SPT_NOENV=1 or with `traceana run`, or give its log with --log."
    ),
    "denied": "Run as root or as the server's user, or inside its container.",
}


@dataclass(frozen=True, slots=True)
class Logs:
    """What logs and launch scripts say: start lines, and the facts of everything else (None: nothing recognised)."""

    starts: tuple[StartLine, ...] = ()
    facts: Facts | None = None


def live(server: Server, logs: Logs, proc: Path = PROC) -> ServerReport:
    """The audit of a running server."""
    source, nccl = servers.source_of(server, proc)
    facts = logs.facts
    nccl = (facts.identity.nccl_version.value if facts else None) or nccl
    views, strange = evidence.views(server, list(logs.starts), facts, nccl, proc)
    engine = server.engine or (facts.identity.engine.value if facts else None)
    started = _started(views, logs.starts)
    version = started.version if started and started.version else source.version if source else None
    version = version or (facts.identity.version.value if facts and facts.identity.engine.value == engine else None)
    arguments = _arguments(server.top.argv)
    known = _facts(facts, engine, version, nccl, arguments)
    notes = []
    if server.engine is None:
        notes.append("Not recognised as SGLang or vLLM: spawned processes below it are taken as workers, else itself.")
    if strange:
        notes.append(
            f"{strange} process{'es' if strange > 1 else ''} of the logs {'are' if strange > 1 else 'is'} not among "
            "these: the logs may be of another start."
        )
    names = source.variables() if source and _engine_names(views) else frozenset()
    return _report(server.top.pid, server.top.title, views, known, names, notes)


def from_logs(logs: Logs) -> ServerReport:
    """The audit of a server that is known from its logs only."""
    facts = logs.facts
    views = evidence.logged_views(list(logs.starts), facts)
    first = next(iter(logs.starts), None)
    engine = (first.engine if first else None) or (facts.identity.engine.value if facts else None)
    version = (first.version if first else None) or (facts.identity.version.value if facts else None)
    nccl = facts.identity.nccl_version.value if facts else None
    return _report(None, "", views, _facts(facts, engine, version, nccl, ()), frozenset(), [])


def _started(views: Sequence[View], starts: Sequence[StartLine]) -> StartLine | None:
    """A start line of one of these processes."""
    sources = {source for view in views for source in view.sources}
    return next((s for s in starts if f"start line, {s.path}:{s.line}" in sources), None)


def _facts(
    facts: Facts | None, engine: str | None, version: str | None, nccl: str | None, arguments: tuple[Setting, ...]
) -> Facts:
    """Facts for the rules' own judgements: what the logs say, completed by what the live process says."""
    base = facts or Facts()
    identity = replace(
        base.identity,
        engine=_fact(engine),
        version=_fact(version),
        nccl_version=_fact(nccl),
    )
    parallelism = base.parallelism
    for row in arguments:
        if row.name in _TP and isinstance(row.parsed, int) and not parallelism.tp.known:
            parallelism = replace(parallelism, tp=Fact(row.parsed, Provenance.MEASURED))
    return replace(
        base, identity=identity, parallelism=parallelism, settings=Settings((*base.settings.rows, *arguments))
    )


_TP = ("tp", "tp_size", "tensor_parallel_size")


def _fact(value: str | None) -> Fact[str]:
    return Fact(value, Provenance.MEASURED) if value else Fact(reason="not known")


def _report(
    pid: int | None, command: str, views: list[View], facts: Facts, engine_names: frozenset[str], notes: list[str]
) -> ServerReport:
    workers = [view for view in views if view.worker]
    asked, launcher = _asked(views, facts)
    engine, version = facts.identity.engine.value, facts.identity.version.value
    nccl = facts.identity.nccl_version.value
    seen = {name for view in workers for name in (*view.variables, *view.nccl, *_conf_names(view))}
    names = sorted((seen | asked.keys()) - _LABELS)
    if len(names) > _MOST_NAMES:
        notes.append(f"{len(names)} variables are set; the first {_MOST_NAMES} by name are judged.")
        names = names[:_MOST_NAMES]
    called = ENGINES.get(engine or "", "the engine")
    context = Context(
        asked=asked,
        launcher=launcher,
        overrides=_overrides(engine, version, facts.settings),
        sets=f"{called} {version} sets" if version else f"some versions of {called} set",
        idle={} if one_gpu(facts) else _idle(facts, asked, workers),
        one_gpu=one_gpu(facts),
        standing={name: standing(name, nccl, engine, engine_names) for name in names},
    )
    verdicts = [verdict(name, workers, context) for name in names]
    redact = Redactor().text
    return ServerReport(
        pid=pid,
        command=redact(command[:_TITLE]),
        engine=engine,
        version=version,
        nccl_version=nccl,
        processes=tuple(_process(view, redact(view.title[:_TITLE])) for view in views),
        variables=tuple(sorted(verdicts, key=_rank)),
        problems=tuple(problems(verdicts, views, context)),
        conf_files=_conf_files(views),
        notes=(*notes, *_notes(engine, version, views)),
    )


def _overrides(engine: str | None, version: str | None, settings: Settings) -> list[tuple[Override, bool | None]]:
    """What this engine sets itself; of a version that is not known, what some version of it sets."""
    if engine is None:
        return []
    if version is None:
        return [(row, None) for row in load().overrides if row.engine == engine]
    return [(row, holds(row, settings)) for row in overrides(engine, version)]


def _asked(views: list[View], facts: Facts) -> tuple[dict[str, Known], str | None]:
    """(name -> what was asked for, where the first process's environment was read or None).

    Stronger last: configuration files, the first process's environment, launch commands among the logs.
    """
    first = views[0] if views and not (views[0].worker and len(views) > 1) else None
    asked: dict[str, Known] = {}
    for view in views:
        for file in reversed(view.conf):
            asked |= {name: Known(clean(name, value), file.path) for name, value in file.variables.items()}
    if first is not None:
        asked |= first.variables
    for row in facts.nccl.requested:
        if envreport.reported(row.name):
            asked[row.name] = Known(clean(row.name, row.value), place(row.evidence))
    complete = first is not None and first.complete
    return asked, f"the environment of pid {first.pid}" if first and complete else None


def _idle(facts: Facts, asked: dict[str, Known], workers: list[View]) -> dict[str, str]:
    """Variables that change nothing here -> why, as rule ENV004 judges."""
    values = {name: known.value for name, known in asked.items()}
    for view in workers:
        values |= {name: known.value for name, known in (*view.variables.items(), *view.nccl.items())}
    rows = tuple(Setting(name, value, "launch_env") for name, value in values.items() if name.startswith("NCCL_"))
    return without_effect(replace(facts, nccl=NcclFacts(requested=rows), settings=Settings(facts.settings.rows)))


def _conf_names(view: View) -> list[str]:
    return [name for file in view.conf for name in file.variables if envreport.reported(name)]


def _conf_files(views: list[View]) -> tuple[ConfReport, ...]:
    found = {file.path: file for view in views for file in view.conf}
    return tuple(
        ConfReport(f.path, f.state, {n: clean(n, v) for n, v in f.variables.items() if envreport.reported(n)})
        for f in found.values()
    )


def _process(view: View, title: str) -> ProcessReport:
    unclear = view.environment in HOW and not view.complete
    return ProcessReport(
        pid=view.pid,
        role=view.role,
        rank=view.rank,
        worker=view.worker,
        title=title,
        environment=view.environment,
        variables=len(view.variables.keys() | view.nccl.keys()),
        sources=view.sources,
        how=HOW[view.environment] if unclear else None,
    )


def _rank(row: VariableVerdict) -> tuple[int, str]:
    """Troubled ones first, then those that are shown to be used, then the rest."""
    if row.reached.state in (NO, SOME) or row.used.state in (NO, SOME):
        return 0, row.name
    return (1 if row.used.state == YES else 2), row.name


def _notes(engine: str | None, version: str | None, views: list[View]) -> list[str]:
    notes = []
    if engine and not version:
        notes.append(f"The version of {engine} was not found: what it overwrites depends on it.")
    if any(view.environment == "read" for view in views):
        notes.append(
            "/proc shows an environment as it was when the process started: what it set in itself later is not there."
        )
    return notes


def _engine_names(views: Sequence[View]) -> bool:
    """Whether any variable of an engine's own is set: only then is its source searched."""
    return any(name.startswith(("SGLANG_", "SGL_", "VLLM_")) for view in views for name in view.variables)


_OPTION = re.compile(r"--([a-z][a-z0-9-]{1,60})(?:=(.*))?", re.DOTALL)
#: arguments that the overrides of versions.toml depend on; absent on a command line they are off
_OFF_BY_DEFAULT = ("enable_symm_mem", "enable_nccl_nvls", "enable_deterministic_inference")


def _arguments(argv: Sequence[str]) -> tuple[Setting, ...]:
    """The engine arguments that matter here, from a command line; none where a configuration file may add others."""
    given: dict[str, object] = {}
    words = list(argv)
    for number, word in enumerate(words):
        option = _OPTION.fullmatch(word)
        if option:
            following = words[number + 1] if number + 1 < len(words) else "--"
            value = option[2] if option[2] is not None else None if following.startswith("-") else following
            given[option[1].replace("-", "_")] = True if value is None else int(value) if value.isdigit() else value
    if not given or "config" in given:
        return ()
    wanted = {name: given.get(name, False) for name in _OFF_BY_DEFAULT}
    wanted |= {name: given[name] for name in _TP if name in given}
    return tuple(Setting(name, str(value), "cmdline", value) for name, value in wanted.items())

"""Which hooks an installed engine has: the tables of traceana_instrument against its source, nothing imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType

from packaging.version import Version

from traceana.environment.engine_source import EngineSource
from traceana.facts.versions import is_fork, parse_version
from traceana_instrument.hook import Hook

#: module -> class -> methods it defines; None where there is no such module
Methods = Callable[[str], Mapping[str, frozenset[str]] | None]

#: phase -> what a report loses without any hook of it
LOST = {
    "cycle": "no EAGLE3_PROFILE line at all: nothing bounds a cycle",
    "draft": "draft is not timed and counts as other",
    "verify": "no EAGLE3_PROFILE line: verify is its one required part",
    "re_extend": "the drafter's catch-up is not timed apart: it counts as draft, or as other",
    "comm": "no collective is timed: EAGLE3_PROFILE=comm shows nothing",
    "count": "accept length is not in the line; the engine's own stats line has it",
}


@dataclass(frozen=True, slots=True)
class Found:
    """One row of a table and whether the engine has it. `expected`: the row claims this version; None: not known."""

    hook: Hook
    present: bool
    expected: bool | None

    @property
    def state(self) -> str:
        """present | missing (claimed for this version) | surprise (there, not claimed) | other version (neither)."""
        if self.present:
            return "surprise" if self.expected is False else "present"
        return "missing" if self.expected else "other version"


@dataclass(frozen=True, slots=True)
class Coverage:
    """What of an engine can be timed. `known`: the version lies in what was read and is no fork; None: no version."""

    engine: str
    version: str | None
    read: tuple[str, str]
    known: bool | None
    found: tuple[Found, ...]

    def phase(self, name: str) -> list[Found]:
        """Rows of one phase that are there, were expected, or both."""
        return [row for row in self.found if row.hook.phase == name and row.state != "other version"]

    def methods(self) -> list[str]:
        """Speculative methods of this engine version whose cycles have a hook, there or expected."""
        rows = (row for row in self.found if row.state != "other version")
        named = dict.fromkeys(method for row in rows for method in methods_of(row.hook))
        return [method for method in named if self.timed(method, "cycle") != "-"]

    def timed(self, method: str, phase: str) -> str:
        """yes, no (hooks of it are missing), or - (no release has any)."""
        of_all = [row for row in self.found if row.hook.phase == phase and not row.hook.methods]
        own = [row for row in self.found if row.hook.phase == phase and method in methods_of(row.hook)]
        if any(row.present for row in (*own, *of_all)):
            return "yes"
        return "no" if any(row.state == "missing" for row in (*own, *of_all)) else "-"


def methods_of(hook: Hook) -> tuple[str, ...]:
    """The speculative methods that a row names; () for a row that serves all."""
    return tuple(filter(None, hook.methods.split(", ")))


def tables() -> dict[str, ModuleType]:
    """Engine -> module with its HOOKS and READ."""
    from traceana_instrument import hooks_sglang, hooks_vllm

    return {"sglang": hooks_sglang, "vllm": hooks_vllm}


def coverage(source: EngineSource) -> Coverage:
    """What the hook table finds in the engine's source."""
    table = tables()[source.engine]
    there = applied(table.HOOKS, source.methods)
    first, last = table.READ
    known: bool | None = None
    if source.version is not None:
        known = claims(f"{first}..{last}", source.version) is True and not is_fork(parse_version(source.version))
    rows = tuple(
        Found(hook, hook in there, None if source.version is None else claims(hook.versions, source.version))
        for hook in table.HOOKS
    )
    return Coverage(source.engine, source.version, table.READ, known, rows)


def applied(hooks: Iterable[Hook], methods: Methods) -> set[Hook]:
    """The rows that the instrumentation would apply to an engine with these methods.

    A row applies where its class defines the method and, if the span outlives the call, one of its enders. A row
    without an ender gives way to a twin (same method and phase) with one.
    """
    rows = list(hooks)
    defined = {
        hook
        for hook in rows
        if (own := (methods(hook.module) or {}).get(hook.owner, frozenset())) and hook.method in own
        if not hook.enders or any(ender in own for ender in hook.enders)
    }
    ended = {(hook.module, hook.target, hook.phase) for hook in defined if hook.enders}
    return {hook for hook in defined if hook.enders or (hook.module, hook.target, hook.phase) not in ended}


def claims(versions: str, version: str) -> bool | None:
    """Whether ranges like "0.4.6..0.5.12, 0.5.14.." hold an engine version; None when it cannot be read.

    A development or pre-release build counts as the release it leads to; local parts are ignored.
    """
    here = _release(version)
    if here is None:
        return None
    for part in versions.split(","):
        first, dots, last = part.strip().partition("..")
        low, high = _release(first), _release(last)
        if not dots and low == here:
            return True
        if dots and (low is None or low <= here) and (high is None or here <= high):
            return True
    return False


def _release(text: str) -> Version | None:
    parsed = parse_version(text)
    if parsed is None:
        return None
    post = f".post{parsed.post}" if parsed.post is not None else ""
    return Version(".".join(str(number) for number in parsed.release) + post)


@dataclass(frozen=True, slots=True)
class HookReport:
    """One row of the hook table. `state`: present, missing or surprise (there, though not claimed for this version)."""

    target: str
    state: str
    versions: str
    methods: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """Hooks of one phase. `lost`: what a report lacks, where none is there."""

    phase: str
    present: int
    missing: int
    lost: str | None
    hooks: tuple[HookReport, ...]


@dataclass(frozen=True, slots=True)
class EngineReport:
    """One engine. `methods`: speculative method -> phase -> yes, no or -."""

    engine: str
    version: str | None
    read_from: str
    read_to: str
    known: bool | None
    methods: dict[str, dict[str, str]]
    phases: tuple[PhaseReport, ...]


@dataclass(frozen=True, slots=True)
class HooksReport:
    """What `traceana instrument hooks --format json` writes. Fields: docs/cli.md."""

    schema: str
    engines: tuple[EngineReport, ...]


def document(coverages: Iterable[Coverage]) -> HooksReport:
    """The coverage of each engine as plain data."""
    return HooksReport("traceana/hooks/1", tuple(_engine(found) for found in coverages))


def _engine(found: Coverage) -> EngineReport:
    methods = {method: {phase: found.timed(method, phase) for phase in LOST} for method in found.methods()}
    phases = tuple(_phase(phase, found.phase(phase)) for phase in LOST)
    return EngineReport(found.engine, found.version, *found.read, found.known, methods, phases)


def _phase(name: str, rows: list[Found]) -> PhaseReport:
    present = sum(row.present for row in rows)
    missing = sum(row.state == "missing" for row in rows)
    return PhaseReport(name, present, missing, None if present else LOST[name], tuple(map(_hook, rows)))


def _hook(row: Found) -> HookReport:
    hook = row.hook
    return HookReport(f"{hook.module}.{hook.target}", row.state, hook.versions, hook.methods or None, hook.note or None)

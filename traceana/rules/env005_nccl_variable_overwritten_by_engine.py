"""The engine replaces the value that the user gave a variable.

What it sees:
The variables of a launch command, the engine's version, and a table of what each version sets itself before it starts
its workers: NCCL_CUMEM_ENABLE and NCCL_NVLS_ENABLE (SGLang to 0.5.4, later with a flag), NCCL_ALGO under
deterministic inference, CUDA_DEVICE_MAX_CONNECTIONS, CUDA_MODULE_LOADING.

Why it matters:
The user's value never reaches the workers, though the shell, the unit file and /proc all show it. NVLS switched off
changes the algorithm on NVSwitch machines; deterministic inference fixes the algorithm to a tree.

How sure and why:
High when the version is known and an ENV row of a worker shows the engine's value. Medium from the table alone (it
was read from the released sources, and forks differ), and from a worker's value that some other version is known to
set.

Rivals:
A variable that simply did not reach the workers (ENV001).

Confirm:
NCCL_DEBUG=INFO for one start: "NAME set by environment to ..." shows the value in use.

Fix:
Use the engine's own flag where there is one (--enable-nccl-nvls, --enable-symm-mem), drop
--enable-deterministic-inference, or upgrade: SGLang 0.5.5 and newer leave NCCL_CUMEM_ENABLE and NCCL_NVLS_ENABLE
alone when they are set.

References:
sgl-project/sglang entrypoints/engine.py (_set_envs_and_config) and server_args.py, 0.4.6 to 0.5.23 (table in
traceana/facts/versions.toml)
"""

from __future__ import annotations

from dataclasses import dataclass

from traceana.facts.model import Facts, Setting
from traceana.facts.versions import Override, holds, load, overrides, parse_version
from traceana.rules._collectives import one_gpu
from traceana.rules._nccl_env import NO_COMMAND, clean_value, env_rows, value_of
from traceana.rules._text import count, picked
from traceana.rules._wording import clip, names
from traceana.rules.interface import CannotTell, Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity

_NO_VERSION = CannotTell(
    "the engine's version is not in the log, and what it overwrites depends on it",
    "NCCL_DEBUG=INFO for one start shows the value in use; python -m pip show sglang names the version",
)


@dataclass(frozen=True, slots=True)
class _Overwritten:
    """A variable whose value the engine replaces. `shown`: a worker's ENV row has the engine's value."""

    row: Setting
    override: Override
    shown: bool


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when the engine forces another value on a variable of the launch command."""
    if one_gpu(facts):
        return NotApplicable("one GPU per replica")
    if not facts.nccl.requested:
        return NO_COMMAND
    engine, version = facts.identity.engine.value, parse_version(facts.identity.version.value or "")
    if engine is None or version is None:
        return _without_version(facts)
    found, open_questions = _overwritten(facts, overrides(engine, version))
    if found:
        return _finding(facts, found)
    if open_questions:
        return CannotTell(
            f"whether {engine} overwrites {names(open_questions)} depends on arguments that the log does not show",
            "keep the server_args= line of the start-up, or NCCL_DEBUG=INFO for one start",
        )
    return Clear(f"{engine} {version} leaves the launch command's variables alone")


def _without_version(facts: Facts) -> Outcome:
    """What the workers' rows show of variables that some version of the engine sets."""
    found, shown, concerned = [], 0, 0
    for row in facts.nccl.requested:
        worker = value_of(facts, row.name)
        rules = [o for o in load().overrides if o.variable == row.name and o.behaviour != "default"]
        rules = [o for o in rules if facts.identity.engine.value in (None, o.engine)]
        concerned += bool(rules)
        shown += bool(rules) and worker is not None and not _differs(row, worker)
        matching = [o for o in rules if _differs(row, worker) and o.value == worker]
        found += [_Overwritten(row, override, True) for override in matching[:1]]
    if found:
        return _finding(facts, found)
    if shown == concerned:
        return Clear("no variable of the launch command that an engine may overwrite has another value in the workers")
    return _NO_VERSION


def _differs(row: Setting, value: str | None) -> bool:
    return value is not None and value.lower() != clean_value(row.value).lower()


def _overwritten(facts: Facts, rules: tuple[Override, ...]) -> tuple[list[_Overwritten], list[str]]:
    """Variables that the rules of this version overwrite, and those for which an argument would have to be known."""
    found: list[_Overwritten] = []
    unknown: list[str] = []
    for row in facts.nccl.requested:
        worker = value_of(facts, row.name)
        if worker is not None and not _differs(row, worker):
            continue  # a worker has the user's value: this build does not overwrite it
        for override in rules:
            if override.variable != row.name or override.behaviour == "default" or not _differs(row, override.value):
                continue
            applies = holds(override, facts.settings)
            if applies:
                found.append(_Overwritten(row, override, worker == override.value))
            elif applies is None:
                unknown.append(row.name)
    return found, unknown


def _finding(facts: Facts, found: list[_Overwritten]) -> Finding:
    first = found[0]
    version = facts.identity.version.value
    who = f"{first.override.engine} {clip(version, 40)}" if version else first.override.engine
    more = f", and {count(len(found) - 1, 'more variable')}" if len(found) > 1 else ""
    certain = version is not None and all(item.shown for item in found)
    return Finding(
        code=RULE.code,
        title=(
            f"{who} sets {first.row.name}={first.override.value} over the {clean_value(first.row.value)} of the launch "
            f"command{more}"
        ),
        severity=Severity.WARNING,
        confidence=Confidence.HIGH if certain else Confidence.MEDIUM,
        why=" ".join(
            f"{item.row.name}: {item.override.condition or 'always in these versions'} ({item.override.source}); "
            + ("a worker shows the engine's value." if item.shown else "no worker's line shows which value won.")
            for item in found
        ),
        fix=(
            "use the engine's flag for it where there is one (--enable-nccl-nvls, --enable-symm-mem)",
            "or remove the variable from the launch command, so that nobody counts on it",
        ),
        evidence=picked(
            (item.row.evidence for item in found),
            (row.evidence for row in env_rows(facts) if row.name in {item.row.name for item in found}),
        ),
        confirm="NCCL_DEBUG=INFO for one start: 'set by environment to' shows the value in use",
        rivals=("ENV001", "something else in the start-up sets it") if not certain else ("ENV001",),
    )


RULE = Rule(
    "ENV005",
    "nccl-variable-overwritten-by-engine",
    Severity.WARNING,
    check,
    asks="whether the engine overwrites NCCL variables",
)

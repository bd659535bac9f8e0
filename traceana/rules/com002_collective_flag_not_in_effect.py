"""A faster collective was asked for, and the engine refused or dropped it.

What it sees:
A flag among the resolved arguments (enable_flashinfer_allreduce_fusion, enable_symm_mem, enable_torch_symm_mem,
enable_nccl_nvls, enable_mscclpp, vLLM's fuse_allreduce_rms) or a variable (SGLANG_ENABLE_PCIE_IPC_ALLREDUCE), and a
line in which a rank says that the feature failed, is off or is not supported on this device.

Why it matters:
A flag in the arguments is not a feature in use. Runs are compared, and hardware bought, on the belief that it is on.
FlashInfer's allreduce fusion needs SM90 or SM10x: on SM120 (RTX PRO 6000, RTX 50) the flag does nothing.

How sure and why:
High when flag and refusal are both in the log. Without a refusal nothing is claimed: older versions drop the feature
in silence, and silence proves neither. A default that the engine switched on by itself counts as information only.

Rivals:
The refusal may concern another process group than the tensor-parallel one, or one of two backends of which the second
works.

Confirm:
Kernel names in a profile of one step: allreduce_fusion_kernel* is FlashInfer, cross_device_reduce_* custom allreduce,
ncclDevKernel_AllReduce_* NCCL.

Fix:
Drop the flag, or change what the line asks for: another GPU generation, a supported number of ranks, a build of
FlashInfer that has the feature. Then read the start-up log again for its "enabled" line.

References:
sgl-project/sglang distributed/device_communicators (0.5.10 to 0.5.23); vllm-project/vllm allreduce_rms_fusion.py
"""

from __future__ import annotations

from dataclasses import dataclass

from traceana.facts.model import Evidence, Facts, PathStatement, Setting
from traceana.rules._collectives import NO_STARTUP, carrier, one_gpu, said, startup_seen
from traceana.rules._text import count, picked
from traceana.rules._wording import clip, names, upper_first, words
from traceana.rules.interface import CannotTell, Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity


@dataclass(frozen=True, slots=True)
class _Flag:
    """A flag: as the user writes it, as the engine prints it, and the kind of statement that answers it."""

    engine: str
    written: str
    setting: str
    kind: str
    refusals: tuple[str, ...] = ()  # words of errors that end the start


_FLAGS = (
    _Flag(
        "sglang",
        "--enable-flashinfer-allreduce-fusion",
        "enable_flashinfer_allreduce_fusion",
        "flashinfer_fusion",
        ("allreduce fusion requires sm90 or sm10x", "backend supports single-node only"),
    ),
    _Flag("vllm", "fuse_allreduce_rms", "fuse_allreduce_rms", "flashinfer_fusion"),
    _Flag("sglang", "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", "pcie_ipc"),
    _Flag("sglang", "--enable-symm-mem", "enable_symm_mem", "symm_mem"),
    _Flag("sglang", "--enable-torch-symm-mem", "enable_torch_symm_mem", "symm_mem"),
    _Flag("sglang", "--enable-nccl-nvls", "enable_nccl_nvls", "nvls"),
    _Flag("sglang", "--enable-mscclpp", "enable_mscclpp", "mscclpp"),
)


@dataclass(frozen=True, slots=True)
class _Refused:
    """A flag that is not in effect. `by_user` is None when the log does not say who asked for it."""

    flag: _Flag
    by_user: bool | None
    says: str
    evidence: tuple[Evidence, ...]


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when a flag is set and a rank refuses it; CannotTell when a flag is set and no rank says anything."""
    if one_gpu(facts):
        return NotApplicable("one GPU per replica: no collective")
    flags = [flag for flag in _FLAGS if facts.identity.engine.value in (None, flag.engine)]
    refused = tuple(r for flag in flags if (r := _refused(facts, flag)) is not None)
    if refused:
        return _finding(facts, refused)
    asked = [flag for flag in flags if _asked(facts, flag)[0] is not None]
    silent = [flag.written for flag in asked if not facts.statements(flag.kind)]
    if silent:
        return CannotTell(
            f"{names(silent)} is set, and no rank says whether it is in effect",
            "profile one step and read the allreduce kernels' names (allreduce_fusion_kernel*: FlashInfer, "
            "cross_device_reduce_*: custom allreduce, ncclDevKernel_AllReduce_*: NCCL)",
        )
    if asked:
        return Clear(f"{names(flag.written for flag in asked)}: not refused by any rank")
    return NotApplicable("no collective flag is set") if startup_seen(facts) else NO_STARTUP


def _refused(facts: Facts, flag: _Flag) -> _Refused | None:
    row, by_user = _asked(facts, flag)
    said_no = [s for s in facts.statements(flag.kind) if s.state in ("off", "failed")]
    if said_no and not facts.statements(flag.kind, "on"):
        if row is None:
            by_user = _implied(facts, flag, said_no)
        if row is not None or by_user is not False:
            where = picked([*(s.evidence for s in said_no), row.evidence if row else None])
            return _Refused(flag, by_user, said_no[0].reason or "refused", where)
    for incident in facts.incidents:
        if any(text in words(incident.text, incident.evidence.text) for text in flag.refusals):
            return _Refused(flag, True, incident.text, picked([incident.evidence, row.evidence if row else None]))
    return None


def _asked(facts: Facts, flag: _Flag) -> tuple[Setting | None, bool | None]:
    """The setting that asks for the flag, and whether the user wrote it (None: unknown)."""
    row = facts.settings.get(flag.setting)
    if row is not None:
        on = row.parsed is True or row.value.strip().lower() in ("true", "1")
        return (row, not _automatic(facts, flag)) if on else (None, None)
    nested = [
        row
        for row in facts.settings.rows
        if f"'{flag.setting}': True" in row.value or (row.name.endswith(f".{flag.setting}") and row.parsed is True)
    ]
    if not nested:
        return None, None
    given = [r for r in nested if r.origin in ("non_default_args", "server_args")]
    return (given or nested)[0], bool(given)


def _implied(facts: Facts, flag: _Flag, statements: list[PathStatement]) -> bool | None:
    """Without a setting: a line that names the flag was asked by the user, a failure by someone, "off" by nobody."""
    if any(flag.setting.isupper() and flag.setting.lower() in said(s) for s in statements):
        return True
    # a failure that no setting asks for is told once, under the first flag of its kind
    same = [f for f in _FLAGS if f.kind == flag.kind and facts.identity.engine.value in (None, f.engine)]
    unasked = flag is same[0] and not any(_asked(facts, other)[0] for other in same)
    return None if unasked and any(s.state == "failed" for s in statements) else False


def _automatic(facts: Facts, flag: _Flag) -> bool:
    return any("auto-enabling" in said(s) for s in facts.statements(flag.kind))


def _finding(facts: Facts, refused: tuple[_Refused, ...]) -> Finding:
    by_user = any(r.by_user for r in refused)
    known = all(r.by_user is not None for r in refused)
    other = carrier(facts)
    next_path = (
        f"{upper_first(other.name)} is on and takes the small allreduces."
        if other is not None
        else "The collectives take the next path in the engine's order, usually NCCL."
    )
    who = "was asked for" if by_user else "is the engine's default here" if known else "was tried"
    return Finding(
        code=RULE.code,
        title=(
            f"{names(r.flag.written for r in refused)} {who} and is not in effect"
            if len(refused) == 1
            else f"{count(len(refused), 'collective flag')} are not in effect: {names(r.flag.written for r in refused)}"
        ),
        severity=Severity.WARNING if by_user else Severity.INFO,
        confidence=Confidence.HIGH if known else Confidence.MEDIUM,
        why=" ".join(
            f"{r.flag.written}: {clip(r.says).rstrip('.')}." + ("" if r.by_user else " Nobody need have asked for it.")
            for r in refused
        )
        + f" {next_path}",
        fix=(
            "drop the flag, or give it what the line asks for (GPU generation, number of ranks, FlashInfer build)",
            "compare runs only after the start-up log says that the feature is on",
        ),
        evidence=picked(item for r in refused for item in r.evidence),
        confirm="kernel names in a profile of one step tell which allreduce runs",
        rivals=("the refusal concerns another process group, or the first of two backends",),
    )


RULE = Rule(
    "COM002", "collective-flag-not-in-effect", Severity.WARNING, check, asks="whether the collective flags took effect"
)

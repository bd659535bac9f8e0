"""NCCL ran another protocol or algorithm than NCCL_PROTO or NCCL_ALGO asks for.

What it sees:
TUNING lines ("1026048 Bytes -> Algo 1 proto 2", "AllReduce: 24576 Bytes -> Algo RING proto LL
channel{Lo..Hi}={0..3}") beside the NCCL_PROTO and NCCL_ALGO rows of the workers.

Why it matters:
Simple where LL was meant costs about 68 us per small allreduce on 8 PCIe ranks by NCCL's own model, 6.8 ms per 100: a
setting that was dropped is worth knowing before a week is spent on it.

How sure and why:
High: TUNING lines are the only log source for the protocol in use. Kernel names never tell it: a kernel called
ncclDevKernel_AllReduce_Sum_bf16_RING_LL runs any algorithm and any protocol.

Rivals:
A tuner plugin may overrule the choice. Before NCCL 2.24 a token that NCCL does not know is dropped in silence, and
other functions than allreduce fall back to Ring.

Confirm:
NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING for a few seconds (one line per collective), or the launch shape of
the allreduce kernel in a profile: block 544, 288 or 160 is Simple, 512, 256 or 128 is LL.

Fix:
Set the variable before the first communicator is made, in the spelling NCCL reads: LL, LL128, Simple; Tree, Ring,
CollNetDirect, CollNetChain, NVLS, NVLSTree, PAT.

References:
NVIDIA/nccl #1246 #1595 #2196, documentation PR 2214; NCCL enqueue.cc and tuning.cc, 2.14 to 2.30
"""

from __future__ import annotations

from dataclasses import dataclass

from traceana.facts.model import Facts
from traceana.facts.versions import in_range, parse_version
from traceana.rules._collectives import one_gpu, per_hundred
from traceana.rules._nccl_env import NO_NCCL_LINES, env_rows, value_of
from traceana.rules._text import picked
from traceana.rules._wording import names
from traceana.rules.interface import CannotTell, Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity
from traceana.speculation.floors.nccl_model import simple_instead_of_ll_us

_PROTOCOLS = {"0": "LL", "1": "LL128", "2": "SIMPLE"}
_ALGORITHMS = {
    "0": "TREE",
    "1": "RING",
    "2": "COLLNETDIRECT",
    "3": "COLLNETCHAIN",
    "4": "NVLS",
    "5": "NVLSTREE",
    "6": "PAT",
}
_NO_TUNING = CannotTell(
    "no TUNING line is in the log, so the protocol that ran is not known; kernel names never tell it",
    "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING for a few seconds of decoding (one line per collective)",
)


@dataclass(frozen=True, slots=True)
class _Request:
    """What a variable allows: per function (lower case; "" for all) the tokens, and whether they are excluded."""

    name: str
    value: str
    parts: tuple[tuple[str, frozenset[str], bool], ...]

    def allows(self, collective: str, token: str) -> bool:
        """Whether the variable permits `token` (upper case) for the function; functions it does not name: anything."""
        for function, tokens, excluded in self.parts:
            if function in ("", collective.lower()):
                return (token in tokens) != excluded
        return True


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when a TUNING line shows what NCCL_PROTO or NCCL_ALGO forbids."""
    if one_gpu(facts):
        return NotApplicable("one GPU per replica")
    proto, algo = _request(facts, "NCCL_PROTO", _PROTOCOLS), _request(facts, "NCCL_ALGO", _ALGORITHMS)
    asked = [request for request in (proto, algo) if request is not None]
    if not asked:
        seen = facts.nccl.processes or facts.nccl.protocols
        return NotApplicable("no worker shows NCCL_PROTO or NCCL_ALGO") if seen else NO_NCCL_LINES
    if not facts.nccl.protocols:
        return _NO_TUNING
    differing = _differing(facts, proto, algo)
    setting = names(f"{request.name}={request.value}" for request in asked)
    if differing:
        return _finding(facts, setting, differing)
    return Clear(f"{setting} is what the TUNING lines show; kernel names never tell the protocol")


def _request(facts: Facts, name: str, tokens: dict[str, str]) -> _Request | None:
    value = value_of(facts, name)
    if value is None:
        return None
    parts = tuple(part for text in value.split(";") if (part := _part(text, frozenset(tokens.values()))) is not None)
    return _Request(name, value, parts) if parts else None


def _part(text: str, known: frozenset[str]) -> tuple[str, frozenset[str], bool] | None:
    """One `function:list` or `list`; None when no token is one that NCCL knows."""
    function, _, listed = text.rpartition(":")
    excluded = listed.strip().startswith("^")
    tokens = frozenset(token.strip().upper() for token in listed.strip().lstrip("^").split(",")) & known
    return (function.strip().lower(), tokens, excluded) if tokens else None


def _differing(facts: Facts, proto: _Request | None, algo: _Request | None) -> list[str]:
    """Sentences, one per kind of line that breaks a request."""
    falls_back = in_range(parse_version(facts.identity.nccl_version.value or ""), "<2.24")
    out = []
    for collective, size, algorithm, protocol in facts.nccl.protocols:
        ran_proto = _PROTOCOLS.get(protocol, _plain(protocol))
        ran_algo = _ALGORITHMS.get(algorithm, _plain(algorithm))
        what = f"{collective or 'collective'} of {size:,} bytes"
        if proto is not None and not proto.allows(collective, ran_proto):
            out.append(f"{what}: {ran_proto} under {proto.name}={proto.value}")
        fallback = falls_back and ran_algo == "RING" and collective.lower() != "allreduce"
        if algo is not None and not fallback and not algo.allows(collective, ran_algo):
            out.append(f"{what}: {ran_algo} under {algo.name}={algo.value}")
    return out


def _plain(token: str) -> str:
    return token.upper().replace("_", "").replace("-", "")


def _finding(facts: Facts, setting: str, differing: list[str]) -> Finding:
    rows = (row for row in env_rows(facts) if row.name in ("NCCL_PROTO", "NCCL_ALGO"))
    cost = (
        f" Simple in place of LL costs about {simple_instead_of_ll_us():.0f} us per small allreduce on 8 PCIe ranks, "
        f"{per_hundred((simple_instead_of_ll_us(),))} per 100 (modelled)."
    )
    return Finding(
        code=RULE.code,
        title=f"NCCL does not follow its settings: {differing[0]}",
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
        why=(
            f"{setting} is set in the workers, and {len(differing)} of {len(facts.nccl.protocols)} TUNING lines show "
            f"what it forbids: {names(differing, 3)}.{cost if any('NCCL_PROTO' in line for line in differing) else ''}"
        ),
        fix=(
            "set the variable before the first communicator is made, in every worker, in the spelling NCCL reads",
            "see whether a tuner plugin is loaded (TUNER/Plugin lines, NCCL_TUNER_PLUGIN)",
        ),
        evidence=picked(facts.nccl.protocol_evidence, (row.evidence for row in rows)),
        confirm="NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING: the ENV row and the TUNING lines of the same process",
        rivals=("a tuner plugin overrules the choice", "the variable was set after the communicator was made"),
    )


RULE = Rule(
    "COM005",
    "nccl-protocol-differs-from-request",
    Severity.WARNING,
    check,
    asks="whether NCCL runs the protocol asked for",
)

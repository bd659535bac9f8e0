"""What the ranks say about their collectives, and what NCCL says."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from traceana.facts.events import of_kind, pid_ranks, rank_of, rows
from traceana.facts.locate import Locator
from traceana.facts.model import Evidence, NcclFacts, NcclProcess, PathStatement, Setting, Settings

if TYPE_CHECKING:
    import polars as pl

#: event kind -> (kind of path, state)
_STATEMENTS = {
    "custom_allreduce_off": ("custom_allreduce", "off"),
    "custom_allreduce_failed": ("custom_allreduce", "failed"),
    "custom_allreduce_on": ("custom_allreduce", "on"),
    "custom_allreduce_cutoff": ("custom_allreduce", "info"),
    "symm_mem_off": ("symm_mem", "off"),
    "flashinfer_fusion_on": ("flashinfer_fusion", "on"),
    "flashinfer_fusion_failed": ("flashinfer_fusion", "failed"),
    "fusion_pass_off": ("flashinfer_fusion", "off"),
    "pcie_ipc_on": ("pcie_ipc", "on"),
    "pcie_ipc_failed": ("pcie_ipc", "failed"),
    "nccl_p2p_off": ("p2p", "off"),
    "nccl_algo_forced": ("nccl_algo", "info"),
    "flashinfer_jit": ("flashinfer_jit", "info"),
}
_ALGO = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
_PROTO = ("LL", "LL128", "Simple")
_SLOW_GBPS = 1.0


def statements(events: pl.DataFrame, where: Locator) -> tuple[PathStatement, ...]:
    """One PathStatement per kind, state and reason, with the ranks that said so."""
    ranks = pid_ranks(events)
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in rows(of_kind(events, *_STATEMENTS)):
        kind, state = _STATEMENTS[row["kind"]]
        reason = row["subject"] or row["text"] or ""
        entry = found.setdefault((kind, state, reason), {"ranks": set(), "count": 0, "row": row})
        entry["count"] += row["repeats"] or 1
        rank = rank_of(row, ranks)
        if rank is not None:
            entry["ranks"].add(rank)
    return tuple(
        PathStatement(kind, state, reason, tuple(sorted(e["ranks"])), e["count"], where.at(e["row"]))
        for (kind, state, reason), e in found.items()
    )


_TCP = ("NET", "Socket")


def nccl_facts(events: pl.DataFrame, settings: Settings, where: Locator) -> NcclFacts:
    """NCCL's lines by process."""
    env: dict[int, list[Setting]] = {}
    for setting in settings.of_origin("nccl_env"):
        if setting.pid is not None:
            env.setdefault(setting.pid, []).append(setting)
    seen: dict[int, dict[str, Any]] = {pid: {} for pid in env}
    for row in rows(
        of_kind(
            events,
            "nccl_init_start",
            "nccl_init_complete",
            "nccl_layout",
            "nccl_link",
            "nccl_ring",
            "nccl_coll_channels",
        )
    ):
        if row["pid"] is not None:
            _note(seen.setdefault(row["pid"], {}), row)
    processes = tuple(_process(pid, entry, env.get(pid, []), where) for pid, entry in sorted(seen.items()))
    tuning = list(rows(of_kind(events, "nccl_tuning")))
    sockets = [r for r in rows(of_kind(events, "nccl_link")) if (r["subject"], r["attrs"].get("how")) == _TCP]
    patterns = list(rows(of_kind(events, "nccl_pattern")))
    slow = [r for r in patterns if r["value"] is not None and 0 < r["value"] < _SLOW_GBPS]
    return NcclFacts(
        processes=processes,
        protocols=tuple(dict.fromkeys(_protocol(row["attrs"]) for row in tuning)),
        protocol_evidence=_some(tuning, where),
        p2p_disabled=_some(list(rows(of_kind(events, "nccl_p2p_off"))), where),
        slow_graph=_some(slow, where),
        graph_lines=len(patterns),
        sockets=_some(sockets, where),
        requested=settings.of_origin("launch_env"),
    )


def _some(found: list[dict[str, Any]], where: Locator) -> tuple[Evidence, ...]:
    return tuple(where.at(row) for row in found[:8])


def _note(entry: dict[str, Any], row: dict[str, Any]) -> None:
    attrs = row["attrs"]
    entry.setdefault("row", row)
    entry.setdefault("host", attrs.get("host"))
    if row["kind"] in ("nccl_init_start", "nccl_init_complete", "nccl_layout") and attrs.get("nranks"):
        # a server makes several communicators: the widest is the one that carries tensor parallelism
        if int(attrs["nranks"]) > entry.get("nranks", 0):
            entry["nranks"], entry["rank"] = int(attrs["nranks"]), int(row["value"])
        entry["complete"] = entry.get("complete", False) or row["kind"] == "nccl_init_complete"
    elif row["kind"] == "nccl_link":
        entry.setdefault("via", Counter())[row["subject"]] += row["repeats"] or 1
    elif row["value"] is not None:
        entry["channels"] = int(row["value"])


def _process(pid: int, entry: dict[str, Any], env: list[Setting], where: Locator) -> NcclProcess:
    return NcclProcess(
        pid=pid,
        host=entry.get("host"),
        rank=entry.get("rank"),
        nranks=entry.get("nranks"),
        init_complete=entry.get("complete", False),
        env=tuple(env),
        transports=tuple(entry.get("via", Counter()).most_common()),
        channels=entry.get("channels"),
        evidence=where.at(entry["row"]) if "row" in entry else (env[0].evidence if env else None),
    )


def _protocol(attrs: dict[str, str]) -> tuple[str, int, str, str]:
    """(collective, bytes, algorithm, protocol); older NCCL prints numbers for the last two."""

    def name(text: str, table: tuple[str, ...]) -> str:
        if text.isdigit():
            return table[int(text)] if int(text) < len(table) else text
        return next((known for known in table if known.lower() == text.lower().replace("_", "")), text)

    return (
        attrs.get("coll") or "collective",
        int(attrs["bytes"]),
        name(attrs["algo"], _ALGO),
        name(attrs["proto"], _PROTO),
    )

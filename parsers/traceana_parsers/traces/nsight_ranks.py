"""Which rank each process of an Nsight export is, and how that is known.

In this order: what NCCL wrote into its own ranges; the titles that engines give to their processes and threads; RANK in
the environment of a lone process, or the name of its file; the order of devices, when every process has one of its own.
Else it is not known.
"""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traceana_parsers.traces.nsight_common import BINARY, NVTX, TableStore, pid_of
from traceana_parsers.traces.nsight_environment import launch_number
from traceana_parsers.traces.rank_names import rank_of

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Ranks:
    """Rank by process id; `every`: of all that have none there. `note`: how they were found, where not certain."""

    by_pid: Mapping[int, int] = field(default_factory=dict)
    world_size: int | None = None
    note: str | None = None
    every: int | None = None

    def of(self, pid: int | None) -> int | None:
        """The rank of a process; None when it is not known."""
        return self.every if pid is None else self.by_pid.get(pid, self.every)

    def expr(self) -> pl.Expr:
        """The rank of rows with a column `pid`."""
        import polars as pl

        if not self.by_pid:
            return pl.lit(self.every, pl.Int32).alias("rank")
        known = pl.col("pid").replace_strict(dict(self.by_pid), default=self.every, return_dtype=pl.Int32)
        return known.alias("rank")


def find_ranks(store: TableStore, devices: Mapping[int, frozenset[int]], path: str = "") -> Ranks:
    """Ranks of the processes with GPU work; `devices`: process id -> the GPUs it used; `path`: of the export."""
    world = _world_size(store)
    told = _from_nccl(store)
    if told:
        ranks = {pid: rank for pid, (_, rank) in told.items()}
        return Ranks(ranks, max(size for size, _ in told.values()))
    titled = _from_titles(_titles(store, frozenset(devices)))
    if titled:
        return Ranks(titled, world)
    if len(devices) == 1:
        rank = next((n for name in _RANK_VARIABLES if (n := launch_number(store, name)) is not None), None)
        if rank is None:
            rank, size = rank_of(path)
            world = world or size
            note = None if rank is None else f"rank {rank} is taken from the file name"
            return Ranks(world_size=world, note=note, every=rank)
        return Ranks({next(iter(devices)): rank}, world)
    return _from_devices(store, devices, world)


#: rank of a process in the launcher's words: torchrun, Open MPI, Slurm
_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
_SIZE_VARIABLES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")


def _world_size(store: TableStore) -> int | None:
    return next((n for name in _SIZE_VARIABLES if (n := launch_number(store, name))), None)


# ---- the order of devices ----


def _from_devices(store: TableStore, devices: Mapping[int, frozenset[int]], world: int | None) -> Ranks:
    used = [next(iter(d)) for d in devices.values() if len(d) == 1]
    if len(devices) < 2 or len(set(used)) < len(devices):
        return Ranks({}, world)
    node = _argument(store, "--node-rank") or 0
    order = sorted(devices, key=lambda pid: next(iter(devices[pid])))
    ranks = {pid: node * len(order) + place for place, pid in enumerate(order)}
    return Ranks(ranks, world, "ranks are taken from the order of devices: no process says its own")


def _argument(store: TableStore, flag: str) -> int | None:
    """The number behind a flag of the profiled command."""
    rows = store.rows("META_DATA_CAPTURE", ("name", "value"))
    words = [v for n, v in rows if isinstance(n, str) and ":ARGUMENT_" in n and isinstance(v, str)]
    spelled = (flag, flag.replace("-", "_").replace("__", "--", 1))
    for at, word in enumerate(words):
        name, _, value = word.partition("=")
        if name in spelled:
            value = value or (words[at + 1] if at + 1 < len(words) else "")
            return int(value) if value.isdigit() and len(value) < 7 else None
    return None


# ---- titles ----

#: examples: sglang::scheduler_TP3, sglang::scheduler_DP1_PP0_TP3_EP3, VLLM::Worker_TP2, VLLM::EngineCore_DP1
_TITLE = re.compile(r"(?:sglang::|VLLM::|scheduler|Worker|EngineCore)\w*?(?P<groups>(?:_[A-Z]{1,3}P\d+)+)")
_GROUP = re.compile(r"_([A-Z]+P)(\d+)")
#: VllmWorker-3 (one rank per worker)
_NUMBERED = re.compile(r"\bVllmWorker(?:Process)?-(\d+)$")
_COMM = 15  # characters the kernel keeps of a thread's name: a number at the very end may be cut


def _titles(store: TableStore, pids: frozenset[int]) -> dict[int, set[str]]:
    """Names of the processes and of their threads."""
    found: dict[int, set[str]] = {pid: set() for pid in pids}
    named: list[tuple[int, int]] = []
    for serial, name_id in store.rows("ThreadNames", ("globalTid", "nameId")):
        if isinstance(serial, int) and isinstance(name_id, int) and pid_of(serial) in found:
            named.append((pid_of(serial), name_id))
    texts = store.strings(sorted({name_id for _, name_id in named}))
    for pid, name_id in named:
        found[pid].add(texts.get(name_id, ""))
    for serial, name in store.rows("PROCESSES", ("globalPid", "name")):
        if isinstance(serial, int) and isinstance(name, str) and pid_of(serial) in found:
            found[pid_of(serial)].add(name)
    return found


def _from_titles(titles: Mapping[int, set[str]]) -> dict[int, int]:
    """Ranks by process; a title with several groups counts tensor-parallel ranks fastest, then pipeline, then data."""
    groups: dict[int, dict[str, int]] = {}
    for pid, names in titles.items():
        for name in sorted(names):
            found = _groups(name)
            if found:
                groups[pid] = found
    tensor = {pid: g["TP"] for pid, g in groups.items() if "TP" in g}
    stages = {g.get("PP", 0) for g in groups.values()}
    if len(stages) < 2 and len(set(tensor.values())) == len(groups):
        return tensor  # data parallelism within attention counts inside the tensor-parallel group
    width = {kind: 1 + max((g.get(kind, 0) for g in groups.values()), default=0) for kind in ("TP", "PP")}
    ranks = {
        pid: (g.get("DP", 0) * width["PP"] + g.get("PP", 0)) * width["TP"] + g.get("TP", 0) for pid, g in groups.items()
    }
    return ranks if len(set(ranks.values())) == len(ranks) else {}


def _groups(name: str) -> dict[str, int]:
    numbered = _NUMBERED.search(name)
    if numbered and len(name) != _COMM:
        return {"TP": int(numbered[1])}
    match = _TITLE.search(name)
    if not match or (len(name) == _COMM and match.end() == _COMM):
        return {}
    return {kind: int(number) for kind, number in _GROUP.findall(match["groups"])}


# ---- NCCL's own ranges ----

_HEADER = struct.Struct("<4Q")  # domain, schema, size, offset
_HEX = re.compile(rb"(?:[0-9A-Fa-f]{2})+")
_WIDTH = {5: "<i", 18: "<Q", 22: "<Q"}  # NVTX payload entry types: int, uint64, size


def _from_nccl(store: TableStore) -> dict[int, tuple[int, int]]:
    """(ranks, rank) of each process in its widest communicator, from the payload of ncclCommInitRank ranges.

    Payloads are in an export made with --include-blobs=true or --include-json=true only.
    """
    entries = _payload_entries(store)
    if not entries or not {BINARY, "jsonText"} & store.columns(NVTX):
        return {}
    widest: dict[int, tuple[int, int]] = {}
    domains = sorted({domain for domain, _ in entries})
    for frame in store.batches(NVTX, ("globalTid", "domainId"), ("jsonText", BINARY), only=("domainId", domains)):
        for serial, domain, as_json, binary in frame.filter(_has_payload(frame)).iter_rows():
            found = _from_json(as_json) or _from_binary(binary, domain, entries)
            if found and serial is not None and found > widest.get(pid_of(serial), (0, 0)):
                widest[pid_of(serial)] = found
    ranks = Counter(rank for _, rank in widest.values())
    return widest if widest and max(ranks.values()) == 1 else {}


def _has_payload(frame: pl.DataFrame) -> pl.Series:
    import polars as pl

    said = pl.col("jsonText").str.contains('"No. of ranks"', literal=True)
    return frame.select((said | pl.col(BINARY).is_not_null()).fill_null(False).alias("p"))["p"]


def _payload_entries(store: TableStore) -> dict[tuple[int, int], dict[str, tuple[int, str]]]:
    """(domain, schema) -> entry name -> (offset, format), of payloads that carry a rank."""
    found: dict[tuple[int, int], dict[str, tuple[int, str]]] = {}
    columns = ("domainId", "schemaId", "name", "type", "offset")
    for domain, schema, name, kind, offset in store.rows("NVTX_PAYLOAD_SCHEMA_ENTRIES", columns):
        if isinstance(domain, int) and isinstance(schema, int) and isinstance(kind, int) and kind in _WIDTH:
            found.setdefault((domain, schema), {})[str(name)] = (offset if isinstance(offset, int) else 0, _WIDTH[kind])
    return {key: entry for key, entry in found.items() if {"Rank", "No. of ranks"} <= set(entry)}


def _from_json(text: str | None) -> tuple[int, int] | None:
    try:
        payload = json.loads(text or "null")
    except ValueError:
        return None
    if not isinstance(payload, dict):
        return None
    return _sane(payload.get("No. of ranks"), payload.get("Rank"))


def _from_binary(
    text: str | None, domain: int | None, entries: Mapping[tuple[int, int], Mapping[str, tuple[int, str]]]
) -> tuple[int, int] | None:
    """From the 32-byte header and the payload behind it."""
    try:
        data = bytes.fromhex(text or "")
        if _HEX.fullmatch(data):  # stored as text
            data = bytes.fromhex(data.decode())
        _, schema, size, _ = _HEADER.unpack_from(data)
        entry = entries[(domain or 0, schema)]
        payload = data[_HEADER.size : _HEADER.size + size]
        values = [struct.unpack_from(entry[n][1], payload, entry[n][0])[0] for n in ("No. of ranks", "Rank")]
    except (ValueError, struct.error, KeyError):
        return None
    return _sane(*values)


def _sane(size: object, rank: object) -> tuple[int, int] | None:
    if isinstance(size, int) and isinstance(rank, int) and 0 <= rank < size < 1 << 20:
        return size, rank
    return None


def payload_domains(store: TableStore) -> frozenset[int]:
    """NVTX domains whose payloads are NCCL's (a cut capture lacks the event that names the domain)."""
    rows: Sequence[tuple[object, ...]] = store.rows("NVTX_PAYLOAD_SCHEMA_ENTRIES", ("domainId", "name"))
    return frozenset(d for d, name in rows if isinstance(d, int) and name == "NCCL communicator ID")

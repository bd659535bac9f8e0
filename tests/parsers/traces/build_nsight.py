"""Builds synthetic Nsight Systems exports of every schema era, in SQLite or as a folder of Parquet or Arrow files.

Columns as documented and as nsys 2022.4 to 2026.2 wrote them; a table is created when it has rows, as nsys does.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

ERAS = ("2022.4", "2023.4", "2025.1", "2026.2")
PRODUCT = {"2022.4": "2022.4.2.1", "2023.4": "2023.4.4.54", "2025.1": "2025.1.3.140", "2026.2": "2026.2.1.210"}
SCHEMA = {"2023.4": "3.7.2", "2025.1": "3.17.2", "2026.2": "3.25.0"}
START_NS = 1_767_225_600_000_000_000  # 2026-01-01 00:00:00 UTC, the session start
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
GEMM = "nvjet_tst_64x8_64x16_1x4_h_bz_splitK_TNT"
ATTENTION = "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, (unsigned int)2>(T1)"

#: columns of each table: `!` NOT NULL, `:T` TEXT, `:R` REAL, `@era` since when (`-era`: until then)
TABLES = {
    "StringIds": "id! value!:T",
    "EXPORT_META_DATA": "name!:T value:T",
    "META_DATA_EXPORT": "name!:T value:T",
    "META_DATA_CAPTURE": "name!:T value:T",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime:T localTime:T systemClockNs@2026.2",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName!:T name!:T nameEnum! value!:T",
    "TARGET_INFO_GPU": "vmId! id! name:T busLocation:T smCount uuid:T computeMajor computeMinor",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId! pid! uuid:T@2026.2 numMultiprocessors@2026.2",
    "ENUM_CUDA_MEMCPY_OPER": "id! name:T label:T",
    "PROCESSES": "globalPid pid name:T",
    "ThreadNames": "nameId! priority globalTid",
    "ProcessStreams": "globalPid! filenameId! contentId!",
    "DIAGNOSTIC_EVENT": "timestamp! timestampType! source! severity! text!:T globalPid",
    "PROFILER_OVERHEAD": "start! end! globalTid nameId! returnValue!-2025.1 overheadType!@2026.2",
    "NVTX_EVENTS": "start! end eventType! rangeId category color text:T globalTid endGlobalTid textId domainId "
    "uint64Value int64Value doubleValue:R uint32Value int32Value floatValue:R jsonTextId jsonText:T binaryData:T@2025.1",
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": "domainId! schemaId! idx! flags type name:T description:T arrayOrUnionDetail offset",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start! end! deviceId! contextId! greenContextId@2023.4 streamId! correlationId globalPid "
    "demangledName! shortName! mangledName launchType cacheConfig registersPerThread! gridX! gridY! gridZ! blockX! blockY! "
    "blockZ! staticSharedMemory! dynamicSharedMemory! localMemoryPerThread! localMemoryTotal! gridId! sharedMemoryExecuted "
    "graphNodeId sharedMemoryLimitConfig qmdBulkReleaseDone@2026.2 qmdPreexitDone@2026.2 qmdLastCtaDone@2026.2 "
    "graphId@2026.2 clusterX@2026.2 clusterY@2026.2 clusterZ@2026.2 tensorSizeMinusOneElements!:T@2026.2",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start! end! eventClass! globalTid correlationId nameId! returnValue! callchainId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start! end! deviceId! contextId! greenContextId@2023.4 streamId! correlationId globalPid "
    "bytes! copyKind! deprecatedSrcId srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId migrationCause "
    "graphNodeId virtualAddress copyCount@2026.2",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start! end! deviceId! contextId! greenContextId@2023.4 streamId! correlationId globalPid "
    "value! bytes! graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start end deviceId contextId greenContextId streamId correlationId globalPid "
    "graphId graphExecId",
}
_COLUMN = re.compile(r"(\w+)(!?)(?::([TR]))?(?:@([\d.]+))?(?:-([\d.]+))?")
_SQL = {"T": "TEXT", "R": "REAL", "": "INTEGER"}
_COPY_KINDS = {0: "UNKNOWN", 1: "HTOD", 2: "DTOH", 8: "DTOD", 9: "HTOH", 10: "PTOP", 11: "UVM_HTOD"}


def columns_of(table: str, era: str) -> list[tuple[str, bool, str]]:
    """(name, NOT NULL, T, R or nothing) of a table's columns in an era."""
    found = [match.groups() for match in map(_COLUMN.fullmatch, TABLES[table].split()) if match]
    return [
        (name, bool(needed), kind or "")
        for name, needed, kind, since, until in found
        if (since is None or era >= since) and (until is None or era <= until)
    ]


def serial(pid: int, tid: int = 0, vm: int = 1, hw: int = 0) -> int:
    """A globalPid (tid 0) or globalTid, signed as SQLite has it."""
    made = hw << 56 | vm << 48 | pid << 24 | tid
    return made - (1 << 64) if made >= 1 << 63 else made


class Export:
    """An export under construction; times in ns after the session start."""

    def __init__(self, era: str = "2026.2", utc: int | None = START_NS, mode: str | None = None) -> None:
        self.era = era
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self._strings: dict[str | bytes, int] = {}
        if utc is not None:
            self.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=utc, utcTime="2026-01-01T00:00:00")
        self.meta("EXPORT_PRODUCT_VERSION", PRODUCT[era])
        if era in SCHEMA:
            self.meta("EXPORT_SCHEMA_VERSION", SCHEMA[era])
        if mode and era != "2022.4":
            prefix = "PROCESS_0:" if era < "2026" else ""
            self.capture(f"{prefix}CUDA_GRAPH_TRACE_OPTIONS:MODE", mode)

    def add(self, table: str, **values: Any) -> None:
        """One row, as it is; columns that the era does not have are dropped when it is written."""
        self.rows.setdefault(table, []).append(values)

    def meta(self, name: str, value: str) -> None:
        self.add("EXPORT_META_DATA" if self.era == "2022.4" else "META_DATA_EXPORT", name=name, value=value)

    def capture(self, name: str, value: str) -> None:
        self.add("META_DATA_CAPTURE", name=name, value=value)

    def string(self, text: str | bytes) -> int:
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 3
            self.add("StringIds", id=self._strings[text], value=text)
        return self._strings[text]

    def kernel(self, pid: int, name: str, start: int, end: int, correlation: int, **more: Any) -> None:
        values = {
            "deviceId": 0, "contextId": 1, "streamId": 7, "gridX": 8, "gridY": 1, "gridZ": 1, "blockX": 512, "blockY": 1,
            "blockZ": 1, "globalPid": serial(pid), "demangledName": self.string(name),
            "shortName": self.string(re.split(r"[<(]", name)[0].rsplit(" ", 1)[-1]), **more,
        }  # fmt: skip
        self.add("CUPTI_ACTIVITY_KIND_KERNEL", start=start, end=end, correlationId=correlation, **values)

    def launch(
        self, pid: int, start: int, end: int, correlation: int, name: str = "cudaLaunchKernel_v7000", **more: Any
    ) -> None:
        values = {"globalTid": serial(pid, pid), "nameId": self.string(name), **more}
        self.add("CUPTI_ACTIVITY_KIND_RUNTIME", start=start, end=end, correlationId=correlation, **values)

    def nvtx(
        self, pid: int, name: str | None, start: int, end: int | None, registered: bool = False, **more: Any
    ) -> None:
        """A push/pop range (eventType 59) unless `more` says otherwise."""
        named = {"textId": self.string(name)} if registered and name is not None else {"text": name}
        values = {"eventType": 59, "domainId": 0, "globalTid": serial(pid, pid), **named, **more}
        self.add("NVTX_EVENTS", start=start, end=end, **values)

    def domain(self, pid: int, number: int, name: str) -> None:
        self.nvtx(pid, name, 1, None, eventType=75, domainId=number)

    def copy(self, pid: int, start: int, end: int, correlation: int, kind: int, size: int, **more: Any) -> None:
        values = {"deviceId": 0, "streamId": 7, "globalPid": serial(pid), "copyKind": kind, "bytes": size, **more}
        self.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=start, end=end, correlationId=correlation, **values)

    def fill(self, pid: int, start: int, end: int, correlation: int, size: int, **more: Any) -> None:
        values = {"deviceId": 0, "streamId": 7, "globalPid": serial(pid), "bytes": size, **more}
        self.add("CUPTI_ACTIVITY_KIND_MEMSET", start=start, end=end, correlationId=correlation, **values)

    def replay(self, pid: int, start: int, end: int, correlation: int, graph: int = 1, **more: Any) -> None:
        """A graph replay traced as a whole."""
        values = {"deviceId": 0, "streamId": 7, "globalPid": serial(pid), "graphId": graph, **more}
        self.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=start, end=end, correlationId=correlation, **values)

    def title(self, pid: int, name: str, tid: int | None = None) -> None:
        """The name of a thread, of the main one unless said."""
        self.add("ThreadNames", nameId=self.string(name), globalTid=serial(pid, pid if tid is None else tid))

    def gpus(self, *names: str) -> None:
        for number, name in enumerate(names):
            self.add("TARGET_INFO_GPU", vmId=1 << 48, id=number, name=name)

    def output(self, pid: int, name: str, content: str | bytes) -> None:
        """A file that nsys kept: captured output, its configuration, an environment."""
        self.add("ProcessStreams", globalPid=serial(pid), filenameId=self.string(name), contentId=self.string(content))

    def host(self, name: str, value: str) -> None:
        self.add("TARGET_INFO_SYSTEM_ENV", globalVid=1 << 48, devStateName="Local (CLI)", name=name, value=value)

    def enums(self) -> None:
        for number, word in _COPY_KINDS.items():
            self.add("ENUM_CUDA_MEMCPY_OPER", id=number, name=f"CUDA_MEMCPY_KIND_{word}", label=word)

    # ---- writing ----

    def _table(self, table: str) -> tuple[list[tuple[str, bool, str]], list[list[Any]]]:
        columns = columns_of(table, self.era)
        missing = {"T": "", "R": 0.0, "": 0}
        rows = [
            [
                row[name] if row.get(name) is not None else (missing[kind] if needed else None)
                for name, needed, kind in columns
            ]
            for row in self.rows[table]
        ]
        return columns, rows

    def write(self, path: Path, *, empty: tuple[str, ...] = (), journal: str = "delete") -> Path:
        """Writes SQLite; `empty` tables are created without rows (`nsys export --lazy=false`)."""
        db = sqlite3.connect(path)
        db.execute(f"PRAGMA journal_mode = {journal}")
        for table in [*self.rows, *empty]:
            columns, rows = self._table(table) if table in self.rows else (columns_of(table, self.era), [])
            defined = [
                f'"{name}" {_SQL[kind]}{" NOT NULL" if needed else ""}{" PRIMARY KEY" if (table, name) == ("StringIds", "id") else ""}'
                for name, needed, kind in columns
            ]
            db.execute(f"CREATE TABLE {table} ({', '.join(defined)})")
            values = [
                [v.decode("latin-1") if isinstance(v, bytes) and table == "StringIds" else v for v in row]
                for row in rows
            ]
            db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", values)
        db.commit()
        db.close()
        return path

    def write_folder(self, folder: Path, suffix: str = ".parquet") -> Path:
        """Writes one Parquet or Arrow file per table, with the types of nsys: ids unsigned, some of 32 bits."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        folder.mkdir()
        for table in self.rows:
            columns, rows = self._table(table)
            arrays = {
                name: pa.array([_unsigned(name, row[i]) for row in rows], _arrow_type(name, kind, suffix))
                for i, (name, _, kind) in enumerate(columns)
            }
            made = pa.table(arrays)
            if suffix == ".parquet":
                pq.write_table(made, folder / f"{table}.parquet", compression="none")
            else:
                with (
                    pa.OSFile(str(folder / f"{table}.arrow"), "wb") as out,
                    pa.ipc.new_stream(out, made.schema) as writer,
                ):
                    writer.write_table(made)
        return folder


_WIDE = ("globalTid", "globalPid", "endGlobalTid", "domainId", "nameId", "utcEpochNs", "graphNodeId")
_NARROW = ("eventType", "textId", "eventClass", "deviceId", "copyKind")


def _arrow_type(name: str, kind: str, suffix: str) -> Any:
    import pyarrow as pa

    if kind:
        return pa.string() if kind == "T" else pa.float64()
    if name in _WIDE:
        return pa.uint64()
    if name == "id":
        return pa.int32()
    return pa.uint32() if name in _NARROW and suffix == ".arrow" else pa.int64()


def _unsigned(name: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value + (1 << 64) if name in _WIDE and isinstance(value, int) and value < 0 else value


def server(era: str = "2026.2", mode: str = "node", ranks: int = 2, cycles: int = 3) -> Export:
    """A speculative server: per rank a process of its own GPU; a cycle is draft (kernels) and verify (a graph replay).

    Per rank and cycle: 2 draft kernels, a copy, a fill and one graph of GEMM, attention and allreduce; ranges cycle,
    draft, verify in the domain `traceana` and one range per layer of NVTX' default domain. `mode`: node (kernels of
    the graph), graph (the replay as a whole; nothing until 2023.4), none (the verify launched kernel by kernel).
    Correlation ids are the same in every process.
    """
    export = Export(era, mode={"node": "Node", "graph": "Graph"}.get(mode))
    export.host("Hostname", "node7")
    export.gpus(*["Invented GPU 96GB"] * ranks)
    export.enums()
    for rank in range(ranks):
        pid = 4000 + rank
        device = {"deviceId": rank}
        export.title(pid, f"sglang::scheduler_TP{rank}")
        export.domain(pid, 1, "traceana")
        for cycle in range(cycles):
            at, ids = 1_000_000 + cycle * 30_000_000 + rank * 500, iter(range(1 + cycle * 20, 21 + cycle * 20))
            export.nvtx(pid, "cycle", at, at + 29_000_000, registered=True, domainId=1)
            export.nvtx(pid, "draft", at + 1_000, at + 5_000_000, registered=True, domainId=1)
            for step in range(2):
                start, launch = at + 10_000 + step * 900_000, next(ids)
                export.launch(pid, start, start + 4_000, launch)
                export.kernel(pid, GEMM, start + 10_000, start + 600_000, launch, **device)
            launch = next(ids)
            export.launch(pid, at + 4_000_000, at + 4_002_000, launch, "cudaMemcpyAsync_v3020")
            export.copy(pid, at + 4_010_000, at + 4_012_000, launch, 1, 4096, **device)
            launch = next(ids)
            export.launch(pid, at + 4_100_000, at + 4_102_000, launch, "cudaMemsetAsync_v3020")
            export.fill(pid, at + 4_110_000, at + 4_111_000, launch, 512, **device)
            verify = at + 5_100_000
            export.nvtx(pid, "verify", verify, verify + 22_000_000, registered=True, domainId=1)
            export.nvtx(pid, "model.layers.0", verify + 10_000, verify + 900_000)
            launch = next(ids)
            if mode != "none":
                export.launch(pid, verify + 20_000, verify + 60_000, launch, "cudaGraphLaunch_v10000")
            for node, (name, grid) in enumerate(((GEMM, 132), (ATTENTION, 64), (ALL_REDUCE, 2))):
                start = verify + 100_000 + node * 5_000_000
                if mode == "none":
                    launch = next(ids)
                    export.launch(pid, start - 50_000, start - 46_000, launch, "cuLaunchKernelEx")
                if mode != "graph":
                    inside = {"graphNodeId": 700 + node, "graphId": 9} if mode == "node" else {}
                    export.kernel(pid, name, start, start + 4_000_000, launch, gridX=grid, **inside, **device)
            if mode == "graph" and era >= "2025.1":
                export.replay(pid, verify + 100_000, verify + 15_000_000, launch, 9, **device)
    return export

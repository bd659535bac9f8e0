"""Damaged and absurd traces through the program: one line each, what is missing and how to capture it, inputs untouched."""

from __future__ import annotations

import gzip
import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile.cli import Said, refused, traceana
from tests.hostile.test_bombs import BOUND, measured
from tests.parsers.traces.build_nsight import GEMM, Export, serial, server
from tests.parsers.traces.test_nsight_stats import ROWS, SUM_2023, TRACE, TRACE_ROWS

LAST = (1 << 63) - 1


def state(folder: Path) -> dict[str, str]:
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()}


def both(path: Path) -> list[Said]:
    """What `diagnose` and `ledger` say of a path; the input stays as it is and nothing appears beside it."""
    folder = path.parent
    before = state(folder)
    said = [traceana("diagnose", path), traceana("ledger", path)]
    assert state(folder) == before
    return said


# ---- what cannot be used: exit code 2 and one line ----


def empty_export(folder: Path) -> Path:
    return Export().write(folder / "rep.sqlite", empty=("CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS"))


def another_database(folder: Path) -> Path:
    db = sqlite3.connect(folder / "rep.sqlite")
    db.execute("CREATE TABLE t (a)")
    db.commit()
    db.close()
    return folder / "rep.sqlite"


def without_tables(folder: Path) -> Path:
    return Export().write_folder(folder / "rep_pqtdir")


def text(name: str, content: str | bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


UNUSABLE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "an export without CUDA tables": (
        empty_export,
        "without GPU work, CUDA calls or ranges; capture with: nsys profile",
    ),
    "another program's database": (another_database, "no Nsight Systems export"),
    "a folder of tables without events": (without_tables, "without GPU work, CUDA calls or ranges; capture with: nsys"),
    "an export cut to its first page": (text("rep.sqlite", b"SQLite format 3\0" + b"\0" * 4000), "SQLite"),
    "an empty report": (
        text("rep_cuda_gpu_kern_sum.csv", ""),
        "0 bytes: nsys stats writes an empty file when the capture",
    ),
    "a report that was skipped": (
        text("stats.txt", "SKIPPED: rep.sqlite does not contain CUDA kernel data.\n"),
        "nsys stats skipped the report: rep.sqlite does not contain CUDA kernel data.",
    ),
    "a header alone": (text("rep_cuda_gpu_kern_sum.csv", SUM_2023 + "\n"), "the capture has no such data (was -t cuda"),
    "figures that are none": (
        text("rep_cuda_gpu_kern_sum.csv", f"{SUM_2023}\n1,x,y,,,,,,k\n1,{1 << 70},1,,,,,,k\n1,-5,1,,,,,,k\n"),
        "no row of the kernel summary has its figures",
    ),
    "UTF-16": (
        text("rep_cuda_gpu_kern_sum.csv", f"{SUM_2023}\n{ROWS}".encode("utf-16")),
        "UTF-16 text; convert it first",
    ),
    "a report of nsys": (
        text("rep.nsys-rep", b"\x01\x02not documented"),
        "no nsys on PATH to open it; run: nsys export",
    ),
    "an export as JSON": (
        text("rep.json", '{"data":["HF_TOKEN=x","NCCL_PROTO=LL"]}\n{"Type":75}\n'),
        "an Nsight Systems export as JSON, which is not read; of an Nsight report give: nsys export --type sqlite",
    ),
    "an export as HDF5": (text("rep.h5", b"\x89HDF\r\n\x1a\n"), "nsys export --type sqlite"),
    "an export as one Arrow file": (text("rep.arrows", b"\xff\xff\xff\xff\0\0"), "nsys export --type sqlite"),
    "a truncated table": (text("nvtx_gpu_proj_trace__trace.parquet", b"PAR1\0\0"), "Parquet"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_what_cannot_be_used_is_one_line(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build, words = UNUSABLE[case]
    folder = tmp_path / "in"
    folder.mkdir()
    path = build(folder)
    monkeypatch.setenv("PATH", "")
    for said in both(path):
        refused(said, str(path), words)
    refused(traceana("ingest", path, "--out", tmp_path / "store"), words)
    assert not (tmp_path / "store").exists()


def test_a_wrong_header_is_shown_for_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "rep_cuda_gpu_kern_sum.csv"
    path.write_text(f"{SUM_2023.replace('Instances', 'Anzahl')}\n{ROWS}")
    refused(traceana("ledger", path), str(path), "none of its")


# ---- what can be used in part ----


def locked(folder: Path) -> tuple[Path, str]:
    path = server().write(folder / "rep.sqlite", journal="wal")
    path.chmod(0o400)
    folder.chmod(0o500)
    return path, ""


def corrupt_page(folder: Path) -> tuple[Path, str]:
    path = server(ranks=2, cycles=200).write(folder / "rep.sqlite")
    db = sqlite3.connect(path)
    (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_MEMCPY'").fetchone()
    db.close()
    data = bytearray(path.read_bytes())
    data[(root - 1) * 4096 : root * 4096] = b"\xff" * 4096
    path.write_bytes(data)
    return path, "CUPTI_ACTIVITY_KIND_MEMCPY breaks off: SQLite: database disk image is malformed"


def absurd(folder: Path) -> tuple[Path, str]:
    """Times at the ends of int64, ends before starts, names of 100 kB, ids that two processes share."""
    export = server()
    for pid in (4000, 4001):
        export.kernel(pid, "k" * 100_000, 10, 20, 1)
        export.kernel(pid, GEMM, LAST - 5, LAST, 2)
        export.kernel(pid, GEMM, -LAST, 7, 2)
        export.kernel(pid, GEMM, 90, 80, 3, deviceId=1 << 40)
        export.launch(pid, LAST, -LAST, 3)
    export.nvtx(4000, "\x1b[31m\0" + "r" * 100_000, LAST, LAST)
    export.add("CUPTI_ACTIVITY_KIND_KERNEL", start=1, end=2, deviceId=0, streamId=7, correlationId=LAST, globalPid=LAST)
    export.add("CUPTI_ACTIVITY_KIND_MEMSET", start=1, end=2, deviceId=0, streamId=7, bytes=LAST, globalPid=serial(4000))
    return export.write(folder / "rep.sqlite"), ""


def missing_table(folder: Path) -> tuple[Path, str]:
    path = server().write_folder(folder / "rep_pqtdir")
    (path / "CUPTI_ACTIVITY_KIND_RUNTIME.parquet").unlink()
    return path, ""


def truncated_table(folder: Path) -> tuple[Path, str]:
    path = server().write_folder(folder / "rep_pqtdir")
    table = path / "NVTX_EVENTS.parquet"
    table.write_bytes(table.read_bytes()[:-20])
    return path, "NVTX_EVENTS.parquet cannot be read"


def reports_and_a_broken_one(folder: Path) -> tuple[Path, str]:
    (folder / "rep_cuda_gpu_trace.csv").write_text(f"{TRACE}\n{TRACE_ROWS}9{'9' * 30},5,1\n,,\n")
    (folder / "rep_cuda_api_trace.csv").write_text("")
    return folder, "0 bytes: nsys stats writes an empty file"


PARTIAL = (locked, corrupt_page, absurd, missing_table, truncated_table, reports_and_a_broken_one)


@pytest.mark.parametrize("build", PARTIAL)
def test_what_can_be_read_is_read_and_the_rest_is_named(
    build: Callable[[Path], tuple[Path, str]], tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path, words = build(folder)
    try:
        for said in both(path):
            assert said.code == 0, said.err
        document = traceana("diagnose", path, "--format", "json").json
    finally:
        folder.chmod(0o700)
    problems = " | ".join(entry["problem"] or "" for entry in document["inputs"])
    assert words in problems, problems
    assert all(len(entry["problem"] or "") < 500 for entry in document["inputs"])
    assert "k" * 5_000 not in str(document)


def test_a_locked_export_is_read(tmp_path: Path) -> None:
    path = server().write(tmp_path / "rep.sqlite")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        assert traceana("ledger", path).code == 0
    finally:
        holder.execute("ROLLBACK")
        holder.close()


# ---- bombs ----


def bomb(path: Path, head: bytes, piece: bytes, size: int = 300 << 20) -> Path:
    member = gzip.compress(piece * ((4 << 20) // len(piece)), compresslevel=6)
    path.write_bytes(gzip.compress(head) + member * (size >> 22))
    return path


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("kind", ["sums", "one endless name"])
def test_a_bomb_of_nsys_stats_is_read_in_bounded_memory(kind: str, tmp_path: Path) -> None:
    row = b"60.0,6000,3,2000.0,1900.0,1500,2600,556.8,kernel_of_a_name_that_is_always_the_same\n"
    piece = row if kind == "sums" else b"k"
    path = bomb(tmp_path / "rep_cuda_gpu_kern_sum.csv.gz", SUM_2023.encode() + b"\n", piece, 150 << 20)
    done, code, kib = measured("ledger", path, timeout=120)
    assert code == (0 if kind == "sums" else 2), done.stderr
    assert kib < BOUND


def test_a_compressed_export_that_never_ends_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traceana_parsers.traces.nsight_sqlite._SMALL", 1 << 20)
    path = bomb(tmp_path / "rep.sqlite.gz", b"SQLite format 3\0", b"\0", 100 << 20)
    refused(traceana("ledger", path), str(path), "it grows to more than 100 times its size")


# ---- secrets ----

TOKEN = "hf_QmFkSW52ZW50ZWRUb2tlbjEyMzQ1"  # invented


def test_no_secret_of_an_export_leaves_it(tmp_path: Path) -> None:
    """Planted in every place that holds an environment, and in a log; the settings beside it are read."""
    export = server()
    export.capture("PROCESS_0:ENVIRONMENT_VARIABLE", f'HF_TOKEN="{TOKEN}"')
    export.capture("PROCESS_0:ENVIRONMENT_VARIABLE", f'VLLM_API_KEY="{TOKEN}"')
    export.capture("PROCESS_0:ENVIRONMENT_VARIABLE", 'NCCL_P2P_LEVEL="SYS"')
    export.capture("PROCESS_0:ARGUMENT_1", f"--api-key={TOKEN}")
    export.host("DeviceEnvironment", f"PATH=/bin;HF_TOKEN={TOKEN};NCCL_ALGO=Ring")
    export.string(f"NCCL_PROTO=LL\0HF_TOKEN={TOKEN}\0")
    log = (
        f"export NCCL_NTHREADS=512 HF_TOKEN={TOKEN}\n"
        f"[2026-01-01 00:00:00] server_args=ServerArgs(model_path='m', api_key='{TOKEN}', tp_size=2)\n"
        f"Traceback (most recent call last):\nRuntimeError: Authorization: Bearer {TOKEN}\n"
    )
    export.output(4000, "pid_4000_stderr.log", log)
    path = export.write(tmp_path / "rep.sqlite")
    for form in ("terminal", "markdown", "json"):
        said = traceana("diagnose", path, "--format", form, "--redact")
        assert said.code == 0 and TOKEN not in said.out + said.err
    assert TOKEN not in traceana("ledger", path).out
    said = traceana("ingest", path, "--out", tmp_path / "store")
    assert TOKEN not in said.out + said.err
    from traceana import api

    with api.load([str(path)]) as loaded:
        settings = loaded.tables.frame("settings")
    assert TOKEN not in settings.filter(settings["origin"] == "launch_env").write_json()
    found = set(settings.select("name", "value").rows())
    assert {("NCCL_P2P_LEVEL", "SYS"), ("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "LL"), ("NCCL_NTHREADS", "512")} <= found
    (inside,) = [p for p in loaded.tables.frame("inputs")["path"] if "stderr" in p]
    assert inside == f"{path}:pid_4000_stderr.log"

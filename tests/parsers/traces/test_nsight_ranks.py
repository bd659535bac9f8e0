"""Which rank a process of an Nsight export is: what the export says, in the order it is believed."""

import json
import struct
from pathlib import Path

import polars as pl
import pytest

from tests.parsers.traces.build_nsight import GEMM, Export, serial
from tests.parsers.traces.nsight_reading import Tables, notes, read_export

SCHEMA = 16_777_216 + 11  # ncclCommInitRankConfig


def with_processes(*pids: int, devices: tuple[int, ...] | None = None) -> Export:
    export = Export()
    for number, pid in enumerate(pids):
        export.kernel(pid, GEMM, 10, 20, 1, deviceId=devices[number] if devices else number)
    return export


def ranks(export: Export, folder: Path) -> tuple[dict[int, int | None], Tables]:
    tables, report = read_export(export.write(folder / "rep.sqlite"))
    assert report.problem is None
    found = dict(tables["traces"].select("pid", "rank").rows())
    assert dict(tables["kernels"].select("pid", "rank").rows()) == {p: found[p] for p in found}
    return found, tables


def entries(export: Export) -> None:
    for number, (name, kind, offset) in enumerate(
        (("NCCL communicator ID", 18, None), ("No. of ranks", 5, 8), ("Rank", 5, 12), ("CUDA device", 5, 16))
    ):
        export.add(
            "NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=1, schemaId=SCHEMA, idx=number, type=kind, name=name, offset=offset
        )


@pytest.mark.parametrize(
    ("titles", "expected"),
    [
        (("sglang::scheduler_TP1", "sglang::scheduler_TP0"), (1, 0)),
        (("sglang::scheduler_DP0_TP0_EP0", "sglang::scheduler_DP1_TP1_EP1"), (0, 1)),  # attention DP: TP says it all
        (("sglang::scheduler_DP0_TP0", "sglang::scheduler_DP1_TP0"), (0, 1)),
        (("sglang::scheduler_PP1_TP0", "sglang::scheduler_PP0_TP1"), (2, 1)),
        (("VLLM::Worker_TP0", "VLLM::Worker_TP1"), (0, 1)),
        (("VLLM::EngineCore_DP1", "VLLM::EngineCore_DP0"), (1, 0)),
        (("VllmWorker-3", "VllmWorker-2"), (3, 2)),
        # the kernel keeps 15 characters of a thread's name: the number may be cut
        (("VLLM::Worker_TP", "VLLM::Worker_TP"), (0, 1)),
        (("sglang::sch_TP1", "python3"), (0, 1)),
        # two processes with one title: no rank of theirs can be told
        (("sglang::scheduler_TP0", "sglang::scheduler_TP0"), (0, 1)),
    ],
)
def test_titles_of_engines_tell_the_rank(titles: tuple[str, str], expected: tuple[int, int], tmp_path: Path) -> None:
    export = with_processes(700, 701)
    for pid, title in zip((700, 701), titles, strict=True):
        export.title(pid, title)
        export.title(pid, "pt_autograd_0", pid + 50)
    found, tables = ranks(export, tmp_path)
    assert found == {700: expected[0], 701: expected[1]}
    by_device = any("order of devices" in note for note in notes(tables))
    assert by_device is (titles[0] == titles[1] or "python3" in titles)


def test_the_name_of_the_process_tells_the_rank_too(tmp_path: Path) -> None:
    export = with_processes(700)
    export.add("PROCESSES", globalPid=serial(700), pid=700, name="VLLM::Worker_TP3_EP3")
    assert ranks(export, tmp_path)[0] == {700: 3}


@pytest.mark.parametrize("form", ["blob", "text", "json"])
def test_nccls_own_payloads_are_believed_first(form: str, tmp_path: Path) -> None:
    export = with_processes(700, 701)
    entries(export)
    for pid, rank in ((700, 5), (701, 6)):
        export.title(pid, f"sglang::scheduler_TP{pid - 700}")
        for size, own in ((2, pid - 700), (8, rank)):  # the widest communicator decides
            payload = struct.pack("<Qiiixxxx", 99, size, own, 0)
            data = struct.pack("<4Q", 1, SCHEMA, len(payload), 0) + payload
            more = {
                "blob": {"binaryData": data},
                "text": {"binaryData": data.hex()},
                "json": {"jsonText": json.dumps({"No. of ranks": size, "Rank": own, "CUDA device": 0})},
            }[form]
            export.nvtx(pid, "ncclCommInitRankConfig", 1, 2, registered=True, domainId=1, **more)
    found, tables = ranks(export, tmp_path)
    assert found == {700: 5, 701: 6}
    assert tables["traces"]["world_size"].to_list() == [8, 8]


def test_payloads_that_are_garbage_tell_nothing(tmp_path: Path) -> None:
    export = with_processes(700)
    entries(export)
    for more in ({"binaryData": b"\xff" * 7}, {"binaryData": "zz"}, {"jsonText": '{"No. of ranks": "x", "Rank": []}'}):
        export.nvtx(700, "ncclCommInitRank", 1, 2, domainId=1, **more)
    assert ranks(export, tmp_path)[0] == {700: None}


def test_a_lone_process_has_the_rank_its_launcher_gave_it(tmp_path: Path) -> None:
    export = with_processes(700)
    export.capture("PROCESS_0:ENVIRONMENT_VARIABLE", 'RANK="3"')
    export.capture("PROCESS_0:ENVIRONMENT_VARIABLE", 'WORLD_SIZE="8"')
    found, tables = ranks(export, tmp_path)
    assert found == {700: 3}
    assert tables["traces"]["world_size"].item() == 8


def test_a_launchers_rank_says_nothing_about_several_processes(tmp_path: Path) -> None:
    export = with_processes(700, 701, devices=(0, 0))
    export.capture("PROCESS_0:ENVIRONMENT_VARIABLE", 'RANK="3"')
    assert ranks(export, tmp_path)[0] == {700: None, 701: None}


def test_the_order_of_devices_decides_when_each_process_has_its_own(tmp_path: Path) -> None:
    found, tables = ranks(with_processes(701, 700, devices=(5, 4)), tmp_path)
    assert found == {700: 0, 701: 1}
    assert "ranks are taken from the order of devices: no process says its own" in notes(tables)


@pytest.mark.parametrize("spelling", [("--node-rank", "1"), ("--node-rank=1",), ("--node_rank", "1")])
def test_ranks_of_the_second_node_follow_those_of_the_first(spelling: tuple[str, ...], tmp_path: Path) -> None:
    export = with_processes(700, 701)
    for number, word in enumerate(("-m", "sglang.launch_server", "--nnodes", "2", *spelling)):
        export.capture(f"PROCESS_0:ARGUMENT_{number}", word)
    assert ranks(export, tmp_path)[0] == {700: 2, 701: 3}


def test_a_lone_process_that_says_nothing_has_no_rank(tmp_path: Path) -> None:
    assert ranks(with_processes(700), tmp_path)[0] == {700: None}


def test_a_process_that_uses_every_gpu_has_no_rank(tmp_path: Path) -> None:
    export = with_processes(700, 700, 701, devices=(0, 1, 1))
    assert ranks(export, tmp_path)[0] == {700: None, 701: None}


def test_every_table_carries_the_rank(tmp_path: Path) -> None:
    from tests.parsers.traces.build_nsight import server

    tables, _ = read_export(server("2026.2", "graph").write(tmp_path / "rep.sqlite"))
    for name in ("kernels", "launches", "ranges", "memops", "graphs"):
        assert set(tables[name].select("pid", "rank").rows()) == {(4000, 0), (4001, 1)}, name
    assert tables["traces"].filter(pl.col("rank").is_null()).height == 0


def test_the_name_of_the_file_tells_the_rank_of_a_lone_process(tmp_path: Path) -> None:
    tables, _ = read_export(with_processes(700).write(tmp_path / "rank3.sqlite"))
    assert set(tables["kernels"]["rank"]) == {3} == set(tables["traces"]["rank"])
    assert "rank 3 is taken from the file name" in notes(tables)
    folder = with_processes(700).write_folder(tmp_path / "rep_rank_5_pqtdir")
    assert read_export(folder)[0]["traces"]["rank"].item() == 5


def test_the_launcher_knows_better_than_the_name_of_the_file(tmp_path: Path) -> None:
    export = with_processes(700)
    export.capture("PROCESS_0:ENVIRONMENT_VARIABLE", 'RANK="6"')
    assert read_export(export.write(tmp_path / "rank3.sqlite"))[0]["traces"]["rank"].item() == 6
    two = with_processes(700, 701, devices=(0, 0)).write(tmp_path / "rank2.sqlite")
    assert read_export(two)[0]["traces"]["rank"].to_list() == [None, None]

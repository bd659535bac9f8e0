"""What a user finds in the tables after reading a PyTorch-profiler trace."""

import gzip
import json
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from tests.parsers.traces.build_kineto import (
    ALL_REDUCE,
    BASE_NS,
    FIXTURES,
    GEMM,
    Trace,
    capitals_2021,
    nccl,
    sglang_cycles,
    vllm_cpu,
    write_fixtures,
)
from tests.parsers.traces.reading import Tables, named, read_bytes, read_file
from traceana_parsers.interface import FileReport, MemorySink
from traceana_parsers.sources import Source
from traceana_parsers.traces.kineto import KinetoReader


def notes(tables: Tables) -> list[str]:
    return json.loads(tables["traces"]["notes"].item())


@pytest.fixture(scope="module")
def cycles() -> tuple[Tables, FileReport]:
    return read_file(FIXTURES / "1767225600.5-TP-0.trace.json.gz")


def test_the_committed_fixtures_are_what_the_builder_writes(tmp_path: Path) -> None:
    def content(path: Path) -> bytes:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()

    for made in write_fixtures(tmp_path):
        assert content(made) == content(FIXTURES / made.name), made.name


def test_every_event_lands_in_its_table(cycles: tuple[Tables, FileReport]) -> None:
    tables, report = cycles
    assert {
        name: tables[name].height for name in ("kernels", "launches", "ranges", "memops", "collectives", "traces")
    } == {
        "kernels": 3 * (3 + 6 + 1 + 1),
        "launches": 3 * (3 + 1 + 1 + 1 + 1),
        "ranges": 3 * 4,
        "memops": 3,
        "collectives": 6,
        "traces": 1,
    }
    assert report.format == "kineto"
    assert report.recognised == 33 + 21 + 12 + 3
    assert (report.unread, report.lines, report.problem) == (0, 0, None)
    assert report.bytes == len(sglang_cycles(0, late_us=500).text())


def test_the_trace_row_says_where_it_was_taken(cycles: tuple[Tables, FileReport]) -> None:
    row = cycles[0]["traces"].row(0, named=True)
    assert {k: row[k] for k in ("file_id", "rank", "pid", "world_size", "host", "tool", "tool_version", "clock")} == {
        "file_id": 3, "rank": 0, "pid": 5000, "world_size": 2, "host": "node-a", "tool": "kineto",
        "tool_version": "schema 1", "clock": "utc",
    }  # fmt: skip
    assert json.loads(row["devices"]) == {"0": "Invented GPU 96GB"}
    assert row["start_ns"] == BASE_NS + 1_000_000_500
    assert row["end_ns"] == BASE_NS + 1_000_000_500 + 2 * 30_000_000 + 29_000_000


def test_times_are_utc_nanoseconds_exactly(cycles: tuple[Tables, FileReport]) -> None:
    kernels = named(cycles[0], "kernels").sort("start_ns")
    first = kernels.row(0, named=True)
    assert first["start_ns"] == BASE_NS + 1_000_210_500
    assert first["end_ns"] - first["start_ns"] == 900_250


@pytest.mark.parametrize(
    ("written", "ns"),
    [
        ("4458676522690.655", 4458676522690655),  # one float step is 0.98 ns here
        ("6520618853487.683", 6520618853487683),
        ("0.001", 1),
        ("12", 12_000),
        ("-0.5", -500),
        ("1e3", 1_000_000),
    ],
)
def test_a_relative_time_keeps_its_last_digit(written: str, ns: int, tmp_path: Path) -> None:
    event = f'"ph": "X", "cat": "user_annotation", "name": "draft", "pid": 1, "tid": 1, "ts": {written}, "dur": 0.001'
    text = f'{{"baseTimeNanoseconds": {BASE_NS}, "traceEvents": [{{{event}}}]}}'
    tables, _ = read_bytes(tmp_path, text.encode())
    assert tables["ranges"]["start_ns"].item() == BASE_NS + ns
    assert tables["ranges"]["end_ns"].item() == BASE_NS + ns + 1


@pytest.mark.parametrize("written", ["1767225600123456.789", "1767225600123456.100", "1767225600123456"])
def test_absolute_times_keep_nanoseconds_that_no_float_holds(written: str, tmp_path: Path) -> None:
    event = (
        f'"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": {written}, "dur": 2.5'
    )
    tables, _ = read_bytes(tmp_path, f'{{"traceEvents": [{{{event}}}]}}'.encode())
    assert tables["launches"]["start_ns"].item() == int(Decimal(written) * 1000)
    assert tables["launches"]["end_ns"].item() == int(Decimal(written) * 1000) + 2500
    assert tables["traces"]["clock"].item() == "utc"


def test_times_without_a_base_stay_relative_and_the_note_says_so(tmp_path: Path) -> None:
    trace = Trace()
    trace.annotate("draft", 5.0, 10)
    tables, _ = read_bytes(tmp_path, trace.text())
    assert tables["traces"]["clock"].item() == "relative"
    assert tables["ranges"]["start_ns"].item() == 5000
    assert any("wall clock" in note for note in notes(tables))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_base_and_the_rank_count_where_they_come_after_the_events(suffix: str, tmp_path: Path) -> None:
    trace = sglang_cycles(1)
    wanted, _ = read_file(trace.write(tmp_path / "before" / f"a.json{suffix}"))
    got, _ = read_file(trace.write(tmp_path / "after" / f"a.json{suffix}", events_first=True))
    assert got["traces"]["rank"].item() == 1
    for name in ("traces", "kernels", "launches", "ranges", "collectives"):
        assert got[name].equals(wanted[name]), name


def test_kernels_of_the_two_ranks_lie_on_one_axis() -> None:
    ranks = [read_file(FIXTURES / f"1767225600.5-TP-{r}.trace.json.gz")[0]["collectives"] for r in (0, 1)]
    assert [f["rank"].unique().to_list() for f in ranks] == [[0], [1]]
    # rank 1 comes 500 us late: rank 0 waits for it, both end together
    assert ranks[0]["end_ns"].equals(ranks[1]["end_ns"])
    assert (ranks[1]["start_ns"] - ranks[0]["start_ns"]).to_list() == [500_000] * 6


def test_a_replay_is_known_by_its_launch(cycles: tuple[Tables, FileReport]) -> None:
    tables, _ = cycles
    launches = named(tables, "launches").filter(pl.col("is_graph"))
    assert launches["name"].to_list() == ["cudaGraphLaunch"] * 3
    per_launch = tables["kernels"].group_by("correlation").len()
    assert per_launch.filter(pl.col("correlation").is_in(launches["correlation"].implode()))["len"].to_list() == [6] * 3
    assert tables["kernels"]["graph_node"].null_count() == tables["kernels"].height
    assert tables["traces"]["graph_mode"].item() == "node"


@pytest.mark.parametrize("call", ["cudaGraphLaunch", "cuGraphLaunch", "cudaGraphLaunch_v10000", "hipGraphLaunch"])
def test_replays_without_their_kernels_are_unknown_not_idle(call: str, tmp_path: Path) -> None:
    trace = Trace()
    trace.run(GEMM, 10, 5)
    trace.launch(100, call)
    tables, _ = read_bytes(tmp_path, trace.text())
    assert tables["launches"]["is_graph"].sum() == 1
    assert tables["traces"]["graph_mode"].item() == "graph"
    assert any("1 of 1 graph launches have no kernels" in note for note in notes(tables))


def test_graph_mode_where_the_gpu_was_not_traced_is_unknown(tmp_path: Path) -> None:
    trace = Trace()
    trace.launch(100, "cudaGraphLaunch")
    assert read_bytes(tmp_path, trace.text())[0]["traces"]["graph_mode"].item() == "unknown"


def test_graph_mode_without_graphs_is_none(tmp_path: Path) -> None:
    trace = Trace()
    trace.run(GEMM, 10, 5)
    assert read_bytes(tmp_path, trace.text())[0]["traces"]["graph_mode"].item() == "none"


def test_a_node_id_is_kept_where_the_profiler_wrote_one(tmp_path: Path) -> None:
    trace = Trace()
    replay = trace.launch(1, "cudaGraphLaunch")
    trace.kernel(GEMM, 10, 5, replay, **{"graph node id": 77})
    trace.kernel(GEMM, 20, 5, trace.launch(15), **{"graph node id": 0})
    assert read_bytes(tmp_path, trace.text())[0]["kernels"]["graph_node"].to_list() == [77, None]


def test_a_communication_kernel_carries_what_torch_wrote_on_it(cycles: tuple[Tables, FileReport]) -> None:
    row = named(cycles[0], "collectives").row(0, named=True)
    wanted = {
        "name": ALL_REDUCE, "collective": "all_reduce", "bytes": 8 * 4096 * 2, "group_name": "3", "group_size": 2,
        "device": 0, "stream": 7, "rank": 0, "pid": 5000,
    }  # fmt: skip
    assert {key: row[key] for key in wanted} == wanted


@pytest.mark.parametrize(
    ("name", "args", "collective", "size"),
    [
        ("ncclDevKernel_SendRecv(ncclDevComm*)", {}, "send_recv", None),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", {}, "all_reduce", None),
        ("ncclDevKernel_Generic_4(ncclDevComm*)", {}, "unknown", None),
        ("ncclDevKernel_Generic_4(ncclDevComm*)", nccl(100), "all_reduce", 200),
        (
            "ncclDevKernel_Generic_4(ncclDevComm*)",
            nccl(100) | {"Collective name": "_allgather_base"},
            "all_gather",
            200,
        ),
        ("ncclDevKernel_Generic_4(ncclDevComm*)", nccl(6) | {"Collective name": "alltoallv"}, "all_to_all", 12),
        (
            "ncclDevKernel_Generic_4(ncclDevComm*)",
            nccl(6) | {"Collective name": "_reduce_scatter_base"},
            "reduce_scatter",
            12,
        ),
        (ALL_REDUCE, nccl(10) | {"dtype": "Float8_e4m3fn"}, "all_reduce", 10),
        (ALL_REDUCE, nccl(10) | {"dtype": "SomethingNew"}, "all_reduce", None),
        ("a_kernel_nobody_knows", nccl(10), "all_reduce", 20),  # torch says it is one
    ],
)
def test_the_collective_is_from_the_arguments_else_from_the_name(
    name: str, args: dict[str, object], collective: str, size: int | None, tmp_path: Path
) -> None:
    trace = Trace()
    trace.run(name, 10, 5, **args)
    trace.run(GEMM, 30, 5)
    tables, _ = read_bytes(tmp_path, trace.text())
    assert tables["collectives"].select("collective", "bytes").rows() == [(collective, size)]
    assert tables["kernels"].height == 2


@pytest.mark.parametrize(
    ("cat", "name", "kind"),
    [
        ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "HtoD"),
        ("gpu_memcpy", "Memcpy DtoD (Device -> Device)", "DtoD"),
        ("gpu_memcpy", "Memcpy PtoP (Device -> Device)", "PtoP"),
        ("gpu_memcpy", "CopyDeviceToHost", "DtoH"),
        ("gpu_memcpy", "Memcpy 2DArray", "other"),
        ("gpu_memset", "Memset (Device)", "memset"),
        ("Memset", "Memset (Device)", "memset"),
    ],
)
def test_copies_and_fills_say_their_kind_and_size(cat: str, name: str, kind: str, tmp_path: Path) -> None:
    trace = Trace(pid=9)
    trace.copy(name, 10, 3, 4096, cat=cat)
    tables, _ = read_bytes(tmp_path, trace.text())
    row = tables["memops"].row(0, named=True)
    assert (row["kind"], row["bytes"], row["device"], row["pid"]) == (kind, 4096, 0, 9)
    assert row["correlation"] == tables["launches"]["correlation"].item()


def test_host_and_projected_annotations_are_told_apart(tmp_path: Path) -> None:
    trace = Trace(pid=9)
    trace.annotate("step[DECODE bs=4]", 10, 50)
    trace.event("gpu_user_annotation", "step[DECODE bs=4]", 12, 40, pid=0, tid=7)
    trace.run(GEMM, 15, 5)
    ranges = read_bytes(tmp_path, trace.text())[0]["ranges"].sort("start_ns")
    assert ranges.select("kind", "pid", "tid", "domain").rows() == [
        ("annotation", 9, 9, None),
        ("gpu_annotation", 9, 7, None),
    ]


def test_gpu_work_takes_the_process_of_the_calls_wherever_they_stand(tmp_path: Path) -> None:
    trace = Trace(pid=9, device=3)
    trace.run(GEMM, 10, 5)
    trace.events.reverse()  # the kernel comes before its call
    for block in (150, 1 << 20):
        tables, _ = read_bytes(tmp_path, trace.text(), block=block)
        assert tables["kernels"].select("pid", "device").rows() == [(9, 3)]
        assert tables["traces"]["pid"].item() == 9


def test_traces_of_2021_with_capital_categories_are_read() -> None:
    tables, report = read_file(FIXTURES / "old_worker0.json")
    assert report.recognised == 3
    assert tables["kernels"].select("device", "stream", "correlation", "grid_x", "block_x").row(0) == (1, 7, 11, 4, 128)
    assert tables["kernels"]["start_ns"].item() == 1_630_000_000_000_120_000
    row = tables["traces"].row(0, named=True)
    assert (row["rank"], row["clock"], row["tool_version"]) == (0, "utc", None)
    assert "times are whole microseconds" in notes(tables)
    assert "no distributedInfo: the rank is from the file name" in notes(tables)


def test_collectives_of_a_cpu_capture_have_no_device() -> None:
    tables, report = read_file(FIXTURES / "rank0.1767225601000000000.pt.trace.json.gz")
    rows = named(tables, "collectives").select("name", "collective", "bytes", "device", "rank", "pid").rows()
    assert rows == [("_C::shm_allreduce", "all_reduce", 4 * 128 * 4, None, 0, 6000)] * 5 + [
        ("_C::shm_all_gather", "all_gather", 512 * 4, None, 0, 6000)
    ]
    assert tables["kernels"].height == 0
    assert report.recognised == 3 + 6
    assert any("CPU activity only" in note for note in notes(tables))
    assert vllm_cpu(0).events[3]["name"] == "aten::mm"  # there are operators, and none is kept


def nested_call(trace: Trace, ts: float, gloo: bool) -> None:
    trace.event("cpu_op", "c10d::allreduce_", ts, 100, args={})
    trace.event("cpu_op", "record_param_comms", ts + 10, 80, args=nccl(50) | {"Process Group Name": "7"})
    if gloo:
        trace.annotate("gloo:all_reduce", ts + 20, 300)
    trace.event("cpu_op", "record_param_comms", ts + 400, 5, args={"Collective name": "wait"})


def test_a_torch_collective_on_the_cpu_is_one_row_and_ends_with_gloo(tmp_path: Path) -> None:
    trace = Trace()
    nested_call(trace, 1000, gloo=True)
    tables, report = read_bytes(tmp_path, trace.text())
    assert report.recognised == 4
    rows = named(tables, "collectives")
    wanted = ("c10d::allreduce_", "all_reduce", 100, "7", 2, 1_000_000, 1_320_000)
    assert rows.select("name", "collective", "bytes", "group_name", "group_size", "start_ns", "end_ns").rows() == [
        wanted
    ]


def test_on_a_gpu_the_call_of_a_collective_is_no_second_row(tmp_path: Path) -> None:
    trace = Trace()
    nested_call(trace, 1000, gloo=False)
    trace.run(ALL_REDUCE, 1050, 20, **nccl(50))
    tables, _ = read_bytes(tmp_path, trace.text())
    assert tables["collectives"]["device"].to_list() == [0]


def test_begin_and_end_events_make_a_range(tmp_path: Path) -> None:
    trace = Trace()
    common = {"cat": "user_annotation", "pid": 1, "tid": 2}
    trace.events = [
        {"ph": "B", "name": "draft", "ts": 10, **common},
        {"ph": "B", "name": "inner", "ts": 12.5, **common},
        {"ph": "B", "name": "elsewhere", "ts": 13, "cat": "user_annotation", "pid": 1, "tid": 3},
        {"ph": "E", "ts": 20.25, "pid": 1, "tid": 2},
        {"ph": "E", "ts": 30, "pid": 1, "tid": 2},
        {"ph": "E", "ts": 31, "pid": 1, "tid": 2},
    ]
    for block in (60, 1 << 20):
        tables, report = read_bytes(tmp_path, trace.text(), block=block)
        rows = named(tables, "ranges").select("name", "start_ns", "end_ns", "tid").sort("start_ns").rows()
        assert rows == [("draft", 10_000, 30_000, 2), ("inner", 12_500, 20_250, 2)]
        assert "2 begin or end events have no partner and were left out" in notes(tables)
        assert report.recognised == 2


def test_durations_that_cannot_be_are_clamped_and_counted(tmp_path: Path) -> None:
    trace = Trace()
    trace.run(GEMM, 10, -3)
    trace.run(GEMM, 30, 0)
    tables, report = read_bytes(tmp_path, trace.text())
    assert (tables["kernels"]["end_ns"] - tables["kernels"]["start_ns"]).to_list() == [0, 0]
    assert "1 events end before they start; their end was set to the start" in notes(tables)
    assert "1 events last 0 ns" in notes(tables)
    assert report.recognised == 4


def test_a_merged_sglang_trace_keeps_its_ranks_apart(tmp_path: Path) -> None:
    events = []
    for rank in (0, 1):
        for event in sglang_cycles(rank, cycles=1).events:
            events.append(event | {"pid": f"[TP0{rank}] {event['pid']}"})
    merged = {
        "traceEvents": events,
        "schemaVersion": 1,
        "baseTimeNanoseconds": BASE_NS,
        "distributedInfo": {"rank": 0, "world_size": 2},
    }
    tables, _ = read_bytes(tmp_path, json.dumps(merged).encode(), "merged-1767225600.5.trace.json")
    assert tables["traces"].select("rank", "pid").sort("rank").rows() == [(0, 5000), (1, 5001)]
    assert tables["kernels"].group_by("rank", "pid", "device").len().sort("rank").rows() == [
        (0, 5000, 0, 11),
        (1, 5001, 1, 11),
    ]
    assert tables["launches"].group_by("rank", "pid").len().sort("rank").rows() == [(0, 5000, 7), (1, 5001, 7)]


def test_process_ids_written_as_texts_are_numbers_all_the_same(tmp_path: Path) -> None:
    trace = Trace(pid=9)
    trace.run(GEMM, 10, 5)
    for event in trace.events:
        event["pid"], event["tid"] = str(event["pid"]), f"thread {event['tid']}"
    trace.events.append(
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "x", "ts": 1, "dur": 9}
    )
    tables, report = read_bytes(tmp_path, trace.text())
    assert tables["launches"].select("pid", "tid").rows() == [(9, 9)]
    assert tables["kernels"]["pid"].to_list() == [9]
    assert report.recognised == 2


def test_names_are_stored_once_and_cut_at_4000_characters(tmp_path: Path) -> None:
    trace = Trace()
    for ts in (10, 20, 30):
        trace.run("k" * 5000, ts, 1)
    tables, _ = read_bytes(tmp_path, trace.text())
    assert sorted(map(len, tables["names"]["name"])) == [len("cudaLaunchKernel"), 4000]
    assert tables["kernels"]["name_id"].n_unique() == 1


def test_a_capture_says_what_inflates_its_host_times(tmp_path: Path) -> None:
    trace = Trace(with_stack=1, profile_memory=1, WARNING=["Dropped 512 GPU activities: buffer limit", "hello"])
    trace.run(GEMM, 10, 5)
    trace.event("overhead", "Activity Buffer Request", 40, 1500.0, pid=-1)
    tables, _ = read_bytes(tmp_path, trace.text(), "trace.json")
    found = "\n".join(notes(tables))
    assert "with_stack" in found
    assert "profile_memory" in found
    assert "paused 1 times for itself, 1.5 ms" in found
    assert "the profiler says: Dropped 512 GPU activities: buffer limit" in found
    assert "hello" not in found
    assert "no distributedInfo: the rank is unknown" in found
    assert tables["traces"]["rank"].item() is None


def test_a_front_end_without_steps_gives_a_row_and_no_guess(tmp_path: Path) -> None:
    trace = Trace(baseTimeNanoseconds=BASE_NS)
    trace.events = [{"ph": "M", "name": "process_labels", "pid": 77, "tid": 0, "ts": 1, "args": {"labels": "CPU"}}]
    tables, report = read_bytes(tmp_path, trace.text())
    row = tables["traces"].row(0, named=True)
    assert (row["pid"], row["start_ns"], row["clock"], row["graph_mode"]) == (77, None, "utc", "unknown")
    assert report.recognised == 0
    assert report.problem is None


def test_sniffing_takes_traces_and_leaves_other_json() -> None:
    reader = KinetoReader()
    for trace in (
        sglang_cycles(0).text(),
        sglang_cycles(0).text(indent=2),
        capitals_2021().text(),
        b'[{"ph": "X", "ts": 1}]',
    ):
        assert reader.sniff(trace[:4096], "x.json")
    assert reader.sniff(b'\n  {\n "schemaVersion": 1,\n "deviceProperties": [\n', "x")
    assert reader.sniff(b'{"metadata": {', "rank0.1.pt.trace.json.gz")
    for other in (
        b'{"data": ["a", "b"]}\n{"Type": 75}',
        b'{"random_seed": 1, "ttfts": [1, 2]}',
        b"[2026-01-01 00:00:00] INFO x",
        b"",
    ):
        assert not reader.sniff(other, "bench.json")


def test_a_missing_file_is_a_problem_not_a_traceback(tmp_path: Path) -> None:
    report = KinetoReader().read(Source(str(tmp_path / "gone.json")), 0, MemorySink())
    assert report.problem == "No such file or directory"

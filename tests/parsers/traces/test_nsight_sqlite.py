"""What a user finds in the tables after reading an Nsight Systems SQLite export, of every schema era and graph mode."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from tests.parsers.traces.build_nsight import ALL_REDUCE, ERAS, GEMM, START_NS, Export, serial, server
from tests.parsers.traces.nsight_reading import Tables, named, notes, read_export
from traceana_parsers.traces.nsight_common import api_name
from traceana_parsers.traces.nsight_sqlite import sniff


def read(export: Export, folder: Path) -> Tables:
    tables, report = read_export(export.write(folder / "rep.sqlite"))
    assert report.problem is None
    return tables


@pytest.mark.parametrize("era", ERAS)
def test_node_mode_gives_every_kernel_of_a_replay_with_the_launch_it_belongs_to(era: str, tmp_path: Path) -> None:
    tables, report = read_export(server(era, "node", ranks=2, cycles=3).write(tmp_path / "rep.sqlite"))
    assert (report.problem, report.format, report.recognised, report.unread, report.partial) == (
        None,
        "nsight",
        96,
        0,
        0,
    )
    kernels = named(tables, "kernels")
    inside = kernels.filter(pl.col("graph_node").is_not_null())
    assert kernels.height == 30 and inside.height == 18
    launches = named(tables, "launches").filter("is_graph")
    assert launches["name"].unique().to_list() == ["cudaGraphLaunch"]
    per_launch = inside.join(launches, on=["pid", "correlation"]).group_by("pid", "correlation").len()
    assert per_launch["len"].to_list() == [3] * 6
    assert tables["traces"]["graph_mode"].to_list() == ["node", "node"]
    assert notes(tables) == []
    assert tables["collectives"].select("collective", "device", "rank").unique().sort("rank").rows() == [
        ("all_reduce", 0, 0),
        ("all_reduce", 1, 1),
    ]


@pytest.mark.parametrize("era", ERAS)
def test_graph_mode_says_that_kernels_are_hidden_and_how_to_capture_them(era: str, tmp_path: Path) -> None:
    tables = read(server(era, "graph", ranks=2, cycles=3), tmp_path)
    assert tables["traces"]["graph_mode"].to_list() == ["graph", "graph"]
    traced = era >= "2025.1"
    assert tables["graphs"].height == (6 if traced else 0)
    (note,) = notes(tables)
    assert note.startswith("6 CUDA graph replays were traced without their kernels (graph mode)")
    assert ("how long they ran is not in the file" in note) is not traced
    assert "nsys profile -t cuda,nvtx,osrt --cuda-graph-trace=node" in note
    if traced:
        first = tables["graphs"].sort("start_ns").row(0, named=True)
        assert first["end_ns"] - first["start_ns"] == 14_900_000
        assert (first["graph_id"], first["stream"]) == (9, 7)


@pytest.mark.parametrize("era", ERAS)
def test_without_graphs_the_mode_is_none_whatever_nsys_was_asked_for(era: str, tmp_path: Path) -> None:
    export = server(era, "none")
    export.capture("CUDA_GRAPH_TRACE_OPTIONS:MODE", "Graph")
    assert read(export, tmp_path)["traces"]["graph_mode"].unique().to_list() == ["none"]


def test_kernels_of_a_replay_are_found_by_correlation_where_node_ids_are_not_recorded(tmp_path: Path) -> None:
    export = server("2022.4", "node")
    for row in export.rows["CUPTI_ACTIVITY_KIND_KERNEL"]:
        row["graphNodeId"] = None
    assert read(export, tmp_path)["traces"]["graph_mode"].to_list() == ["node", "node"]


@pytest.mark.parametrize(("era", "version"), [("2022.4", "2022.4.2.1"), ("2026.2", "2026.2.1.210, schema 3.25.0")])
def test_the_traces_row_says_where_and_with_what_it_was_taken(era: str, version: str, tmp_path: Path) -> None:
    row = read(server(era, "node"), tmp_path)["traces"].row(1, named=True)
    assert (row["rank"], row["pid"], row["host"], row["tool"], row["tool_version"]) == (
        1,
        4001,
        "node7",
        "nsight",
        version,
    )
    assert json.loads(row["devices"]) == {"1": "Invented GPU 96GB"}
    assert row["clock"] == "utc"


def test_times_are_utc_by_the_session_start(tmp_path: Path) -> None:
    tables = read(server("2025.1", "node", ranks=1), tmp_path)
    cycle = named(tables, "ranges").filter(pl.col("name") == "cycle").row(0, named=True)
    assert cycle["start_ns"] == START_NS + 1_000_000
    assert cycle["end_ns"] - cycle["start_ns"] == 29_000_000
    row = tables["traces"].row(0, named=True)
    assert (row["start_ns"], row["end_ns"]) == (START_NS + 1_000_000, START_NS + 61_000_000 + 29_000_000)


def _one_kernel(utc: int | None = START_NS, at: int = 5_000) -> Export:
    export = Export(utc=utc)
    export.launch(7, at - 1_000, at - 500, 1)
    export.kernel(7, GEMM, at, at + 100, 1)
    return export


def test_a_normalised_export_is_not_moved_again(tmp_path: Path) -> None:
    export = _one_kernel(at=START_NS + 5_000)
    export.meta("EXPORT_PARAM_TIME_NORMALIZE", "true")
    assert read(export, tmp_path)["kernels"]["start_ns"].item() == START_NS + 5_000


def test_times_since_1970_are_known_without_the_parameter(tmp_path: Path) -> None:
    assert read(_one_kernel(at=START_NS + 5_000), tmp_path)["kernels"]["start_ns"].item() == START_NS + 5_000


@pytest.mark.parametrize("normalised", [False, True])
def test_a_shift_given_at_export_is_taken_back_and_said(normalised: bool, tmp_path: Path) -> None:
    export = _one_kernel(at=(START_NS if normalised else 0) + 5_000 + 777)
    export.meta("EXPORT_PARAM_TIME_NORMALIZE", str(normalised).lower())
    export.meta("EXPORT_PARAM_TIME_SHIFT", "777")
    tables = read(export, tmp_path)
    assert tables["kernels"]["start_ns"].item() == START_NS + 5_000
    assert "exported with --ts-shift=777: taken back, times are the recording machine's clock" in notes(tables)


def test_without_a_session_start_times_are_relative_and_said_to_be(tmp_path: Path) -> None:
    tables = read(_one_kernel(utc=None), tmp_path)
    assert tables["kernels"]["start_ns"].item() == 5_000
    assert tables["traces"]["clock"].item() == "relative"
    assert any(note.startswith("no session start") for note in notes(tables))


def test_ids_above_the_signed_range_keep_their_process_and_thread(tmp_path: Path) -> None:
    export = Export()
    thread = serial(4242, 4343, hw=0xF3)
    assert thread < 0
    export.launch(4242, 10, 20, 1, globalTid=thread)
    export.kernel(4242, GEMM, 30, 40, 1, globalPid=serial(4242, hw=0xF3))
    export.nvtx(4242, "verify", 5, 50, globalTid=thread)
    tables = read(export, tmp_path)
    assert tables["launches"].select("pid", "tid").row(0) == (4242, 4343)
    assert tables["kernels"]["pid"].item() == 4242
    assert tables["ranges"].select("pid", "tid").row(0) == (4242, 4343)


def test_correlation_ids_reused_by_another_process_stay_apart(tmp_path: Path) -> None:
    tables = read(server("2026.2", "node", ranks=2), tmp_path)
    joined = tables["kernels"].join(tables["launches"], on=["pid", "correlation"])
    assert joined.height == tables["kernels"].height
    assert tables["kernels"].join(tables["launches"], on="correlation").height == 2 * joined.height


@pytest.mark.parametrize(
    ("recorded", "name"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
        ("cudaLaunchKernel_ptsz_v7000", "cudaLaunchKernel"),
        ("cudaLaunchKernel_v7000_ptsz", "cudaLaunchKernel"),
        ("cudaStreamGetCaptureInfo_v2_v11030", "cudaStreamGetCaptureInfo_v2"),
        ("cuLaunchKernelEx_ptsz", "cuLaunchKernelEx"),
        ("cuLaunchKernelEx", "cuLaunchKernelEx"),
    ],
)
def test_calls_lose_their_version_suffix(recorded: str, name: str, tmp_path: Path) -> None:
    assert api_name(recorded) == name
    export = Export()
    export.launch(7, 1, 2, 1, recorded)
    assert named(read(export, tmp_path), "launches")["name"].item() == name


@pytest.mark.parametrize("call", ["cudaGraphLaunch_v10000", "cudaGraphLaunch_ptsz_v10000", "cuGraphLaunch"])
def test_calls_that_launch_graphs_are_marked(call: str, tmp_path: Path) -> None:
    export = Export()
    export.launch(7, 1, 2, 1, call)
    export.launch(7, 3, 4, 2, "cudaGraphInstantiate_v10000")
    assert read(export, tmp_path)["launches"]["is_graph"].to_list() == [True, False]


def test_range_names_come_from_the_text_or_the_registered_string(tmp_path: Path) -> None:
    export = Export()
    export.nvtx(7, "pushed", 1, 9)
    export.nvtx(7, "registered", 2, 8, registered=True)
    export.nvtx(7, None, 3, 7)
    assert named(read(export, tmp_path), "ranges")["name"].to_list() == ["pushed", "registered", "(unnamed)"]


def test_counters_of_torch_are_cut_so_that_ranges_can_be_grouped(tmp_path: Path) -> None:
    export = Export()
    export.nvtx(7, "aten::to, op_id = 990347", 1, 9)
    export.nvtx(7, "aten::to, op_id = 990399", 2, 8)
    export.nvtx(7, "FlashAttnFunc, seq = 47575, op_id = 999172", 3, 7, registered=True)
    export.nvtx(7, "step, k = 3", 4, 6)
    tables = read(export, tmp_path)
    assert named(tables, "ranges")["name"].to_list() == ["aten::to", "aten::to", "FlashAttnFunc", "step, k = 3"]


def test_domains_are_named_per_process_and_the_default_one_is_null(tmp_path: Path) -> None:
    export = Export()
    for pid, name in ((7, "traceana"), (8, "other")):
        export.nvtx(pid, "cycle", 10, 20, domainId=1)  # before the event that names the domain
        export.domain(pid, 1, name)
        export.nvtx(pid, "plain", 30, 40)
    export.nvtx(7, "nameless", 50, 60, domainId=5)
    ranges = named(read(export, tmp_path), "ranges")
    assert ranges.select("pid", "name", "domain").rows() == [
        (7, "cycle", "traceana"),
        (7, "plain", None),
        (8, "cycle", "other"),
        (8, "plain", None),
        (7, "nameless", "domain 5"),
    ]


def test_the_domain_of_nccl_is_known_by_its_payloads_in_a_cut_capture(tmp_path: Path) -> None:
    export = Export()
    export.add("NVTX_PAYLOAD_SCHEMA_ENTRIES", domainId=1, schemaId=16777221, type=18, name="NCCL communicator ID")
    export.nvtx(7, "ncclAllReduce", 10, 20, registered=True, domainId=1)
    assert read(export, tmp_path)["ranges"]["domain"].item() == "NCCL"


def test_start_end_ranges_are_read_and_marks_are_not(tmp_path: Path) -> None:
    export = Export()
    for kind in (59, 60, 70, 71):
        export.nvtx(7, f"range {kind}", 10, 20, eventType=kind)
    for kind in (33, 34, 64, 76, 99):
        export.nvtx(7, f"no range {kind}", 10, None, eventType=kind)
    tables, report = read_export(export.write(tmp_path / "rep.sqlite"))
    assert named(tables, "ranges")["name"].to_list() == ["range 59", "range 60", "range 70", "range 71"]
    assert report.recognised == 4
    assert tables["names"].filter(pl.col("name").str.starts_with("no range")).height == 0


def test_ranges_that_end_on_another_thread_are_left_out_and_said_to_be(tmp_path: Path) -> None:
    export = Export()
    export.nvtx(7, "across", 10, 20, eventType=60, endGlobalTid=serial(7, 99))
    export.nvtx(7, "same thread", 10, 20, eventType=60, endGlobalTid=serial(7, 7))
    tables = read(export, tmp_path)
    assert named(tables, "ranges")["name"].to_list() == ["same thread"]
    assert "1 ranges end on another thread than they began on and were left out" in notes(tables)


def test_open_ranges_end_with_the_last_event_of_the_capture(tmp_path: Path) -> None:
    export = Export()
    export.nvtx(7, "still open", 100, None)
    export.kernel(7, GEMM, 200, 5_000, 1)
    export.nvtx(7, "closed", 300, 400)
    tables = read(export, tmp_path)
    ranges = named(tables, "ranges").sort("start_ns")
    assert ranges.select("name", pl.col("end_ns") - START_NS).rows() == [("still open", 5_000), ("closed", 400)]
    assert any(note.startswith("1 ranges were still open when the capture stopped") for note in notes(tables))


@pytest.mark.parametrize("with_table", [True, False])
def test_copies_have_the_words_of_the_export_or_of_cupti(with_table: bool, tmp_path: Path) -> None:
    export = Export()
    if with_table:
        export.enums()
    for number in (1, 2, 8, 9, 10, 11, 0):
        export.copy(7, number, number + 1, number, number, 4096)
    export.fill(7, 50, 60, 99, 512)
    memops = named(read(export, tmp_path), "memops")
    assert memops["kind"].to_list() == ["HtoD", "DtoH", "DtoD", "HtoH", "PtoP", "other", "other", "memset"]
    assert memops["bytes"].to_list() == [4096] * 7 + [512]
    assert memops["name"][-1] == "Memset" and memops["name"][0] == "Memcpy HtoD"


def test_graph_replays_without_timestamps_are_counted_as_untimed(tmp_path: Path) -> None:
    export = server("2026.2", "graph", ranks=1, cycles=2)
    export.launch(4000, 70_000_000, 70_001_000, 900, "cudaGraphLaunch_v10000")
    export.replay(4000, 0, 0, 900)
    tables = read(export, tmp_path)
    assert "1 of 3 graph replays have no timestamps" in notes(tables)
    assert tables["graphs"].filter(pl.col("start_ns") == pl.col("end_ns")).height == 1
    assert tables["traces"]["start_ns"].item() == START_NS + 1_000_000  # not the untimed row's


def test_the_launch_shape_and_the_demangled_name_are_kept(tmp_path: Path) -> None:
    export = Export()
    export.kernel(7, ALL_REDUCE, 10, 20, 1, gridX=24, blockX=544)
    row = named(read(export, tmp_path), "kernels").row(0, named=True)
    assert (row["grid_x"], row["block_x"], row["name"]) == (24, 544, ALL_REDUCE)


def test_each_process_counts_devices_from_its_own_zero_unless_the_export_maps_them(tmp_path: Path) -> None:
    export = Export("2026.2")
    export.gpus("GPU A", "GPU B")
    for rank, pid in enumerate((700, 701)):  # CUDA_VISIBLE_DEVICES gives each process one GPU
        export.kernel(pid, GEMM, 10, 20, 1, deviceId=0)
        export.add("TARGET_INFO_CUDA_DEVICE", gpuId=rank, cudaId=0, pid=pid)
    tables = read(export, tmp_path)
    assert tables["kernels"].select("pid", "device").rows() == [(700, 0), (701, 1)]
    assert [json.loads(d) for d in tables["traces"]["devices"]] == [{"0": "GPU A"}, {"1": "GPU B"}]
    assert not any("several processes use device" in note for note in notes(tables))


def test_devices_that_may_be_the_same_gpu_are_named_as_such(tmp_path: Path) -> None:
    export = Export()
    for pid in (700, 701):
        export.kernel(pid, GEMM, 10, 20, 1)
    assert any(note.startswith("several processes use device 0") for note in notes(read(export, tmp_path)))


def test_tables_that_nsys_did_not_create_are_explained(tmp_path: Path) -> None:
    export = Export()
    export.nvtx(7, "verify", 1, 2)
    found = notes(read(export, tmp_path))
    assert "no CUPTI kernel table: was -t cuda used?" in found
    assert any(note.startswith("no CUDA API calls") for note in found)
    other = Export()
    other.kernel(7, GEMM, 1, 2, 1)
    folder = tmp_path / "other"
    folder.mkdir()
    assert any(note.startswith("no NVTX table: was -t nvtx used") for note in notes(read(other, folder)))


def test_tables_without_rows_are_told_from_tables_that_are_not_there(tmp_path: Path) -> None:
    path = Export().write(
        tmp_path / "rep.sqlite",
        empty=(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            "NVTX_EVENTS",
            "CUPTI_ACTIVITY_KIND_MEMCPY",
        ),
    )
    tables, report = read_export(path)
    assert report.recognised == 0
    assert (report.problem or "").startswith("an Nsight Systems export without GPU work, CUDA calls or ranges; capture")
    found = notes(tables)
    assert any(note.startswith("the CUPTI kernel table is empty") for note in found)
    assert any(note.startswith("the table of CUDA API calls is empty") for note in found)
    assert any(note.startswith("no NVTX ranges") for note in found)
    assert tables["traces"].height == 1


def test_what_the_profiler_says_of_lost_events_reaches_the_notes(tmp_path: Path) -> None:
    export = _one_kernel()
    for text in (
        "Number of CUPTI events produced: 2146, CUPTI buffers: 50.",
        "Not all CUDA events might have been collected.",
        "CUPTI dropped 1205 records because its buffers were full.",
        "Not all CUDA events might have been collected.",
    ):
        export.add("DIAGNOSTIC_EVENT", timestamp=1, severity=2, text=text)
    said = [note for note in notes(read(export, tmp_path)) if note.startswith("the profiler says")]
    assert said == [
        "the profiler says: Not all CUDA events might have been collected.",
        "the profiler says: CUPTI dropped 1205 records because its buffers were full.",
    ]


def test_the_profilers_own_time_is_noted_when_it_is_a_share_of_the_capture(tmp_path: Path) -> None:
    export = server("2026.2", "node", ranks=1)
    export.add("PROFILER_OVERHEAD", start=2_000_000, end=7_000_000, globalTid=serial(4000, 4000), nameId=3)
    assert any(note.startswith("the profiler's own work took 5.0 ms") for note in notes(read(export, tmp_path)))


def test_rows_that_name_no_process_belong_to_the_only_one(tmp_path: Path) -> None:
    export = Export()
    export.launch(7, 1, 2, 1)
    export.kernel(7, GEMM, 3, 4, 1, globalPid=None)
    assert read(export, tmp_path)["kernels"]["pid"].item() == 7
    export.launch(8, 1, 2, 1)
    folder = tmp_path / "two"
    folder.mkdir()
    tables = read(export, folder)
    assert tables["kernels"]["pid"].item() is None
    assert any(note.startswith("GPU work does not say its process") for note in notes(tables))


def test_batches_join_without_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = server("2026.2", "node", ranks=2, cycles=4).write(tmp_path / "rep.sqlite")
    whole, _ = read_export(path)
    monkeypatch.setattr("traceana_parsers.traces.sqlite_stream.BATCH", 7)
    parts, _ = read_export(path)
    for name in ("kernels", "launches", "ranges", "memops", "collectives", "traces"):
        drop = [c for c in ("name_id",) if c in whole[name].columns]
        assert whole[name].drop(drop).equals(parts[name].drop(drop)), name
        if drop:
            assert named(whole, name)["name"].equals(named(parts, name)["name"])


def test_a_compressed_export_is_read_like_a_plain_one(tmp_path: Path) -> None:
    plain = server().write(tmp_path / "rep.sqlite")
    folder = tmp_path / "packed"
    folder.mkdir()
    packed = folder / "rep.sqlite.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_export(packed)[0]["kernels"].equals(read_export(plain)[0]["kernels"])


def test_sniffing_goes_by_content(tmp_path: Path) -> None:
    head = server().write(tmp_path / "rep.txt").read_bytes()[:4096]
    assert sniff(head, "rep.txt")
    assert not sniff(b"[2026-01-01 00:00:00 TP0] Decode batch", "rep.sqlite")
    assert not sniff(b"", "rep.sqlite")

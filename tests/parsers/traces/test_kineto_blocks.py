"""However a trace is laid out, cut or damaged, the same events come out, and never a traceback."""

import gzip
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.parsers.traces.build_kineto import BASE_NS, GEMM, Trace, nccl, sglang_cycles, vllm_cpu
from tests.parsers.traces.reading import Tables, read_bytes
from traceana_parsers.traces import kineto_blocks
from traceana_parsers.traces.json_nesting import Nesting, event_ends
from traceana_parsers.traces.kineto_blocks import TraceJson

ROWS = ("traces", "names", "kernels", "launches", "ranges", "memops", "collectives")
LAYOUTS: dict[str, dict[str, Any]] = {
    "compact": {"separators": (",", ":")},
    "usual": {},
    "spaced": {"separators": (" , ", " : ")},
    "indented": {"indent": 1},
    "events first": {"events_first": True},
    "tabs, events first": {"indent": "\t", "events_first": True},
}


class Stream(BytesIO):
    """Bytes as a file would give them."""


def nasty() -> Trace:
    """A trace with everything that looks like the end of an event and is none."""
    trace = Trace(
        baseTimeNanoseconds=BASE_NS,
        distributedInfo={"rank": 1, "world_size": 2, "pg_config": [{"ranks": [0, 1]}, {"ranks": [0]}]},
        note='"traceEvents": [ {"ph": "X"} ], }, {',
    )
    trace.top["nested"] = {"traceEvents": [{"ph": "X", "cat": "kernel", "name": "not an event", "ts": 1, "dur": 1}]}
    for index in range(25):
        args = {"x": [{"q": 1}, {"q": [2, {"r": "}, {"}]}], "s": '}, {"ph": "X"', "Input Dims": [[1, 2], []]}
        name = ['a},{"ph":"X"', "back\\", 'quo"te\\"', "}],", "ü€\u2028", "[{"][index % 6]
        trace.event("user_annotation", name, index + 0.5, 1, args=args)
        trace.run(GEMM, index * 10, 5, nested=[{"a": []}, {"b": {}}])
        trace.event("python_function", "f", index, 1, args={"Python id": index})
    return trace


def rows(tables: Tables) -> dict[str, list[tuple[object, ...]]]:
    """Rows as they mean, names by text: ids may differ with the order of reading."""
    text = dict(tables["names"].select("name_id", "name").rows())
    found = {}
    for table in ROWS[2:]:
        frame = tables[table]
        with_names = frame.with_columns(pl.col("name_id").replace_strict(text, default=None, return_dtype=pl.String))
        found[table] = sorted(with_names.rows(), key=repr)
    return found | {"traces": tables["traces"].rows()}


@pytest.mark.parametrize("layout", LAYOUTS, ids=list(LAYOUTS))
@pytest.mark.parametrize("block", [1, 7, 300, 4096, 1 << 20])
def test_layout_and_block_size_change_nothing(layout: str, block: int, tmp_path: Path) -> None:
    trace = nasty()
    wanted = rows(read_bytes(tmp_path, trace.text())[0])
    assert len(wanted["ranges"]) == 25
    tables, report = read_bytes(tmp_path, trace.text(**LAYOUTS[layout]), block=block)
    assert rows(tables) == wanted
    assert (report.problem, report.unread) == (None, 0)


texts = st.text(max_size=12) | st.sampled_from(["},{", '"', "\\", '\\"', "]}", "[", "}, {", "\\\\"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
categories = st.sampled_from(
    ["kernel", "cuda_runtime", "user_annotation", "gpu_memcpy", "cpu_op", "python_function", "x"]
)
events = st.fixed_dictionaries(
    {"ph": st.sampled_from("XXXXBEiM"), "cat": categories, "name": texts, "ts": st.floats(0, 1e6) | st.integers(0, 10**6)},
    optional={"pid": st.integers(0, 5), "tid": st.integers(0, 5), "dur": st.floats(-5, 1e4), "args": st.dictionaries(texts, values, max_size=3)},
)  # fmt: skip
anything = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("ph", "cat", "name", "ts", "dur", "pid", "tid", "args"), values)
)
quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@quick
@given(st.lists(events, max_size=12), st.integers(1, 400), st.sampled_from([None, 0, 2]), st.booleans())
def test_any_block_size_gives_the_same_rows(
    tmp_path: Path, made: list[dict[str, Any]], block: int, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(
        {"schemaVersion": 1, "traceEvents": made, "tail": [made[:1]]}, indent=indent, ensure_ascii=ascii_only
    )
    data = text.encode("utf-8", "surrogatepass")
    whole, one = read_bytes(tmp_path, data)
    cut, other = read_bytes(tmp_path, data, block=block)
    assert rows(cut) == rows(whole)
    assert (one.recognised, one.unread, one.problem) == (other.recognised, other.unread, other.problem)


@quick
@given(st.lists(anything | values, max_size=8), st.integers(1, 200))
@example(
    [
        {
            "ph": "X",
            "cat": "kernel",
            "name": "k",
            "ts": "12.5",
            "dur": None,
            "pid": 1.0,
            "args": {"stream": "0x7", "grid": "8"},
        }
    ],
    50,
)
def test_no_json_value_in_any_field_raises(tmp_path: Path, made: list[Any], block: int) -> None:
    data = json.dumps({"traceEvents": made}).encode("utf-8", "surrogatepass")
    _, report = read_bytes(tmp_path, data, block=block)
    assert report.problem is None
    assert report.recognised + report.unread <= len(made)


@quick
@given(st.binary(max_size=200), st.integers(1, 64))
def test_no_bytes_after_the_head_raise(tmp_path: Path, junk: bytes, block: int) -> None:
    read_bytes(tmp_path, b'{"traceEvents": [' + junk, block=block)
    read_bytes(tmp_path, b"{" + junk, block=block)
    read_bytes(tmp_path, junk, block=block)


def test_a_file_cut_at_any_byte_keeps_the_events_before(tmp_path: Path) -> None:
    data = sglang_cycles(0, cycles=1).text()

    def events_of(text: bytes) -> list[tuple[object, ...]]:
        return [(e.name, e.ts, bytes(e.args)) for block in TraceJson(Stream(text), 600).events() for e in block]

    wanted, kept = events_of(data), 0
    for end in range(len(data)):
        got = events_of(data[:end])
        assert got == wanted[: len(got)], end
        assert len(got) >= kept, end
        kept = len(got)
    assert kept == len(wanted)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.5, 0.8, 0.9999])
def test_a_truncated_file_gives_a_part_of_the_rows_and_a_problem(share: float, tmp_path: Path) -> None:
    data = sglang_cycles(0, cycles=1).text()
    wanted = rows(read_bytes(tmp_path, data)[0])
    tables, report = read_bytes(tmp_path, data[: int(len(data) * share)], block=512)
    got = rows(tables)
    for table in ("kernels", "launches", "ranges", "memops", "collectives"):
        assert set(got[table]) <= set(wanted[table]), table
    assert report.recognised == sum(len(got[t]) for t in ("kernels", "launches", "ranges", "memops"))
    assert (report.recognised > 0) == (share >= 0.2)
    assert report.problem


def test_a_truncated_file_names_what_is_lost(tmp_path: Path) -> None:
    data = sglang_cycles(0).text()
    tables, report = read_bytes(tmp_path, data[: len(data) // 2])
    assert report.problem == "the file ends inside the list of events (truncated); what came before was read"
    assert report.problem.split(";")[0] in json.loads(tables["traces"]["notes"].item())
    assert 0 < report.recognised < 69


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.999])
def test_a_compressed_file_that_breaks_off_is_read_up_to_there(share: float, tmp_path: Path) -> None:
    packed = gzip.compress(sglang_cycles(0, cycles=40).text(), mtime=0)
    _, report = read_bytes(tmp_path, packed[: int(len(packed) * share)], "rank0.trace.json.gz")
    assert report.problem
    assert report.problem.startswith("the compressed stream ends early (truncated file)")
    if share > 0.5:
        assert report.recognised > 100


def test_a_truncated_file_with_the_base_at_its_end_stays_relative(tmp_path: Path) -> None:
    data = sglang_cycles(0).text(events_first=True)
    tables, _ = read_bytes(tmp_path, data[:-300])
    assert tables["traces"]["clock"].item() == "relative"
    assert tables["kernels"]["start_ns"].max() < 10**12


@pytest.mark.parametrize("block", [200, 1 << 20])
def test_nan_and_infinity_are_not_json_and_do_no_harm(block: int, tmp_path: Path) -> None:
    trace = Trace()
    for index, word in enumerate(["nan", "NaN", "-inf", "Infinity", "-Infinity", "inf"]):
        trace.run(f"kernel: {word}, [nan]", 10 + index * 50, 5, bad="@" + word)
    data = trace.text()
    for word in (b"nan", b"NaN", b"-inf", b"Infinity", b"-Infinity", b"inf"):
        data = data.replace(b'"@' + word + b'"', word)
    tables, report = read_bytes(tmp_path, data, block=block)
    assert tables["kernels"].height == 6
    assert sorted(n for n in tables["names"]["name"] if n.startswith("kernel"))[0] == "kernel: -Infinity, [nan]"
    assert (report.unread, report.problem) == (0, None)


def test_a_time_that_is_no_number_leaves_the_event_out_and_counts_it(tmp_path: Path) -> None:
    trace = Trace()
    trace.run(GEMM, 10, 5)
    data = trace.text().replace(b'"ts": 20.0', b'"ts": NaN')
    tables, report = read_bytes(tmp_path, data)
    assert (tables["kernels"].height, report.recognised, report.unread) == (0, 1, 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"name": "one"', b'"name": "o\xffe"'),  # no UTF-8
        (b'"name": "one"', b'"name": "C:\\Users\\x"'),  # backslashes that escape nothing
        (b'"name": "one"', b'"name": "a\tb\nc"'),  # control characters
        (b'"name": "one"', b'"name": "two", "name": "one"'),  # the last of two keys counts
        (b'"name": "one"', b'"name": "one", "new field": {"a": [1e999, {}]}'),
    ],
)
@pytest.mark.parametrize("block", [64, 1 << 20])
def test_one_badly_written_event_costs_no_other(old: bytes, new: bytes, block: int, tmp_path: Path) -> None:
    trace = Trace()
    for index, name in enumerate(["zero", "one", "two"]):
        trace.annotate(name, index * 10, 5)
    tables, report = read_bytes(tmp_path, trace.text().replace(old, new), block=block)
    assert tables["ranges"].height == 3
    assert (report.unread, report.problem) == (0, None)


def test_what_is_no_event_is_counted(tmp_path: Path) -> None:
    tables, report = read_bytes(
        tmp_path,
        b'{"traceEvents": [1, "x", null, [], {"ph": "X", "cat": "cuda_runtime", "name": "n", "ts": 1}, {"ph": }]}',
    )
    assert tables["launches"].height == 1
    assert report.unread == 5


@pytest.mark.parametrize("text", ["[%s]", "[%s", " \n[%s,]", "\ufeff[%s]"])
def test_a_bare_list_of_events_is_a_trace(text: str, tmp_path: Path) -> None:
    event = '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2}'
    tables, _ = read_bytes(tmp_path, (text % f"{event}, {event}").encode())
    assert tables["kernels"]["start_ns"].to_list() == [1500, 1500]


@pytest.mark.parametrize(
    "text", ["", "   ", "{}", '{"a": 1}', "[]", '{"traceEvents": {}}', '{"traceEvents": []}', "null", "7", '{"a": ']
)
def test_json_without_events_is_no_error(text: str, tmp_path: Path) -> None:
    tables, report = read_bytes(tmp_path, text.encode())
    assert tables["traces"].height == 1
    assert report.recognised == 0


def test_a_huge_value_beside_the_events_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_blocks, "MAX_VALUE", 2000)
    trace = sglang_cycles(0, cycles=1)
    trace.top = {"stackFrames": {str(i): {"name": "f}{"} for i in range(500)}, **trace.top}
    tables, report = read_bytes(tmp_path, trace.text(), block=128)
    assert tables["kernels"].height == 11
    assert report.problem is None
    assert tables["traces"]["rank"].item() == 0


def test_an_endless_event_stops_the_reading_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_blocks, "MAX_EVENT", 4096)
    trace = Trace()
    trace.annotate("draft", 1, 2)
    trace.annotate("x" * 50_000, 5, 2)
    trace.annotate("y", 9, 2)
    tables, report = read_bytes(tmp_path, trace.text(), block=1000)
    assert tables["ranges"].height == 1
    assert report.problem
    assert "longer than" in report.problem


def test_memory_stays_within_a_few_blocks(tmp_path: Path) -> None:
    trace = vllm_cpu(0)
    trace.events *= 400
    data = trace.text()
    most = 0

    class Watched(Stream):
        def read1(self, size: int | None = -1, /) -> bytes:
            nonlocal most
            most = max(most, len(reader._buffer))
            return super().read1(size)

    reader = TraceJson(Watched(data), 10_000)
    assert sum(len(block) for block in reader.events()) == len(trace.events)
    assert len(data) > 500_000
    assert most < 40_000


brackets = st.text(alphabet=st.sampled_from(list('[]{}"\\ a')), max_size=60)


@given(brackets, st.integers(0, 60), st.integers(0, 60))
def test_brackets_are_counted_as_a_reader_of_json_would(text: str, first: int, second: int) -> None:
    wanted, depth, in_string, escaped = [], 0, False, False
    for position, char in enumerate(text):
        if in_string:
            in_string = escaped or char != '"'
            escaped = not escaped and char == "\\"
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            wanted.append((position, depth))
        elif char in "]}":
            depth -= 1
            wanted.append((position, depth))
    if "\\" in text and '"' not in text:
        return
    nesting = Nesting()
    got = []
    low, high = sorted((min(first, len(text)), min(second, len(text))))
    for start, end in ((0, low), (low, high), (high, len(text))):
        at, depths = nesting.feed(text[start:end].encode())
        got += [(int(a) + start, int(d)) for a, d in zip(at, depths, strict=True)]
    if not _escape_outside_a_string(text):
        assert got == wanted


def _escape_outside_a_string(text: str) -> bool:
    in_string, escaped = False, False
    for char in text:
        if in_string:
            in_string = escaped or char != '"'
            escaped = not escaped and char == "\\"
        elif char == "\\":
            return True
        elif char == '"':
            in_string = True
    return False


def test_event_ends_stop_at_the_end_of_the_list() -> None:
    ends, close = event_ends(b'{"a": "]}"}, {"b": [{}]} ], "x": [{}]}')
    assert ends == [11, 24]
    assert close == 25
    assert event_ends(b'{"a": 1') == ([], None)
    assert np.asarray(event_ends(b"")[0]).size == 0


def test_collective_arguments_of_a_wrong_type_are_absent_not_fatal(tmp_path: Path) -> None:
    trace = Trace()
    trace.run(GEMM, 10, 5)
    trace.run(
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)",
        30,
        5,
        **nccl(10) | {"In msg nelems": "12", "dtype": 7, "Group size": [2]},
    )
    trace.events[-1]["args"]["grid"] = "8x1x1"
    tables, report = read_bytes(tmp_path, trace.text())
    row = tables["collectives"].row(0, named=True)
    assert (row["collective"], row["bytes"], row["group_size"]) == ("all_reduce", None, None)
    assert tables["kernels"]["grid_x"].to_list() == [8, None]
    assert report.unread == 0

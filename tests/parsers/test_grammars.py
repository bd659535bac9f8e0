"""Every line grammar reads its own examples; a new field, a lost prefix or an outer prefix costs nothing."""

import json
from pathlib import Path

import polars as pl
import pytest

from traceana_parsers.interface import MemorySink
from traceana_parsers.logs.catalog import grammars
from traceana_parsers.logs.grammar import Example, Grammar, KeyValueGrammar
from traceana_parsers.read import read_run

CASES = [
    pytest.param(grammar, example, id=f"{grammar.engine}-{grammar.name}-{i}")
    for grammar in grammars().values()
    for i, example in enumerate(grammar.examples)
]


def read(tmp_path: Path, data: str | bytes) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    path = tmp_path / "server.log"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    sink = MemorySink()
    read_run([str(path)], sink)
    tables = {name: pl.concat(frames) for name, frames in sink.tables.items()}
    return tables, tables.pop("inputs")


def value_of(row: dict[str, object], key: str) -> object:
    if row.get(key) is not None or "attrs" not in row:
        return row[key]
    return json.loads(str(row["attrs"] or "{}")).get(key)


def check(grammar: Grammar, example: Example, tables: dict[str, pl.DataFrame]) -> None:
    if not grammar.table:
        return
    rows = tables[grammar.table]
    if grammar.table == "settings":
        got = dict(rows.select("name", "value").iter_rows())
        for name, value in example.gives.items():
            assert got.get(name) == value
        return
    if grammar.table == "events":
        rows = rows.filter(pl.col("kind") == grammar.kind)
    assert rows.height >= 1
    row = rows.row(0, named=True)
    for key, value in example.gives.items():
        assert value_of(row, key) == (pytest.approx(value) if isinstance(value, float) else value), key


@pytest.mark.parametrize(("grammar", "example"), CASES)
def test_a_grammar_reads_its_example(grammar: Grammar, example: Example, tmp_path: Path) -> None:
    tables, inputs = read(tmp_path, example.line + "\n")
    assert inputs["unread"].item() == 0
    assert inputs["recognised"].item() == 1
    check(grammar, example, tables)


def test_every_grammar_has_an_example() -> None:
    assert [g.name for g in grammars().values() if not g.examples] == []


@pytest.mark.parametrize(
    ("grammar", "example"),
    [c for c in CASES if isinstance(c.values[0], KeyValueGrammar)],
    ids=lambda v: getattr(v, "name", ""),
)
def test_a_new_field_in_the_middle_does_not_lose_the_line(
    grammar: KeyValueGrammar, example: Example, tmp_path: Path
) -> None:
    line = example.line
    cut = line.find(", ", line.find(grammar.anchor) + len(grammar.anchor) + 20)
    if cut < 0 or "EAGLE3_PROFILE" in line:
        pytest.skip("one pair only, or blanks between pairs")
    tables, inputs = read(tmp_path, line[:cut] + ", brand new thing: 7.5" + line[cut:] + "\n" + line + "\n")
    assert inputs["unread"].item() == 0
    assert tables[grammar.table].height == 2
    check(grammar, example, tables)
    assert "brand new thing" in inputs["unknown_keys"].item()


OUTER = {
    "docker compose": b"sglang-1  | %s",
    "docker JSON": b'{"log":"%s\\n","stream":"stderr","time":"2026-02-03T09:15:21.5Z"}',
    "kubectl --timestamps": b"2026-02-03T08:15:20.104233Z %s",
    "CRI": b"2026-02-03T08:15:20.104233Z stdout F %s",
    "journald": b"Feb 03 08:15:20 node07 sglang[812]: %s",
    "log viewer": b"  |   | 2026-02-03 10:15:20.100 | %s",
    "ray": b"\x1b[36m(SchedulerActor pid=123, ip=10.0.0.1)\x1b[0m %s [repeated 32x across cluster]",
    "mpirun": b"[1,3]<stdout>:%s",
    "mpirun short": b"[0] %s",
    "srun": b"2: %s",
    "ansi": b"\x1b[32m%s\x1b[0m",
    "crlf": b"%s\r",
    "after a tqdm bar": b"\rCapturing batches (bs=8 avail_mem=3.2 GB):  50%%|##  | 12/24 [00:05<00:05,  2.2it/s]\r%s",
    "invalid UTF-8": b"\xff\xfe %s \xc3(",
    "NUL bytes": b"\0\0%s",
    "very long line": b"x" * (1 << 20) + b" %s",
}
DECODE = (
    b"[2026-02-03 09:15:20 TP3] Decode batch, #running-req: 4, #token: 9021, token usage: 0.02, accept len: 2.41, "
    b"accept rate: 0.47, cuda graph: True, gen throughput (token/s): 402.11, #queue-req: 3"
)


@pytest.mark.parametrize("outer", OUTER.values(), ids=OUTER.keys())
def test_outer_prefixes_and_damage_keep_the_values(outer: bytes, tmp_path: Path) -> None:
    data = b"first line\n" + outer % DECODE + b"\n" + DECODE + b"\n"
    tables, inputs = read(tmp_path, data)
    rows = tables["decode_samples"]
    assert rows.height == 2
    row = rows.row(0, named=True)
    assert (row["running"], row["gen_tps"], row["queued"], row["cuda_graph"]) == (4, 402.11, 3, True)
    assert (str(row["ts"]), row["tp"]) == ("2026-02-03 09:15:20", 3)
    assert row["line"] == 2
    assert DECODE in data[row["byte_offset"] :].split(b"\n")[0]
    assert inputs["unread"].item() == 0


def test_a_lost_bracket_and_a_time_without_a_date_are_read(tmp_path: Path) -> None:
    tables, _ = read(tmp_path, DECODE[1:] + b"\n" + b"[09:15:20 TP3] " + DECODE.partition(b"] ")[2] + b"\n")
    rows = tables["decode_samples"]
    assert rows["tp"].to_list() == [3, 3]
    assert rows["ts"].null_count() == 1


def test_glued_records_are_taken_apart_and_keep_their_line(tmp_path: Path) -> None:
    tables, inputs = read(tmp_path, b"a\n" + DECODE + DECODE + b"\n")
    rows = tables["decode_samples"]
    assert rows["line"].to_list() == [2, 2]
    assert rows["gen_tps"].to_list() == [402.11, 402.11]
    assert rows["byte_offset"].to_list() == [2, 2 + len(DECODE)]
    assert inputs["recognised"].item() >= 1


def test_two_families_on_one_line_are_both_read(tmp_path: Path) -> None:
    line = (
        "Capture target decode CUDA graph end. elapsed=0.89 s, mem usage=0.15 GB, avail mem=6.95 GB "
        "max_total_num_tokens=29801, chunked_prefill_size=4096, max_running_requests=64, context_len=32768\n"
    )
    tables, _ = read(tmp_path, line)
    assert sorted(tables["events"]["kind"].to_list()) == ["capture_end", "limits"]


def test_interleaved_process_prefixes_name_the_last_process(tmp_path: Path) -> None:
    line = (
        "(Worker pid=422) (Worker pid=421) WARNING 02-03 09:10:00 [symm_mem.py:66] SymmMemCommunicator: Device capability "
        "12.0 not supported, communicator is not available.\n"
        "WARNING 02-03 09:10:00 [symm_mem.py:66] SymmMemCommunicator: Device capability 12.0 not supported, communicator "
        "is not available.\n"
    )
    tables, _ = read(tmp_path, line)
    assert tables["events"]["pid"].to_list() == [421, None]


def test_a_line_of_a_known_family_in_no_known_form_is_counted_and_shown(tmp_path: Path) -> None:
    tables, inputs = read(tmp_path, DECODE + b"\nDecode batch went sideways\n")
    assert tables["decode_samples"].height == 1
    assert inputs.select("unread", "unread_line", "unread_text").row(0) == (1, 2, "Decode batch went sideways")


def test_a_cut_off_line_keeps_what_it_says_and_counts_as_partial(tmp_path: Path) -> None:
    tables, inputs = read(tmp_path, DECODE + b"\n" + DECODE[:-40] + b"\n" + DECODE + b"\n")
    rows = tables["decode_samples"]
    assert rows["running"].to_list() == [4, 4, 4]
    assert rows["gen_tps"].to_list() == [402.11, None, 402.11]
    assert inputs["partial"].item() == 1

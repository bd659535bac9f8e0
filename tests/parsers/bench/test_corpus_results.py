"""Real results: every figure that the case's EXPECT.md names comes out of its file."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.parsers.bench.results import Got, Row, attrs

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"
pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real inputs is not beside this checkout")


def case(number: str) -> Path:
    (folder,) = CORPUS.glob(f"cases/{number}-*")
    return folder


def by(rows: list[Row], *names: str) -> dict[Any, Row]:
    found: dict[Any, Row] = {}
    for row in rows:
        key = tuple(row.get(name) for name in names)
        assert key not in found, key
        found[key if len(key) > 1 else key[0]] = row
    return found


def test_05_a_plain_table_and_one_by_steps_topk_and_width() -> None:
    rows = Got(case("05") / "bench.md").rows()
    plain = by([r for r in rows if r["speculative"] is False], "concurrency")
    assert {c: r["output_tps"] for c, r in plain.items()} == {
        1: 222.47,
        4: 566.21,
        8: 733.61,
        16: 1012.96,
        32: 1077.55,
        64: 1073.69,
    }
    spec = by([r for r in rows if r["speculative"]], "concurrency", "num_steps", "topk", "num_draft_tokens")
    assert len(spec) == 8
    best = spec[1, 3, 3, 4]
    assert (best["output_tps"], best["accept_length_printed"]) == (207.62, 1.99)
    cycle = 1000 * best["accept_length_printed"] / best["output_tps"]
    assert cycle == pytest.approx(9.59, abs=0.01)
    assert spec[4, 3, 1, 4]["output_tps"] == 447.90


def test_05_a_row_of_zeros_is_the_run_without_speculation() -> None:
    rows = Got(case("05") / "bench2.md").rows()
    assert [r["speculative"] for r in rows] == [False] * 5 + [True] * 8
    assert all("num_steps" not in r and "topk" not in r for r in rows[:5])
    assert attrs(rows[0]) == {"assumed": "throughput in tok/s", "ep": 1, "latency": 795.87, "tp": 4}


def test_13_printed_blocks_that_end_early() -> None:
    base, mtp = (Got(case("13") / f"bench_{name}.txt").point for name in ("baseline", "mtp"))
    assert (base["output_tps"], base["tpot_mean_ms"], base["ttft_mean_ms"]) == (1042.18, 17.41, 153886.28)
    assert (mtp["output_tps"], mtp["tpot_mean_ms"], mtp["ttft_mean_ms"]) == (881.51, 9.38, 213962.97)
    assert (mtp["itl_mean_ms"], mtp["itl_of"], mtp["accept_rate_printed"]) == (24.44, "chunk", pytest.approx(0.8031))
    assert "itl_mean_ms" not in base
    assert attrs(mtp)["max_output_tokens_per_s"] == 458  # chunks, no tokens: no column
    assert (base["request_rate"], base["requests"], base["output_tokens"]) == (20.0, 100, 409600)


def test_16_time_per_token_and_time_per_chunk_are_told_apart() -> None:
    base, dflash = Got(case("16") / "bench.md").rows()
    assert (base["series"], base["speculative"], base["tpot_median_ms"], base["output_tps"]) == (
        "baseline",
        False,
        3.5,
        285,
    )
    assert (dflash["series"], dflash["speculative"], dflash["output_tps"]) == ("DFlash", True, 347)
    assert (dflash["tpot_median_ms"], dflash["itl_median_ms"], dflash["itl_of"]) == (2.9, 17.1, "chunk")
    assert (base["ttft_median_ms"], dflash["ttft_median_ms"]) == (47, 76)


def test_34_nccl_tests_with_a_head_and_without() -> None:
    tree = Got(case("34") / "nccl_tests_tree8.txt").rows("collective_points")
    assert [(r["bytes"], r["time_us"], r["ranks"], r["collective"]) for r in tree] == [(8, 42.56, 8, "all_reduce")]
    assert (tree[0]["device"], tree[0]["series"]) == ("NVIDIA GeForce RTX 4090", "NCCL_ALGO=TREE")
    shm = Got(case("34") / "nccl_tests_shm2.txt").rows("collective_points")
    assert len(shm) == 18
    in_place = {r["bytes"]: r["time_us"] for r in shm if r["in_place"]}
    assert in_place[8] == 8.37
    assert in_place[2048] == 8.24
    assert all("ranks" not in r and "collective" not in r for r in shm)  # not written there


def test_38_acceptance_and_cycle_of_four_runs() -> None:
    rows = by(Got(case("38") / "bench.md").rows(), "series")
    healthy, slow = rows["12:35 healthy"], rows["12:39 slow"]
    assert (healthy["output_tps"], healthy["step_ms"], healthy["tokens_per_cycle_printed"]) == (21.1, 122, 2.72)
    assert (slow["output_tps"], slow["step_ms"], slow["tokens_per_cycle_printed"]) == (10.0, 234, 2.42)
    assert (healthy["accepted"], healthy["drafted"], healthy["cycles"]) == (82, 96, 47)
    assert rows["② MTP on/TQ off"]["accept_rate_printed"] == pytest.approx(0.885)
    assert all(r["speculative"] for r in rows.values())


def test_42_acceptance_details_and_a_column_of_yes_and_no() -> None:
    point = Got(case("42") / "bench.txt").point
    assert (point["concurrency"], point["accept_length_printed"]) == (8, 1.86)
    assert (attrs(point)["al_p50"], attrs(point)["al_p99"]) == (1.78, 3.20)
    rows = by(Got(case("42") / "table_4802.md").rows(), "backend", "speculative")
    assert {key: r["output_tps"] for key, r in rows.items()} == {
        ("TRTLLM", False): 876,
        ("TRTLLM", True): 1154,
        ("vLLM", False): 715,
        ("vLLM", True): 1430,
    }
    assert all((r["k"] == 3) if r["speculative"] else ("k" not in r) for r in rows.values())
    assert {r["output_length"] for r in rows.values()} == {256}


EXPECT_46 = {  # concurrency: (plain tok/s, plain step ms, tok/s with MTP, chunk ms with MTP, acceptance)
    1: (59.0, 16.9, 95.6, 27.1, 0.577),
    2: (92.4, 21.6, 148.5, 35.1, 0.563),
    4: (164.3, 24.3, 247.3, 45.4, 0.581),
    8: (251.5, 31.7, 201.5, 101.3, 0.513),
    16: (429.2, 42.7, 313.3, 134.0, 0.521),
    32: (318.1, 101.3, 405.6, 191.3, 0.533),
}


def test_46_the_matrix_of_both_runs() -> None:
    on, off = (Got(case("46") / f"decode-matrix_{name}.json").rows() for name in ("mtp", "nomtp"))
    with_mtp = by([r for r in on if r["context_tokens"] == 0], "concurrency")
    without = by([r for r in off if r["context_tokens"] == 0], "concurrency")
    for users, (plain, step, tps, chunk, rate) in EXPECT_46.items():
        assert without[users]["output_tps"] == pytest.approx(plain, abs=0.05)
        assert without[users]["itl_mean_ms"] == pytest.approx(step, abs=0.06)
        assert with_mtp[users]["output_tps"] == pytest.approx(tps, abs=0.05)
        assert with_mtp[users]["itl_mean_ms"] == pytest.approx(chunk, abs=0.06)
        assert with_mtp[users]["accept_rate_printed"] == pytest.approx(rate, abs=0.0006)
        assert with_mtp[users]["accept_scope"] == "snapshot"
        assert "accept_length_printed" not in with_mtp[users]  # the file's 0.0 is no length
    assert "accept_rate_printed" not in without[1]


@pytest.mark.parametrize("name", ["mtp", "nomtp"])
def test_46_the_printed_matrix_is_the_saved_one(name: str) -> None:
    printed = by(Got(case("46") / f"decode-matrix_{name}.log").rows(), "context_tokens", "concurrency")
    saved = by(Got(case("46") / f"decode-matrix_{name}.json").rows(), "context_tokens", "concurrency")
    assert printed.keys() == saved.keys()
    for key, row in printed.items():
        assert row["output_tps"] == pytest.approx(saved[key]["output_tps"], abs=0.06)
        assert row["user_tps"] == pytest.approx(saved[key]["user_tps"], abs=0.06)


def test_46_each_cell_stands_at_its_own_line() -> None:
    path = case("46") / "decode-matrix_mtp.json"
    text = path.read_bytes()
    for row in Got(path).rows():
        cell = text[row["byte_offset"] :][:80].split(b",")
        assert cell[0].split() == [b"{", b'"concurrency":', str(row["concurrency"]).encode()]
        assert cell[1].split() == [b'"context_tokens":', str(row["context_tokens"]).encode()]
        assert row["line"] == 1 + text[: row["byte_offset"]].count(b"\n")


def test_46_requests_of_a_cell_keep_their_chunks() -> None:
    requests = Got(case("46") / "decode-matrix_mtp.json").rows("bench_requests")
    first = next(r for r in requests if r["point"] == 0 and "e2e_ms" in r)
    assert (first["output_tokens"], first["chunks"]) == (2048, 773)
    assert first["decode_ms"] / first["chunks"] == pytest.approx(27.46, abs=0.01)


def test_47_matrices_without_a_unit_and_their_acceptance() -> None:
    read = Got(case("47") / "bench.md")
    rows = by(read.rows(), "series", "context_tokens", "concurrency")
    assert read.report.questions == []
    on, off = (lambda ctx, cc: rows["DCP1 MTP on", ctx, cc]), (lambda ctx, cc: rows["DCP1 MTP off", ctx, cc])
    assert (on(0, 1)["output_tps"], off(0, 1)["output_tps"]) == (122.0, 92.4)
    assert (on(0, 128)["output_tps"], off(0, 128)["output_tps"]) == (2245.8, 2222.6)
    assert (on(16384, 16)["output_tps"], off(16384, 16)["output_tps"]) == (484.6, 489.5)
    assert (on(131072, 2)["output_tps"], off(131072, 2)["output_tps"]) == (78.7, 83.6)
    assert (rows["DCP8 MTP on", 0, 128]["output_tps"], rows["DCP8 MTP off", 0, 128]["output_tps"]) == (1121.7, 1301.1)
    assert (on(0, 1)["accept_rate_printed"], on(0, 128)["accept_rate_printed"]) == (0.494, 0.417)
    assert (on(0, 1)["speculative"], off(0, 1)["speculative"]) == (True, False)
    assert ("DCP1 MTP on", 131072, 4) not in rows  # `skip`
    assert on(0, 1)["line"] == 4  # the throughput's, not the acceptance's
    assert "up with users" in attrs(on(0, 1))["assumed"]


def test_48_tables_of_messages_protocols_and_configurations() -> None:
    read = Got(case("48") / "tables.md")
    sizes = by(read.rows("collective_points"), "series", "bytes")
    assert (sizes["Without XML", 32 << 10]["time_us"], sizes["With XML", 32 << 10]["time_us"]) == (48.16, 26.20)
    assert (sizes["PCIe oneshot", 1 << 20]["time_us"], sizes["NCCL", 1 << 20]["time_us"]) == (95.6, 85.2)
    rows = read.rows()
    proto = [(r["series"], r["output_tps"]) for r in rows if r["series"].startswith("NCCL_PROTO")]
    assert proto == [
        ("NCCL_PROTO=default", 1003.5),
        ("NCCL_PROTO=default", 998.6),
        ("NCCL_PROTO=LL", 998.1),
        ("NCCL_PROTO=LL128", 1131.6),
        ("NCCL_PROTO=Simple", 1108.9),
        ("NCCL_PROTO=LL,LL128,Simple", 1127.6),
    ]
    assert {r["concurrency"] for r in rows if r["series"].startswith("NCCL_PROTO")} == {32}
    ttft = {r["series"]: r["ttft_mean_ms"] for r in rows if "ttft_mean_ms" in r}
    assert (ttft["broken no-XML (before fix)"], ttft["no-XML with PR #2127"]) == (9138, 1074)
    glm = by([r for r in rows if r["series"].startswith("GLM-5")], "series", "context_tokens")
    assert glm["GLM-5 TP=8, MTP / NCCL baseline", 0]["output_tps"] == 102.0
    assert glm["GLM-5 TP=8, MTP / PCIe oneshot", 32768]["output_tps"] == 71.3
    assert glm["GLM-5 TP=8, MTP / NCCL baseline", 0]["speculative"] is True
    assert glm["GLM-5 TP=8, no MTP / PCIe oneshot", 0]["speculative"] is False


def test_57_accept_length_and_time_per_token_of_two_tables_are_joined() -> None:
    rows = by(Got(case("57") / "bench.md").rows(), "series", "k")
    assert len(rows) == 13
    cycle = {
        key: round(r["accept_length_printed"] * r["tpot_mean_ms"], 2) for key, r in rows.items() if r["speculative"]
    }
    assert [cycle["Eagle 3", k] for k in range(2, 8)] == [10.20, 11.41, 12.47, 13.71, 14.53, 15.19]
    assert [cycle["Eagle 1", k] for k in range(2, 8)] == [9.18, 9.82, 10.71, 11.45, 12.10, 12.84]
    vanilla = rows["vanilla", None]  # one baseline, though it is repeated beside every k
    assert (vanilla["tpot_mean_ms"], vanilla["speculative"], vanilla["concurrency"]) == (7.07, False, 1)


def test_58_the_rank_that_comes_last_shows_the_transfer() -> None:
    rows = Got(case("58") / "per_rank.md").rows("collective_points")
    times = {r["series"]: r["time_us"] for r in rows}
    assert len(times) == 8
    assert min(times.values()) == 10.519
    assert times["rank 3"] == 72.160
    assert {r["collective"] for r in rows} == {"all_reduce"}
    assert Got(case("58") / "kernels_mi355x.md").rows() == []


METHODS = {
    "ngram-k4": (1.761, 2.708),
    "eagle-k3": (2.153, 2.186),
    "eagle3-k3": (1.858, 1.870),
    "draft-k3": (1.847, 1.858),
}
TIMES = {  # folder, users: ITL, TPOT
    ("baseline", 1): (5.59, 5.59),
    ("baseline", 4): (8.44, 8.44),
    ("ngram-k4", 1): (6.12, 3.47),
    ("eagle-k3", 2): (9.25, 4.30),
    ("eagle3-k3", 4): (12.14, 6.53),
    ("draft-k3", 2): (9.71, 5.26),
}


CAPTURES = [(method, users) for method in METHODS for users in (1, 2, 4)]


@pytest.mark.parametrize(("method", "users"), CAPTURES)
def test_captures_tokens_per_chunk_are_counted_not_taken_from_the_accept_length(method: str, users: int) -> None:
    read = Got(CORPUS / "vllm-cpu-captures" / "clean" / method / f"bench_c{users}.json")
    point, requests = read.point, read.rows("bench_requests")
    per_chunk, length = METHODS[method]
    assert (point["output_tokens"] - point["requests"]) / point["chunks"] == pytest.approx(per_chunk, abs=0.0006)
    assert point["accept_length_printed"] == pytest.approx(length, abs=0.0006)
    assert (point["concurrency"], point["speculative"], point["accept_scope"]) == (users, True, "run")
    assert sum(r["chunks"] for r in requests) == point["chunks"]
    mean_tpot = sum(r["decode_ms"] / (r["output_tokens"] - 1) for r in requests) / len(requests)
    assert mean_tpot == pytest.approx(point["tpot_mean_ms"], rel=1e-9)


@pytest.mark.parametrize(("folder", "users"), list(TIMES))
def test_captures_times_are_those_of_the_table(folder: str, users: int) -> None:
    point = Got(CORPUS / "vllm-cpu-captures" / "clean" / folder / f"bench_c{users}.json").point
    itl, tpot = TIMES[folder, users]
    assert (round(point["itl_mean_ms"], 2), round(point["tpot_mean_ms"], 2)) == (itl, tpot)


@pytest.mark.parametrize("method", list(METHODS))
def test_captures_the_printed_block_says_what_the_file_says(method: str) -> None:
    folder = CORPUS / "vllm-cpu-captures" / "clean" / method
    saved, printed = Got(folder / "bench_c2.json").point, Got(folder / "bench_c2.txt").point
    for name, value in printed.items():
        if isinstance(value, float) and name in saved and value != float("inf"):
            assert value == pytest.approx(saved[name], abs=0.00501), name
        elif name not in ("line", "byte_offset", "dataset", "temperature", "output_length", "attrs"):
            assert value == saved[name] or name == "per_position", name
    assert printed["per_position"] == pytest.approx(saved["per_position"], abs=0.00005)
    assert (printed["dataset"], printed["temperature"], printed["output_length"]) == ("custom", 0.0, 96)


def test_captures_busy_and_clean_twins_gave_the_same_texts() -> None:
    root = CORPUS / "vllm-cpu-captures"
    for method in METHODS:
        clean, busy = (Got(folder / method / "bench_c1.json").point["texts"] for folder in (root / "clean", root))
        assert clean == busy == Got(root / "clean" / "baseline" / "bench_c4.json").point["texts"]


def test_captures_counters_of_metrics_are_those_of_the_bench(tmp_path: Path) -> None:
    folder = CORPUS / "vllm-cpu-captures" / "clean" / "eagle3-k3"
    bench = json.loads((folder / "bench_c1.json").read_text())

    def drafts(name: str) -> float:
        rows = Got(folder / name).rows("metrics")
        (value,) = (r["value"] for r in rows if r["name"] == "vllm:spec_decode_num_drafts_total")
        return float(value)

    between = drafts("metrics_c1.prom") - drafts("metrics_c0_start.prom")
    warm_up = between - bench["spec_decode_num_drafts"]  # bench's own first request is not in its difference
    assert 0 <= warm_up < 60


def test_captures_a_response_tells_its_own_speculation() -> None:
    (row,) = Got(CORPUS / "vllm-cpu-captures" / "eagle3-k3" / "sample_response.json").rows("bench_requests")
    assert (row["cycles"], row["accepted"], row["drafted"], row["output_tokens"]) == (35, 30, 105, 64)
    assert row["histogram"] == [16, 12, 3, 4]
    assert sum(n * count for n, count in enumerate(row["histogram"])) == row["accepted"]

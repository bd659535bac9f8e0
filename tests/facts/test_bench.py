"""What load points make of benchmark rows: definitions of acceptance, repeats, copies, requests in flight."""

from __future__ import annotations

import pytest

from tests.facts.bench_rows import points, table
from traceana.facts.bench_model import PointSource
from traceana.facts.model import Provenance

_VLLM = {"tool": "vllm_bench", "concurrency": 2, "itl_of": "chunk", "accept_scope": "run"}


def _counted(**more: object) -> dict[str, object]:
    """A run of 8 requests x 101 tokens with the counts of an n-gram drafter that drafts in few steps."""
    return {
        **_VLLM, "requests": 8, "output_tokens": 808, "duration_s": 2.0, "output_tps": 404.0, "tpot_mean_ms": 4.0,
        "itl_mean_ms": 7.0, "chunks": 450, "drafts": 200, "drafted": 800, "accepted": 340, **more,
    }  # fmt: skip


def test_a_look_up_drafter_is_counted_by_tokens_per_chunk_and_not_by_its_accept_length() -> None:
    (point,) = points([_counted()])
    assert point.accept_length.value == pytest.approx(1 + 340 / 200)
    assert point.tokens_per_cycle.value == pytest.approx(800 / 450)
    assert point.cycle_ms.value == 7.0
    assert point.k == 4


def test_without_chunks_a_look_up_drafter_is_counted_by_the_tokens_it_did_not_draft() -> None:
    (point,) = points([_counted(chunks=None, itl_mean_ms=None)])
    assert point.tokens_per_cycle.value == pytest.approx(808 / (808 - 340))


def test_more_accepted_tokens_than_output_tokens_are_another_clients_and_give_no_coverage() -> None:
    (point,) = points([_counted(chunks=None, itl_mean_ms=None, accepted=900)])
    assert point.tokens_per_cycle.provenance is Provenance.ASSUMED


@pytest.mark.parametrize(
    ("row", "length", "provenance"),
    [
        ({"accept_length_printed": 0.92}, 1.92, Provenance.DERIVED),
        ({"accept_length_printed": 1.92}, 1.92, Provenance.ASSUMED),
        ({"accept_length_printed": 1.92, "accept_scope": "run"}, 1.92, Provenance.MEASURED),
        ({"accept_length_printed": 2.4, "accept_scope": "lifetime"}, 2.4, Provenance.ASSUMED),
        ({"accept_rate_printed": 0.5, "k": 3}, 2.5, Provenance.DERIVED),
    ],
)
def test_every_written_accept_length_is_brought_to_the_one_that_counts_the_bonus(
    row: dict[str, object], length: float, provenance: Provenance
) -> None:
    (point,) = points([{"tool": "table", "concurrency": 1, "output_tps": 60.0, "speculative": True, **row}])
    assert point.accept_length.value == pytest.approx(length)
    assert point.accept_length.provenance is provenance
    assert point.accept_length.reason


def test_an_acceptance_rate_without_the_number_of_drafts_gives_no_accept_length() -> None:
    (point,) = points([{"tool": "vllm_bench", "output_tps": 60.0, "speculative": True, "accept_rate_printed": 0.8}])
    assert point.accept_length.value is None
    assert "how many tokens" in (point.accept_length.reason or "")


def test_the_rate_of_a_short_window_gives_no_accept_length() -> None:
    row = {"tool": "llm_decode_bench", "concurrency": 1, "output_tps": 95.0, "speculative": True, "k": 3}
    (point,) = points([{**row, "accept_rate_printed": 0.58, "accept_scope": "snapshot"}])
    assert point.accept_length.value is None


def test_repeats_are_one_point_with_its_runs() -> None:
    runs = [61.0, 68.7, 51.6, 67.2, 60.2]
    rows = [{"tool": "run_list", "output_tps": tps, "label": f"Run {i}"} for i, tps in enumerate(runs)]
    warm_up = {"tool": "run_list", "output_tps": 12.0, "warmup": True}
    (point,) = points([warm_up, *rows])
    assert point.runs == tuple(runs)
    assert point.gen_tps.value == pytest.approx(61.74)
    assert point.source is PointSource.TABLE


def test_a_figure_copied_down_a_table_column_is_one_measurement() -> None:
    rows = [
        {"tool": "table", "series": "vanilla", "speculative": False, "concurrency": 1, "k": k, "tpot_mean_ms": 7.07}
        for k in (2, 3, 4, 5)
    ]
    (point,) = points(rows)
    assert len(point.runs) == 1
    assert point.k == 0
    assert point.cycle_ms.value == pytest.approx(7.07)


def test_a_result_file_and_its_printed_block_are_one_measurement() -> None:
    block = {
        **_VLLM, "requests": 8, "output_tokens": 808, "duration_s": 2.0, "output_tps": 404.03, "tpot_mean_ms": 4.0,
    }  # fmt: skip
    (point,) = points([_counted(), {**block, "file_id": 1}])
    assert len(point.runs) == 1
    assert point.itl_ms.value == 7.0


def test_two_runs_of_one_command_are_two_measurements() -> None:
    (point,) = points([_counted(), {**_counted(), "file_id": 1, "duration_s": 2.04, "output_tps": 396.0}])
    assert len(point.runs) == 2


def test_requests_decoding_at_once_follow_from_throughput_and_time_per_token() -> None:
    row = {"tool": "vllm_bench", "request_rate": 20.0, "requests": 100, "output_tokens": 409600, "output_tps": 1042.18}
    (point,) = points([{**row, "tpot_mean_ms": 17.41, "ttft_mean_ms": 153886.0}])
    assert point.decoding.value == pytest.approx(18.1, abs=0.1)
    assert point.request_rate == 20.0


def test_a_mean_time_per_token_that_contradicts_the_throughput_gives_way_to_it() -> None:
    row = {"tool": "llm_decode_bench", "speculative": False, "concurrency": 16, "output_tps": 429.2, "itl_of": "chunk"}
    (point,) = points([{**row, "tpot_mean_ms": 42.7, "itl_mean_ms": 42.7}])
    assert point.cycle_ms.value == pytest.approx(37.3, abs=0.05)
    assert point.decoding.value == 16.0


def test_chunk_and_token_times_give_tokens_per_chunk() -> None:
    row = {"tool": "table", "speculative": True, "output_tps": 347.0, "itl_of": "chunk"}
    (point,) = points([{**row, "tpot_median_ms": 2.9, "itl_median_ms": 17.1}])
    assert point.tokens_per_chunk.value == pytest.approx(5.9, abs=0.01)
    assert point.latency_kind == "median"


def test_a_gap_that_may_be_per_token_is_not_taken_for_a_cycle() -> None:
    row = {"tool": "sglang_bench", "speculative": True, "concurrency": 4, "output_tps": 300.0, "tpot_mean_ms": 12.0}
    (point,) = points([{**row, "itl_mean_ms": 12.1, "itl_of": None, "accept_length_printed": 2.0}])
    assert point.itl_ms.value is None
    assert point.cycle_ms.value == pytest.approx(24.0)


def test_requests_give_the_spread_of_a_single_run() -> None:
    requests = [
        {"point": 0, "request": i, "start_s": float(i), "output_tokens": 101, "decode_ms": 400.0 + i, "chunks": 50}
        for i in range(1000)
    ]
    (point,) = points([_counted()], requests)
    assert point.samples is not None
    assert point.samples.n == 1000
    assert len(point.samples.ms_per_token) <= 400
    assert point.samples.ms_per_token[0] == pytest.approx(4.0)
    assert point.samples.tokens_per_cycle[0] == pytest.approx(2.0)


def test_no_usable_figure_is_no_point() -> None:
    assert points([{"tool": "table", "concurrency": 4, "output_tps": float("nan")}]) == ()
    assert points([{"tool": "table", "concurrency": 4, "output_tps": 0.0}]) == ()


def test_two_tables_of_a_file_keep_their_series_apart() -> None:
    found = points([*table("on", True, {1: 122.0, 2: 176.6}), *table("off", False, {1: 92.4})])
    assert [(p.series, p.concurrency) for p in found] == [("off", 1.0), ("on", 1.0), ("on", 2.0)]


def test_rows_that_only_their_words_tell_apart_are_no_repeats() -> None:
    rows = [
        {
            "tool": "table",
            "series": "ar",
            "speculative": False,
            "output_tps": tps,
            "label": f"single request, {n} tokens",
        }
        for n, tps in ((256, 26.1), (1024, 26.4))
    ]
    assert [point.label for point in points(rows)] == ["single request, 1024 tokens", "single request, 256 tokens"]


def test_a_client_that_reads_several_tokens_at_once_does_not_lengthen_a_plain_step() -> None:
    row = {"tool": "vllm_bench", "speculative": False, "concurrency": 1, "output_tps": 98.0, "itl_of": "chunk"}
    (point,) = points([{**row, "tpot_mean_ms": 10.0, "itl_mean_ms": 10.3}])
    assert point.cycle_ms.value == 10.0


def test_runs_at_two_temperatures_are_two_points_and_0_is_a_temperature() -> None:
    made = points([_counted(temperature=0.0), _counted(temperature=1.0, output_tps=300.0, duration_s=2.7)])
    assert sorted(p.temperature or 0.0 for p in made) == [0.0, 1.0]
    assert [p.temperature for p in made].count(0.0) == 1
    assert all(len(p.runs) == 1 for p in made)


def test_a_printed_block_without_the_temperature_is_the_twin_of_its_file() -> None:
    made = points([_counted(temperature=0.7), _counted(file_id=1)])
    assert [p.temperature for p in made] == [0.7]


def test_arguments_of_the_client_that_decide_the_texts_are_kept() -> None:
    (point,) = points([_counted(attrs='{"ignore_eos": true, "host": "127.0.0.1"}')])
    assert point.arguments == (("ignore_eos", "True"),)

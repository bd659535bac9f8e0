"""How a run was measured: prompts, lengths, what else the server's counters counted."""

import json
from datetime import datetime, timedelta

import pytest

from tests.facts.bench_rows import frame
from traceana.errors import TraceanaError
from traceana.facts.conditions import conditions
from traceana.facts.select_series import select_series
from traceana.facts.timer_series import timer_series
from traceana.store.dataset import Tables

RESULT = {"tool": "vllm_bench", "concurrency": 4, "requests": 16, "output_tokens": 1600, "duration_s": 10.0}


def tables(points=(), requests=(), metrics=(), cycles=()) -> Tables:
    named = {"bench_points": points, "bench_requests": requests, "metrics": metrics, "cycles": cycles}
    return Tables({name: [frame(name, list(rows))] for name, rows in named.items() if rows})


def scrapes(*values: float, name: str = "vllm:generation_tokens_total") -> list[dict]:
    start = datetime(2026, 11, 20)
    return [
        {"file_id": i, "scrape": 0, "ts": start + timedelta(seconds=i), "name": name, "labels": "{}", "value": value}
        for i, value in enumerate(values)
    ]


def test_a_result_written_twice_counts_once_and_the_richer_one_stays() -> None:
    found = conditions(
        tables([{**RESULT, "temperature": 0.0, "file_id": 0}, {**RESULT, "file_id": 1, "duration_s": 10.002}])
    )
    (load,) = found.loads
    assert load.temperature == 0.0


def test_warm_up_is_no_measurement() -> None:
    assert conditions(tables([{**RESULT, "warmup": True}])).loads == ()


def test_prompt_lengths_are_compared_in_order() -> None:
    def digest(lengths: list[int]) -> str:
        rows = [{"point": 0, "request": i, "input_tokens": n} for i, n in enumerate(lengths)]
        return conditions(tables([RESULT], rows)).loads[0].prompt_lengths

    assert digest([10, 20, 30]) == digest([10, 20, 30])
    assert digest([10, 20, 30]) != digest([30, 20, 10])


def test_client_arguments_are_read_from_what_else_was_written() -> None:
    attrs = json.dumps({"ignore_eos": True, "color": "red", "seed": 0})
    (load,) = conditions(tables([{**RESULT, "attrs": attrs}])).loads
    assert load.arguments == (("ignore_eos", "True"), ("seed", "0"))
    for bad in ("{", "[1]", "null", '{"a": NaN}'):
        assert conditions(tables([{**RESULT, "attrs": bad}])).loads[0].arguments == ()


def test_tokens_of_other_clients_are_found_in_the_counters() -> None:
    quiet = conditions(tables([RESULT], metrics=scrapes(500, 2100))).counters
    assert (quiet.counted, quiet.benchmarks, quiet.foreign) == (1600, 1600, 0.0)
    first_request = conditions(tables([RESULT], metrics=scrapes(500, 2200))).counters
    assert first_request.foreign == 0.0  # the client's own test request
    busy = conditions(tables([RESULT], metrics=scrapes(500, 5000))).counters
    assert busy.foreign == pytest.approx(4500 - 1600 - 100)


def test_a_counter_that_goes_down_is_a_restart_and_counts_on_from_there() -> None:
    found = conditions(tables([RESULT], metrics=scrapes(500, 1300, 0, 800))).counters
    assert found.counted == 1600
    assert "went down by 1,300" in found.resets[0]


def test_counters_say_nothing_without_two_scrapes_or_known_totals() -> None:
    assert conditions(tables([RESULT], metrics=scrapes(500))).counters.foreign is None
    unknown = conditions(tables([{**RESULT, "output_tokens": None}], metrics=scrapes(0, 9e9))).counters
    assert unknown.foreign is None
    odd = conditions(tables([RESULT], metrics=scrapes(0, float("nan"), float("inf"), 1600))).counters
    assert (odd.counted, odd.resets) == (1600, ())


def test_one_series_of_a_table_is_chosen_by_words() -> None:
    rows = [
        {"tool": "table", "series": "EAGLE-3 tok/s", "concurrency": 1, "output_tps": 77.5},
        {"tool": "table", "series": "baseline tok/s", "concurrency": 1, "output_tps": 92.6},
    ]
    requests = [{"point": 0, "request": 0}, {"point": 1, "request": 0}]
    chosen = select_series(tables(rows, requests), "eagle-3", "t.md")
    assert chosen.frame("bench_points")["output_tps"].to_list() == [77.5]
    assert chosen.frame("bench_requests")["point"].to_list() == [0]
    with pytest.raises(TraceanaError, match="there are: EAGLE-3 tok/s, baseline tok/s"):
        select_series(tables(rows), "medusa", "t.md")


def test_timer_lines_of_ranks_are_averaged_and_the_rare_batch_left_out() -> None:
    row = {"source": "eagle3_profile", "cycles": 100, "draft_ms": 2.0, "re_extend_ms": 1.0}
    rows = [
        {**row, "rank": rank, "batch": batch, "verify_ms": ms}
        for batch, times in ((1, (19.0, 21.0)), (8, (40.0,)))
        for ms in times
        for rank in (0, 1)
    ]
    found = timer_series(tables(cycles=rows))
    assert (found.batch, found.verify_ms, found.verify_mean_ms) == (1, (19.0, 21.0), 20.0)
    assert found.total_ms == (22.0, 24.0)
    assert timer_series(tables(cycles=[{**row, "verify_ms": float("nan")}])) is None
    assert timer_series(tables()) is None

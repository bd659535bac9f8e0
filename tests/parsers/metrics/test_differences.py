"""What counters did between scrapes, where scrapes are all there is."""

import json
from pathlib import Path

import pytest

from tests.parsers.bench.results import Got, Row, attrs

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"


def scrape(tokens: int, drafts: int | None = None, started: float = 1.77e9, seconds: int | None = None) -> str:
    lines = [
        "# TYPE vllm:generation_tokens_total counter",
        f'vllm:generation_tokens_total{{engine="0",model_name="m"}} {tokens}',
        f'vllm:inter_token_latency_seconds_count{{engine="0",model_name="m"}} {tokens / 2}',
        f'vllm:inter_token_latency_seconds_sum{{engine="0",model_name="m"}} {tokens / 2 * 0.02}',
        f'vllm:iteration_tokens_total_count{{engine="0",model_name="m"}} {tokens / 4}',
        f"process_start_time_seconds {started}",
    ]
    if drafts is not None:
        lines += [
            f'vllm:spec_decode_num_drafts_total{{engine="0",model_name="m"}} {drafts}',
            f'vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="m"}} {3 * drafts}',
            f'vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} {1.5 * drafts}',
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="0"}} {0.8 * drafts}',
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="1"}} {0.5 * drafts}',
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="2"}} {0.2 * drafts}',
        ]
    if seconds is not None:
        lines.insert(0, f"# {1_770_110_000 + seconds}")
    return "\n".join(lines) + "\n"


def points(folder: Path, *texts: str) -> list[Row]:
    paths = []
    for index, text in enumerate(texts):
        paths.append(folder / f"scrape{index}")
        paths[-1].write_text(text)
    return Got(*paths).rows()


def test_two_scrapes_are_one_measurement(tmp_path: Path) -> None:
    (point,) = points(tmp_path, scrape(1000, 400), scrape(5000, 2000))
    assert (point["tool"], point["output_tokens"], point["chunks"], point["drafts"]) == ("metrics", 4000, 2000, 1600)
    assert (point["itl_mean_ms"], point["itl_of"], point["k"]) == (pytest.approx(20), "chunk", 3)
    assert (point["accept_length_printed"], point["accept_rate_printed"]) == (2.5, 0.5)
    assert point["per_position"] == pytest.approx([0.8, 0.5, 0.2])
    assert (point["speculative"], point["accept_scope"]) == (True, "run")
    assert attrs(point)["engine_steps"] == 1000
    assert "output_tps" not in point  # files keep no times that one may trust


def test_written_times_give_a_throughput(tmp_path: Path) -> None:
    text = scrape(1000, 400, seconds=0) + scrape(5000, 2000, seconds=20) + scrape(9000, 3600, seconds=60)
    rows = points(tmp_path, text)
    assert [(r["duration_s"], r["output_tps"]) for r in rows] == [(20, 200), (40, 100)]


def test_the_order_of_files_does_not_matter(tmp_path: Path) -> None:
    forward = points(tmp_path, scrape(1000, 400), scrape(5000, 2000), scrape(6000, 2400))
    backward = points(tmp_path, scrape(6000, 2400), scrape(1000, 400), scrape(5000, 2000))
    assert sorted(r["output_tokens"] for r in forward) == sorted(r["output_tokens"] for r in backward) == [1000, 4000]


def test_a_single_scrape_counts_from_the_start(tmp_path: Path) -> None:
    (point,) = points(tmp_path, scrape(1000))
    assert (point["label"], point["output_tokens"], point["speculative"]) == ("since the server's start", 1000, False)


def test_a_server_started_again_is_named_and_nothing_is_subtracted(tmp_path: Path) -> None:
    (point,) = points(tmp_path, scrape(5000, 2000, seconds=0) + scrape(800, 300, seconds=10))
    assert point["doubt"] == "a counter went back: the server was started again between the two scrapes"
    assert "output_tokens" not in point
    again = points(tmp_path, scrape(5000, started=1.0), scrape(9000, started=2.0))
    assert [("doubt" in r, "output_tokens" in r) for r in again] == [(True, False)]


def test_an_idle_interval_is_no_measurement(tmp_path: Path) -> None:
    assert points(tmp_path, scrape(1000, 400), scrape(1000, 400)) == []


def test_beside_a_benchmark_the_scrapes_stay_scrapes(tmp_path: Path) -> None:
    table = "| c | tok/s |\n|---|---|\n| 1 | 80 |\n"
    rows = points(tmp_path, scrape(1000, 400), scrape(5000, 2000), table)
    assert [r["tool"] for r in rows] == ["table"]


def test_parts_of_the_cycle_from_sglangs_timers(tmp_path: Path) -> None:
    def text(factor: int) -> str:
        name = "sglang:forward_execution_seconds_total"
        return (
            f'# TYPE {name} counter\n{name}{{category="target_verify"}} {3 * factor}\n{name}{{category="eagle_draft"}} {factor}\n'
            f'sglang:generation_tokens_total{{model_name="m"}} {200 * factor}\nsglang:spec_verify_calls_total{{}} {100 * factor}\n'
        )

    (point,) = points(tmp_path, text(1), text(3))
    assert attrs(point) == {"forward_s eagle_draft": 2.0, "forward_s target_verify": 6.0}
    assert (point["cycles"], point["output_tokens"], point["speculative"]) == (200, 400, True)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real inputs is not beside this checkout")
@pytest.mark.parametrize("method", ["baseline", "ngram-k4", "eagle-k3", "eagle3-k3", "draft-k3"])
def test_scrapes_of_the_captures_say_what_the_client_measured(method: str) -> None:
    folder = CORPUS / "vllm-cpu-captures" / "clean" / method
    rows = Got(*(folder / f"metrics_c{name}.prom" for name in ("0_start", "1", "2", "4"))).rows()
    for users, row in zip((1, 2, 4), rows, strict=True):
        bench = json.loads((folder / f"bench_c{users}.json").read_text())
        assert row["output_tokens"] == bench["total_output_tokens"]
        assert row["chunks"] == sum(map(len, bench["itls"]))
        assert row["itl_mean_ms"] == pytest.approx(bench["mean_itl_ms"], rel=0.01)
        assert row["tpot_mean_ms"] == pytest.approx(bench["mean_tpot_ms"], rel=0.01)
        assert row.get("accept_length_printed") == (
            pytest.approx(bench["spec_decode_acceptance_length"]) if method != "baseline" else None
        )
        assert row["speculative"] is (method != "baseline")
        assert 0.8 * users <= row["concurrency_seen"] <= users  # fewer at the beginning and the end

"""Preemptions that no log line tells: vLLM's counter in scrapes of /metrics."""

from __future__ import annotations

from pathlib import Path

from traceana import api

_LINE = (
    "(EngineCore_DP0 pid=812) INFO 06-18 10:04:{second:02d} [loggers.py:259] Engine 000: Avg prompt throughput: 0.0 tokens/s, "
    "Avg generation throughput: 310.0 tokens/s, Running: 4 reqs, Waiting: 2 reqs, GPU KV cache usage: 93.0%, "
    "Prefix cache hit rate: 0.0%\n"
)


def _scrape(first: int, second: int) -> str:
    head = "# TYPE vllm:num_preemptions_total counter\n"
    rows = (f'vllm:num_preemptions_total{{engine="{e}",model_name="m"}} {n}.0\n' for e, n in enumerate((first, second)))
    return head + "".join(rows)


def _preemptions(folder: Path, *scrapes: str) -> int | None:
    (folder / "server.log").write_text("".join(_LINE.format(second=10 * n) for n in range(6)))
    for number, text in enumerate(scrapes):
        (folder / f"metrics_{number}.prom").write_text(text)
    return api.read_facts([str(folder)]).capacity.preemptions


def test_engines_are_added_and_the_latest_scrape_counts(tmp_path: Path) -> None:
    assert _preemptions(tmp_path, _scrape(0, 0), _scrape(3, 2)) == 5


def test_a_counter_at_zero_is_known_to_be_none(tmp_path: Path) -> None:
    assert _preemptions(tmp_path, _scrape(0, 0)) == 0


def test_without_a_scrape_nothing_is_known(tmp_path: Path) -> None:
    assert _preemptions(tmp_path) is None

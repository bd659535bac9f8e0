"""Which windows say what drafts earn: SGLang to 0.5.3 counts prefills in its accept length, later ones and vLLM do not."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from traceana import api
from traceana.report.diagnosis import Diagnosis

START = datetime(2026, 2, 3, 9, 0)
ARGS = (
    "[2026-02-03 08:59:00] server_args=ServerArgs(model_path='org/m', tp_size=1, decode_log_interval={interval}, "
    "speculative_algorithm='EAGLE3', speculative_num_steps=3, speculative_eagle_topk=1, speculative_num_draft_tokens=4)\n"
)
PREFILL = (
    "[{now}] Prefill batch. #new-seq: 1, #new-token: 700, #cached-token: 1, token usage: 0.03, #running-req: 3, "
    "#queue-req: 0\n"
)
DECODE = (
    "[{now}] Decode batch. #running-req: 4, #token: 9000, token usage: 0.03, accept len: {length:.2f}, {rate}"
    "cuda graph: True, gen throughput (token/s): 410.00, #queue-req: 0\n"
)


def falling(tmp_path: Path, rate: str, interval: int = 40) -> Diagnosis:
    """Three hours in which the accept length falls from 2.60 to 2.00, a prefill in each window but a few."""
    text = ARGS.format(interval=interval)
    for i in range(180):
        now = START + timedelta(minutes=i)
        text += PREFILL.format(now=now) if i % 20 else ""
        text += DECODE.format(now=now, length=2.6 - 0.6 * i / 180, rate=rate)
    path = tmp_path / "server.log"
    path.write_text(text)
    return api.diagnose([str(path)])


def codes(found: Diagnosis) -> list[str]:
    return [finding.code for finding in found.findings]


def test_a_drift_shows_through_prefills_where_the_accept_length_does_not_count_them(tmp_path: Path) -> None:
    found = falling(tmp_path, "accept rate: 0.55, ")
    assert "ACC006" in codes(found)
    assert found.acceptance.samples == 180


def test_a_release_that_counts_prefills_shows_it_in_the_windows_without_them_alone(tmp_path: Path) -> None:
    found = falling(tmp_path, "")
    assert "ACC006" not in codes(found)
    assert found.acceptance.samples < 10
    assert any("ACC006" in row.codes and "0.5.3" in row.capture for row in found.not_checked)


@pytest.mark.parametrize(("interval", "seen"), [(400, True), (10, False)])
def test_prefills_too_few_to_show_in_the_printed_length_do_not_count(tmp_path: Path, interval: int, seen: bool) -> None:
    assert ("ACC006" in codes(falling(tmp_path, "", interval))) is seen

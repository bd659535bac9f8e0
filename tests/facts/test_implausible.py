"""Values no engine can mean, and several server starts in one file: named, and never averaged in."""

from pathlib import Path

import pytest

from traceana import api
from traceana.errors import TraceanaError
from traceana.report.diagnosis import Diagnosis

_ARGS = "[2026-02-03 09:10:00] server_args=ServerArgs(model_path='org/m', tp_size={tp}, {spec})\n"
_SPEC = "speculative_algorithm='EAGLE3', speculative_num_steps={steps}, speculative_eagle_topk=1, speculative_num_draft_tokens={width}"
_LINE = (
    "[2026-02-03 09:{minute:02d}:{second:02d}] Decode batch, #running-req: {running}, #token: 9, token usage: {usage}, "
    "{accept}cuda graph: True, gen throughput (token/s): {tps}, #queue-req: 0\n"
)


def lines(minute: int = 15, **values: object) -> str:
    shown = {"running": 4, "usage": 0.02, "accept": "accept len: 2.41, accept rate: 0.47, ", "tps": 412.3, **values}
    return "".join(_LINE.format(minute=minute, second=second, **shown) for second in range(20))


def args(tp: int = 1, steps: int = 3, width: int = 4) -> str:
    return _ARGS.format(tp=tp, spec=_SPEC.format(steps=steps, width=width))


def diagnosed(tmp_path: Path, text: str) -> Diagnosis:
    path = tmp_path / "server.log"
    path.write_text(text)
    return api.diagnose([str(path)])


@pytest.mark.parametrize("value", [{"running": 2147483647}, {"tps": "0." + "0" * 300 + "1"}, {"tps": "9" * 40}])
def test_loads_and_rates_that_cannot_be_give_no_cycle(value: dict[str, object], tmp_path: Path) -> None:
    found = diagnosed(tmp_path, args() + lines(**value))
    assert found.cycle.total_ms is None
    assert any("cannot be" in note and "20 lines" in note for note in found.run.notes)


@pytest.mark.parametrize("length", ["0.00", "0.50", "0.92", "-1.00"])
def test_a_length_below_the_bonus_token_is_none(length: str, tmp_path: Path) -> None:
    found = diagnosed(tmp_path, args() + lines(accept=f"accept len: {length}, accept rate: 0.47, "))
    assert found.acceptance.accept_length is None
    assert found.verdict.accept_length is None
    assert not found.findings


def test_a_length_above_k_plus_1_is_a_contradiction_and_has_no_ceiling(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, args(steps=1, width=2) + lines(accept="accept len: 3.50, accept rate: 0.83, "))
    assert found.acceptance.ceiling is None
    assert any("above k + 1 = 2" in note for note in found.run.notes)


@pytest.mark.parametrize("odd", [-2, 999999999999999999, 10**30])
def test_odd_settings_are_unknown_and_can_be_stored(odd: int, tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(args(tp=odd, steps=odd, width=odd) + lines())
    found = api.diagnose([str(path)])
    assert found.run.tp is None
    assert found.acceptance.ceiling is None
    stored = api.ingest([str(path)], str(tmp_path / "store"))
    assert stored.rows["runs"] == 1


def test_usage_and_rate_out_of_range_are_not_shown(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, args() + lines(usage="99.0", accept="accept len: 2.41, accept rate: 9.9, "))
    assert found.capacity.usage_max is None
    assert any("token usage" in note for note in found.run.notes)


def test_more_accepted_than_drafted_voids_the_line(tmp_path: Path) -> None:
    head = "INFO 02-03 09:15:{s:02d} [metrics.py:96] "
    text = "".join(
        f"INFO 02-03 09:15:{s:02d} [loggers.py:123] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation "
        "throughput: 90.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: "
        "0.0%\n"
        + head.format(s=s)
        + "SpecDecoding metrics: Mean acceptance length: 3000.70, Accepted throughput: 1.00 tokens/s, Drafted "
        "throughput: 1.00 tokens/s, Accepted: 9999 tokens, Drafted: 10 tokens, Per-position acceptance rate: 0.5, 0.3, "
        "0.2, Avg Draft acceptance rate: 999.9%\n"
        for s in range(0, 60, 10)
    )
    found = diagnosed(tmp_path, text)
    assert found.acceptance.accept_length is None or found.acceptance.accept_length <= 4
    assert any("cannot be" in note for note in found.run.notes)


def test_two_starts_in_one_file_are_not_averaged(tmp_path: Path) -> None:
    alone = diagnosed(tmp_path, args() + lines())
    plain = _ARGS.format(tp=1, spec="speculative_algorithm=None") + lines(minute=30, accept="", tps=800.0)
    for text in (args() + lines() + plain, plain + args() + lines(minute=45)):
        found = diagnosed(tmp_path, text)
        assert found.cycle.total_ms == alone.cycle.total_ms
        assert found.acceptance.accept_length == alone.acceptance.accept_length
        assert found.acceptance.ceiling == alone.acceptance.ceiling == 4
        assert any("does not speculate while another does: lines" in note for note in found.run.notes)


def test_lines_that_only_look_known_are_said_to(tmp_path: Path) -> None:
    with pytest.raises(TraceanaError, match="500 lines look like lines of a known engine"):
        diagnosed(tmp_path, "".join(f"Decode batch of things {n}\n" for n in range(500)))

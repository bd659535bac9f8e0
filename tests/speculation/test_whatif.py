"""What-if arithmetic: ranges hold the truth of a simulated server, and nothing is claimed that cannot be known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceana.speculation.whatif import Effect, Span, exactly, fewer_drafts, other_accept_length, saved, speedup


def test_another_accept_length_changes_throughput_in_proportion():
    gain = speedup(other_accept_length(1.92, 2.46, 30.0), 30.0)
    assert gain.low == gain.high == pytest.approx(2.46 / 1.92)


def test_fewer_drafts_without_phase_times_or_baseline_have_no_number():
    assert fewer_drafts(k=3, fewer=1, tokens_per_cycle=2.5, cycle_ms=30.0) is None


def test_a_saving_longer_than_the_cycle_has_no_number():
    assert saved(30.0, 30.0, "") is None
    assert saved(30.0, 0.0, "") is None


@pytest.mark.parametrize("fewer", [0, 3, 4])
def test_drafts_that_are_not_fewer_are_refused(fewer):
    with pytest.raises(ValueError, match="not fewer"):
        fewer_drafts(k=3, fewer=fewer, tokens_per_cycle=2.5, cycle_ms=30.0, step_ms=10.0)


@given(
    rates=st.lists(st.floats(0.01, 1.0), min_size=2, max_size=8).map(lambda r: sorted(r, reverse=True)),
    draft=st.floats(0.1, 20.0),
    per_token=st.floats(0.0, 3.0),
    fixed=st.floats(1.0, 40.0),
    data=st.data(),
)
def test_the_range_holds_a_server_whose_phases_are_linear_in_the_drafts(rates, draft, per_token, fixed, data):
    """Draft time in proportion to k, verify = fixed + per token of width: the truth lies inside the range."""
    k = len(rates)
    fewer = data.draw(st.integers(1, k - 1))
    emitted = [1 + sum(rates[:n]) for n in (k, fewer)]
    verify = [fixed + per_token * (n + 1) for n in (k, fewer)]
    cycle = [draft * n + v for n, v in zip((k, fewer), verify, strict=True)]
    truth = (emitted[1] / cycle[1]) / (emitted[0] / cycle[0])
    known = {"k": k, "fewer": fewer, "tokens_per_cycle": emitted[0], "cycle_ms": cycle[0]}
    for positions in (rates, None):
        effect = fewer_drafts(**known, per_position=positions, draft_ms=draft * k, verify_ms=verify[0])
        assert effect is not None
        gain = speedup(effect, cycle[0])
        assert gain.low * (1 - 1e-9) <= truth <= gain.high * (1 + 1e-9)
        # a step is a verify of one token without a draft
        from_step = fewer_drafts(**known, per_position=positions, step_ms=fixed + per_token)
        assert from_step is not None
        gain = speedup(from_step, cycle[0])
        assert gain.low * (1 - 1e-9) <= truth <= gain.high * (1 + 1e-9)


def test_a_range_never_runs_backwards():
    with pytest.raises(ValueError, match="range"):
        Span(2.0, 1.0)
    assert speedup(Effect(exactly(1.0), Span(20.0, 30.0), ""), 30.0) == Span(1.0, 1.5)

import math

import pytest

from traceana.speculation.acceptance import (
    V0Counters,
    vllm_accept_length,
    vllm_v0_accept_length,
    vllm_v0_accept_length_from_efficiency,
    vllm_v0_window,
)

RATES = (0.601, 0.286, 0.128)


def test_the_line_itself_tells_whether_it_counts_the_bonus_token():
    with_bonus, why = vllm_accept_length(2.01, RATES, 206, 609, 3, None)
    assert with_bonus == 2.01
    assert "counts the bonus token" in why
    without, why = vllm_accept_length(1.01, RATES, 206, 609, 3, None)
    assert without == pytest.approx(2.01)
    assert "leaves the bonus token out" in why


def test_the_rates_win_over_the_version_of_a_fork():
    assert vllm_accept_length(2.01, RATES, None, None, 3, "0.8.5").value == 2.01
    assert vllm_accept_length(1.01, RATES, None, None, 3, "0.33.0").value == pytest.approx(2.01)


def test_rounding_of_a_long_list_of_rates_is_forgiven():
    rates = (0.739, 0.478, 0.261, 0.174, 0.130, 0.087, 0.043)
    assert vllm_accept_length(2.91, rates, 44, 161, 7, None).value == 2.91
    assert vllm_accept_length(2.92, rates, None, None, 7, None).value == 2.92  # each rate may hide 0.0005
    assert vllm_accept_length(2.93, rates, None, None, 7, None).value is None


@pytest.mark.parametrize(
    ("version", "expected"), [("0.8.5", 2.6), ("0.9.0", 1.6), ("0.9.0rc1", 1.6), ("0.20.2rc1.dev249+glm", 1.6)]
)
def test_a_line_without_rates_means_what_its_version_means(version, expected):
    assert vllm_accept_length(1.6, None, None, None, 3, version).value == pytest.approx(expected)


def test_without_rates_and_version_the_counts_tell():
    assert vllm_accept_length(2.5, None, 150, 300, 3, None).value == 2.5
    assert vllm_accept_length(1.5, None, 150, 300, 3, None).value == 2.5


def test_a_line_without_a_length_is_derived_from_what_it_has():
    assert vllm_accept_length(None, RATES, None, None, 3, None).value == pytest.approx(2.015)
    assert vllm_accept_length(None, None, 150, 300, 3, None).value == 2.5
    assert vllm_accept_length(None, None, 150, 300, None, None).value is None


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((2.5, None, None, None, 3, None), "no version"),
        ((2.5, None, None, None, 3, "nightly"), "no version"),
        ((3.5, RATES, 206, 609, 3, "0.20.0"), "neither"),
        ((math.nan, None, None, None, 3, "0.8.5"), "no drafts"),
        ((1.0, (0.0, 0.0), 0, 0, 2, "0.20.0"), "no drafts"),
        ((5.2, None, None, None, 3, "0.20.0"), "no accept length"),
        ((0.92, None, None, None, 3, "0.20.0"), "no accept length"),
        ((math.inf, None, None, None, None, "0.20.0"), "no accept length"),
        ((2.5, (0.5, math.nan), None, None, 2, None), "no version"),
        ((2.5, None, 400, 300, 3, None), "no version"),
        ((2.9, None, 150, 300, 3, None), "neither"),
    ],
)
def test_what_cannot_be_told_is_none_with_a_reason(arguments, reason):
    value, why = vllm_accept_length(*arguments)
    assert value is None
    assert reason in why


def test_v0_counters_since_the_start_become_the_window_between_two_lines():
    first = V0Counters(accepted=100, drafted=400, emitted=220)
    second = V0Counters(accepted=190, drafted=800, emitted=430)
    window = vllm_v0_window(first, second)
    assert window == V0Counters(accepted=90, drafted=400, emitted=210)
    assert vllm_v0_accept_length(window.emitted, window.drafted, 4) == pytest.approx(2.1)


def test_a_restarted_or_idle_v0_server_has_no_window():
    line = V0Counters(accepted=100, drafted=400, emitted=220)
    assert vllm_v0_window(line, V0Counters(accepted=5, drafted=20, emitted=9)) is None
    assert vllm_v0_window(line, line) is None


def test_v0_efficiency_and_counters_agree():
    # 100 drafts of 5 tokens, 100 emitted of 600 possible: efficiency 0.167, one token per cycle
    assert vllm_v0_accept_length(100, 500, 5) == 1.0
    assert vllm_v0_accept_length_from_efficiency(0.167, 5) == pytest.approx(1.0, abs=0.004)
    assert vllm_v0_accept_length_from_efficiency(0.5, 5) == 3.0


def test_v0_figures_that_contradict_k_are_refused():
    with pytest.raises(ValueError, match="more than k"):
        vllm_v0_accept_length(1000, 500, 5)
    with pytest.raises(ValueError, match="bonus"):
        vllm_v0_accept_length(50, 500, 5)
    with pytest.raises(ValueError, match="no accept length"):
        vllm_v0_accept_length_from_efficiency(0.05, 5)

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceana.speculation.acceptance import (
    accept_length_from_positions,
    accept_length_from_rate,
    accept_rate,
    expected_accept_length,
    llamacpp_tokens_per_step,
    solve_acceptance_probability,
    tokens_per_cycle,
    with_bonus,
)

probabilities = st.floats(0.0, 1.0)
drafts = st.integers(0, 64)


def test_an_accept_length_printed_without_the_bonus_gets_it_back():
    assert with_bonus(0.92) == pytest.approx(1.92)


def test_ngram_drafting_in_half_of_the_steps_earns_less_than_its_accept_length_says():
    # vLLM n-gram: accept length 2.71, drafts in 394 of 863 steps, 1.76 tokens per streamed chunk
    assert tokens_per_cycle(2.708, 394 / 863) == pytest.approx(1.78, abs=0.02)
    assert tokens_per_cycle(2.708) == 2.708
    assert tokens_per_cycle(2.708, 0.0) == 1.0


def test_accept_length_of_a_long_draft_follows_from_its_positions():
    rates = (0.739, 0.478, 0.261, 0.174, 0.130, 0.087, 0.043)
    assert accept_length_from_positions(rates) == pytest.approx(2.91, abs=0.005)
    assert accept_length_from_positions(()) == 1.0


def test_accept_rate_and_accept_length_are_one_figure_in_two_forms():
    assert accept_rate(2.91, 7) == pytest.approx(0.273, abs=0.0005)
    assert accept_length_from_rate(0.577, 3) == pytest.approx(2.731)
    assert accept_rate(4.0, 3) == 1.0
    with pytest.raises(ValueError, match="more than"):
        accept_rate(4.2, 3)


@pytest.mark.parametrize(
    ("p", "k", "tokens"),
    [
        (0.0, 3, 1.0),
        (1.0, 3, 4.0),
        (0.5, 1, 1.5),
        (0.5, 3, 1.875),
        (0.8, 0, 1.0),
        (0.75, None, 4.0),
        (0.75, math.inf, 4.0),
        (1.0, None, math.inf),
        (1e-20, 3, 1.0),
    ],
)
def test_the_chain_emits_what_its_first_rejection_leaves(p, k, tokens):
    assert expected_accept_length(p, k) == pytest.approx(tokens, rel=1e-12)


@given(probabilities, drafts)
def test_the_closed_form_is_the_sum_over_positions(p, k):
    assert expected_accept_length(p, k) == pytest.approx(math.fsum(p**i for i in range(k + 1)), rel=1e-9)


@given(probabilities, probabilities, drafts)
def test_a_better_drafter_never_emits_less(p, q, k):
    low, high = sorted((p, q))
    assert expected_accept_length(low, k) <= expected_accept_length(high, k) + 1e-9


@given(probabilities, drafts)
def test_a_longer_chain_never_emits_less_and_never_more_than_all_its_drafts_and_the_bonus(p, k):
    assert 1.0 <= expected_accept_length(p, k) <= expected_accept_length(p, k + 1) + 1e-9
    assert expected_accept_length(p, k) <= k + 1
    assert expected_accept_length(p, k) <= expected_accept_length(p, None) + 1e-9


@given(st.floats(0.0, 1.0), st.integers(1, 64))
def test_solving_for_p_and_expecting_again_gives_the_same_accept_length(fraction, k):
    wanted = 1.0 + fraction * k
    p = solve_acceptance_probability(wanted, k)
    assert p is not None
    assert expected_accept_length(p, k) == pytest.approx(wanted, rel=1e-9)


@given(st.floats(0.01, 0.99), st.integers(1, 24))
def test_expecting_and_solving_again_gives_the_same_p(p, k):
    assert solve_acceptance_probability(expected_accept_length(p, k), k) == pytest.approx(p, abs=1e-6)


@given(st.floats(1.0, 1e6))
def test_an_unlimited_chain_reaches_any_accept_length(wanted):
    p = solve_acceptance_probability(wanted, None)
    assert p is not None
    assert p == 1 - 1 / wanted
    assert p == solve_acceptance_probability(wanted, math.inf)


def test_more_than_k_plus_one_is_out_of_reach():
    assert solve_acceptance_probability(4.5, 3) is None
    assert solve_acceptance_probability(4.0, 3) == 1.0
    assert solve_acceptance_probability(1.0, 3) == 0.0
    assert solve_acceptance_probability(1.0, 0) == 0.0


@pytest.mark.parametrize("length", [0.92, 0.0, -1.0, math.nan, math.inf])
def test_an_accept_length_that_cannot_be_is_refused(length):
    with pytest.raises(ValueError, match="bonus token"):
        solve_acceptance_probability(length, 3)
    with pytest.raises(ValueError, match="bonus token"):
        tokens_per_cycle(length)


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_a_probability_outside_0_to_1_is_refused(bad):
    with pytest.raises(ValueError, match="between 0 and 1"):
        expected_accept_length(bad, 3)
    with pytest.raises(ValueError, match="per-position"):
        accept_length_from_positions((0.5, bad))
    with pytest.raises(ValueError, match="coverage"):
        tokens_per_cycle(2.0, bad)


@pytest.mark.parametrize("k", [-1, 1.5, math.nan])
def test_a_number_of_drafts_that_is_none_is_refused(k):
    with pytest.raises(ValueError, match="draft tokens"):
        expected_accept_length(0.5, k)


def test_llamacpp_timings_give_tokens_per_step():
    assert llamacpp_tokens_per_step(600, 450) == 4.0
    assert llamacpp_tokens_per_step(10, 0) == 1.0
    with pytest.raises(ValueError, match="fewer"):
        llamacpp_tokens_per_step(10, 10)

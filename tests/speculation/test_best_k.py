import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceana.speculation.best_k import CycleCost, best_k, best_measured_k, extra_tokens_kept, k_worth_drafting

# seven drafted tokens at an average acceptance of 27 %, per position
SEVEN = (0.739, 0.478, 0.261, 0.174, 0.130, 0.087, 0.043)
# accept length and TPOT in ms by k, one request, 7.07 ms per step without speculation (Llama-3.1-8B, vLLM)
EAGLE1 = {2: (2.1, 4.37), 3: (2.29, 4.29), 4: (2.39, 4.48), 5: (2.43, 4.71), 6: (2.45, 4.94), 7: (2.47, 5.2)}
EAGLE3 = {2: (2.36, 4.32), 3: (2.79, 4.09), 4: (3.08, 4.05), 5: (3.32, 4.13), 6: (3.46, 4.2), 7: (3.54, 4.29)}

falling_rates = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12).map(lambda rates: sorted(rates, reverse=True))


def measured(table):
    return best_measured_k(
        {k: length for k, (length, _) in table.items()}, {k: length * tpot for k, (length, tpot) in table.items()}
    )


def test_three_of_seven_drafts_keep_most_of_the_extra_tokens():
    kept = extra_tokens_kept(SEVEN, 3)
    assert kept.kept == pytest.approx(1.48, abs=0.005)
    assert kept.total == pytest.approx(1.91, abs=0.005)
    assert kept.total - kept.kept == pytest.approx(0.43, abs=0.005)
    assert kept.share == pytest.approx(0.77, abs=0.005)
    assert extra_tokens_kept((0.0,), 1).share is None


def test_more_positions_than_known_are_not_guessed():
    with pytest.raises(ValueError, match="3 positions"):
        extra_tokens_kept(SEVEN[:3], 4)
    assert [row.k for row in best_k(SEVEN[:2], CycleCost(10, 1)).table] == [0, 1, 2]


def test_eagle3_stops_paying_after_four_drafts():
    best = measured(EAGLE3)
    assert best.k == 4
    assert [row.cycle_ms for row in best.table] == pytest.approx([10.20, 11.41, 12.47, 13.71, 14.53, 15.19], abs=0.0051)
    five = best.table[3]
    assert five.accept_growth == pytest.approx(0.078, abs=0.0005)
    assert five.cycle_growth == pytest.approx(0.099, abs=0.0005)
    assert best.table[0].accept_growth is None


def test_eagle1_stops_paying_after_three_drafts():
    best = measured(EAGLE1)
    assert best.k == 3
    assert [row.cycle_ms for row in best.table] == pytest.approx([9.18, 9.82, 10.71, 11.45, 12.10, 12.84], abs=0.0051)


def test_a_draft_that_costs_a_lot_is_not_worth_more_than_the_first_positions():
    assert k_worth_drafting(SEVEN, 0.0) == 7
    assert k_worth_drafting(SEVEN, 0.2) == 2
    assert k_worth_drafting(SEVEN, 0.8) == 0
    assert best_k(SEVEN, CycleCost(1.0, 0.2)).k == 2
    assert best_k(SEVEN, CycleCost(1.0, 0.8)).k == 0


def test_a_cost_cliff_of_the_verify_forward_moves_the_best_k():
    # 8 running: 16 tokens at k = 1, 32 at k = 3; the forward jumps above 16 tokens
    smooth = {8: 20.0, 16: 24.0, 24: 27.0, 32: 30.0}
    cliff = {8: 20.0, 16: 24.0, 24: 90.0, 32: 101.0}
    rates = (0.8, 0.6, 0.5)
    assert best_k(rates, CycleCost(1.0, 1.5, smooth, running=8)).k == 3
    assert best_k(rates, CycleCost(1.0, 1.5, cliff, running=8)).k == 1


def test_a_verify_size_that_was_not_measured_is_left_out():
    best = best_k((0.8, 0.6, 0.5), CycleCost(1.0, 1.5, {8: 20.0, 16: 24.0}, running=8))
    assert [row.k for row in best.table] == [0, 1]
    with pytest.raises(ValueError, match="no k"):
        best_k((0.8,), CycleCost(1.0, 1.5, {3: 20.0}))


def test_a_measured_table_is_used_only_where_it_has_a_k():
    best = best_k((0.7, 0.5, 0.2), {0: 12.0, 1: 14.0, 3: 18.0, 9: 40.0})
    assert [row.k for row in best.table] == [0, 1, 3]
    assert best.k == 3  # 18 / 2.4 = 7.5 ms against 14 / 1.7 = 8.2 ms


def test_the_shorter_chain_wins_a_tie():
    assert best_k((0.5,), {0: 10.0, 1: 15.0}).k == 0


@given(falling_rates, st.floats(0.001, 2.0))
def test_counting_worthy_positions_finds_the_same_k_as_the_table(rates, cost):
    table = best_k(rates, CycleCost(1.0, cost)).table
    chosen = k_worth_drafting(rates, cost)
    assert table[chosen].ms_per_token == pytest.approx(min(row.ms_per_token for row in table), rel=1e-9)


@given(falling_rates, st.floats(0.0, 2.0), st.floats(0.0, 2.0))
def test_a_dearer_draft_never_makes_the_chain_longer(rates, cost, more):
    assert k_worth_drafting(rates, cost + more) <= k_worth_drafting(rates, cost)


@pytest.mark.parametrize(
    "call",
    [
        lambda: k_worth_drafting((0.5, 1.2), 0.1),
        lambda: k_worth_drafting((0.5,), -0.1),
        lambda: best_k((0.5,), CycleCost(-1.0, 0.1)),
        lambda: best_k((0.5,), {0: 0.0, 1: 10.0}),
        lambda: best_measured_k({2: 0.9}, {2: 10.0}),
        lambda: best_measured_k({2: 2.0}, {3: 10.0}),
    ],
)
def test_senseless_rates_and_costs_are_refused(call):
    with pytest.raises(ValueError, match=r"must|never|no k"):
        call()

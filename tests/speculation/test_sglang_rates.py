import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceana.speculation.acceptance import (
    RateDefinition,
    identify_sglang_rate_definition,
    identify_sglang_rate_definition_from_pairs,
    infer_num_draft_tokens,
    infer_sglang_rate,
    sglang_accepted_share,
    sglang_rate_definition,
)

PER_STEP, PER_DRAFT_TOKEN, STRICT = RateDefinition


@pytest.mark.parametrize(
    ("version", "definition"),
    [
        ("0.4.6", None),
        ("0.5.3", None),
        ("0.5.3.post1", None),
        ("0.5.3.post3", PER_STEP),
        ("0.5.5", PER_STEP),
        ("0.5.6", PER_DRAFT_TOKEN),
        ("0.5.10.post1", PER_DRAFT_TOKEN),
        ("0.5.11rc1", STRICT),
        ("0.5.11", STRICT),
        ("v0.5.23+cu130", STRICT),
        ("0.6", STRICT),
        ("main", None),
        (None, None),
    ],
)
def test_the_version_says_what_the_rate_divides(version, definition):
    assert sglang_rate_definition(version) is definition


@pytest.mark.parametrize(
    ("rate", "version"), [(0.52, "0.5.4"), (0.52, "0.5.8"), (0.35, "0.5.12")], ids=["steps", "tokens", "strict"]
)
def test_one_and_the_same_run_has_one_accept_rate_whatever_the_version_prints(rate, version):
    share, definition = sglang_accepted_share(rate, 2.06, 3, 4, version)
    assert share == pytest.approx(1.06 / 3)
    assert version in definition


def test_without_a_version_the_numbers_say_which_rate_it_is():
    assert identify_sglang_rate_definition(0.35, 2.06, 3, 4).definition is STRICT
    older = identify_sglang_rate_definition(0.52, 2.06, 3, 4)
    assert older.definition is PER_DRAFT_TOKEN
    assert older.candidates == (PER_STEP, PER_DRAFT_TOKEN)  # one and the same on a chain
    share, definition = sglang_accepted_share(0.52, 2.06, 3, 4, None)
    assert share == pytest.approx(1.06 / 3)
    assert "told from the numbers" in definition


def test_on_a_tree_the_two_older_rates_differ():
    assert identify_sglang_rate_definition(0.70, 2.10, 2, 16).definition is PER_STEP
    assert identify_sglang_rate_definition(0.13, 2.10, 2, 16).definition is PER_DRAFT_TOKEN
    assert identify_sglang_rate_definition(0.07, 2.10, 2, 16).definition is STRICT


def test_nearly_full_acceptance_cannot_tell_the_rates_apart_but_the_share_is_known():
    match = identify_sglang_rate_definition(1.00, 4.00, 3, 4)
    assert match.definition is None
    assert "within rounding" in match.reason
    assert sglang_accepted_share(1.00, 4.00, 3, 4, None).value == 1.0


def test_several_lines_tell_what_one_line_cannot():
    pairs = [(4.00, 1.00), (2.06, 0.35)]
    assert identify_sglang_rate_definition_from_pairs(pairs, 3, 4).definition is STRICT


def test_the_numbers_win_over_a_version_string_of_a_fork():
    share, definition = sglang_accepted_share(0.52, 2.06, 3, 4, "0.5.12")
    assert share == pytest.approx(1.06 / 3)
    assert "told from the numbers" in definition


def test_a_rate_that_fits_no_definition_gives_no_share():
    share, reason = sglang_accepted_share(0.80, 2.06, 3, 4, "0.5.12")
    assert share is None
    assert "fits no known definition" in reason


def test_settings_that_are_not_known_give_a_reason_and_no_share():
    assert sglang_accepted_share(0.52, 2.06, 3, None, "0.5.12").value is None
    assert identify_sglang_rate_definition(0.52, 2.06, 3, None).definition is None
    assert identify_sglang_rate_definition_from_pairs([], 3, 4).definition is None
    assert sglang_accepted_share(None, None, 3, 4, "0.5.12").value is None
    assert "outside 1 ... 4" in sglang_accepted_share(0.5, 5.2, 3, 4, "0.5.12").definition


def test_a_rate_without_its_accept_len_needs_the_version():
    assert sglang_accepted_share(0.35, None, 3, 4, "0.5.12").value == 0.35
    assert sglang_accepted_share(0.52, None, 3, 4, "0.5.8").value == pytest.approx(0.36)
    assert sglang_accepted_share(0.70, None, 2, 16, "0.5.4").value == pytest.approx(1.1 / 15)
    assert sglang_accepted_share(0.52, None, 3, 4, None).value is None
    assert sglang_accepted_share(0.10, None, 3, 4, "0.5.8").value is None  # below the bonus token's 0.25


def test_an_accept_len_without_a_rate_is_enough():
    assert sglang_accepted_share(None, 2.5, 3, 4, "0.4.7").value == 0.5


def test_the_number_of_draft_tokens_can_be_read_off_the_printed_pairs():
    assert infer_num_draft_tokens([(2.17, 0.54)]) == 4
    assert infer_num_draft_tokens([(2.17, 0.54), (1.95, 0.49), (1.57, 0.39)]) == 4
    assert infer_sglang_rate([(2.17, 0.54)]) == (PER_DRAFT_TOKEN, 4)
    assert infer_num_draft_tokens([(2.06, 0.35)], STRICT) == 4


def test_pairs_that_fit_no_width_or_several_give_none():
    assert infer_num_draft_tokens([(2.17, 0.54), (2.17, 0.30)]) is None
    assert infer_num_draft_tokens([(2.10, 0.01)]) is None
    assert infer_num_draft_tokens([(1.00, 0.00)], STRICT) is None
    assert infer_num_draft_tokens([(math.nan, 0.54)]) is None
    assert infer_num_draft_tokens([]) is None
    assert infer_sglang_rate([(1.50, 0.50)]) is None  # 3 with the bonus, 2 without
    assert infer_sglang_rate([]) is None


@given(
    st.integers(2, 16), st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20), st.sampled_from(list(RateDefinition))
)
def test_rounded_lines_never_exclude_the_definition_they_were_printed_with(width, fractions, definition):
    bonus = 1 if definition is STRICT else 0
    lengths = [1.0 + fraction * (width - 1) for fraction in fractions]
    pairs = [(round(a, 2), round((a - bonus) / (width - bonus), 2)) for a in lengths]
    assert definition in identify_sglang_rate_definition_from_pairs(pairs, width - 1, width).candidates
    assert infer_num_draft_tokens(pairs, definition) in (width, None)
    for (printed_length, rate), length in zip(pairs, lengths, strict=True):
        share = sglang_accepted_share(rate, printed_length, width - 1, width, None).value
        assert share == pytest.approx((length - 1) / (width - 1), abs=0.0051 / (width - 1) + 1e-9)

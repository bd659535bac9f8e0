import json
import subprocess
import sys

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from traceana.cli.breakeven import breakeven
from traceana.errors import EXIT_UNUSABLE, TraceanaError

app = typer.Typer()
app.command()(breakeven)


def run(*options):
    return CliRunner().invoke(app, [str(option) for option in options])


def words(*options):
    result = run(*options)
    assert result.exit_code == 0, result.exception
    return result.stdout


def document(*options):
    return json.loads(words(*options, "--format", "json"))


def refused(*options):
    """The one line of advice that an unusable question gets."""
    error = run(*options).exception
    assert isinstance(error, TraceanaError)
    assert error.exit_code == EXIT_UNUSABLE
    assert "\n" not in error.message
    return error.message


def test_the_founding_question_in_json():
    found = document("--cycle-ms", 30, "--baseline-tps", 82, "--k", 3, "--target-tps", 150)
    assert found["schema"] == "traceana/breakeven/1"
    assert found["break_even_accept_length"] == 2.46
    assert found["baseline_step_ms"] == pytest.approx(12.195, abs=0.001)
    assert found["target"] == {
        "tps": 150.0,
        "accept_length_needed": 4.5,
        "max_accept_length": 4.0,
        "reachable": False,
        "p_needed": None,
        "p_unlimited_chain": pytest.approx(0.7778, abs=5e-5),
        "drafts_needed": 4,
        "p_with_drafts_needed": pytest.approx(0.9473, abs=5e-5),
    }
    assert found["speedup"] is None
    assert found["pays"] is None
    assert found["gen_tps"] is None
    assert found["inputs"]["accept_length"] is None
    assert found["inputs"]["running"] == 1


def test_the_founding_question_in_words():
    text = words("--cycle-ms", 30, "--baseline-tps", 82, "--k", 3, "--target-tps", 150)
    assert "A cycle takes 30 ms (given)." in text
    assert "12.2 ms (derived: 1000 x 1 / 82 tok/s)" in text
    assert "breaks even at an accept length of 2.46, bonus token included (derived" in text
    assert "150 tok/s need an accept length of 4.50 (derived" in text
    assert "A chain of 3 drafts cannot reach it: the accept length is at most 4." in text
    assert "A chain of 4 drafts, each accepted with probability 0.95 (modelled), is the shortest that does" in text
    assert "An unlimited chain of drafts, each accepted with probability 0.78 (modelled)" in text
    assert "depends on the accept length" in text


def test_a_counter_without_the_bonus_token_is_read_as_1_92():
    options = ("--spec-tps", 61.7, "--accept-length", 0.92, "--no-bonus", "--baseline-tps", 88.8, "--k", 3)
    found = document(*options)
    assert found["accept_length"] == 1.92
    assert found["inputs"]["accept_length"] == 0.92
    assert found["cycle_ms"] == pytest.approx(31.12, abs=0.005)
    assert found["break_even_accept_length"] == pytest.approx(2.76, abs=0.005)
    assert found["speedup"] == pytest.approx(0.6948, abs=5e-5)
    assert found["pays"] is False
    text = words(*options)
    assert "Speculation loses: 0.69x the baseline" in text
    assert "0.92 accepted drafts + 1 bonus token" in text
    assert "lacks 0.84 tokens per cycle, or the cycle must shrink to 21.62 ms" in text


def test_a_batch_of_eight_users():
    found = document("--cycle-ms", 101.3, "--baseline-tps", 251.5, "--running", 8, "--accept-rate", 0.513, "--k", 3)
    assert found["accept_length"] == pytest.approx(2.539)
    assert found["break_even_accept_length"] == pytest.approx(3.185, abs=0.0005)
    assert found["speedup"] == pytest.approx(0.80, abs=0.005)
    assert found["pays"] is False


def test_speculation_that_pays_says_so_and_warns_of_noise():
    options = ("--cycle-ms", 27.1, "--baseline-tps", 59, "--accept-length", 2.6)
    assert document(*options)["pays"] is True
    text = words(*options)
    assert "Speculation pays: 1.63x the baseline" in text
    assert "spread of repeated runs" in text


def test_two_throughputs_alone_give_the_speedup_and_no_break_even():
    found = document("--spec-tps", 347, "--baseline-tps", 285)
    assert found["speedup"] == pytest.approx(1.2175, abs=5e-5)
    assert found["pays"] is True
    assert found["break_even_accept_length"] is None
    assert found["accept_length"] is None
    assert found["target"] is None


def test_cycle_and_throughput_give_the_accept_length():
    found = document("--cycle-ms", 10.9, "--spec-tps", 178.86, "--baseline-tps", 100)
    assert found["accept_length"] == pytest.approx(1.95, abs=0.005)
    assert found["gen_tps"] == 178.86


def test_rounded_figures_of_a_drafter_that_is_never_right_are_an_accept_length_of_one():
    found = document("--cycle-ms", 12.19, "--spec-tps", 82, "--baseline-tps", 100)
    assert found["accept_length"] == 1.0


def test_a_draft_too_short_for_the_break_even_cannot_pay_whatever_is_accepted():
    options = ("--cycle-ms", 30, "--baseline-tps", 82, "--k", 1)
    assert document(*options)["pays"] is False
    assert "at most 2 (derived: k + 1): speculation cannot pay" in words(*options)


def test_a_cycle_shorter_than_the_step_pays_at_any_accept_length():
    options = ("--cycle-ms", 10, "--baseline-tps", 50, "--k", 3)
    assert document(*options)["pays"] is True
    assert "it pays at any accept length" in words(*options)


def test_exactly_break_even_does_not_pay():
    options = ("--cycle-ms", 30, "--baseline-tps", 82, "--accept-length", 2.46)
    assert document(*options)["pays"] is False
    assert "Speculation breaks even: 1.00x" in words(*options)


@pytest.mark.parametrize(
    ("target", "k", "expected"),
    [
        (100, 3, {"reachable": True, "drafts_needed": 3}),
        (133.3333333333, 3, {"reachable": True, "p_needed": 1.0, "drafts_needed": 4}),
        (20, 3, {"reachable": True, "p_needed": 0.0, "p_unlimited_chain": 0.0, "drafts_needed": 0}),
        (150, 5, {"reachable": True, "p_needed": pytest.approx(0.8834, abs=5e-5)}),
        (150, None, {"reachable": None, "max_accept_length": None, "p_needed": None, "drafts_needed": 4}),
    ],
)
def test_targets(target, k, expected):
    options = ["--cycle-ms", 30, "--target-tps", target] + ([] if k is None else ["--k", k])
    found = document(*options)["target"]
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ([], "--baseline-tps"),
        (["--cycle-ms", 30], "--baseline-tps"),
        (["--baseline-tps", 82], "--cycle-ms"),
        (["--baseline-tps", 82, "--accept-length", 2.0], "--cycle-ms"),
        (["--target-tps", 150], "--cycle-ms"),
        (["--target-tps", 150, "--spec-tps", 60], "--accept-length"),
        (["--cycle-ms", 0, "--baseline-tps", 82], "--cycle-ms is 0"),
        (["--cycle-ms", -30, "--baseline-tps", 82], "--cycle-ms is -30"),
        (["--cycle-ms", "nan", "--baseline-tps", 82], "--cycle-ms is nan"),
        (["--cycle-ms", "inf", "--baseline-tps", 82], "--cycle-ms is inf"),
        (["--cycle-ms", 30, "--baseline-tps", "nan"], "--baseline-tps is nan"),
        (["--cycle-ms", 30, "--baseline-tps", 82, "--running", 0], "--running is 0"),
        (["--cycle-ms", 30, "--baseline-tps", 82, "--k", 0], "--k is 0"),
        (["--cycle-ms", 30, "--target-tps", -1], "--target-tps is -1"),
        (["--spec-tps", 0, "--baseline-tps", 82], "--spec-tps is 0"),
        (["--cycle-ms", 30, "--baseline-tps", 82, "--accept-length", 0.92], "--no-bonus"),
        (["--cycle-ms", 30, "--baseline-tps", 82, "--accept-length", -1], "--accept-length is -1"),
        (["--cycle-ms", 30, "--baseline-tps", 82, "--accept-length", "nan"], "--accept-length is nan"),
        (["--cycle-ms", 30, "--baseline-tps", 82, "--accept-length", 4.2, "--k", 3], "at most 4"),
        (["--cycle-ms", 30, "--baseline-tps", 82, "--accept-length", 3.5, "--no-bonus", "--k", 3], "--no-bonus out"),
        (["--cycle-ms", 30, "--baseline-tps", 82, "--no-bonus"], "--accept-length"),
        (["--cycle-ms", 30, "--baseline-tps", 82, "--accept-rate", 0.5], "add --k"),
        (["--cycle-ms", 30, "--baseline-tps", 82, "--accept-rate", 27, "--k", 3], "27 % is 0.27"),
        (["--cycle-ms", 30, "--baseline-tps", 82, "--accept-rate", 0.5, "--accept-length", 2, "--k", 3], "leave one"),
        (["--cycle-ms", 30, "--baseline-tps", 82, "--spec-tps", 61.7, "--accept-length", 2.46], "leave one"),
        (["--cycle-ms", 3, "--baseline-tps", 82, "--spec-tps", 61.7], "fewer than 1"),
        (["--cycle-ms", 300, "--baseline-tps", 82, "--spec-tps", 61.7, "--k", 3], "above the 4"),
    ],
)
def test_a_question_that_cannot_be_answered_gets_one_line_that_says_what_to_do(options, advice):
    assert advice in refused(*options)


def test_an_unknown_format_is_refused_before_anything_is_printed():
    result = run("--cycle-ms", 30, "--baseline-tps", 82, "--format", "xml")
    assert result.exit_code == 2
    assert result.stdout == ""


def test_the_help_shows_the_example_on_one_line():
    example = "traceana breakeven --cycle-ms 30 --baseline-tps 82 --k 3 --target-tps 150"
    assert example in words("--help")
    assert "2.46" in words(*example.split()[2:])


@given(
    st.floats(1e-6, 1e12),
    st.floats(1e-6, 1e12),
    st.one_of(st.none(), st.floats(1e-6, 1e12)),
    st.one_of(st.none(), st.integers(1, 1_000_000)),
    st.floats(1e-6, 1e12),
)
def test_any_positive_numbers_give_valid_json_and_sentences(cycle, baseline, target, k, running):
    options = ["--cycle-ms", repr(cycle), "--baseline-tps", repr(baseline), "--running", repr(running)]
    options += ["--target-tps", repr(target)] if target is not None else []
    options += ["--k", k] if k is not None else []
    found = json.loads(words(*options, "--format", "json"), parse_constant=pytest.fail)
    assert found["break_even_accept_length"] > 0
    assert words(*options).strip()


def test_the_command_loads_no_table_library():
    code = "import sys, traceana.cli.breakeven; print({'polars', 'pyarrow', 'numpy'} & set(sys.modules))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "set()"

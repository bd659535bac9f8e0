"""The calibration of check: its own small run keeps what the page of benchmarks promises."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from traceana.speculation.gate import Result

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "check_calibration.py"
TRIALS = 150


@pytest.fixture(scope="module")
def calibration():
    spec = importlib.util.spec_from_file_location("check_calibration", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def share(calibration, result: Result, effect: float, run_sd: float, history: int, new: int) -> float:
    rng = np.random.default_rng(7)
    seen = [calibration.gate_once(rng, effect, run_sd, history, new, 0.0) for _ in range(TRIALS)]
    return seen.count(result) / TRIALS


@pytest.mark.parametrize(("run_sd", "history", "new"), [(0.01, 3, 1), (0.02, 10, 1), (0.05, 1, 1), (0.05, 5, 5)])
def test_unchanged_runs_raise_hardly_any_alarm_and_large_losses_never_pass(calibration, run_sd, history, new) -> None:
    assert share(calibration, Result.REGRESSION, 0.0, run_sd, history, new) <= 0.05
    assert share(calibration, Result.PASS, -0.2, run_sd, history, new) == 0.0


def test_at_the_limit_the_check_errs_as_rarely_as_it_says(calibration) -> None:
    for result in (Result.REGRESSION, Result.PASS):
        assert share(calibration, result, -0.05, 0.02, 10, 1) <= 0.05 + 3 * (0.05 * 0.95 / TRIALS) ** 0.5


def test_repeats_of_the_new_run_find_a_loss_of_ten_per_cent(calibration) -> None:
    assert share(calibration, Result.REGRESSION, -0.1, 0.01, 5, 5) >= 0.9


def test_simulated_windows_have_the_noise_that_was_asked_for(calibration) -> None:
    series = np.log(calibration.windows(np.random.default_rng(3), 20_000, 0.06, 0.5))
    assert series.std() == pytest.approx(0.06, rel=0.05)
    assert np.corrcoef(series[1:], series[:-1])[0, 1] == pytest.approx(0.5, abs=0.05)


def test_the_page_of_benchmarks_has_the_tables_of_the_script(calibration) -> None:
    page = (SCRIPT.parent / "README.md").read_text()
    assert "python benchmarks/check_calibration.py" in page
    assert "| run-to-run % | recorded | new | tail |" in page
    assert "Coverage of compare's 95 % interval" in page

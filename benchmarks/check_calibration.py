"""How often `check` and `compare` err: noise of known size goes in, false alarms and misses are counted.

Every run is simulated: a level that differs from run to run (log-normal), and in it windows whose neighbours resemble
each other (an autoregressive series). Then the functions of the commands judge it.

    python benchmarks/check_calibration.py                 # all tables: about four minutes
    python benchmarks/check_calibration.py --trials 200    # coarser
"""

from __future__ import annotations

import argparse
import math
from collections import Counter

import numpy as np

from traceana.facts.check import limits
from traceana.speculation.gate import Result, gate, overall
from traceana.speculation.noise import Answer, Measured, judge, ratio_interval

WINDOWS, WINDOW_SD, WINDOW_CORRELATION = 30, 0.06, 0.5
TOLERANCE = next(limit.tolerance for limit in limits() if limit.option == "tps")
ASSUMED = next(limit.run_noise for limit in limits() if limit.option == "tps")


def windows(rng: np.random.Generator, n: int, sd: float, correlation: float) -> np.ndarray:
    """Relative window values around 1."""
    shocks = rng.normal(size=n + 50) * math.sqrt(1.0 - correlation**2)
    series = np.zeros(n + 50)
    for i in range(1, n + 50):
        series[i] = correlation * series[i - 1] + shocks[i]
    return np.exp(sd * series[50:])


def one_run(rng: np.random.Generator, level: float, run_sd: float, tail: float = 0.0) -> tuple[float, np.ndarray]:
    """Throughput of one run and of its windows. `tail`: the share of runs that a busy machine makes a fifth slower."""
    slow = 0.8 if rng.random() < tail else 1.0
    parts = (
        100.0 * level * slow * math.exp(run_sd * rng.normal()) * windows(rng, WINDOWS, WINDOW_SD, WINDOW_CORRELATION)
    )
    return float(parts.mean()), parts


def side(rng: np.random.Generator, level: float, run_sd: float, runs: int, tail: float = 0.0) -> Measured:
    made = [one_run(rng, level, run_sd, tail) for _ in range(runs)]
    return Measured(tuple(value for value, _ in made), tuple(made[0][1]) if runs == 1 else ())


def gate_once(rng: np.random.Generator, effect: float, run_sd: float, history: int, new: int, tail: float) -> Result:
    """One check of one figure, as `traceana check` does it: assumed noise until three runs are recorded."""
    before, after = side(rng, 1.0, run_sd, history, tail), side(rng, 1.0 + effect, run_sd, new, tail)
    found = ratio_interval(before, after, assumed_sd=ASSUMED, least_freedom=2)
    return gate(found, TOLERANCE, True)


def percent(share: float) -> str:
    return f"{100.0 * share:.1f}"


def table(head: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(head) + " |")
    print("|" + "---:|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def check_table(trials: int) -> None:
    print(f"Check of tok/s, limit -{TOLERANCE:.0%}, {trials} trials a row. Share of answers in %:\n")
    rows = []
    scenarios = [
        (sd, history, new, 0.0) for sd in (0.01, 0.02, 0.05) for history, new in ((1, 1), (3, 1), (10, 1), (5, 5))
    ]
    scenarios += [(0.01, 10, 1, 0.1), (0.01, 10, 5, 0.1)]
    for run_sd, history, new, tail in scenarios:
        row = [percent(run_sd), str(history), str(new), "10 % of runs 0.8x" if tail else "-"]
        for effect in (0.0, -TOLERANCE, -0.1, -0.2):
            rng = np.random.default_rng(20)
            seen = Counter(gate_once(rng, effect, run_sd, history, new, tail) for _ in range(trials))
            share = {result: seen[result] / trials for result in Result}
            row.append(" / ".join(percent(share[r]) for r in (Result.REGRESSION, Result.INCONCLUSIVE, Result.PASS)))
        rows.append(row)
    table(
        ["run-to-run %", "recorded", "new", "tail", "no change", f"-{TOLERANCE:.0%} (edge)", "-10%", "-20%"],
        rows,
    )


def family_table(trials: int) -> None:
    """A whole check of 4 figures at 4 loads that all share the run's level."""
    print("Whole check, 4 figures at 4 loads, 10 recorded runs, run-to-run 2 %. Share of answers in %:\n")
    rows = []
    for effect in (0.0, -0.05, -0.1, -0.2):
        rng = np.random.default_rng(20)
        seen: Counter[Result] = Counter()
        for _ in range(trials):
            results = []
            levels = [math.exp(0.02 * rng.normal()) for _ in range(11)]
            for _line in range(16):
                values = [level * math.exp(0.005 * rng.normal()) for level in levels]
                values[-1] *= 1.0 + effect
                found = ratio_interval(Measured(tuple(values[:-1])), Measured((values[-1],)))
                results.append(gate(found, TOLERANCE, True, 16))
            seen[overall(results)] += 1
        rows.append(
            [
                f"{effect:+.0%}",
                *(percent(seen[r] / trials) for r in (Result.REGRESSION, Result.INCONCLUSIVE, Result.PASS)),
            ]
        )
    table(["true change", "regression", "inconclusive", "pass"], rows)


def coverage_table(trials: int) -> None:
    print("Coverage of compare's 95 % interval in %, windows of one run per side, by correlation of neighbours:\n")
    rows = []
    for run_sd, words in ((0.0, "no run-to-run noise"), (0.03, "3 % run-to-run, which windows cannot see")):
        for n in (5, 10, 20, 50):
            row = [words, str(n)]
            for correlation in (0.0, 0.3, 0.5, 0.7, 0.9):
                rng = np.random.default_rng(20)
                held = 0
                for _ in range(trials):
                    parts = [
                        100.0 * math.exp(run_sd * rng.normal()) * windows(rng, n, WINDOW_SD, correlation)
                        for _ in range(2)
                    ]
                    one, other = (Measured((float(p.mean()),), tuple(p)) for p in parts)
                    found = ratio_interval(one, other)
                    held += found.low <= 1.0 <= found.high
                row.append(percent(held / trials))
            rows.append(row)
    table(["noise", "windows", "r = 0", "0.3", "0.5", "0.7", "0.9"], rows)


def repeats_table(trials: int) -> None:
    print(
        "Compare of repeated runs, 11 % from run to run: share of answers in % (faster or slower / same / inconclusive):\n"
    )
    rows = []
    for runs in (2, 3, 5, 10, 20):
        row = [str(runs)]
        for effect in (0.0, -0.1, -0.2, -0.34):
            rng = np.random.default_rng(20)
            seen: Counter[Answer] = Counter()
            for _ in range(trials):
                one = Measured(tuple(np.exp(0.11 * rng.normal(size=runs))))
                other = Measured(tuple((1.0 + effect) * np.exp(0.11 * rng.normal(size=runs))))
                seen[judge(ratio_interval(one, other))] += 1
            sure = seen[Answer.HIGHER] + seen[Answer.LOWER]
            row.append(" / ".join(percent(n / trials) for n in (sure, seen[Answer.SAME], seen[Answer.INCONCLUSIVE])))
        rows.append(row)
    table(["runs a side", "no change", "-10%", "-20%", "-34%"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000, help="simulated checks per cell")
    trials = parser.parse_args().trials
    for make in (check_table, family_table, repeats_table, coverage_table):
        make(trials)


if __name__ == "__main__":
    main()

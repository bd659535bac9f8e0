"""Plants causes into simulated runs, has them diagnosed, and prints how often the diagnosis was right.

python benchmarks/diagnosis/run.py                              # 200 healthy runs, 20 per cause, 10 per pair
python benchmarks/diagnosis/run.py --runs 5 --healthy 20 --show # fewer, and every miss and wrong finding
python benchmarks/diagnosis/run.py --keep FOLDER --only "P2P lost" --runs 3    # leave the inputs to look at
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # logs of a hundred lines
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np

from benchmarks.diagnosis import score, traces
from benchmarks.diagnosis.causes import CAUSES, PAIRS, case
from benchmarks.diagnosis.logs import log
from benchmarks.diagnosis.server import simulate


def answer(job: tuple[tuple[str, ...], int, str, bool]) -> score.Answer:
    """Makes the inputs of one run in a folder and diagnoses them."""
    from traceana.api import diagnose
    from traceana.rules.weigh import RULED_OUT

    names, seed, where, traced = job
    made = case(names, seed)
    plan, rng = made.plan, np.random.default_rng([seed, 7])
    folder = Path(where)
    folder.mkdir(parents=True, exist_ok=True)
    windows = simulate(plan, rng)
    (folder / "server.log").write_text(log(plan, windows, rng), encoding="utf-8")
    base, plain = [], []
    if made.baseline:
        plain = simulate(plan.baseline(), rng)
        (folder / "plain.log").write_text(log(plan.baseline(), plain, rng), encoding="utf-8")
        base = [str(folder / "plain.log")]
    inputs = [str(folder / "server.log")]
    if traced or made.traces:  # the traces alone: their cycles are not those of the simulated log
        traces.write(folder / "traces", made.traces or "healthy", rng)
        inputs, base = [str(folder / "traces")], []
    found = diagnose(inputs, base)
    return score.Answer(
        planted=names,
        seed=seed,
        what=f"{plan.engine} {plan.version} {plan.form}{' with baseline' if base else ''}",
        findings=tuple((f.code, f.severity, f.confidence) for f in found.findings),
        weighed=tuple(tuple(c.code for c in w.candidates if c.standing != RULED_OUT) for w in found.weighed),
        **score.truth(made, windows, plain),
    )


def jobs(
    healthy: int, runs: int, seed: int, only: str | None, keep: str
) -> list[tuple[tuple[str, ...], int, str, bool]]:
    """What to run: causes, seed, folder, whether a healthy run is one of traces (one in ten)."""
    wanted: list[tuple[tuple[str, ...], int, bool]] = [((), i, i % 10 == 9) for i in range(healthy)]
    wanted += [((cause.name,), i, False) for cause in CAUSES for i in range(runs)]
    wanted += [(pair, i, False) for pair in PAIRS for i in range((runs + 1) // 2)]
    if only is not None:
        wanted = [w for w in wanted if "+".join(w[0]) == only]
    name = lambda causes: "-".join(causes).replace(" ", "_").replace(",", "") or "healthy"  # noqa: E731
    return [(names, seed + i, f"{keep}/{name(names)}-{seed + i}", traced) for names, i, traced in wanted]


def show(answers: list[score.Answer]) -> str:
    """Every run whose planted cause was not named, or of which something wrong was said."""
    lines = []
    for a in answers:
        wrong = [f"{code} ({severity}, {sure})" for code, severity, sure in a.findings if a.judge(code) == score.WRONG]
        missed = [n for n in a.planted if a.shown and a.rank(score.BY_NAME[n].codes) is None]
        if wrong or missed:
            who = " + ".join(a.planted) or "healthy"
            said = ", ".join(code for code, _, _ in a.findings) or "nothing"
            lines.append(f"- {who}, seed {a.seed}, {a.what}: missed {missed}, wrong {wrong}, said {said}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="per cause; half as many per pair of causes")
    parser.add_argument("--healthy", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="one cause, or two joined by +")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--show", action="store_true", help="list misses and wrong findings")
    parser.add_argument("--keep", help="folder in which the inputs stay")
    parser.add_argument("--out", help="write the tables there as well")
    parser.add_argument(
        "--consequences", action="store_true", help="only list which other findings count as right, and why"
    )
    asked = parser.parse_args()
    if asked.consequences:
        print(score.consequences())
        return
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(asked.jobs) as pool:
        todo = jobs(asked.healthy, asked.runs, asked.seed, asked.only, asked.keep or folder)
        answers = list(pool.map(answer, todo, chunksize=4))
    tables = [score.causes_table, score.pairs_table, score.calibration_table, score.healthy_table]
    text = "\n\n".join(table(answers) for table in tables) + "\n"
    print(text)
    if asked.show:
        print(show(answers))
    if asked.out:
        Path(asked.out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""What a diagnosis said against what was planted, and the Markdown tables of many of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.diagnosis.causes import BY_NAME, CAUSES, PAIRS, Case
from benchmarks.diagnosis.server import NcclPlan, Window

PLANTED, FOLLOWS, WRONG = "planted", "follows", "wrong"


@dataclass(frozen=True)
class Answer:
    """One run. `findings`: (code, severity, confidence) in order. `weighed`: per symptom the codes still possible."""

    planted: tuple[str, ...]
    seed: int
    what: str  # engine, version and form, for a reader who looks it up
    shown: bool
    loses: bool
    draft_too_long: bool
    pcie: bool
    idle_variable: bool
    lost_after: bool
    findings: tuple[tuple[str, str, str], ...]
    weighed: tuple[tuple[str, ...], ...]

    def judge(self, code: str) -> str:
        """Whether a finding names a planted cause, truly follows from it, or is wrong."""
        causes = [BY_NAME[name] for name in self.planted]
        if any(code in cause.codes for cause in causes):
            return PLANTED
        true = {"CYC002": self.loses, "ACC004": self.draft_too_long, "COM001": self.pcie, "ENV004": self.idle_variable}
        true["CAP002"] = self.lost_after
        return FOLLOWS if true.get(code, any(code in cause.follows for cause in causes)) else WRONG

    def rank(self, codes: Sequence[str]) -> int | None:
        """Place of the first finding with one of the codes, from 1."""
        return next((i for i, (code, _, _) in enumerate(self.findings, 1) if code in codes), None)

    def weighed_rank(self, codes: Sequence[str]) -> int | None:
        """Best place among the candidates of any symptom, from 1."""
        places = [order.index(code) + 1 for order in self.weighed for code in codes if code in order]
        return min(places, default=None)


def truth(case: Case, windows: list[Window], plain: list[Window]) -> dict[str, bool]:
    """What holds in this run by the model itself, whatever was planted. `plain`: the baseline's windows, if any."""
    plan = case.plan
    seen = sorted({w.running for w in windows})
    shorter = plan.shorter() if plan.k > 1 else None
    busiest = Counter(w.running for w in windows).most_common(1)[0][0]
    return {
        "shown": all(_shown(name, case, windows, plain) for name in case.planted),
        "loses": any(plan.speedup(running) < 1 for running in seen),
        "draft_too_long": shorter is not None and shorter.speedup(busiest) > plan.speedup(busiest),
        "pcie": plan.pcie and plan.machine.tp > 2,
        "lost_after": _lost_after_retraction(windows),
        "idle_variable": plan.nccl is not None and _idle(plan.nccl),
    }


def _lost_after_retraction(windows: list[Window]) -> bool:
    """Whether the median throughput after the first retraction is a tenth or more below the one before it."""
    first = next((i for i, w in enumerate(windows) if w.retracted), None)
    if not first:
        return False
    before, after = ([w.emitted / w.seconds for w in part] for part in (windows[:first], windows[first:]))
    return median(after) < 0.9 * median(before)


def _idle(nccl: NcclPlan) -> bool:
    """By NCCL's source a limit on channels does nothing for small messages, and LL, where it runs, slows large ones."""
    return "NCCL_MAX_NCHANNELS" in nccl.env or (nccl.env.get("NCCL_PROTO") == "LL" and nccl.protocol != "SIMPLE")


def _shown(name: str, case: Case, windows: list[Window], plain: list[Window]) -> bool:
    """Whether the inputs hold the cause's trace at all: its condition was met, in windows that tell of decoding alone."""
    plan, cliff = case.plan, case.plan.machine.cliff
    clean = [w for w in windows if w.clean]
    if name == "step cost cliff" and cliff is not None:
        above = [w.running * (plan.k + 1) > cliff[0] for w in clean]
        return sum(above) >= 3 and len(above) - sum(above) >= 3
    if name == "KV pool, retractions":
        return any(w.retracted for w in windows)
    if name == "batch beyond captured graphs":
        return any(not w.graph for w in windows)
    if name == "load past crossover":
        both = Counter(w.running for w in clean), Counter(w.running for w in plain if w.clean)
        return any(min(count[n] for count in both) >= 3 and plan.speedup(n) < 0.95 for n in both[0])
    if name == "unstable host":
        return len(clean) >= 8 and sum(w.burst for w in clean) >= 2
    if name == "n-gram low coverage":  # no trouble where the baseline shows a gain
        return not case.baseline or all(plan.speedup(clients) < 1 for clients, _ in plan.loads)
    return True


def _share(part: int, of: int) -> str:
    return "-" if of == 0 else f"{100 * part / of:.0f} %"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)])


def causes_table(answers: Sequence[Answer]) -> str:
    """Per cause: recall, precision of its codes over all runs, place among the findings and the weighed candidates."""
    rows = []
    for cause in CAUSES:
        all_runs = [a for a in answers if a.planted == (cause.name,)]
        runs = [a for a in all_runs if a.shown]
        if not all_runs:
            continue
        ranks = [a.rank(cause.codes) or 99 for a in runs]
        said = [a.judge(code) for a in answers for code, _, _ in a.findings if code in cause.codes]
        weighed = [a.weighed_rank(cause.codes) for a in runs if a.weighed]
        placed = [place for place in weighed if place is not None]
        rows.append(
            (
                cause.name,
                "/".join(cause.codes),
                f"{len(runs)}/{len(all_runs)}",
                _share(sum(r < 99 for r in ranks), len(runs)),
                _share(sum(word != WRONG for word in said), len(said)),
                *(_share(sum(r <= n for r in ranks), len(runs)) for n in (1, 2, 3)),
                len(placed),
                *(_share(sum(place <= n for place in placed), len(placed)) for n in (1, 3)),
            )
        )
    singles = [a for a in answers if len(a.planted) == 1 and a.shown]
    places = [a.rank(BY_NAME[a.planted[0]].codes) or 99 for a in singles]
    everything = [a.judge(code) for a in answers for code, _, _ in a.findings]
    rows.append(
        (
            "all single causes",
            "",
            len(singles),
            _share(sum(r < 99 for r in places), len(singles)),
            _share(sum(word != WRONG for word in everything), len(everything)),
            *(_share(sum(r <= n for r in places), len(singles)) for n in (1, 2, 3)),
            "",
            "",
            "",
        )
    )
    head = ("planted", "named by", "n", "recall", "precision", "top 1", "top 2", "top 3")
    return _table((*head, "weighed n", "top 1", "top 3"), rows)


def pairs_table(answers: Sequence[Answer]) -> str:
    """Runs with two causes."""
    rows = []
    for pair in PAIRS:
        runs = [a for a in answers if a.planted == pair and a.shown]
        if not runs:
            continue
        places = [[a.rank(BY_NAME[name].codes) or 99 for name in pair] for a in runs]
        count: Callable[[Callable[[list[int]], bool]], str] = lambda test, p=places: _share(sum(map(test, p)), len(p))  # noqa: E731
        rows.append(
            (
                " + ".join(pair),
                len(runs),
                count(lambda p: p[0] < 99),
                count(lambda p: p[1] < 99),
                count(lambda p: max(p) < 99),
                count(lambda p: max(p) <= 3),
            )
        )
    return _table(("two causes", "n", "first", "second", "both", "both in top 3"), rows)


def calibration_table(answers: Sequence[Answer]) -> str:
    """Of the findings stated with each confidence, how many name the planted cause or a true consequence."""
    rows = []
    for level in ("high", "medium", "low"):
        said = [a.judge(code) for a in answers for code, _, confidence in a.findings if confidence == level]
        n = Counter(said)
        right = n[PLANTED] + n[FOLLOWS]
        share = "-" if not said else f"{100 * right / len(said):.1f} %"
        rows.append((level, len(said), n[PLANTED], n[FOLLOWS], n[WRONG], share))
    return _table(("stated", "findings", "planted cause", "true consequence", "wrong", "right"), rows)


def healthy_table(answers: Sequence[Answer]) -> str:
    """Runs without a planted cause in which something false was said, by the highest severity said."""
    runs = [a for a in answers if not a.planted]
    rows = []
    for level in ("critical", "warning", "info"):
        wrong = [[c for c, sev, _ in a.findings if sev == level and a.judge(c) == WRONG] for a in runs]
        codes = Counter(code for found in wrong for code in found)
        which = ", ".join(f"{code} {n}" for code, n in codes.most_common()) or "-"
        rows.append((level, len(runs), sum(bool(found) for found in wrong), which))
    return _table(("false alarms of severity", "healthy runs", "runs with one", "which"), rows)


def consequences() -> str:
    """The findings beside the planted cause that count as right, each with its reason."""
    lines = [f"- {cause.name}: {code}, {why}" for cause in CAUSES for code, why in cause.follows.items()]
    always = (
        "- any run: CYC002 where the model itself loses at a load that the run has; ACC004 where the model gains with one "
        "draft token fewer; COM001 on more than two PCIe GPUs; ENV004 where NCCL_MAX_NCHANNELS is set or LL runs alone"
    )
    return "\n".join([always, *lines])

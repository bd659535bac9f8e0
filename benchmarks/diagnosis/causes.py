"""The causes that are planted: what each changes in the server or its environment, which rule names it, what follows.

Sizes come from the engines' behaviour and from public cases, and include weak ones: a cliff of 1.5x to 2.5x, P2P lost at
three to six times the latency, acceptance that decays by 8 % to 30 % an hour.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.diagnosis.logs import SGLANG, VLLM
from benchmarks.diagnosis.server import Machine, NcclPlan, Plan

Rng = np.random.Generator
PCIE_HOP_US, PCIE_GBPS = (22.0, 34.0), 24.0


@dataclass
class Case:
    """A run to diagnose, with its truth."""

    planted: tuple[str, ...]  # names of causes; empty for a healthy run
    plan: Plan
    baseline: bool
    traces: str | None = None  # which traces go with it
    seed: int = 0


@dataclass(frozen=True)
class Cause:
    """`codes`: any of them names the cause. `follows`: other true findings on such a run, each with its reason."""

    name: str
    codes: tuple[str, ...]
    plant: Callable[[Plan, Rng], None]
    follows: dict[str, str] = field(default_factory=dict)
    engine: str | None = None
    loads: str = "any"  # any | sweep | one | long
    baseline: float = 0.5  # share of runs that have one
    pcie: bool = False
    traces: str | None = None
    load_test: bool = False  # seen in windows without prefill: mostly measured with long requests of one length
    start_up: bool = True  # the evidence is in the start-up lines: the log is not rotated


def machine(rng: Rng, pcie: bool) -> Machine:
    """A healthy server: one to four GPUs with NVLink, or four on PCIe with NCCL at its best."""
    layers, hidden, least, most = [
        (32, 4096, 4.0, 7.0),
        (40, 5120, 8.0, 12.0),
        (64, 5120, 13.0, 20.0),
        (80, 8192, 18.0, 26.0),
    ][rng.integers(4)]
    weights = rng.uniform(least, most)
    return Machine(
        tp=4 if pcie else int(rng.choice([1, 1, 2, 4])),
        layers=layers,
        hidden=hidden,
        weights=weights,
        per_token=weights / rng.uniform(120, 260),
        per_kv=0.004,
        draft=weights * rng.uniform(0.025, 0.06),
        host=rng.uniform(0.3, 1.2),
        hop_us=rng.uniform(*PCIE_HOP_US) if pcie else rng.uniform(5, 9),
        link_gbps=PCIE_GBPS if pcie else 300.0,
    )


def _loads(rng: Rng, kind: str) -> list[tuple[int, int]]:
    if kind == "long":
        return [(int(rng.choice([2, 4, 8])), 0)]
    if kind == "sweep" or (kind == "any" and rng.random() < 0.5):
        return [(n, int(rng.integers(9, 15))) for n in (1, 2, 4, 8, 16)]
    return [(int(rng.choice([1, 2, 4, 8, 12, 16])), int(rng.integers(18, 45)))]


def healthy(rng: Rng, cause: Cause | None = None) -> Plan:
    """A run in which speculation truly gains 5 % or more at each of its loads."""
    engine = (cause.engine if cause else None) or str(rng.choice(["sglang", "vllm"]))
    pcie, kind = (cause.pcie, cause.loads) if cause else (rng.random() < 0.15, "any")
    test = cause is not None and cause.load_test and rng.random() < 0.8
    while True:
        k = int(rng.integers(2, 5))
        accept = tuple(float(min(0.92, rng.uniform(0.62, 0.86) * (1 + 0.03 * i))) for i in range(k))
        plan = Plan(
            machine=machine(rng, pcie),
            engine=engine,
            version=str(rng.choice(SGLANG if engine == "sglang" else VLLM)),
            k=k,
            accept=accept,
            loads=_loads(rng, kind),
            prompt=int(rng.choice([200, 600, 1500])),
            output=int(rng.choice([2000, 4000] if test else [300, 900, 2000, 4000])),
            alike=test or bool(rng.random() < 0.5),
            max_running=48 if engine == "sglang" else 256,
            captured=48 if engine == "sglang" else 256,
            noise=rng.uniform(0.004, 0.03),
            pcie=pcie,
        )
        form = rng.random()
        if form < 0.15:
            plan.form = "docker"
        elif form < 0.3 and not (cause and cause.start_up):
            plan.form = "rotated"
        if plan.machine.tp > 1 and rng.random() < 0.3:
            plan.nccl = NcclPlan(protocol="LL", env={"NCCL_PROTO": "LL"}) if rng.random() < 0.3 else NcclPlan()
        if all(plan.speedup(clients) > 1.05 for clients, _ in plan.loads):
            return plan


def _dead_head(plan: Plan, rng: Rng) -> None:
    plan.accept = (rng.uniform(0.0, 0.02), *(0.1 for _ in range(plan.k - 1)))


def _eagle_flag(plan: Plan, rng: Rng) -> None:
    plan.algorithm = "EAGLE"  # the head gets one hidden state instead of three
    plan.accept = (rng.uniform(0.0, 0.0005), *(0.1 for _ in range(plan.k - 1)))  # sglang #21272: exactly 1.00


def _beyond_graphs(plan: Plan, rng: Rng) -> None:
    plan.captured = int(rng.choice([4, 8]))
    plan.machine.launch_us = rng.uniform(5.0, 10.0)


def _no_graphs(plan: Plan, rng: Rng) -> None:
    plan.captured = 0
    plan.machine.launch_us = rng.uniform(5.0, 10.0)


def _p2p_lost(plan: Plan, rng: Rng) -> None:
    plan.machine.hop_us *= rng.uniform(3.0, 6.0)
    plan.machine.link_gbps /= 2
    level = {"NCCL_P2P_LEVEL": "LOC"} if rng.random() < 0.4 else {}
    plan.nccl = NcclPlan(transport="SHM/direct/direct", env=level)


def _protocol(plan: Plan, rng: Rng) -> None:
    plan.machine.hop_us *= rng.uniform(2.0, 3.5)
    plan.nccl = NcclPlan(protocol="SIMPLE", env={"NCCL_PROTO": "LL"})


def _variable_missing(plan: Plan, rng: Rng) -> None:
    name, value = [("NCCL_PROTO", "LL"), ("NCCL_P2P_LEVEL", "SYS"), ("NCCL_MAX_NCHANNELS", "8")][rng.integers(3)]
    plan.machine.hop_us *= rng.uniform(1.3, 2.5)
    least = int(rng.integers(1, plan.machine.tp))
    plan.nccl = NcclPlan(env={name: value})
    plan.nccl.missing_on = tuple(range(least, plan.machine.tp))


def _cliff(plan: Plan, rng: Rng) -> None:
    plan.machine.cliff = (int(rng.choice([12, 20, 40])), rng.uniform(1.5, 2.5))


def _pool(plan: Plan, rng: Rng) -> None:
    clients = int(rng.choice([8, 16, 24]))
    plan.prompt, plan.output = 1500, 2000
    plan.loads = [(clients, 60)]
    plan.kv_tokens = int(clients * (plan.prompt + 0.45 * plan.output))


def _crossover(plan: Plan, rng: Rng) -> None:
    plan.machine.per_token = plan.machine.weights / rng.uniform(25, 60)
    high = int(rng.choice([24, 32, 40]))
    plan.loads = [(n, int(rng.integers(9, 15))) for n in (4, 16, high)]
    plan.accept = tuple(min(a, 0.68) for a in plan.accept)


def _drift(plan: Plan, rng: Rng) -> None:
    plan.drift = rng.uniform(0.08, 0.3)
    hours = rng.uniform(1.5, 3.0)
    clients = plan.loads[0][0]
    cycle = plan.cycle(clients, clients * 1000.0) / 1e3
    if plan.engine == "sglang":
        plan.interval = int(rng.choice([40, 200, 1000]))
    plan.loads = [(clients, int(3600 * hours / (10 if plan.engine == "vllm" else plan.interval * cycle)))]


def _ngram(plan: Plan, rng: Rng) -> None:
    plan.algorithm, plan.coverage = "ngram", rng.uniform(0.03, 0.15)


def _pinned(plan: Plan, rng: Rng) -> None:
    plan.max_running = int(rng.choice([16, 32, 48]))
    plan.arriving = rng.uniform(0.3, 3.0)
    plan.loads = [(plan.max_running + int(rng.integers(2, 20)), int(rng.integers(20, 45)))]


def _bursts(plan: Plan, rng: Rng) -> None:
    plan.bursts = rng.uniform(0.15, 0.35)
    plan.noise = rng.uniform(0.03, 0.06)


def _nothing(plan: Plan, rng: Rng) -> None:
    """The traces show it; the log is that of the healthy server."""


_LOSES = {"CYC001": "its cost is in the cycle, which then limits the run"}
_REFUSED = {"COM001": "these GPUs are on PCIe and the log prints the refusal"}
_EARNS_LITTLE = {"ACC003": "acceptance is low", "ACC004": "positions that are never accepted are drafted"}
_VARIES = {"STB004": "throughput changes at constant load, as planted"}

CAUSES = (
    Cause("dead draft head", ("ACC002",), _dead_head, _EARNS_LITTLE, start_up=False),
    Cause(
        "EAGLE flag, EAGLE-3 draft",
        ("ACC001",),
        _eagle_flag,
        _EARNS_LITTLE | {"ACC002": "to the target the head is dead"},
        engine="sglang",
    ),
    Cause(
        "batch beyond captured graphs",
        ("GRF001",),
        _beyond_graphs,
        _LOSES | {"CYC004": "eager forwards are a jump in step cost"},
        engine="sglang",
        loads="sweep",
        start_up=False,
    ),
    Cause("graphs disabled", ("GRF001",), _no_graphs, _LOSES),
    Cause("P2P lost", ("COM003",), _p2p_lost, _LOSES | _REFUSED, pcie=True),
    Cause("protocol differs", ("COM005",), _protocol, _LOSES | _REFUSED, pcie=True),
    Cause("NCCL variable missing", ("ENV001",), _variable_missing, _LOSES | _REFUSED, pcie=True),
    Cause("step cost cliff", ("CYC004",), _cliff, _LOSES, loads="sweep", baseline=0.7, load_test=True, start_up=False),
    Cause(
        "KV pool, retractions",
        ("CAP001",),
        _pool,
        _VARIES,
        engine="sglang",
    ),
    Cause("load past crossover", ("CYC002",), _crossover, _LOSES, baseline=1.0, load_test=True, start_up=False),
    Cause("acceptance drift", ("ACC006",), _drift, {"ACC003": "acceptance is low in the end"} | _VARIES, loads="long"),
    Cause("n-gram low coverage", ("ACC005",), _ngram, _LOSES, engine="vllm"),
    Cause("queue pinned", ("CAP003",), _pinned, {}, engine="sglang"),
    Cause(
        "unstable host", ("STB004",), _bursts, {"CYC001": "the variance is the cycle's"}, loads="one", load_test=True
    ),
    Cause("late rank (trace)", ("COM008",), _nothing, {}, traces="late_rank"),
    Cause("eager verify (trace)", ("GRF002",), _nothing, {}, traces="eager_verify"),
)
BY_NAME = {cause.name: cause for cause in CAUSES}
PAIRS = (
    ("P2P lost", "NCCL variable missing"),
    ("P2P lost", "batch beyond captured graphs"),
    ("EAGLE flag, EAGLE-3 draft", "graphs disabled"),
    ("dead draft head", "step cost cliff"),
    ("unstable host", "NCCL variable missing"),
    ("acceptance drift", "graphs disabled"),
)


def case(names: tuple[str, ...], seed: int) -> Case:
    """The run of one seed with these causes (none: healthy)."""
    rng = np.random.default_rng([seed, *(ord(c) for c in "+".join(names))])
    planted = [BY_NAME[name] for name in names]
    frame = _joined(planted)
    while True:
        plan = healthy(rng, frame)
        for cause in planted:
            before = plan.nccl
            cause.plant(plan, rng)
            if before is not None and plan.nccl is not before and plan.nccl is not None:
                _merge(plan.nccl, before)
        if frame is not CROSSOVER or any(plan.speedup(clients) < 0.93 for clients, _ in plan.loads):
            break
    share = max((c.baseline for c in planted), default=0.5)
    return Case(names, plan, bool(rng.random() < share), frame.traces if frame else None, seed)


CROSSOVER = BY_NAME["load past crossover"]


def _merge(now: NcclPlan, before: NcclPlan) -> None:
    if before.transport.startswith("SHM"):
        now.transport = before.transport
    now.env = before.env | now.env if not now.missing_on else now.env
    now.protocol = now.protocol or before.protocol


def _joined(planted: list[Cause]) -> Cause | None:
    """What the run of several causes needs; None for none."""
    if len(planted) < 2:
        return planted[0] if planted else None
    kinds = [c.loads for c in planted if c.loads != "any"]
    return Cause(
        "",
        (),
        _nothing,
        engine=next((c.engine for c in planted if c.engine), None),
        loads=kinds[0] if kinds else "any",
        pcie=any(c.pcie for c in planted),
        load_test=any(c.load_test for c in planted),
        start_up=any(c.start_up for c in planted),
    )

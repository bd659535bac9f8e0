"""Short builders of runs for tests of comparisons: what is not said is not known."""

from __future__ import annotations

from traceana.facts.bench_model import LoadPoint, PointSource, Samples
from traceana.facts.compare_levels import Run, Side
from traceana.facts.conditions import Conditions, Counters, LoadConditions
from traceana.facts.model import (
    CycleFacts,
    CyclePart,
    Fact,
    Facts,
    Identity,
    NcclFacts,
    NcclProcess,
    Parallelism,
    Provenance,
    Setting,
    Settings,
    Speculation,
)


def point(
    tps: float | None,
    *,
    at: float | None = 1,
    e: float | None = 2.0,
    cycle: float | None = None,
    decoding: float | None = None,
    runs: tuple[float, ...] | None = None,
    spread: tuple[float, ...] = (),
    source: PointSource = PointSource.BENCH,
    series: str | None = None,
    context: float | None = None,
) -> LoadPoint:
    """A load point; the cycle follows from the throughput where it is not given. `spread` are factors around 1."""
    running = at if decoding is None else decoding
    if cycle is None and None not in (tps, e, running):
        cycle = 1000.0 * e * running / tps
    per_token = None if cycle is None or e is None else cycle / e
    samples = None
    if spread:
        samples = Samples(
            "request", len(spread), tuple(per_token * f for f in spread), (e,) * len(spread),
            tuple(cycle * f for f in spread),
        )  # fmt: skip
    return LoadPoint(
        source,
        "vllm_bench",
        series,
        True,
        at,
        decoding=Fact(running),
        context_tokens=context,
        gen_tps=Fact(tps),
        tpot_ms=Fact(per_token),
        tokens_per_cycle=Fact(e),
        accept_length=Fact(e),
        cycle_ms=Fact(cycle),
        runs=runs if runs is not None else () if tps is None else (tps,),
        samples=samples,
    )


def facts(
    *points: LoadPoint,
    settings: dict[str, str] | None = None,
    nccl: dict[str, str] | None = None,
    model: str | None = "example/Tern-32B",
    version: str | None = "0.5.9",
    tp: int | None = 8,
    k: int | None = 3,
    active: bool = True,
    parts: dict[str, float] | None = None,
    batch: int | None = 1,
) -> Facts:
    """Facts of a run, its settings and timers."""
    rows = [Setting(name, value, "server_args") for name, value in (settings or {}).items()]
    env = tuple(Setting(name, value, "nccl_env") for name, value in (nccl or {}).items())
    cycle = CycleFacts()
    if parts is not None:
        cycle = CycleFacts(
            Fact(sum(parts.values()), Provenance.DERIVED),
            tuple(CyclePart(name, ms, Provenance.MEASURED) for name, ms in parts.items()),
            "timers",
            batch,
        )
    return Facts(
        identity=Identity(engine=Fact("sglang"), version=Fact(version), model=Fact(model)),
        parallelism=Parallelism(tp=Fact(tp)),
        speculation=Speculation(active=Fact(active), method=Fact("EAGLE3" if active else None), k=Fact(k)),
        settings=Settings((*rows, *env)),
        nccl=NcclFacts(() if nccl is None else (NcclProcess(1, None, 0, 8, True, env),)),
        cycle=cycle,
        points=points,
    )


def run(found: Facts, *loads: LoadConditions, counters: Counters | None = None) -> Run:
    """A run with the conditions of its benchmark."""
    return Run(("run.log",), found, Conditions(loads, counters or Counters()))


def side(name: str, *runs: Run) -> Side:
    return Side(name, runs)


def conditions(at: int = 1, **known: object) -> LoadConditions:
    """Benchmark conditions that say all that matters, changed by `known`."""
    usual: dict[str, object] = {
        "dataset": "sharegpt", "temperature": 0.0, "output_length": 256, "requests": 16, "input_tokens": 1600,
        "output_tokens": 4096, "prompt_lengths": "aa",
    }  # fmt: skip
    return LoadConditions(at, None, **{**usual, **known})

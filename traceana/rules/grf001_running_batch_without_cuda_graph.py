"""The running batch is decoded, or verified, without a CUDA graph.

What it sees:
    SGLang prints `cuda graph: False` on each stats line whose last forward ran eager. The start-up lines name the
    captured batch sizes and the arguments that switch graphs off (--disable-cuda-graph, --enforce-eager). Where no
    stats line tells, a steady load above the largest captured size is taken as eager. vLLM's --cudagraph-metrics
    table counts forwards by mode; NONE is eager.

Why it matters:
    Without a graph the host launches each kernel of every draft and verify pass. At small batches launching takes
    longer than the kernels, so the cycle grows and the drafts earn less than they cost. A batch above the ladder stays
    there: it is served more slowly, so more requests run at once.

How sure and why:
    High that no graph was used when the stats lines or an argument say so. Medium when it is derived from the ladder
    and the load, or when graph and eager windows mix at the same load. The cost is bounded, not measured: the eager
    and the graph windows compared have different loads.

Rivals:
    When the ladder covers the load or is not known: DP attention (a rank in prefill makes all ranks run eager), an
    attention backend without graph support, a batch with features that no graph was captured for. In vLLM's table,
    prefill steps larger than the captured sizes count as NONE too.

Confirm:
    SGLang: keep the start-up lines (`server_args=`, `Capture ... bs=[...]`). vLLM: --cudagraph-metrics.

Fix:
    Raise --cuda-graph-max-bs (SGLang) or --max-cudagraph-capture-size (vLLM, in tokens) above the load, or cap the
    running requests at the ladder; drop --disable-cuda-graph or --enforce-eager.

References:
    sglang #33483, #13023, #34290, #4759, #5274; EAGLE #298; vllm #42910. sglang #4247: 276 -> 379 tok/s with graphs.
"""

from __future__ import annotations

from statistics import median

from traceana.facts.model import Facts, Provenance, Regime
from traceana.rules._levels import NO_WINDOWS, drafting
from traceana.rules._text import count, listing, num, pct, picked, span
from traceana.rules.interface import (
    CannotTell,
    Clear,
    Confidence,
    Explains,
    Finding,
    NotApplicable,
    Outcome,
    Rule,
    Severity,
    Threshold,
)

EAGER_SHARE = Threshold(
    "eager_share",
    0.05,
    "share of windows",
    "eager windows below this share, at loads that also ran as a graph, are single events",
    "sglang #13023; single eager lines occur in healthy logs",
    False,
)
MIN_WINDOWS = Threshold("min_windows", 2, "windows", "eager windows needed", "one line may be a prefill's", True)
NONE_SHARE = Threshold(
    "none_share", 0.5, "share of forwards", "vLLM forwards in mode NONE above this share", "prefill counts too", False
)

_CONFIRM = {
    "sglang": "start-up lines of the same server: `server_args=` and `Capture ... CUDA graph ... bs=[...]`",
    "vllm": "the same load with --cudagraph-metrics: the table says which token counts ran in mode NONE",
}
_RIVALS = (
    "DP attention: one rank in prefill makes every rank run eager",
    "an attention backend or request feature without CUDA graph support",
)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when windows, arguments or the ladder say that decode forwards ran eager."""
    if _on_cpu(facts):
        return NotApplicable("the server runs on a CPU: there are no CUDA graphs")
    graphs = facts.graphs
    seen = graphs.windows_eager + graphs.windows_graph
    if facts.windows.n == 0:
        return NO_WINDOWS
    if graphs.switched_off.known and graphs.windows_graph == 0:
        return _switched_off(facts)
    if seen:
        return _by_windows(facts, seen)
    if graphs.runtime_modes:
        return _by_modes(facts)
    return _by_ladder(facts)


def _on_cpu(facts: Facts) -> bool:
    rows = (facts.settings.get(name) for name in ("device", "device_config"))
    return any(row is not None and "cpu" in row.value.lower() for row in rows)


def _pass_name(facts: Facts) -> str:
    return "draft and verify passes" if drafting(facts) else "decode steps"


def _switched_off(facts: Facts) -> Finding:
    cause = facts.graphs.switched_off
    value = (cause.value or "").lower()
    flag = next((f for f in ("enforce_eager", "disable_cuda_graph") if f in value.replace("-", "_")), None)
    name = f"--{flag.replace('_', '-')}" if flag else "an argument or message at start-up"
    windows = facts.graphs.windows_eager or facts.windows.n
    return Finding(
        code=RULE.code,
        title=f"CUDA graphs are switched off by {name}: all {count(windows, 'window')} ran eager",
        severity=Severity.WARNING,
        confidence=Confidence.HIGH if flag else Confidence.MEDIUM,
        why=f"The host launches every kernel of the {_pass_name(facts)} one by one, each cycle.",
        fix=(f"start the server without {name}" if flag else "remove what switched the graphs off",),
        evidence=picked(cause.evidence, facts.graphs.eager_evidence),
        confirm=f"the same load without {name}" if flag else None,
    )


def _by_windows(facts: Facts, seen: int) -> Outcome:
    graphs = facts.graphs
    if graphs.windows_eager == 0:
        return Clear(f"all {count(graphs.windows_graph, 'window')} replayed a CUDA graph")
    eager, graph, ladder = graphs.eager_running, graphs.graph_running, graphs.captured_max.value
    by_load = eager is not None and (
        (ladder is not None and eager[0] > ladder) or (graph is not None and eager[0] > graph[1])
    )
    few = graphs.windows_eager < MIN_WINDOWS.value and graphs.windows_graph > 0
    if few or (not by_load and graphs.windows_eager / seen < EAGER_SHARE.value):
        return Clear(f"{graphs.windows_eager} of {count(seen, 'window')} ran eager, not tied to the load")
    over = eager is not None and ladder is not None and eager[1] > ladder
    sure = by_load or over or graphs.windows_graph == 0
    return Finding(
        code=RULE.code,
        title=_title(facts, seen, over),
        severity=Severity.WARNING,
        confidence=Confidence.HIGH if sure and graphs.windows_eager >= MIN_WINDOWS.value else Confidence.MEDIUM,
        why=_why(facts, seen, over, by_load),
        fix=_fix(facts, over or by_load),
        evidence=picked(graphs.eager_evidence, graphs.captured_max.evidence),
        confirm=None if over else _CONFIRM.get(facts.identity.engine.value or "sglang"),
        rivals=() if over else _RIVALS,
        explains_ms_per_token=_explains(facts) if by_load else None,
    )


def _title(facts: Facts, seen: int, over: bool) -> str:
    graphs = facts.graphs
    who = f"{span(*graphs.eager_running)} running requests" if graphs.eager_running else "the running batch"
    if over:
        return f"{who} ran without a CUDA graph: the largest captured batch is {graphs.captured_max.value}"
    share = f"{graphs.windows_eager} of {count(seen, 'window')}"
    return f"{who} ran without a CUDA graph in {share}"


def _why(facts: Facts, seen: int, over: bool, by_load: bool) -> str:
    graphs = facts.graphs
    parts = [f"{graphs.windows_eager} of {count(seen, 'window')} ({pct(graphs.windows_eager / seen)}) ran eager."]
    if graphs.graph_running:
        parts.append(f"Graphs replayed at {span(*graphs.graph_running)} running.")
    boundary = _boundary(facts)
    if by_load and boundary is not None:
        (high, slow), (low, fast) = boundary
        parts.append(
            f"At the boundary {high} running requests get {num(slow)} tok/s each (eager), {low} get {num(fast)}."
        )
    if over:
        parts.append(
            "A slower batch finishes later, so more requests run at once and it stays above the largest captured batch."
        )
    elif graphs.captured_max.known:
        parts.append(f"The captured sizes reach {graphs.captured_max.value}, so the load alone does not explain it.")
    else:
        parts.append("The captured sizes are not in the log.")
    return " ".join(parts)


def _fix(facts: Facts, by_load: bool) -> tuple[str, ...]:
    eager = facts.graphs.eager_running
    if not by_load or eager is None:
        return ("find what keeps these forwards out of the graph (see rivals)",)
    return _raise_ladder(facts, eager[1])


def _raise_ladder(facts: Facts, running: int) -> tuple[str, ...]:
    wanted = 1 << (running - 1).bit_length()
    if facts.identity.engine.value == "vllm":
        tokens = wanted * ((facts.speculation.k.value or 0) + 1)
        raised = f"--max-cudagraph-capture-size {tokens} (tokens: {wanted} requests)"
        return (raised, f"or cap the batch: --max-num-seqs {facts.graphs.captured_max.value or running}")
    cap = facts.graphs.captured_max.value
    lower = (
        f"or cap the batch at the largest captured size: --max-running-requests {cap}"
        if cap
        else "or cap the running requests"
    )
    return (f"--cuda-graph-max-bs {wanted}", lower)


def _boundary(facts: Facts) -> tuple[tuple[int, float], tuple[int, float]] | None:
    """Nearest eager and graph loads with their tok/s per request, when the loads do not overlap."""
    eager, graph = facts.graphs.eager_running, facts.graphs.graph_running
    if eager is None or graph is None or eager[0] <= graph[1]:
        return None
    slow, fast = _per_request(facts, eager[0]), _per_request(facts, graph[1])
    return None if slow is None or fast is None else ((eager[0], slow), (graph[1], fast))


def _per_request(facts: Facts, running: int) -> float | None:
    regime = facts.regime(running)
    if regime is not None and regime.n_steady > 0:
        return regime.gen_tps.median / running
    seen = [w.gen_tps / running for w in facts.windows.sample if w.running == running and w.gen_tps]
    return median(seen) if seen else None


def _explains(facts: Facts) -> Explains | None:
    boundary = _boundary(facts)
    if boundary is None:
        return None
    (high, slow), (low, fast) = boundary
    most = 1000.0 / slow - 1000.0 / fast
    if most <= 0:
        return None
    return Explains(
        0.0,
        most,
        Provenance.DERIVED,
        f"time per token of one request: {high} running eager ({num(slow)} tok/s each) against {low} running with a "
        f"graph ({num(fast)}); the larger batch accounts for a part",
    )


def _by_modes(facts: Facts) -> Outcome:
    modes = dict(facts.graphs.runtime_modes)
    total, eager = sum(modes.values()), modes.get("NONE", 0)
    if not total or eager / total < NONE_SHARE.value:
        return Clear(f"{eager:,} of {total:,} forwards ran in mode NONE")
    return Finding(
        code=RULE.code,
        title=f"{eager:,} of {total:,} forwards ran without a CUDA graph (mode NONE)",
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
        why=f"{pct(eager / total)} of the forwards in the --cudagraph-metrics tables ran eager.",
        fix=("--max-cudagraph-capture-size above running x (k + 1) tokens",),
        evidence=picked(facts.graphs.eager_evidence, facts.graphs.captured_max.evidence),
        confirm="the table's rows of mode NONE: are their token counts those of decode, running x (k + 1)?",
        rivals=("prefill steps larger than the ladder count as NONE too", *_RIVALS[1:]),
    )


def _by_ladder(facts: Facts) -> Outcome:
    ladder = facts.graphs.captured_max.value
    if ladder is None:
        return CannotTell(
            "neither the captured batch sizes nor a graph field of the stats lines is in the log",
            _CONFIRM.get(facts.identity.engine.value or "sglang", _CONFIRM["sglang"]),
        )
    over = [r for r in facts.regimes if r.running > ladder and r.n_windows >= MIN_WINDOWS.value]
    if not over:
        return Clear(f"no steady load exceeds the largest captured batch, {ladder}")
    return _above_ladder(facts, over, ladder)


def _above_ladder(facts: Facts, over: list[Regime], ladder: int) -> Finding:
    running = [regime.running for regime in over]
    return Finding(
        code=RULE.code,
        title=f"{listing(running[:4])} running requests exceed the largest captured CUDA graph batch, {ladder}",
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
        why="Larger batches than the largest captured one run eager. This log does not print how each window ran.",
        fix=_raise_ladder(facts, max(running)),
        evidence=picked(*(regime.evidence for regime in over), facts.graphs.captured_max.evidence),
        confirm=_CONFIRM.get(facts.identity.engine.value or "sglang"),
    )


RULE = Rule(
    code="GRF001",
    name="running-batch-without-cuda-graph",
    severity=Severity.WARNING,
    check=check,
    thresholds=(EAGER_SHARE, MIN_WINDOWS, NONE_SHARE),
    asks="whether the running batch replays a CUDA graph",
)

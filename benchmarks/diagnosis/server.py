"""A speculating server as a model of its cycle, and the windows its engine would print.

cycle = host + k x draft + verify(R x (k + 1) tokens) + re-extend; throughput = R x tokens per cycle / cycle.
A forward reads the weights once or computes its tokens, whichever takes longer, and does two allreduces per layer.
Causes change these terms (see `causes.py`); nothing here knows what the diagnosis looks for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

KERNELS = 12  # launches of a layer in an eager forward, about what a dense decoder layer has
ELEMENT = 2  # bytes of bf16


@dataclass
class Machine:
    """Times of one server, ms unless said."""

    tp: int
    layers: int
    hidden: int
    weights: float  # one forward of few tokens, without communication
    per_token: float  # compute of one token once a forward is bound by compute
    per_kv: float  # attention per 1,000 tokens of context
    draft: float  # one draft step
    host: float  # between forwards of a cycle
    launch_us: float = 5.0
    hop_us: float = 14.0  # of one small allreduce
    link_gbps: float = 200.0  # GB/s of a large one
    cliff: tuple[int, float] | None = None  # above so many tokens a forward takes so many times as long

    def forward(self, tokens: float, context: float, graph: bool = True) -> float:
        """The target's forward over so many tokens."""
        weights, compute = self.weights, self.per_token * tokens
        ms = (weights**4 + compute**4) ** 0.25 + self.per_kv * context / 1000
        if self.cliff is not None and tokens > self.cliff[0]:
            ms *= self.cliff[1]
        if self.tp > 1:
            size = tokens * self.hidden * ELEMENT
            ms += 2 * self.layers * (self.hop_us / 1e3 + size / self.link_gbps / 1e6)
        # an eager forward takes at least as long as its launches, and overlaps them with what the GPU does
        return ms if graph else max(ms, self.layers * KERNELS * self.launch_us / 1e3) + 0.15 * ms


@dataclass
class Plan:
    """One run: who serves what, and what is planted."""

    machine: Machine
    engine: str
    version: str
    k: int
    accept: tuple[float, ...]  # chance that a position is accepted, given those before it
    loads: list[tuple[int, int]]  # clients, windows
    interval: int = 40  # cycles of an SGLang window; vLLM's take 10 s
    prompt: int = 600
    output: int = 900
    alike: bool = False  # a benchmark's requests: all of one length, so that they begin and end together
    kv_tokens: int = 400_000
    max_running: int = 48
    captured: int = 48  # largest batch with a graph, 0 for none
    noise: float = 0.01  # of a window's cycle
    drift: float = 0.0  # share of the accepted drafts lost per hour
    coverage: float = 1.0  # share of steps that have a draft
    bursts: float = 0.0  # share of windows in which other work takes the host
    arriving: float = 0.0  # clients that come in per window and wait
    algorithm: str = "EAGLE3"
    draft_type: str = "LlamaForCausalLMEagle3"
    pcie: bool = False
    form: str = "plain"  # plain | docker | rotated
    nccl: NcclPlan | None = None

    def baseline(self) -> Plan:
        """The same server and load without speculation."""
        made = Plan(**{**self.__dict__, "k": 0, "accept": (), "algorithm": "", "drift": 0.0, "coverage": 1.0})
        made.nccl = None
        return made

    def graph(self, running: int) -> bool:
        """Whether a batch replays a graph."""
        return running <= self.captured

    def cycle(self, running: int, context: float) -> float:
        """ms of a cycle (of a step without speculation) at so many requests."""
        m, graph = self.machine, self.graph(running)
        if not self.k:
            return m.host / 2 + m.forward(running, context, graph)
        lookup = self.algorithm == "ngram"
        width = 1 + self.k * self.coverage
        draft = 0.15 * running**0.5 if lookup else self.k * m.draft * (1.0 if graph else 1.6)
        again = 0.0 if lookup else m.draft * (1 + 0.004 * running)
        return m.host + draft + m.forward(running * width, context, graph) + again

    def tokens_per_cycle(self) -> float:
        """What a request earns per cycle, expected, before any drift."""
        return 1 + self.coverage * sum(float(np.prod(self.accept[: i + 1])) for i in range(self.k))

    def speedup(self, running: int) -> float:
        """True ratio to the same server without speculation."""
        context = running * (self.prompt + self.output / 2)
        return self.tokens_per_cycle() * self.baseline().cycle(running, context) / self.cycle(running, context)

    def shorter(self) -> Plan:
        """With one draft token fewer."""
        return Plan(**{**self.__dict__, "k": self.k - 1, "accept": self.accept[:-1]})


@dataclass
class NcclPlan:
    """What NCCL does on this node."""

    transport: str = "P2P/IPC"
    protocol: str | None = None  # tuning lines are printed when given
    env: dict[str, str] = field(default_factory=dict)
    missing_on: tuple[int, ...] = ()  # ranks that the variables do not reach


@dataclass
class Window:
    """What happened between two stats lines."""

    seconds: float
    running: int
    queued: int
    pool: int  # tokens
    drafts: int
    accepted: tuple[int, ...]  # per position
    emitted: int
    graph: bool
    admitted: list[int]  # requests per prefill batch before the decode
    clean: bool = True  # neither prefill nor idle time in it: its throughput is that of decoding
    burst: bool = False
    retracted: int = 0
    gained: int = 0


def simulate(plan: Plan, rng: np.random.Generator) -> list[Window]:
    """Closed-loop clients over the plan's loads; requests end and others come, prefills take time from decoding."""
    context, left = np.zeros(0, dtype=int), np.zeros(0, dtype=int)
    waiting, clock, slow, ratio, made = 0.0, 0.0, 0.0, 0.5, []
    for clients, windows in plan.loads:
        gap = rng.uniform(2, 9)
        context, left = context[:clients], left[:clients]
        for _ in range(windows):
            waiting += plan.arriving
            alive = left > 0
            context, left = context[alive], left[alive]
            wanted = clients + int(waiting)
            admitted: list[int] = []
            while len(context) < min(wanted, plan.max_running):
                n = min(min(wanted, plan.max_running) - len(context), 12)
                new, out = _lengths(plan, n, plan.prompt, rng), _lengths(plan, n, plan.output, rng)
                if context.sum() + new.sum() + ratio * (left.sum() + out.sum()) > plan.kv_tokens:
                    break
                context, left = np.append(context, new), np.append(left, out)
                admitted.append(n)
            ratio = max(0.08, ratio - 0.02)
            running = len(context)
            if running == 0:
                continue
            slow = 0.5 * slow + rng.normal() * plan.noise * 0.75**0.5
            burst = bool(rng.random() < plan.bursts)
            factor = float(np.exp(slow)) * (rng.uniform(1.4, 3.0) if burst else 1.0)
            prefill = sum(n * plan.prompt for n in admitted) * plan.machine.per_token / 1e3 + 0.03 * len(admitted)
            cycle = plan.cycle(running, float(context.sum())) * factor / 1e3
            cycles = plan.interval if plan.engine == "sglang" else int(max(0.5, 10 - prefill - gap) / cycle)
            drafts, accepted = _accepted(plan, running * cycles, clock / 3600, rng)
            emitted = running * cycles + sum(accepted)
            each = emitted / running
            context, left = context + int(each), left - int(each)
            seconds = prefill + cycle * cycles + gap if plan.engine == "sglang" else 10.0
            window = Window(seconds, running, 0, 0, drafts, accepted, emitted, plan.graph(running), admitted)
            window.clean, window.burst = not admitted and not gap, burst
            while context.sum() > plan.kv_tokens and len(context) > 1:  # the newest is thrown out and waits
                window.retracted += 1
                window.gained += int(context[-1])
                context, left = context[:-1], left[:-1]
                ratio = min(1.0, 0.55 + 0.1 * window.retracted)
            window.running = len(context)
            window.queued = max(0, wanted - window.running)
            window.pool = int(context.sum())
            clock += seconds
            gap = 0.0
            made.append(window)
    return made


def _lengths(plan: Plan, n: int, mean: int, rng: np.random.Generator) -> np.ndarray:
    if plan.alike:
        return np.full(n, mean)
    return np.maximum(16, rng.gamma(6.0, mean / 6.0, n)).astype(int)


def _accepted(plan: Plan, steps: int, hours: float, rng: np.random.Generator) -> tuple[int, tuple[int, ...]]:
    """Steps that had a draft, and how many of them were accepted at each position."""
    drafts = int(rng.binomial(steps, plan.coverage)) if plan.k else 0
    reached, accepted = drafts, []
    keep = max(0.05, 1 - plan.drift * hours)
    wobble = float(np.exp(rng.normal() * 0.015))  # prompts differ from window to window
    for position, chance in enumerate(plan.accept):
        reached = int(rng.binomial(reached, min(0.995, chance * wobble * (keep if position == 0 else 1.0))))
        accepted.append(reached)
    return drafts, tuple(accepted)

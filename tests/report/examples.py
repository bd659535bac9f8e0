"""Diagnoses to draw: a short builder for each situation a user may be in. All figures, hosts and dates are invented."""

from __future__ import annotations

from dataclasses import replace

from traceana.facts.model import Evidence
from traceana.report.diagnosis import (
    AcceptanceReport,
    Cycle,
    Diagnosis,
    ExplainsReport,
    FindingReport,
    InputReport,
    Level,
    NotChecked,
    Part,
    RunInfo,
    StageReport,
    Verdict,
    WindowReport,
)

#: running, tok/s with, low, high, accept length, cycle ms, tok/s without, step ms
CLIFF = (
    (1, 95.6, 93.9, 97.1, 2.61, 27.6, 59.0, 16.9),
    (2, 148.5, 146.0, 152.3, 2.58, 35.4, 92.4, 21.6),
    (4, 247.3, 239.8, 256.4, 2.66, 42.9, 164.3, 24.3),
    (8, 201.5, 195.2, 207.7, 2.55, 100.6, 251.5, 31.7),
    (16, 313.3, 304.4, 326.0, 2.57, 131.0, 429.2, 37.3),
    (32, 405.6, 391.5, 428.7, 2.59, 204.1, 318.1, 101.3),
)


def level(row: tuple[float, ...], *, paired: bool = True, note: str | None = None) -> Level:
    running, tps, low, high, length, cycle, base, step = row
    return Level(
        running=int(running),
        windows=12,
        gen_tps=tps,
        gen_tps_low=low,
        gen_tps_high=high,
        accept_length=length,
        tokens_per_cycle=length,
        cycle_ms=cycle,
        tokens_per_forward=int(running) * 4,
        graph_share=1.0,
        baseline_gen_tps=base if paired else None,
        baseline_step_ms=step if paired else None,
        speedup=tps / base if paired else None,
        break_even_accept_length=cycle / step if paired else None,
        note=note,
    )


def run(**changes: object) -> RunInfo:
    known = RunInfo(
        engine="vllm",
        version="0.20.2rc1.dev249",
        model="example-org/GLM-5.1-NVFP4",
        quantization="modelopt_fp4",
        nccl_version="2.30.3",
        tp=8,
        speculative={"active": True, "method": "mtp", "k": 3},
        span_s=1622.0,
        lines=1671,
        unread=3,
        load_levels=6,
        notes=("KV pool 319,232 tokens",),
    )
    return replace(known, **changes)  # type: ignore[arg-type]


def stats_line(time: str, tps: float, running: int) -> str:
    return (
        f"(APIServer pid=1) INFO 05-15 {time} [loggers.py:259] Engine 000: Avg prompt throughput: 0.0 tokens/s, "
        f"Avg generation throughput: {tps} tokens/s, Running: {running} reqs, Waiting: 0 reqs"
    )


CLIFF_FINDING = FindingReport(
    code="CYC004",
    name="forward-cost-cliff",
    title="A forward of 32 tokens costs 2.4x one of 16, with and without speculation",
    severity="critical",
    confidence="high",
    why=(
        "The cycle grows from 42.9 to 100.6 ms between 4 and 8 running (16 and 32 tokens per forward). The run "
        "without speculation jumps from 37.3 to 101.3 ms between the same numbers of tokens, so the forward itself is "
        "at fault, not the drafter: the accept length stays between 2.55 and 2.66."
    ),
    fix=(
        "speculate with k=3 up to 4 running, and not at all for 8 to 16",
        "compare with an image without VLLM_MOE_FORCE_A16=1",
    ),
    confirm="profile one step at 16 and one at 32 tokens, then: traceana diagnose server_mtp.log trace/",
    rivals=("kernel path or MoE tile switched by token count", "COM005"),
    explains_ms_per_token=ExplainsReport(20.9, 22.6, "derived", "of the 22.6 ms per token lost at 8 running"),
    evidence=(
        Evidence("server_mtp.log", 742, 806, 91_204, stats_line("03:41:20", 206.1, 8)),
        Evidence("server_mtp.log", 690, 741),
        Evidence("server_nomtp.log", 691, 716, 80_112, stats_line("05:02:10", 318.1, 32)),
    ),
)

UNKNOWN_VARIABLES = FindingReport(
    code="ENV002",
    name="unknown-engine-variables",
    title="11 engine variables are unknown to this build",
    severity="warning",
    confidence="high",
    why="The engine warned about each at start-up; they have no effect.",
    fix=("remove them, or use the build they belong to",),
    evidence=(
        Evidence(
            "server_mtp.log",
            9,
            19,
            1_802,
            "WARNING 05-15 03:14:55 [envs.py:1908] Unknown vLLM environment variable detected: "
            "VLLM_PCIE_ALLREDUCE_BACKEND",
        ),
    ),
)

NOT_CHECKED = (
    NotChecked(
        "where the 100.6 ms of a cycle go",
        "the log holds no timer lines and no trace was given",
        "start the server with --enable-logging-iteration-details (vLLM >= 0.14)",
    ),
    NotChecked(
        "nccl settings per rank", "no NCCL_DEBUG lines", "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH", ("COM002",)
    ),
    NotChecked(
        "p2p not used", "no NCCL transport lines", "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH", ("COM003",)
    ),
)


def cliff(*, paired: bool = True) -> Diagnosis:
    """Speculation pays up to 4 users and loses at 8 and 16; with `paired`, beside the run without speculation."""
    levels = tuple(
        level(
            row,
            paired=paired,
            note="the cycle jumps 2.3x between 16 and 32 tokens per forward" if row[0] == 8 else None,
        )
        for row in CLIFF
    )
    verdict = Verdict(
        "Speculation pays at 1 (1.62x), 2 (1.61x), 4 (1.51x), 32 (1.28x), loses at 8 (0.80x), 16 (0.73x) running. "
        "The cycle's length is the reason, not the drafter (CYC004).",
        speculation="loses",
        speedup=201.5 / 251.5,
        speedup_low=0.78,
        speedup_high=0.83,
        at_running=8,
        accept_length=2.59,
        tokens_per_cycle=2.59,
        break_even_accept_length=100.6 / 31.7,
        limiter="cycle",
        limiter_reason="CYC004",
    )
    alone = Verdict(
        "Accept length 2.59 of at most 4; cycle 100.6 ms at 8 running. The length of the cycle limits the throughput "
        "(CYC004). Whether speculation pays is unknown: that needs a run without speculation (--baseline).",
        accept_length=2.59,
        tokens_per_cycle=2.59,
        limiter="cycle",
        limiter_reason="CYC004",
    )
    return Diagnosis(
        run=run(),
        verdict=verdict if paired else alone,
        cycle=Cycle(100.6, "derived", 8, (Part("unknown", 100.6, 1.0, "derived"),), "throughput windows"),
        acceptance=AcceptanceReport(
            2.59, 0.53, (0.78, 0.52, 0.29), 1.0, 2.59, 4, 2.59, 0.53, "the mean counts the bonus token", 117
        ),
        levels=levels,
        windows=(WindowReport(None, "2026-05-15 03:41:20", "Engine 000", 8, 206.1, 2.58, 100.1, True, None, 742),),
        windows_total=153,
        windows_steady=117,
        findings=(CLIFF_FINDING, UNKNOWN_VARIABLES),
        not_checked=NOT_CHECKED,
        clear=("ACC001", "ACC002", "ACC003", "CAP001", "CAP002", "COM001", "GRF001", "STB001"),
        inputs=(
            InputReport("server_mtp.log", "vllm", 1259, 1011, 0, 0),
            InputReport(
                "bench.log",
                "vllm",
                412,
                118,
                3,
                1,
                "gzip stream ends early: kept 412 lines",
                Evidence("bench.log", 77, None, 9_120, "Decode batch? #running-req 8 throughput ---"),
            ),
        ),
        baseline=_baseline() if paired else None,
    )


def _baseline() -> Diagnosis:
    return Diagnosis(
        run=run(speculative={"active": False}, lines=1204, unread=0, span_s=1490.0, notes=()),
        verdict=Verdict("This run does not speculate: 251.5 tok/s and 31.7 ms per step at 8 running."),
        cycle=Cycle(31.7, "derived", 8, (), "throughput windows"),
        acceptance=AcceptanceReport(reason="this run does not speculate"),
        findings=(replace(CLIFF_FINDING, evidence=CLIFF_FINDING.evidence[2:]),),
        inputs=(InputReport("server_nomtp.log", "vllm", 1204, 960, 0, 0),),
    )


def healthy() -> Diagnosis:
    """Nothing to complain about: one load, phases timed."""
    return Diagnosis(
        run=run(
            engine="sglang",
            version="0.5.12.post1",
            model="/data/models/Qwen3-30B-A3B",
            quantization=None,
            nccl_version="2.27.7",
            tp=4,
            speculative={"active": True, "method": "EAGLE3", "num_steps": 3, "topk": 4, "num_draft_tokens": 16},
            span_s=95.0,
            lines=640,
            unread=0,
            load_levels=1,
            notes=(),
        ),
        verdict=Verdict("Accept length 2.84 of at most 4; cycle 12.4 ms at 4 running.", limiter="none"),
        cycle=Cycle(
            12.4,
            "measured",
            4,
            (
                Part("draft", 2.1, 0.169, "measured"),
                Part("verify", 8.9, 0.718, "measured"),
                Part("re-extend", 0.9, 0.073, "measured"),
                Part("other", 0.5, 0.04, "derived"),
            ),
            "EAGLE3_PROFILE lines",
        ),
        acceptance=AcceptanceReport(
            2.84, 0.61, (), 1.0, 2.84, 4, 2.84, 0.71, "this version prints accept length / draft tokens as rate", 88
        ),
        levels=(Level(4, 88, 916.1, 890.2, 941.5, 2.84, 2.84, 12.4, 64, 1.0),),
        windows_total=90,
        windows_steady=88,
        clear=("ACC001", "ACC002", "CAP001", "CYC001", "CYC004", "GRF001", "STB001"),
        inputs=(InputReport("server.log", "sglang", 640, 512, 0, 0),),
    )


OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.25 GiB. GPU 3 has a total capacity of 94.97 GiB "
    "of which 1.02 GiB is free.\n  at capture_model"
)


def crash() -> Diagnosis:
    """The server died while it captured CUDA graphs: no window, no load table."""
    return Diagnosis(
        run=run(span_s=None, load_levels=0, lines=318, unread=0, speculative={"method": "mtp", "k": 3}, notes=()),
        verdict=Verdict("The server did not come to serve: rank 3 ran out of memory while capturing CUDA graphs"),
        cycle=Cycle(reason="no stats line"),
        acceptance=AcceptanceReport(reason="no stats line"),
        startup=(
            StageReport("init torch distributed", 12.4),
            StageReport("load weights", 81.02, 0),
            StageReport("allocate KV cache", 0.84),
            StageReport("capture CUDA graphs", None, 3),
        ),
        findings=(
            FindingReport(
                code="STB002",
                name="start-up-out-of-memory",
                title="Rank 3 ran out of memory while capturing CUDA graphs",
                severity="critical",
                confidence="high",
                why="The exception names the allocation, and the capture on rank 3 has no end line.",
                fix=(
                    "lower --gpu-memory-utilization from 0.95 to 0.90",
                    "or capture fewer sizes: --max-cudagraph-capture-size 64",
                ),
                evidence=(Evidence("server.log", 301, 318, 40_210, OUT_OF_MEMORY),),
            ),
        ),
        not_checked=(NotChecked("everything about speed", "no decode line", "a log of the server under load"),),
        inputs=(InputReport("server.log", "vllm", 318, 240, 0, 0),),
    )


def ranks() -> Diagnosis:
    """Four data-parallel ranks of unlike speed, many load levels, some without a steady window."""
    streams: tuple[dict[str, str | int | float | None], ...] = tuple(
        {
            "name": f"DP{n}",
            "windows": 40 + n,
            "running": 8.0,
            "gen_tps": 210.4 - 31.7 * n,
            "accept_length": 2.6 - 0.1 * n,
        }
        for n in range(4)
    )
    rough = "no steady window: throughput includes prefill, idle or load changes"
    levels = tuple(
        replace(
            level((n, 60.0 + 20 * n, 55.0 + 20 * n, 66.5 + 20 * n, 2.5, 20.0 + n, 0, 1), paired=False, note=None),
            windows=n if n % 3 else 0,
            note=None if n % 3 else rough,
            graph_share=1.0 if n < 10 else 0.25,
        )
        for n in range(1, 21)
    )
    return replace(cliff(paired=False), levels=levels, streams=streams, run=run(dp=4, load_levels=20), findings=())

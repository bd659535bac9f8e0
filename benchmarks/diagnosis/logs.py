"""The lines that SGLang, vLLM and NCCL print of a simulated run, in the form of the version that is planned."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np

from benchmarks.diagnosis.server import Plan, Window

_START = datetime(2026, 3, 2, 8, 0, 0)
SGLANG = ("0.4.7", "0.5.2", "0.5.4", "0.5.7", "0.5.9", "0.5.12", "0.5.20")
VLLM = ("0.9.2", "0.10.2", "0.14.1", "0.20.2", "0.32.0")
_MODEL = "example-org/Alder-70B"


def _at(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def log(plan: Plan, windows: list[Window], rng: np.random.Generator) -> str:
    """The server's log as it lies on disk."""
    head, body = (_sglang if plan.engine == "sglang" else _vllm)(plan, windows, rng)
    if plan.form == "rotated":  # the file begins in the middle of a line, after the start-up
        text = "".join(body)
        return text[int(rng.integers(20, 200)) :]
    text = "".join([*head, *body])
    if plan.form == "docker":
        return "".join(f"server-1  | {line}\n" for line in text.splitlines())
    return text


def _access(rng: np.random.Generator) -> str:
    return f'INFO:     10.0.{rng.integers(9)}.7:{rng.integers(30000, 60000)} - "POST /v1/completions HTTP/1.1" 200 OK'


def _ladder(largest: int) -> list[int]:
    return [n for n in (1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256) if n <= largest]


def _sglang(plan: Plan, windows: list[Window], rng: np.random.Generator) -> tuple[list[str], list[str]]:
    v, tp = _at(plan.version), plan.machine.tp
    tag = " TP0" if tp > 1 else ""
    now = _START

    def line(text: str, rank: str = tag) -> str:
        return f"[{now:%Y-%m-%d %H:%M:%S}{rank}] {text}\n"

    head = [line(_server_args(plan, v), "")]
    now += timedelta(seconds=9)
    if plan.nccl is not None:
        head += [line("sglang is using nccl==2.27.3"), *nccl(plan)]
    if plan.pcie and tp > 2:
        who = "CustomAllreduce" if v >= (0, 5, 10) else "Custom allreduce"
        head += [
            line(
                f"{who} is disabled because it's not supported on more than two PCIe-only GPUs. To silence this "
                "warning, specify disable_custom_all_reduce=True explicitly.",
                f" TP{rank}",
            )
            for rank in range(tp)
        ]
    types = ["LlamaForCausalLM"] + ([plan.draft_type] if plan.k and plan.algorithm != "NGRAM" else [])
    for kind in types:
        now += timedelta(seconds=20)
        head += [
            line("Load weight begin. avail mem=94.31 GB"),
            line(f"Load weight end. type={kind}, dtype=torch.bfloat16, avail mem=33.10 GB, mem usage=61.21 GB."),
            line(f"KV Cache is allocated. #tokens: {plan.kv_tokens}, K size: 8.41 GB, V size: 8.41 GB"),
        ]
    if plan.captured:
        what = "verify" if plan.k else "decode"
        if v >= (0, 5, 14):
            head.append(
                line(
                    f"Capture target {what} CUDA graph begin. backend=full, num_tokens_per_req={plan.k + 1}, "
                    f"bs={_ladder(plan.captured)}, avail mem=12.44 GB"
                )
            )
            head.append(
                line(f"Capture target {what} CUDA graph end. elapsed=4.87 s, mem usage=0.71 GB, avail mem=11.73 GB.")
            )
        else:
            begin = "Capture cuda graph begin. This can take up to several minutes. avail mem=12.44 GB"
            end = "Capture cuda graph end. Time elapsed: 4.87 s. mem usage=0.71 GB. avail mem=11.73 GB."
            head += [line(begin), line(f"Capture cuda graph bs {_ladder(plan.captured)}"), line(end)]
    head.append(
        line(
            f"max_total_num_tokens={plan.kv_tokens}, chunked_prefill_size=8192, max_prefill_tokens=16384, "
            f"max_running_requests={plan.max_running}, context_len=40960"
        )
    )
    head.append(line("The server is fired up and ready to roll!", ""))
    body, count, ratio = [], 0, 0.5
    now += timedelta(seconds=20)
    for w in windows:
        running = w.running + w.retracted - sum(w.admitted)
        for n in w.admitted:
            body.append(line(_prefill(plan, v, w, n, max(0, running), count)))
            running += n
            count += 1
            if rng.random() < 0.6:
                body.append(line(_access(rng), ""))
        now += timedelta(seconds=w.seconds)
        count += plan.interval
        if w.retracted:
            gained = f"#new_tokens_gained: {w.gained}, " if v >= (0, 5, 7) else ""
            body.append(
                line(
                    f"KV cache pool is full. Retract requests. #retracted_reqs: {w.retracted}, {gained}"
                    f"#new_token_ratio: {ratio:.4f} -> {min(1.0, ratio + 0.2):.4f}"
                )
            )
        body.append(line(_decode(plan, v, w, count)))
    return head, body


def _server_args(plan: Plan, v: tuple[int, ...]) -> str:
    args: dict[str, object] = {
        "model_path": _MODEL,
        "tokenizer_path": _MODEL,
        "host": "0.0.0.0",
        "port": 30000,
        "tp_size": plan.machine.tp,
        "mem_fraction_static": 0.85,
        "max_running_requests": plan.max_running,
        "disable_cuda_graph": not plan.captured,
        "cuda_graph_max_bs": plan.captured or None,
        "disable_custom_all_reduce": False,
        "decode_log_interval": plan.interval,
        "speculative_algorithm": plan.algorithm if plan.k else None,
    }
    if plan.k:
        args |= {
            "speculative_draft_model_path": f"{_MODEL}-EAGLE3",
            "speculative_num_steps": plan.k,
            "speculative_eagle_topk": 1,
            "speculative_num_draft_tokens": plan.k + 1,
        }
    if v >= (0, 5, 19):
        return f"server_args={args!r}"
    return "server_args=ServerArgs(" + ", ".join(f"{name}={value!r}" for name, value in args.items()) + ")"


def _batch(word: str, v: tuple[int, ...], count: int) -> str:
    if v >= (0, 5, 5):
        return f"{word} batch, "
    return f"{word} batch [{count}], " if v == (0, 5, 4) else f"{word} batch. "


def _comma(v: tuple[int, ...]) -> str:
    return ", " if (0, 4, 10) <= v < (0, 5, 9) else ""


def _prefill(plan: Plan, v: tuple[int, ...], w: Window, n: int, running: int, count: int) -> str:
    text = (
        f"{_batch('Prefill', v, count)}#new-seq: {n}, #new-token: {n * plan.prompt}, #cached-token: {4 * n}, token usage: "
        f"{w.pool / plan.kv_tokens:.2f}, #running-req: {running}, #queue-req: {w.queued}{_comma(v)}"
    )
    rate = n * plan.prompt / (n * plan.prompt * plan.machine.per_token / 1e3 + 0.03)
    if v >= (0, 5, 11):
        return f"{text}, #pending-token: 0, cuda graph: False, input throughput (token/s): {rate:.2f}"
    return f"{text}, input throughput (token/s): {rate:.2f}, cuda graph: False" if v >= (0, 5, 9) else text


def _decode(plan: Plan, v: tuple[int, ...], w: Window, count: int) -> str:
    earned = ""
    if plan.k:
        extra = sum(w.admitted) if v <= (0, 5, 3) else 0  # prefill forwards counted too up to 0.5.3
        length = (w.emitted + extra) / (w.drafts + extra)
        rate = (length - 1) / plan.k if v >= (0, 5, 11) else length / (plan.k + 1)
        earned = f"accept len: {length:.2f}, " + (f"accept rate: {rate:.2f}, " if v >= (0, 5, 4) else "")
    return (
        f"{_batch('Decode', v, count)}#running-req: {w.running}, #token: {w.pool}, token usage: "
        f"{w.pool / plan.kv_tokens:.2f}, {earned}cuda graph: {w.graph}, "
        f"gen throughput (token/s): {w.emitted / w.seconds:.2f}, #queue-req: {w.queued}{_comma(v)}"
    )


def _vllm(plan: Plan, windows: list[Window], rng: np.random.Generator) -> tuple[list[str], list[str]]:
    v, now = _at(plan.version), _START
    api = "(APIServer pid=722) " if v >= (0, 10, 1) else ""
    core = ("(EngineCore_DP0 pid=901) " if v < (0, 18) else "(EngineCore pid=901) ") if v >= (0, 10, 2) else ""

    def line(who: str, where: str, text: str) -> str:
        return f"{who}INFO {now:%m-%d %H:%M:%S} [{where}] {text}\n"

    method = plan.algorithm.lower()
    drafter = "None" if method == "ngram" else f"'{_MODEL}-EAGLE3'"
    spec = f"SpeculativeConfig(method='{method}', model={drafter}, num_spec_tokens={plan.k})" if plan.k else "None"
    head = [
        line(
            core,
            "core.py:109",
            f"Initializing a V1 LLM engine (v{plan.version}) with config: model='{_MODEL}', speculative_config={spec}, "
            f"tokenizer='{_MODEL}', dtype=torch.bfloat16, max_seq_len=32768, tensor_parallel_size={plan.machine.tp}, "
            "pipeline_parallel_size=1, data_parallel_size=1, disable_custom_all_reduce=False, quantization=None, "
            f"enforce_eager={not plan.captured}, kv_cache_dtype=auto, seed=0",
        ),
        *([line(core, "pynccl.py:111", "vLLM is using nccl==2.27.3"), *nccl(plan)] if plan.nccl is not None else []),
        *(_refused(now, v, plan.machine.tp) if plan.pcie and plan.machine.tp > 2 else []),
        line(core, "kv_cache_utils.py:1731", f"GPU KV cache size: {plan.kv_tokens:,} tokens"),
    ]
    if not plan.captured:
        head.append(
            line(
                core,
                "vllm.py:420",
                "Enforce eager set, overriding optimization level to -O0",
            )
        )
    else:
        head.append(line(core, "gpu_model_runner.py:5212", "Graph capturing finished in 11 secs, took 0.92 GiB"))
    head.append("INFO:     Application startup complete.\n")
    body = []
    now += timedelta(seconds=60)
    for w in windows:
        now += timedelta(seconds=w.seconds)
        prompts = sum(w.admitted) * plan.prompt / w.seconds
        if w.admitted and rng.random() < 0.6:
            body.append(_access(rng) + "\n")
        stats = (
            f"Engine 000: Avg prompt throughput: {prompts:.1f} tokens/s, Avg generation throughput: "
            f"{w.emitted / w.seconds:.1f} tokens/s, Running: {w.running} reqs, Waiting: {w.queued} reqs, "
            f"GPU KV cache usage: {100 * w.pool / plan.kv_tokens:.1f}%, Prefix cache hit rate: 3.1%"
        )
        body.append(line(api, "loggers.py:271", stats))
        if plan.k and w.drafts:
            body.append(line(api, "metrics.py:101", _spec_line(plan, v, w)))
    return head, body


def _refused(now: datetime, v: tuple[int, ...], ranks: int) -> list[str]:
    text = (
        "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs. To silence this warning, "
        "specify disable_custom_all_reduce=True explicitly."
    )
    worker = "Worker_TP{0}" if v >= (0, 10, 2) else "VllmWorker rank={0}"
    return [
        f"({worker.format(rank)} pid={950 + rank}) WARNING {now:%m-%d %H:%M:%S} [custom_all_reduce.py:144] {text}\n"
        for rank in range(ranks)
    ]


def _spec_line(plan: Plan, v: tuple[int, ...], w: Window) -> str:
    accepted, drafted = sum(w.accepted), w.drafts * plan.k
    length, rate = 1 + accepted / w.drafts, 100 * accepted / drafted
    each = ", ".join(f"{n / w.drafts:.3f}" for n in w.accepted)
    if v < (0, 10, 2):
        return (
            f"SpecDecoding metrics: Draft acceptance rate: {rate:.1f}%, Mean acceptance length: {length:.2f}, Accepted: "
            f"{accepted} tokens, Drafted: {drafted} tokens, Per-position acceptance rate: {each}"
        )
    return (
        f"SpecDecoding metrics: Mean acceptance length: {length:.2f}, Accepted throughput: {accepted / w.seconds:.2f} "
        f"tokens/s, Drafted throughput: {drafted / w.seconds:.2f} tokens/s, Accepted: {accepted} tokens, Drafted: "
        f"{drafted} tokens, Per-position acceptance rate: {each}, Avg Draft acceptance rate: {rate:.1f}%"
    )


def nccl(plan: Plan) -> list[str]:
    """NCCL's start at NCCL_DEBUG=INFO, and TUNING lines where the plan has a protocol (NCCL 2.27's wording)."""
    found, ranks = plan.nccl, plan.machine.tp
    assert found is not None
    lines = ["NCCL version 2.27.3+cuda12.9"]
    for rank in range(ranks):
        who = f"node-c3:{6100 + rank}:{6100 + rank} [{rank}] NCCL INFO"
        comm = f"comm 0x55d0{rank}a0 rank {rank} nranks {ranks} cudaDev {rank} nvmlDev {rank} busId {rank + 1}1000"
        to = (rank + 1) % ranks
        lines.append(f"{who} ncclCommInitRank {comm} commId 0x7ae1c0ffee0 - Init START")
        theirs = {} if rank in found.missing_on else found.env
        lines += [
            f"{who} {name} set by environment to {value}{'.' if value.isdigit() else ''}"
            for name, value in {"NCCL_CUMEM_ENABLE": "0", **theirs}.items()  # the engine sets it, all ranks inherit it
        ]
        lines += [
            f"{who} comm 0x55d0{rank}a0 rank {rank} nRanks {ranks} nNodes 1 localRanks {ranks} localRank {rank} MNNVL 0",
            f"{who} 4 coll channels, 4 collnet channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer",
            f"{who} ncclCommInitRank {comm} commId 0x7ae1c0ffee0 - Init COMPLETE",
            f"{who} Channel 00/0 : {rank}[{rank}] -> {to}[{to}] via {found.transport}",
            f"{who} Channel 01/0 : {rank}[{rank}] -> {to}[{to}] via {found.transport}",
        ]
        if rank == 0 and found.protocol:
            lines += [
                f"{who} AllReduce: {plan.machine.hidden * 2 * tokens} Bytes -> Algo RING proto {found.protocol} "
                "channel{Lo..Hi}={0..1}"
                for tokens in (1, plan.k + 1, 4 * (plan.k + 1))
            ]
    return [text + "\n" for text in lines]

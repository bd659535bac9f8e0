"""Small logs in the engines' own form, with whatever value a test wants on their lines."""

from __future__ import annotations

ARGUMENTS = (
    "[2026-02-03 09:10:00] server_args=ServerArgs(model_path='org/m', tp_size=2, speculative_algorithm='EAGLE3', "
    "speculative_num_steps=3, speculative_eagle_topk=1, speculative_num_draft_tokens=4)"
)


def decode(index: int, **changes: object) -> str:
    """An SGLang decode line."""
    v = {"running": 4, "token": 9000 + index, "usage": "0.02", "length": "2.41", "rate": "0.47", "graph": True}
    v |= {"tps": f"{402.1 + index % 7:.2f}", "queued": 0, "time": f"2026-02-03 09:{15 + index // 60}:{index % 60:02d}"}
    v |= changes
    return (
        f"[{v['time']} TP0] Decode batch, #running-req: {v['running']}, #token: {v['token']}, token usage: {v['usage']}, "
        f"accept len: {v['length']}, accept rate: {v['rate']}, cuda graph: {v['graph']}, gen throughput (token/s): "
        f"{v['tps']}, #queue-req: {v['queued']}"
    )


def vllm(index: int, **changes: object) -> str:
    """A vLLM engine line and the SpecDecoding line behind it."""
    v = {"tps": "400.0", "running": 4, "length": "2.58", "accepted": 1201, "drafted": 2280, "usage": "12.5"}
    v |= {"positions": "0.801, 0.502, 0.277", "time": f"02-03 09:{15 + index // 6}:{index % 6 * 10:02d}", **changes}
    return (
        f"(APIServer pid=12) INFO {v['time']} [loggers.py:271] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg "
        f"generation throughput: {v['tps']} tokens/s, Running: {v['running']} reqs, Waiting: 0 reqs, GPU KV cache usage: "
        f"{v['usage']}%, Prefix cache hit rate: 0.0%\n"
        f"(APIServer pid=12) INFO {v['time']} [metrics.py:101] SpecDecoding metrics: Mean acceptance length: "
        f"{v['length']}, Accepted throughput: 120.10 tokens/s, Drafted throughput: 228.00 tokens/s, Accepted: "
        f"{v['accepted']} tokens, Drafted: {v['drafted']} tokens, Per-position acceptance rate: {v['positions']}, Avg "
        "Draft acceptance rate: 52.7%"
    )


def text(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def healthy(count: int = 20) -> bytes:
    """Arguments and `count` decode lines."""
    return text(ARGUMENTS, *(decode(i) for i in range(count)))

"""Writes a realistic server log of a given size, with its truth (counts and sums) as JSON beside it.

Mixed families, 60 % noise (uvicorn lines, tracebacks, tqdm bars, NCCL lines, prompts, invalid UTF-8); some decode lines
come wrapped in docker JSON, behind ANSI codes, behind a `\\r` bar or with CRLF.

    python benchmarks/make_log.py OUT --bytes 196e6 [--decode-share 0.4] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import IO

BAR = "\rCapturing batches (bs=8 avail_mem=3.20 GB):  50%|####5     | 12/24 [00:05<00:05,  2.2it/s]\r"
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/opt/app/sglang/srt/managers/scheduler.py", line 2541, in run_scheduler_process\n'
    "    scheduler.event_loop_overlap()\n"
    '  File "/opt/app/sglang/srt/speculative/eagle_worker.py", line 312, in forward_batch_generation\n'
    "    logits_output, verify_output, model_worker_batch, can_run = self.verify(batch, spec_info)\n"
    "asyncio.exceptions.CancelledError\n"
)


class Writer:
    """Emits lines of each family and keeps the truth."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.truth = {"lines": 0, "decode": 0, "prefill": 0, "profile": 0, "sum_running": 0, "sum_gen_tps_x100": 0}
        self.second = 0.0

    def stamp(self) -> str:
        self.second += 0.011
        s = int(self.second)
        return f"2026-03-{1 + s // 86400 % 28:02d} {s // 3600 % 24:02d}:{s // 60 % 60:02d}:{s % 60:02d}"

    def decode(self) -> bytes:
        r = self.random
        running, tokens = r.randint(1, 64), r.randint(1000, 900_000)
        length, tps = r.randint(100, 400), r.randint(3000, 300_000)
        self.truth["decode"] += 1
        self.truth["sum_running"] += running
        self.truth["sum_gen_tps_x100"] += tps
        body = (
            f"[{self.stamp()} TP0] Decode batch, #running-req: {running}, #token: {tokens}, token usage: "
            f"{tokens / 1e6:.2f}, accept len: {length / 100:.2f}, accept rate: {(length - 100) / 300:.2f}, cuda graph: "
            f"{r.random() < 0.97}, gen throughput (token/s): {tps / 100:.2f}, #queue-req: {r.randint(0, 20)}"
        )
        kind = r.random()
        if kind < 0.05:
            return json.dumps({"log": body + "\n", "stream": "stdout", "time": "2026-03-01T12:00:00.1Z"}).encode()
        if kind < 0.08:
            return b"\x1b[36m(SchedulerActor pid=4242)\x1b[0m " + body.encode() + b"\x1b[0m"
        if kind < 0.09:
            return (BAR + body).encode()
        return body.encode() + (b"\r" if kind < 0.14 else b"")

    def noise(self) -> bytes:
        r, t = self.random, self.stamp()
        kind = r.random()
        if kind < 0.35:
            return f'[{t}] INFO:     127.0.0.1:{r.randint(30000, 60000)} - "POST /v1/chat/completions HTTP/1.1" 200 OK'.encode()
        if kind < 0.50:
            self.truth["prefill"] += 1
            return (
                f"[{t} TP0] Prefill batch, #new-seq: {r.randint(1, 8)}, #new-token: {r.randint(1, 8192)}, #cached-token: "
                f"{r.randint(0, 9999)}, token usage: {r.random():.2f}, #running-req: {r.randint(0, 64)}, #queue-req: 3"
            ).encode()
        if kind < 0.62:
            self.truth["profile"] += 1
            return (
                f"[{t} TP{r.randint(0, 7)}] EAGLE3_PROFILE cycle={r.randint(1, 10**6)} draft_ms={r.random() * 6:.3f} "
                f"verify_ms={20 + r.random() * 12:.3f} re_extend_ms={r.random() * 3:.3f} accept={r.randint(0, 3)} bs=4"
            ).encode()
        if kind < 0.78:
            return f"node7:{r.randint(1000, 9999)}:77 [{r.randint(0, 7)}] NCCL INFO Trees [0] 1/-1/-1->0->-1".encode()
        if kind < 0.80:
            return TRACEBACK.rstrip("\n").encode()
        if kind < 0.86:
            bars = (
                f"\rLoading safetensors checkpoint shards: {p:3d}% Completed | {p}/60 [00:{p:02d}<00:10]"
                for p in range(0, 60, 7)
            )
            return "".join(bars).encode()
        if kind < 0.92:
            return f"\x1b[32mINFO\x1b[0m:     \x1b[1m{t}\x1b[0m Health check ok é 你好 latency={r.random() * 100:.1f}ms".encode()
        if kind < 0.95:
            return b"[" + t.encode() + b" TP1] generated text: \xff\xfe\x80 broken \xc3( utf8 \xe2\x82 tail"
        return f"[{t} TP0] some other message number {r.randint(0, 10**9)} that no reader knows".encode()

    def write(self, out: IO[bytes], size: int, decode_share: float) -> None:
        done = 0
        while done < size:
            line = (self.decode() if self.random.random() < decode_share else self.noise()) + b"\n"
            self.truth["lines"] += line.count(b"\n")
            done += len(line)
            out.write(line)


def make(path: Path, size: int, decode_share: float = 0.4, seed: int = 1) -> dict[str, int]:
    """Writes the log and its truth (`PATH.truth.json`); returns the truth. An existing log of that recipe is kept."""
    truth_path = path.with_name(path.name + ".truth.json")
    recipe = {"bytes": size, "decode_share": decode_share, "seed": seed}
    if path.exists() and truth_path.exists():
        kept = json.loads(truth_path.read_text())
        if kept.pop("recipe", None) == recipe:
            return dict(kept)
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = Writer(seed)
    with path.open("wb", buffering=1 << 22) as out:
        writer.write(out, size, decode_share)
    truth_path.write_text(json.dumps({"recipe": recipe, **writer.truth}))
    return writer.truth


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--bytes", type=float, default=1e6)
    parser.add_argument("--decode-share", type=float, default=0.4)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print(make(args.out, int(args.bytes), args.decode_share, args.seed))

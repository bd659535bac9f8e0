"""Kineto traces of four ranks, healthy or with one late rank or an eager verify; durations are drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fixtures.generate.job import ATTENTION, GEMM, NORM, Job

CYCLES = 8


def write(folder: Path, kind: str, rng: np.random.Generator) -> None:
    """Traces of one kind: healthy | late_rank | eager_verify."""
    job = Job(4, gpu="NVIDIA RTX PRO 6000 Blackwell Server Edition", drift=int(rng.integers(0, 900)))
    attention, gemm = int(rng.integers(50, 90)) * 1000, int(rng.integers(70, 130)) * 1000
    transfer = int(rng.integers(12, 20)) * 1000
    layers = int(rng.integers(24, 62))
    behind = int(rng.uniform(0.25, 0.8) * gemm) if kind == "late_rank" else 0
    pause = int(rng.integers(18, 45)) * 1000 if kind == "eager_verify" else 0
    slow = int(rng.integers(4))
    for _ in range(CYCLES):
        job.begin_cycle(int(rng.integers(10, 40)) * 1000)
        job.replay("draft", [(ATTENTION, 50_000), (GEMM, gemm), (NORM, 9_000)] * 3, gap=15_000)
        for layer in range(layers):
            for name, ns in ((ATTENTION, attention), (GEMM, gemm)):
                for rank in job.ranks:
                    late = behind if rank.rank == slow and rng.random() < 0.9 else 0
                    gap = pause + int(rng.integers(0, 2000)) if pause else 0
                    rank.work("verify", name, ns + late + int(rng.integers(0, 1500)), gap=gap)
                job.collective("verify", transfer + 10 * layer)
        job.work("re-extend", GEMM, 300_000)
        job.end_cycle(batch=4)
    job.write(folder)

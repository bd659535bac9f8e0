"""Writes traceana/speculation/floors/allreduce.csv from measured collective latencies.

The input is the folder of Parquet files `*__comm__*_perf.parquet` of ai-dynamo/aiconfigurator (Apache-2.0), one file per
system, library and version: `message_size` in elements, `latency` in ms. Kept are all-reduces of 2-byte elements, the
newest version of each library on each system, the fastest of repeated measurements.

    python benchmarks/distil_allreduce.py FOLDER
"""

from __future__ import annotations

import argparse
from pathlib import Path

import polars as pl
from packaging.version import Version

OUT = Path(__file__).parent.parent / "traceana" / "speculation" / "floors" / "allreduce.csv"
LARGEST = 256 << 20  # bytes


def read(path: Path) -> pl.DataFrame | None:
    system, _, library, version, _ = path.name.split("__")
    frame = pl.read_parquet(path)
    if "device" not in frame.columns:
        return None  # files without a device name are older duplicates
    dtype = "nccl_dtype" if "nccl_dtype" in frame.columns else "allreduce_dtype"
    source = pl.col("kernel_source")
    return frame.filter(
        pl.col("op_name").is_in(["all_reduce", "allreduce"]) & pl.col(dtype).is_in(["half", "bfloat16"])
    ).select(
        pl.lit(system).alias("system"),
        pl.col("device").cast(pl.String),
        pl.lit(library).alias("library"),
        pl.lit(version).alias("version"),
        pl.when(source.str.contains("eager"))
        .then(pl.lit("eager"))
        .when(source.str.contains("graph"))
        .then(pl.lit("graph"))
        .otherwise(pl.lit(""))
        .alias("mode"),
        source.alias("kernel"),
        pl.col("num_gpus").cast(pl.Int64).alias("ranks"),
        (pl.col("message_size").cast(pl.Int64) * 2).alias("bytes"),
        (pl.col("latency").cast(pl.Float64) * 1000).round(2).alias("us"),
    )


def newest(frame: pl.DataFrame) -> pl.DataFrame:
    last: dict[tuple[str, str], str] = {}
    for system, library, version in frame.select("system", "library", "version").unique().iter_rows():
        kept = last.get((system, library))
        if kept is None or Version(version) > Version(kept):
            last[system, library] = version
    rows = [(s, lib, v) for (s, lib), v in last.items()]
    return frame.join(
        pl.DataFrame(rows, schema=["system", "library", "version"], orient="row"), on=["system", "library", "version"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    files = sorted(folder.glob("*__comm__*_perf.parquet"))
    if not files:
        parser.error(f"{folder}: no *__comm__*_perf.parquet")
    frames = [frame for path in files if (frame := read(path)) is not None]
    # TensorRT-LLM's kernels are filed under SGLang's version in some systems
    rows = newest(pl.concat(frames).filter(~((pl.col("library") == "sglang") & (pl.col("kernel") == "TRTLLM"))))
    keys = ["system", "device", "library", "version", "mode", "ranks"]
    kept = (
        rows.filter((pl.col("bytes") <= LARGEST) & (pl.col("us") > 0)).group_by(*keys, "bytes").agg(pl.col("us").min())
    )
    table = kept.pivot(on="bytes", index=keys, values="us")
    sizes = sorted((c for c in table.columns if c not in keys), key=int)
    table.select(*keys, *sizes).sort(keys).write_csv(OUT)
    print(f"wrote {OUT.name}: {table.height} curves, {len(sizes)} sizes, from {len(files)} files")


if __name__ == "__main__":
    main()

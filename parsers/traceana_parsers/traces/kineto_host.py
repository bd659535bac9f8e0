"""Collectives called on the host: what a CPU capture has instead of communication kernels.

One call shows as several nested events (`c10d::allreduce_` holds `record_param_comms` holds `gloo:all_reduce`): they
become one row. On a GPU the call only enqueues a kernel, which has a row of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traceana_parsers.traces.collective_words import collective_name, element_bytes, message_bytes
from traceana_parsers.traces.kineto_events import NONE, AnyEvent, HostCollectiveArgs, decode_args, integer, plain
from traceana_parsers.traces.kineto_rows import Ints, Spans, ids, make_frame

if TYPE_CHECKING:
    import polars as pl

# vLLM and SGLang over shared memory; torch.distributed; gloo's own annotation; torch's record of the arguments
_CALL = re.compile(
    r"^\w+::shm_\w*(?:all_?reduce|all_?gather|reduce_scatter|gather|send|recv|broadcast)"
    r"|^c10d::_?(?:all_?reduce|all_?gather|reduce_scatter|all_?to_?all|broadcast|barrier|send|recv|gather|scatter|reduce)"
    r"|^gloo:|^record_param_comms$"
)


def is_collective_call(name: str) -> bool:
    """True for the name of a collective call on the host."""
    return _CALL.match(name) is not None


@dataclass(slots=True)
class HostCollectives:
    """Gathers the calls of a process, compactly; `frame` makes rows of them at the end."""

    _blocks: list[pl.DataFrame] = field(default_factory=list)

    def add(self, spans: Spans) -> None:
        """Take the calls of one block."""
        import polars as pl

        args = decode_args(HostCollectiveArgs, spans.events)
        self._blocks.append(
            pl.DataFrame(
                {
                    "tid": ids([e.tid for e in spans.events]),
                    "pid": ids([e.pid for e in spans.events]),
                    "start_ns": spans.start,
                    "end_ns": spans.end,
                    "name_id": spans.names,
                    "part": [_part(e.name) for e in spans.events],
                    "stated": [plain(a.collective) for a in args],
                    "named": [collective_name(e.name) for e in spans.events],
                    "bytes": [_bytes(a) for a in args],
                    "group_name": [plain(a.group) for a in args],
                    "group_size": [None if a.group_size == NONE else a.group_size for a in args],
                },
                schema_overrides={
                    "bytes": pl.Int64,
                    "group_size": pl.Int64,
                    **dict.fromkeys(("part", "stated", "named", "group_name"), pl.Categorical),
                },
            )
        )

    def frame(self, file_id: int, rank: int | None, *, with_gpu: bool) -> pl.DataFrame | None:
        """Rows of the `collectives` table, `device` null; None when there are none.

        `with_gpu`: the trace holds kernels, so that torch.distributed calls without a gloo part are left out.
        """
        import polars as pl

        if not self._blocks:
            return None
        calls = pl.concat(self._blocks).sort("tid", "start_ns", "end_ns", descending=[False, False, True])
        calls = calls.with_columns(
            outermost(calls["tid"].to_numpy(), calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy())
        )
        gloo = pl.col("part") == "gloo"
        rows = (
            calls.group_by("call", maintain_order=True)
            .agg(
                pl.col("pid", "start_ns", "name_id", "part", "named").first(),
                # the work ends when gloo says so; the call may return before
                pl.max_horizontal(pl.col("end_ns").first(), pl.col("end_ns").filter(gloo).max()).alias("end_ns"),
                pl.col("stated", "bytes", "group_name", "group_size").drop_nulls().first(),
                gloo.any().alias("on_gloo"),
            )
            .filter((pl.col("part") != "record") | (pl.col("stated").is_not_null() & (pl.col("stated") != "wait")))
            .filter(pl.col("on_gloo") | (pl.col("part") == "own") if with_gpu else pl.lit(value=True))
            .sort("start_ns")
        )
        if not rows.height:
            return None
        stated = [collective_name(text) for text in rows["stated"].to_list()]
        return make_frame(
            "collectives",
            {
                "file_id": file_id,
                "rank": rank,
                **{name: rows[name].to_numpy() for name in ("pid", "start_ns", "end_ns", "name_id")},
                "collective": [a or b for a, b in zip(stated, rows["named"].to_list(), strict=True)],
                **{name: rows[name].to_list() for name in ("bytes", "group_name", "group_size")},
            },
        )


def outermost(tids: Ints, starts: Ints, ends: Ints) -> pl.Series:
    """For events sorted by thread, start and falling end: a number `call` that events within one share with it."""
    import polars as pl

    call, open_tid, open_end = -1, None, 0
    found = []
    for tid, start, end in zip(tids.tolist(), starts.tolist(), ends.tolist(), strict=True):
        if tid != open_tid or start >= open_end:
            call, open_tid, open_end = call + 1, tid, end
        found.append(call)
    return pl.Series("call", found, dtype=pl.Int64)


def _part(name: str) -> str:
    """What a call is: gloo's own annotation, torch's record of the arguments, torch's call, or a library's own."""
    if name.startswith("gloo:"):
        return "gloo"
    if name == "record_param_comms":
        return "record"
    return "torch" if name.startswith("c10d::") else "own"


def _bytes(args: HostCollectiveArgs) -> int | None:
    stated = message_bytes(args.nelems, args.dtype)
    return _tensor_bytes(args.dims, args.types) if stated is None else stated


def _tensor_bytes(dims: object, types: object) -> int | None:
    """Bytes of the first tensor among recorded inputs: `[[], [8, 128]]` with types `["Scalar", "float"]`."""
    if not isinstance(dims, list) or not isinstance(types, list):
        return None
    for shape, kind in zip(dims, types, strict=False):
        size = element_bytes(kind) if isinstance(kind, str) else None
        if size and isinstance(shape, list) and shape and all(type(n) is int for n in shape):
            count = size
            for n in shape:
                count *= n
            return None if integer(count) == NONE else count
    return None


def split_calls(events: Sequence[AnyEvent], known: dict[str, bool]) -> list[AnyEvent]:
    """The collective calls among operator events; `known` remembers names."""
    found = []
    for event in events:
        name = event.name
        is_call = known.get(name)
        if is_call is None:
            is_call = known[name] = is_collective_call(name)
        if is_call:
            found.append(event)
    return found

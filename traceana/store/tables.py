"""The tables of a store: what readers fill, and what attribution made of the traces, which `ingest` keeps beside it."""

from __future__ import annotations

from traceana_parsers.schema import TABLES, Column

_PROCESS = (
    Column("file_id", "i32", "", "index of the input file in the `inputs` table"),
    Column("rank", "i32", "", "rank of the process; null when the trace does not tell"),
    Column("pid", "i64", "", "process id"),
)
_TIMELINE = (*_PROCESS, Column("device", "i32", "", "GPU index"))
_CYCLE = Column("cycle", "i64", "", "number of the cycle within its process, from 0")
_PHASE = Column("phase", "str", "", "draft, verify, re_extend, forward (verify or plain decode) or other")
_BUCKETS = (
    Column("window_ns", "i64", "ns", "length of the window: the buckets up to other_idle add up to it"),
    Column("compute", "i64", "ns", "compute kernels"),
    Column("allreduce_transfer", "i64", "ns", "allreduce with all ranks present, not under compute"),
    Column("allreduce_unsplit", "i64", "ns", "allreduce whose transfer cannot be told from its wait"),
    Column("other_comm_exposed", "i64", "ns", "other communication, not under compute or allreduce transfer"),
    Column("allreduce_wait", "i64", "ns", "allreduce waiting for the last rank, nothing else running"),
    Column("copies", "i64", "ns", "copies and fills, nothing else running"),
    Column("unknown", "i64", "ns", "graph replay traced without its kernels"),
    Column("launch_gap", "i64", "ns", "idle: the host had not launched the next operation"),
    Column("other_idle", "i64", "ns", "idle: launched and held back, or of no known cause"),
    Column("allreduce_overlapped", "i64", "ns", "beside the buckets: allreduce under work that claims first"),
    Column("other_comm_overlapped", "i64", "ns", "beside the buckets: other communication under such work"),
    Column("idle_without_launch", "i64", "ns", "part of other_idle: the next operation has no launch record"),
)
_COLLECTIVE = (
    Column("group", "str", "", "process group or communicator; empty where the trace does not say"),
    Column("collective", "str", "", "all_reduce, all_gather, reduce_scatter, all_to_all or barrier"),
)

ATTRIBUTION_TABLES: dict[str, tuple[Column, ...]] = {
    "attribution": (
        Column("version", "str", "", "fingerprint of the code that made these tables; with another they are made anew"),
        Column("skew", "str", "", "transfer-dominated, skew-dominated, mixed or inconclusive, over all collectives"),
        Column("skew_provenance", "str", "", "measured (matched across all ranks) or derived"),
        Column("skew_reason", "str", "", "why it is inconclusive"),
        Column("instances", "i64", "", "collectives judged"),
        Column("ranks", "i64", "", "timelines judged"),
        Column("transfer_ns", "i64", "ns", "sum over ranks and instances"),
        Column("wait_ns", "i64", "ns", "sum over ranks and instances"),
        Column("notes", "str", "", "what was wrong with the matching across ranks, as a JSON list of texts"),
    ),
    "processes": (
        *_PROCESS,
        Column("engine", "str", "", "engine whose annotations the trace holds: sglang or vllm"),
        Column("source", "str", "", "where the cycles come from"),
        Column("provenance", "str", "", "measured, or derived from the pattern of graph launches"),
        Column("kernels", "i64", "", "kernels recorded"),
        Column("memops", "i64", "", "copies and fills recorded"),
        Column("graph_rows", "i64", "", "graph replays recorded as a whole"),
        Column("launches", "i64", "", "calls recorded"),
        Column("graph_launches", "i64", "", "of these, graph launches"),
        Column("hidden_graph_launches", "i64", "", "of these, such that left no trace on the GPU"),
        Column("kernels_without_launch", "i64", "", "kernels without a launch record"),
        Column("cycles", "i64", "", "cycles found"),
    ),
    "trace_cycles": (
        *_TIMELINE,
        _CYCLE,
        Column("batch", "i64", "", "requests in the batch, where annotations say so"),
        Column("tokens", "i64", "", "tokens of the forward, where annotations say so"),
        Column("host_start_ns", "i64", "ns", "begin of the cycle on the host"),
        Column("host_end_ns", "i64", "ns", "end of the cycle on the host"),
        Column("window_start_ns", "i64", "ns", "begin of the cycle on the device; null without GPU work"),
        Column("window_end_ns", "i64", "ns", "end of the cycle on the device: the next one's begin, or the pause's"),
    ),
    "ledger": (*_TIMELINE, _CYCLE, _PHASE, *_BUCKETS),
    "device_time": (*_TIMELINE, Column("start_ns", "i64", "ns", "start of the first operation"), *_BUCKETS),
    "phase_spans": (
        *_TIMELINE,
        _CYCLE,
        _PHASE,
        Column("host_span_ns", "i64", "ns", "CPU time of the phase's ranges"),
        Column("launches", "i64", "", "calls that put work on the device, graph launches included"),
        Column("graph_launches", "i64", "", "of these, graph launches"),
        Column("graph_call_ns", "i64", "ns", "host time in these"),
        Column("graph_nodes", "i64", "", "operations of graph replays"),
        Column("kernels", "i64", "", "operations"),
        Column("gpu_span_ns", "i64", "ns", "first start to last end"),
        Column("busy_ns", "i64", "ns", "union of the operations"),
        Column("kernel_sum_ns", "i64", "ns", "summed durations; above busy_ns where operations overlap"),
    ),
    "host_phases": (
        *_PROCESS,
        _PHASE,
        Column("ranges", "i64", "", "ranges of the phase"),
        Column("host_span_ns", "f64", "ns", "median length of a range"),
        Column("collectives", "str", "", "median number of host-side collectives per range, by kind, as text"),
        Column("collective_ns", "f64", "ns", "median time in them, added up over kinds"),
    ),
    "matched_collectives": (
        *_COLLECTIVE,
        Column("ordinal", "i64", "", "number of the instance within its group"),
        *_TIMELINE,
        Column("stream", "i64", "", "stream"),
        Column("start_ns", "i64", "ns", "start on the rank's own clock"),
        Column("end_ns", "i64", "ns", "end on the rank's own clock"),
        Column("name_id", "i32", "", "name of the kernel, in the `names` table of the same file"),
        Column("bytes", "i64", "bytes", "message size per rank, where the trace says so"),
        Column("arrival_ns", "i64", "ns", "start on the clock of the group's lowest rank"),
        Column("transfer_ns", "i64", "ns", "shortest duration over the ranks"),
        Column("wait_ns", "i64", "ns", "what this rank's duration exceeds it by"),
        Column("late", "bool", "", "the rank arrived last; null with one rank only"),
        Column("complete", "bool", "", "all ranks of the group were seen"),
        Column("provenance", "str", "", "measured where complete, else derived (an upper bound of the transfer)"),
    ),
    "clock_offsets": (
        *_COLLECTIVE,
        *_TIMELINE,
        Column("offset_ns", "i64", "ns", "this clock minus that of the group's lowest rank"),
        Column("spread_ns", "i64", "ns", "median absolute deviation of it over the instances"),
        Column("instances", "i64", "", "instances that both ranks have"),
        Column("shift", "i64", "", "ordinal of the rank's first instance"),
        Column("trusted", "bool", "", "the ends agree: the instances belong together"),
    ),
    "late_ranks": (
        Column("group", "str", "", "process group or communicator; empty where the trace does not say"),
        *_TIMELINE,
        Column("times_last", "i64", "", "instances at which this rank arrived last"),
        Column("share_last", "f64", "ratio", "of the instances of its group"),
        Column("wait_caused_ns", "i64", "ns", "waiting of all other ranks at these"),
        Column("gap_ns", "f64", "ns", "median idle time of its device before it arrived"),
        Column("before", "str", "", "what its device did before: busy, launch_gap, idle or start, by wait caused"),
        Column("before_share", "f64", "ratio", "share of the wait caused that this explains"),
        Column("before_name_id", "i32", "", "operation that ran up to it most often, by wait caused"),
    ),
    "kernel_categories": (
        *_TIMELINE,
        Column("family", "str", "", "compute, communication or copy"),
        Column("category", "str", "", "what the kernels do, from their names; other: not known"),
        Column("total_ns", "i64", "ns", "summed durations; overlaps count twice"),
        Column("kernels", "i64", "", "number of kernels"),
    ),
    "host_waits": (
        *_TIMELINE,
        Column("call", "str", "", "call in which the host waits for the device"),
        Column("calls", "i64", "", "such calls inside cycles"),
        Column("cycles", "i64", "", "cycles of the timeline"),
        Column("cycles_waiting", "i64", "", "cycles in which such a call left the device idle"),
        Column("call_ns", "i64", "ns", "time in the calls"),
        Column("idle_ns", "i64", "ns", "idle time of the device that they brought about"),
    ),
    "comm_kernels": (
        *_TIMELINE,
        _PHASE,
        Column("collective", "str", "", "as in `collectives`"),
        Column("library", "str", "", "library of the kernel, from its name"),
        Column("bytes", "i64", "bytes", "message size per rank, where the trace says so"),
        Column("group_size", "i32", "", "ranks in the group, where the trace says so"),
        Column("grid_x", "i32", "blocks", "first grid dimension (NCCL: channels)"),
        Column("block_x", "i32", "threads", "first block dimension (NCCL: its protocol's hint)"),
        Column("instances", "i64", "", "kernels inside cycles"),
        Column("total_ns", "i64", "ns", "summed durations, waiting included"),
        Column("shortest_ns", "i64", "ns", "shortest duration"),
    ),
    "cycle_copies": (
        *_TIMELINE,
        _PHASE,
        Column("kind", "str", "", "HtoD, DtoH, DtoD, PtoP, HtoH, memset or other"),
        Column("copies", "i64", "", "memory operations inside cycles"),
        Column("total_ns", "i64", "ns", "summed durations"),
        Column("bytes", "i64", "bytes", "bytes moved or set"),
    ),
}

#: every table that a store may hold
STORED: dict[str, tuple[Column, ...]] = {**TABLES, **ATTRIBUTION_TABLES}
#: tables with a row per recorded event: kept in one folder per rank, `TABLE/rank=R/`
BY_RANK = ("kernels", "launches", "ranges", "memops", "graphs", "collectives")

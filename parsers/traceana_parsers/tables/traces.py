"""Tables from profiler traces: one row per recorded event; `summaries` where a capture has no events, only sums."""

from __future__ import annotations

from traceana_parsers.tables.columns import Column

SPAN = (
    Column("file_id", "i32", "", "index of the input file in the `inputs` table"),
    Column("rank", "i32", "", "rank of the process; null when the trace does not tell"),
    Column("pid", "i64", "", "process id"),
    Column("start_ns", "i64", "ns", "start, on the UTC axis where `traces.clock` is utc"),
    Column("end_ns", "i64", "ns", "end, same axis; never before the start"),
    Column("name_id", "i32", "", "name, in the `names` table of the same file"),
)

TRACE_TABLES: dict[str, tuple[Column, ...]] = {
    "traces": (
        Column("file_id", "i32", "", "index of the input file in the `inputs` table"),
        Column("rank", "i32", "", "rank of the process; null when the trace does not tell"),
        Column("pid", "i64", "", "process id"),
        Column("world_size", "i32", "", "ranks of the job, where the trace says so"),
        Column("host", "str", "", "host name"),
        Column("tool", "str", "", "kineto, nsight, nsight_stats or kernel_table (printed sums)"),
        Column("tool_version", "str", "", "version of the profiler, or the schema version of the export"),
        Column("clock", "str", "", "utc, or relative when the file does not tie its clock to the wall"),
        Column("start_ns", "i64", "ns", "first event"),
        Column("end_ns", "i64", "ns", "end of the last event"),
        Column("graph_mode", "str", "", "node, graph, none or unknown: how CUDA graph replays were traced"),
        Column("devices", "str", "", "device index and name of each GPU seen, as a JSON object"),
        Column("notes", "str", "", "what is missing or doubtful in the capture, as a JSON list of texts"),
    ),
    "names": (
        Column("file_id", "i32", "", "index of the input file"),
        Column("name_id", "i32", "", "id of the name within its file"),
        Column("name", "str", "", "name of a kernel, API call or range, as recorded (cut at 4,000 characters)"),
    ),
    "kernels": (
        *SPAN,
        Column("device", "i32", "", "GPU index as the profiler numbers it"),
        Column("stream", "i64", "", "stream"),
        Column(
            "correlation", "i64", "", "id of the launch, unique per process; all kernels of a graph replay share one"
        ),
        Column("graph_node", "i64", "", "node id within a CUDA graph; null outside graphs or when not recorded"),
        Column("grid_x", "i32", "blocks", "first grid dimension (NCCL: channels)"),
        Column("block_x", "i32", "threads", "first block dimension (NCCL: its protocol's hint)"),
    ),
    "launches": (
        *SPAN,
        Column("tid", "i64", "", "thread that made the call"),
        Column("correlation", "i64", "", "id that the launched work carries"),
        Column("is_graph", "bool", "", "the call launches a CUDA graph"),
    ),
    "ranges": (
        *SPAN,
        Column("tid", "i64", "", "thread that pushed the range; for kind gpu_annotation the stream"),
        Column("domain", "str", "", "NVTX domain; null for the default domain and for annotations"),
        Column("kind", "str", "", "nvtx, annotation (host) or gpu_annotation (the profiler's own projection)"),
    ),
    "memops": (
        *SPAN,
        Column("device", "i32", "", "GPU index"),
        Column("stream", "i64", "", "stream"),
        Column("correlation", "i64", "", "id of the launch"),
        Column("kind", "str", "", "HtoD, DtoH, DtoD, PtoP, HtoH, memset or other"),
        Column("bytes", "i64", "bytes", "bytes moved or set"),
    ),
    "graphs": (
        *SPAN,
        Column("device", "i32", "", "GPU index"),
        Column("stream", "i64", "", "stream"),
        Column("correlation", "i64", "", "id of the graph launch"),
        Column("graph_id", "i64", "", "graph executed, where recorded"),
    ),
    "collectives": (
        *SPAN,
        Column("device", "i32", "", "GPU index"),
        Column("stream", "i64", "", "stream"),
        Column("correlation", "i64", "", "id of the launch"),
        Column(
            "collective",
            "str",
            "",
            "all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send_recv, barrier or unknown",
        ),
        Column("bytes", "i64", "bytes", "message size per rank, where the trace says so"),
        Column("group_name", "str", "", "process group or communicator, where the trace says so"),
        Column("group_size", "i32", "", "ranks in the group, where the trace says so"),
    ),
    "summaries": (
        Column("file_id", "i32", "", "index of the capture's first file in the `inputs` table"),
        Column("rank", "i32", "", "rank of the process; null when the summary is over all of them or does not tell"),
        Column("pid", "i64", "", "process id; null when the summary is over all processes"),
        Column(
            "kind",
            "str",
            "",
            "kernel, memory, api (host calls), range (host) or range_gpu (ranges projected onto the GPU: spans)",
        ),
        Column("name", "str", "", "name of the kernel, operation, call or range (cut at 4,000 characters)"),
        Column("domain", "str", "", "kinds range and range_gpu: NVTX domain; null for the default domain"),
        Column(
            "within",
            "str",
            "",
            "NVTX range whose launches alone are counted, (none): those in no range; null: the whole capture",
        ),
        Column("instances", "i64", "", "times it ran"),
        Column("total_ns", "i64", "ns", "added up over all devices and processes of the row; overlap counts twice"),
        Column("avg_ns", "f64", "ns", "mean"),
        Column("med_ns", "f64", "ns", "median; null where rows had to be added up"),
        Column("min_ns", "i64", "ns", "shortest"),
        Column("max_ns", "i64", "ns", "longest"),
        Column("std_ns", "f64", "ns", "sample standard deviation"),
        Column("share", "f64", "ratio", "of all GPU time as printed, where it is"),
        Column("gpu_ops", "i64", "", "kind range_gpu: GPU operations launched in all instances"),
        Column("bytes", "i64", "bytes", "kind memory: bytes moved or set, where the size report is there too"),
    ),
}

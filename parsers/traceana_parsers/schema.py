"""The tables every reader fills: column names, types, units and meanings, defined here and nowhere else.

`polars_schema(table)` is used while reading; `arrow_schema(table)` carries unit and meaning in the field metadata, is
what Parquet files are written with; docs/tables.md is generated from the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `dtype` is i32, i64, f64, str, bool, ts (milliseconds, the server's local clock) or list_f64."""

    name: str
    dtype: str
    unit: str
    meaning: str


_WHERE = (
    Column("file_id", "i32", "", "index of the input file in the `inputs` table"),
    Column("line", "i64", "", "line number in the file, from 1, as an editor counts"),
    Column("byte_offset", "i64", "bytes", "offset of the line in the (decompressed) file"),
)
_WHO = (
    Column("ts", "ts", "", "time printed on the line, the server's local clock; the year is assumed where not printed"),
    Column("dp", "i32", "", "data-parallel rank"),
    Column("pp", "i32", "", "pipeline-parallel rank"),
    Column("tp", "i32", "", "tensor-parallel rank"),
    Column("ep", "i32", "", "expert-parallel rank"),
    Column("proc", "str", "", "process name printed in the line's prefix, e.g. EngineCore_DP0"),
    Column("pid", "i64", "", "process id printed in the line's prefix"),
)

_SPAN = (
    Column("file_id", "i32", "", "index of the input file in the `inputs` table"),
    Column("rank", "i32", "", "rank of the process; null when the trace does not tell"),
    Column("pid", "i64", "", "process id"),
    Column("start_ns", "i64", "ns", "start, on the UTC axis where `traces.clock` is utc"),
    Column("end_ns", "i64", "ns", "end, same axis; never before the start"),
    Column("name_id", "i32", "", "name, in the `names` table of the same file"),
)

TABLES: dict[str, tuple[Column, ...]] = {
    "runs": (
        Column("engine", "str", "", "sglang, vllm, trtllm or llamacpp"),
        Column("version", "str", "", "engine version as printed"),
        Column("model", "str", "", "target model"),
        Column("quantization", "str", "", "quantization argument"),
        Column("tp", "i32", "", "tensor-parallel size"),
        Column("pp", "i32", "", "pipeline-parallel size"),
        Column("dp", "i32", "", "data-parallel size"),
        Column("ep", "i32", "", "expert-parallel size"),
        Column("method", "str", "", "speculative method"),
        Column("k", "i32", "tokens", "draft tokens per cycle on a chain"),
        Column("topk", "i32", "", "branches per draft step"),
        Column("num_draft_tokens", "i32", "tokens", "width of the verify forward per request (SGLang), as resolved"),
        Column("files", "i32", "", "input files"),
    ),
    "inputs": (
        Column("file_id", "i32", "", "index of the file"),
        Column("path", "str", "", "path as given by the user"),
        Column("format", "str", "", "sglang, vllm, nccl, trtllm, llamacpp, eagle3_profile, mixed or unknown"),
        Column("lines", "i64", "", "physical lines"),
        Column("bytes", "i64", "bytes", "decompressed size"),
        Column("recognised", "i64", "", "lines that gave a row or are known and carry nothing"),
        Column("unread", "i64", "", "lines that look like a known family and fit no known form"),
        Column("partial", "i64", "", "rows with a required value missing or cut off"),
        Column("unread_line", "i64", "", "line number of the first unread line"),
        Column("unread_text", "str", "", "start of the first unread line"),
        Column("unknown_keys", "str", "", "keys seen in known lines that no column holds, comma separated"),
        Column("problem", "str", "", "what went wrong with the file, in one line"),
        Column("modified", "ts", "", "modification time of the file; gives the year where lines have none"),
    ),
    "decode_samples": (
        *_WHERE,
        *_WHO,
        Column("engine", "str", "", "sglang or vllm"),
        Column("engine_index", "i32", "", "vLLM: number N of `Engine N:`; null when several are aggregated"),
        Column("running", "i32", "requests", "running requests at print time"),
        Column("queued", "i32", "requests", "queued (SGLang) or waiting (vLLM) requests"),
        Column("tokens", "i64", "tokens", "KV tokens in use"),
        Column("token_usage", "f64", "ratio", "share of the KV pool in use, 0 ... 1; the fullest pool where several"),
        Column("gen_tps", "f64", "tokens/s", "generation throughput since the previous line"),
        Column("prompt_tps", "f64", "tokens/s", "prompt throughput since the previous line (vLLM)"),
        Column("accept_length_printed", "f64", "tokens", "`accept len` as printed (SGLang: counts the bonus token)"),
        Column(
            "accept_rate_printed", "f64", "ratio", "`accept rate` as printed; its definition depends on the version"
        ),
        Column("cuda_graph", "bool", "", "whether the last decode (= verify) forward replayed a CUDA graph"),
        Column("retracted", "i32", "requests", "retracted requests"),
        Column("forward_ct", "i64", "", "forward counter in brackets, where printed"),
    ),
    "prefill_samples": (
        *_WHERE,
        *_WHO,
        Column("new_seqs", "i32", "requests", "sequences in the prefill batch"),
        Column("new_tokens", "i64", "tokens", "tokens to compute"),
        Column("cached_tokens", "i64", "tokens", "tokens found in the prefix cache"),
        Column("token_usage", "f64", "ratio", "share of the KV pool in use, 0 ... 1"),
        Column("running", "i32", "requests", "running requests"),
        Column("queued", "i32", "requests", "queued requests"),
        Column("input_tps", "f64", "tokens/s", "input throughput as printed"),
        Column("cuda_graph", "bool", "", "whether the prefill replayed a CUDA graph"),
    ),
    "spec_samples": (
        *_WHERE,
        *_WHO,
        Column("form", "str", "", "vllm_v1, vllm_v0 or llamacpp"),
        Column("accept_length_printed", "f64", "tokens", "mean acceptance length as printed"),
        Column("accept_rate_printed", "f64", "ratio", "draft acceptance rate as printed, 0 ... 1"),
        Column("accepted", "i64", "tokens", "accepted draft tokens (interval; V0: since start)"),
        Column("drafted", "i64", "tokens", "drafted tokens (interval; V0: since start)"),
        Column("emitted", "i64", "tokens", "emitted tokens since start, bonus included (V0)"),
        Column("accepted_tps", "f64", "tokens/s", "accepted throughput since the previous line of this kind"),
        Column("drafted_tps", "f64", "tokens/s", "drafted throughput since the previous line of this kind"),
        Column("num_spec_tokens", "i32", "tokens", "draft tokens per cycle, where the line says so (V0)"),
        Column("efficiency", "f64", "ratio", "system efficiency (V0): emitted / (drafts x (k+1))"),
        Column("per_position", "list_f64", "ratio", "unconditional acceptance per draft position, position 0 first"),
        Column("draft_ms", "f64", "ms", "time spent drafting, where printed (llama.cpp)"),
    ),
    "cycles": (
        *_WHERE,
        *_WHO,
        Column("source", "str", "", "eagle3_profile, vllm_iteration, vllm_v0_stages or trtllm_iteration"),
        Column("rank", "i32", "", "rank named in the line itself"),
        Column("iteration", "i64", "", "iteration number"),
        Column("cycles", "i64", "", "cycles averaged in this row"),
        Column("batch", "i32", "requests", "generation requests in the batch"),
        Column("context_requests", "i32", "requests", "prefill requests in the same step"),
        Column("context_tokens", "i64", "tokens", "prefill tokens in the same step"),
        Column("generation_tokens", "i64", "tokens", "scheduled generation tokens; a verify has batch x (k+1)"),
        Column("k", "i32", "tokens", "draft tokens per cycle"),
        Column("total_ms", "f64", "ms", "whole cycle or step"),
        Column("draft_ms", "f64", "ms", "draft"),
        Column("verify_ms", "f64", "ms", "verify"),
        Column("re_extend_ms", "f64", "ms", "re-extend (draft-extend)"),
        Column("other_ms", "f64", "ms", "rest of the cycle as the timer printed it"),
        Column("accept_length_printed", "f64", "tokens", "accept value of the line as printed"),
        Column("accept_has_bonus", "bool", "", "true when the line's own version says the bonus token is counted"),
        Column("clock", "str", "", "cuda_event, host or what the line says"),
    ),
    "events": (
        *_WHERE,
        *_WHO,
        Column("kind", "str", "", "what happened: load_begin, capture_end, retraction, watchdog, nccl_init ..."),
        Column("subject", "str", "", "what it happened to: a runner, a variable, a kernel"),
        Column("value", "f64", "", "the line's main number; its unit follows from the kind"),
        Column("attrs", "str", "", "all named values of the line as a JSON object"),
        Column("follow", "str", "", "lines that belong to this one (traceback, py-spy dump), newline separated"),
        Column("level", "str", "", "log level, where printed"),
        Column("text", "str", "", "start of the line, untrusted"),
        Column("repeats", "i64", "", "how often it was seen in this block of the file (folded lines)"),
    ),
    "traces": (
        Column("file_id", "i32", "", "index of the input file in the `inputs` table"),
        Column("rank", "i32", "", "rank of the process; null when the trace does not tell"),
        Column("pid", "i64", "", "process id"),
        Column("world_size", "i32", "", "ranks of the job, where the trace says so"),
        Column("host", "str", "", "host name"),
        Column("tool", "str", "", "kineto, nsight or nsight_stats"),
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
        *_SPAN,
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
        *_SPAN,
        Column("tid", "i64", "", "thread that made the call"),
        Column("correlation", "i64", "", "id that the launched work carries"),
        Column("is_graph", "bool", "", "the call launches a CUDA graph"),
    ),
    "ranges": (
        *_SPAN,
        Column("tid", "i64", "", "thread that pushed the range; for kind gpu_annotation the stream"),
        Column("domain", "str", "", "NVTX domain; null for the default domain and for annotations"),
        Column("kind", "str", "", "nvtx, annotation (host) or gpu_annotation (the profiler's own projection)"),
    ),
    "memops": (
        *_SPAN,
        Column("device", "i32", "", "GPU index"),
        Column("stream", "i64", "", "stream"),
        Column("correlation", "i64", "", "id of the launch"),
        Column("kind", "str", "", "HtoD, DtoH, DtoD, PtoP, HtoH, memset or other"),
        Column("bytes", "i64", "bytes", "bytes moved or set"),
    ),
    "graphs": (
        *_SPAN,
        Column("device", "i32", "", "GPU index"),
        Column("stream", "i64", "", "stream"),
        Column("correlation", "i64", "", "id of the graph launch"),
        Column("graph_id", "i64", "", "graph executed, where recorded"),
    ),
    "collectives": (
        *_SPAN,
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
    "settings": (
        *_WHERE,
        *_WHO,
        Column("name", "str", "", "argument or variable name"),
        Column("value", "str", "", "value as printed"),
        Column(
            "origin", "str", "", "server_args, non_default_args, engine_config, nccl_env, engine_message, unknown_env"
        ),
    ),
}

_POLARS = {"i32": "Int32", "i64": "Int64", "f64": "Float64", "str": "String", "bool": "Boolean"}


def polars_schema(table: str) -> dict[str, pl.DataType]:
    """Column name -> polars type of a table. Raises KeyError for an unknown table."""
    import polars as pl

    def kind(dtype: str) -> pl.DataType:
        if dtype == "ts":
            return pl.Datetime("ms")
        if dtype == "list_f64":
            return pl.List(pl.Float64())
        found: pl.DataType = getattr(pl, _POLARS[dtype])()
        return found

    return {column.name: kind(column.dtype) for column in TABLES[table]}


def arrow_schema(table: str) -> pa.Schema:
    """Arrow schema of a table, with `unit` and `meaning` in each field's metadata."""
    import pyarrow as pa

    kinds = {
        "i32": pa.int32(),
        "i64": pa.int64(),
        "f64": pa.float64(),
        "str": pa.large_string(),
        "bool": pa.bool_(),
        "ts": pa.timestamp("ms"),
        "list_f64": pa.large_list(pa.float64()),
    }
    return pa.schema(
        [pa.field(c.name, kinds[c.dtype], metadata={"unit": c.unit, "meaning": c.meaning}) for c in TABLES[table]],
        metadata={"table": table, "schema": "traceana/tables/1"},
    )


def empty(table: str) -> pl.DataFrame:
    """A frame of the table's columns with no rows."""
    import polars as pl

    return pl.DataFrame(schema=polars_schema(table))

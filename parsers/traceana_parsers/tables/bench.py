"""Tables from benchmark results, scrapes of /metrics and nccl-tests."""

from __future__ import annotations

from traceana_parsers.tables.columns import WHERE, Column

_TIMES = (
    ("ttft", "time to first token"),
    ("tpot", "time per output token after the first"),
    ("itl", "gap between streamed chunks (a cycle under speculation); see `itl_of`"),
    ("e2e", "time of a whole request"),
)
_STATISTICS = ("mean", "median", "p90", "p95", "p99", "std")

BENCH_TABLES: dict[str, tuple[Column, ...]] = {
    "bench_points": (
        *WHERE,
        Column("point", "i32", "", "number of the point within its file, from 0"),
        Column("tool", "str", "", "what wrote it: vllm_bench, sglang_bench, one_batch, table, run_list, aiperf ..."),
        Column(
            "series", "str", "", "which of several set-ups in one file: a column's or a table's title, a tag, a label"
        ),
        Column("label", "str", "", "the row's or run's own words, e.g. `Run 3/5` or `single request, 256 tokens`"),
        Column("warmup", "bool", "", "true for a warm-up run, which is no measurement"),
        Column("ts", "ts", "", "time of the measurement, where written"),
        Column("model", "str", "", "model as written"),
        Column("backend", "str", "", "server or endpoint kind as written, e.g. vllm, sglang-oai"),
        Column("dataset", "str", "", "dataset as written"),
        Column("temperature", "f64", "", "sampling temperature, where written"),
        Column("speculative", "bool", "", "true or false where the file says whether it speculated"),
        Column("k", "i32", "tokens", "draft tokens per cycle, where written"),
        Column("num_steps", "i32", "", "draft steps, where written (SGLang)"),
        Column("topk", "i32", "", "branches per draft step, where written (SGLang)"),
        Column("num_draft_tokens", "i32", "tokens", "width of the verify forward per request, where written (SGLang)"),
        Column("concurrency", "i32", "requests", "requests kept in flight, as asked for; the batch size where fixed"),
        Column("concurrency_seen", "f64", "requests", "mean requests in flight, where measured"),
        Column("request_rate", "f64", "requests/s", "arrival rate asked for; infinite where all were sent at once"),
        Column("context_tokens", "i64", "tokens", "prompt or context length asked for, per request"),
        Column("output_length", "i64", "tokens", "output length asked for, per request"),
        Column("requests", "i64", "requests", "completed requests"),
        Column("failed", "i64", "requests", "failed requests"),
        Column("duration_s", "f64", "s", "length of the measurement"),
        Column("input_tokens", "i64", "tokens", "prompt tokens of all requests"),
        Column("output_tokens", "i64", "tokens", "output tokens of all requests"),
        Column("output_tps", "f64", "tokens/s", "output throughput of all requests together"),
        Column("user_tps", "f64", "tokens/s", "output throughput of one request, where written"),
        Column("chunks", "i64", "", "gaps between streamed chunks of all requests (an engine step each), where kept"),
        *(
            Column(f"{what}_{which}_ms", "f64", "ms", f"{which} {meaning}")
            for what, meaning in _TIMES
            for which in _STATISTICS
        ),
        Column("itl_of", "str", "", "what the ITL columns are per: chunk, token, or null where that cannot be told"),
        Column("step_ms", "f64", "ms", "engine step or cycle, where the tool measures it"),
        Column("accept_length_printed", "f64", "tokens", "accept length as written"),
        Column("accept_rate_printed", "f64", "ratio", "acceptance rate as written, 0 ... 1"),
        Column(
            "accept_scope",
            "str",
            "",
            "what the acceptance covers: run, lifetime (of the server) or snapshot",
        ),
        Column("tokens_per_cycle_printed", "f64", "tokens", "tokens per request per engine step, as written"),
        Column("cycles", "i64", "", "verify forwards x requests, where counted"),
        Column("drafts", "i64", "", "requests x steps that had a draft, where counted"),
        Column("drafted", "i64", "tokens", "drafted tokens, where counted"),
        Column("accepted", "i64", "tokens", "accepted draft tokens, where counted"),
        Column("per_position", "list_f64", "ratio", "unconditional acceptance per draft position, position 0 first"),
        Column("texts", "str", "", "digest of the generated texts in order, where kept; equal where the texts are"),
        Column("doubt", "str", "", "what contradicts itself in the point as written, in one line"),
        Column("attrs", "str", "", "everything else that was written about the point, as a JSON object"),
    ),
    "bench_requests": (
        *WHERE,
        Column("point", "i32", "", "the point of the same file that the request belongs to; null for lone responses"),
        Column("request", "i32", "", "number of the request within the point, or of the response within the file"),
        Column("start_s", "f64", "s", "when it was sent, on the tool's own clock"),
        Column("input_tokens", "i64", "tokens", "prompt tokens"),
        Column("output_tokens", "i64", "tokens", "output tokens"),
        Column("ttft_ms", "f64", "ms", "time to first token"),
        Column("decode_ms", "f64", "ms", "time from the first to the last chunk"),
        Column("e2e_ms", "f64", "ms", "time of the whole request"),
        Column("chunks", "i32", "", "gaps between streamed chunks"),
        Column("cycles", "i32", "", "verify forwards, where the engine reports them"),
        Column("drafted", "i64", "tokens", "drafted tokens, where the engine reports them"),
        Column("accepted", "i64", "tokens", "accepted draft tokens, where the engine reports them"),
        Column("histogram", "list_f64", "cycles", "cycles by number of accepted drafts, 0 first, where reported"),
        Column("text", "str", "", "digest of the generated text, where kept"),
        Column("error", "str", "", "why it failed, start of the text, untrusted"),
    ),
    "metrics": (
        *WHERE,
        Column("scrape", "i32", "", "number of the scrape within its file, from 0"),
        Column("ts", "ts", "", "time of the scrape: written (then UTC), or the file's own for its last scrape"),
        Column("name", "str", "", "metric name with its suffix (_total, _sum, _count, _bucket)"),
        Column("labels", "str", "", "labels as a JSON object, sorted by key"),
        Column("kind", "str", "", "counter, gauge, histogram, summary or untyped"),
        Column("value", "f64", "", "value; its unit is in the name"),
    ),
    "collective_points": (
        *WHERE,
        Column("collective", "str", "", "all_reduce, all_gather, reduce_scatter ..."),
        Column("library", "str", "", "nccl, or what the file says"),
        Column("version", "str", "", "library version, where written"),
        Column("ranks", "i32", "", "ranks"),
        Column("device", "str", "", "GPU name, where written"),
        Column("bytes", "i64", "bytes", "message size per rank"),
        Column("in_place", "bool", "", "in-place result"),
        Column("time_us", "f64", "us", "time of one call"),
        Column("algbw_gbps", "f64", "GB/s", "size / time"),
        Column("busbw_gbps", "f64", "GB/s", "bus bandwidth as nccl-tests defines it"),
        Column("wrong", "i64", "", "wrong results, where checked"),
        Column("series", "str", "", "which of several set-ups in one file, e.g. a protocol"),
    ),
}

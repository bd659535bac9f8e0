"""Whatever benchmark rows say, a sweep is made or refused in one line; its figures hold together."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.facts.bench_rows import points
from traceana.errors import TraceanaError
from traceana.facts.model import Facts, InputFacts
from traceana.facts.sweep import sweep
from traceana.report.documents import render_document
from traceana.report.sweep_page import compose

_ANY = st.none() | st.floats(allow_nan=True, allow_infinity=True) | st.floats(0.1, 5000.0)
_COUNT = st.none() | st.integers(-5, 400)
_ROW = st.fixed_dictionaries(
    {
        "tool": st.sampled_from(["table", "vllm_bench", "sglang_bench", "run_list"]),
        "file_id": st.integers(0, 2),
        "series": st.sampled_from([None, "EAGLE3", "baseline", "other"]),
        "speculative": st.sampled_from([None, True, False]),
        "concurrency": _COUNT,
        "request_rate": _ANY,
        "context_tokens": st.sampled_from([None, 0, 16384, -1]),
        "output_length": st.sampled_from([None, 0, 96, 512]),
        "k": st.none() | st.integers(-1, 8),
        "topk": st.sampled_from([None, 1, 4]),
        "requests": _COUNT,
        "output_tokens": _COUNT,
        "duration_s": _ANY,
        "output_tps": _ANY,
        "tpot_mean_ms": _ANY,
        "ttft_mean_ms": _ANY,
        "itl_mean_ms": _ANY,
        "itl_of": st.sampled_from([None, "chunk", "token"]),
        "step_ms": _ANY,
        "accept_length_printed": _ANY,
        "accept_rate_printed": st.none() | st.floats(-1, 2),
        "drafts": _COUNT,
        "drafted": _COUNT,
        "accepted": _COUNT,
        "chunks": _COUNT,
        "per_position": st.none() | st.lists(st.floats(-0.2, 1.2), max_size=4),
    }
)


@settings(max_examples=80, deadline=None, report_multiple_bugs=False, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_ROW, max_size=12))
def test_no_benchmark_row_breaks_a_sweep(rows: list[dict[str, Any]]) -> None:
    facts = Facts(inputs=(InputFacts("x", "bench", 1, 1, 0, 0),), points=points(rows))
    for baseline, name in ((None, None), (None, "baseline"), (facts, None)):
        try:
            found = sweep(facts, baseline, None, name)
        except TraceanaError as error:
            assert "\n" not in error.message
            continue
        assert json.loads(render_document(found, compose, "json"))["schema"] == "traceana/sweep/1"
        render_document(found, compose, "terminal", width=80)
        for block in found.blocks:
            for level in block.levels:
                assert level.spec.gen_tps is None or math.isfinite(level.spec.gen_tps)
                if level.ratio is not None and level.ratio.low is not None:
                    assert level.ratio.low <= level.ratio.high  # type: ignore[operator]
            assert all(c.after < c.before for c in block.crossings)
            assert all(a.last < b.first for a, b in zip(block.advice.spans, block.advice.spans[1:], strict=False))

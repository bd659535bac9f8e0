"""STB006: a start that stands still where the GPUs first exchange data."""

import pytest

from tests.rules.builders import at, setting
from tests.rules.node_builders import found, incident, node
from traceana.facts.model import Facts, Startup, Stopped
from traceana.rules import stb006_start_stopped_at_first_exchange as stb006
from traceana.rules.interface import CannotTell, Clear, Confidence, NotApplicable, Severity


def stopped(kind: str, silent: float | None, waits: int = 0, tp: int = 4, **more: object) -> Facts:
    return node(
        setting("tensor_parallel_size", 4),
        engine="vllm",
        tp=tp,
        startup=Startup(stopped=Stopped(kind, silent, waits, (at(30),))),
        **more,
    )


def test_minutes_of_silence_at_nccls_start_are_a_hang():
    finding = found(stb006.check(stopped("nccl_version", 240.0), None))
    assert "NCCL's first exchange" in finding.title
    assert (finding.severity, finding.confidence) == (Severity.CRITICAL, Confidence.MEDIUM)
    assert any("NCCL_P2P_DISABLE=1" in step for step in finding.fix)


def test_complaints_count_as_minutes_where_no_time_is_printed():
    assert "3 min" in found(stb006.check(stopped("nccl_version", None, waits=3), None)).title


def test_behind_the_kv_cache_a_compilation_is_the_first_rival():
    finding = found(stb006.check(stopped("kv_cache", 600.0), None))
    assert finding.confidence is Confidence.LOW
    assert "compilation" in finding.rivals[0]


@pytest.mark.parametrize("silent", [None, 30.0])
def test_a_log_that_just_ends_there_cannot_tell(silent):
    assert isinstance(stb006.check(stopped("nccl_version", silent), None), CannotTell)


def test_no_finding_with_an_error_another_place_one_gpu_or_a_server_that_serves():
    dead = stopped("nccl_version", 240.0, incidents=(incident("killed", "Killed"),))
    assert isinstance(stb006.check(dead, None), Clear)
    assert isinstance(stb006.check(stopped("load_begin", 240.0), None), Clear)
    assert isinstance(stb006.check(stopped("nccl_version", 240.0, tp=1), None), NotApplicable)
    assert isinstance(stb006.check(node(startup=Startup(starts=1)), None), Clear)

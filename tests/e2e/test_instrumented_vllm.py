"""The log of a real vLLM 0.32 server on two ranks with the timers on: what a user of `traceana run` gets."""

from pathlib import Path

import pytest

from traceana import api

LOG = Path(__file__).parents[2] / "fixtures" / "instrument" / "vllm-eagle3-tp2.log"


@pytest.fixture(scope="module")
def found():
    return api.diagnose([str(LOG)])


def test_draft_verify_and_re_extend_are_measured(found):
    parts = {part.name: part for part in found.cycle.parts}
    assert list(parts) == ["draft", "verify", "re-extend", "other"]
    assert {part.provenance for part in parts.values()} == {"measured"}
    assert sum(part.ms for part in parts.values()) == pytest.approx(found.cycle.total_ms, rel=0.01)
    assert parts["verify"].ms == max(part.ms for part in parts.values())


def test_the_timers_accept_length_is_the_engine_s(found):
    """vLLM's own counters over the same time say 2.16; the timers count on every rank."""
    said = [line for line in LOG.read_text().splitlines() if "EAGLE3_PROFILE {" in line]
    assert {rank for line in said for rank in (0, 1) if f'"rank":{rank}' in line} == {0, 1}
    assert found.acceptance.accept_length == pytest.approx(2.16, abs=0.01)


def test_every_line_is_read_and_nothing_is_alarming(found):
    (entry,) = found.inputs
    assert (entry.unread, entry.problem) == (0, None)
    assert found.findings == ()

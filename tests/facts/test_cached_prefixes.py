"""Accept length by what the prefix cache gave a prompt."""

from pathlib import Path

import pytest

from traceana import api

_PREFILL = (
    "[2026-02-03 09:{m:02d}:{s:02d}] Prefill batch, #new-seq: 1, #new-token: {new}, #cached-token: {cached}, "
    "token usage: 0.01, #running-req: {before}, #queue-req: 0"
)
_DECODE = (
    "[2026-02-03 09:{m:02d}:{s:02d}] Decode batch, #running-req: {running}, #token: 4000, token usage: 0.02, "
    "accept len: {length:.2f}, accept rate: 0.50, cuda graph: True, gen throughput (token/s): {tps:.2f}, #queue-req: 0"
)


def log(requests: int, running: int = 1, cached: int = 2900) -> str:
    """Requests in turn with a fresh and a cached prompt, seven windows each; accept length 3.0 and 1.8."""
    lines, clock = [], 0
    for request in range(requests):
        hit = request % 2
        when = {"m": clock // 60, "s": clock % 60}
        new = 200 if hit else 3100
        lines.append(_PREFILL.format(new=new, cached=cached if hit else 0, before=running - 1, **when))
        for _ in range(7):
            clock += 1
            length = 1.8 if hit else 3.0
            when = {"m": clock // 60, "s": clock % 60}
            lines.append(_DECODE.format(running=running, length=length, tps=length * running * 70, **when))
    return "\n".join(lines) + "\n"


def seen(tmp_path: Path, text: str):
    path = tmp_path / "server.log"
    path.write_text(text)
    return api.read_facts([str(path)]).stability.cached


@pytest.mark.parametrize(("requests", "known"), [(8, True), (2, False)])
def test_windows_are_split_by_the_last_prompt(tmp_path: Path, requests: int, known: bool):
    cached = seen(tmp_path, log(requests))
    assert (cached is not None) is known
    if cached is not None:
        assert (cached.cold, cached.cached) == (pytest.approx(3.0), pytest.approx(1.8))
        assert min(cached.windows) >= 10
        assert cached.evidence


def test_several_requests_at_once_tell_nothing(tmp_path: Path):
    assert seen(tmp_path, log(8, running=3)) is None


def test_half_cached_prompts_are_neither(tmp_path: Path):
    assert seen(tmp_path, log(8, cached=100)) is None

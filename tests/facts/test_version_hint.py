"""SGLang's version, told by the form of its lines where no line names it."""

from pathlib import Path

import pytest

from traceana import api

_HEAD = "[2026-02-03 09:15:{second:02d} TP0] "
_DOT = "Decode batch. #running-req: 1, #token: 9, token usage: 0.02, {accept}{graph}gen throughput (token/s): 90.0, #queue-req: 0"
_COMMA = _DOT.replace("batch.", "batch,")
_OLD = (
    "accept len: 2.06, accept rate: 0.52, ",
    "accept len: 2.41, accept rate: 0.60, ",
    "accept len: 3.10, accept rate: 0.78, ",
)
_NEW = (
    "accept len: 2.06, accept rate: 0.35, ",
    "accept len: 2.41, accept rate: 0.47, ",
    "accept len: 3.10, accept rate: 0.70, ",
)
_NONE = ("accept len: 2.06, ", "accept len: 2.41, ", "accept len: 3.10, ")
_PREFILL = (
    "Prefill batch, #new-seq: 1, #new-token: 31, #cached-token: 1, token usage: 0.03, #running-req: 0, #queue-req: 0"
)


@pytest.mark.parametrize(
    ("form", "accepts", "graph", "prefill", "told"),
    [
        (_DOT, _NONE, "", None, "0.4.6 or earlier"),
        (_DOT, _NONE, "cuda graph: True, ", None, "0.4.7 to 0.5.3"),
        (_COMMA, _OLD, "cuda graph: True, ", _PREFILL, "0.5.3.post3 to 0.5.8"),
        (_COMMA, _OLD, "cuda graph: True, ", _PREFILL + ", cuda graph: False", "0.5.9 to 0.5.10.post1"),
        (_COMMA, _NEW, "cuda graph: True, ", _PREFILL + ", cuda graph: False", "0.5.11 or later"),
        (_COMMA, ("", "", ""), "cuda graph: True, ", None, "0.4.7 or later"),
    ],
)
def test_the_range_follows_from_the_lines(
    form: str, accepts: tuple[str, ...], graph: str, prefill: str | None, told: str, tmp_path: Path
) -> None:
    lines = [_HEAD.format(second=0) + prefill] if prefill else []
    lines += [_HEAD.format(second=i + 1) + form.format(accept=a, graph=graph) for i, a in enumerate(accepts)]
    log = tmp_path / "server.log"
    log.write_text("\n".join(lines) + "\n")
    run = api.diagnose([str(log)]).run
    assert (run.version, run.version_range) == (None, told)

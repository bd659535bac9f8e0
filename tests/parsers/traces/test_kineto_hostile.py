"""Traces made to hurt: absurd numbers, depths and texts end in a row, a count or a sentence, and soon."""

import json
from pathlib import Path

import pytest

from tests.parsers.traces.reading import read_bytes

BIG = "1" + "0" * 400


def event(ts: str = "5", dur: str = "1", args: str = "{}", name: str = '"draft"') -> str:
    return f'{{"ph":"X","cat":"user_annotation","name":{name},"pid":1,"tid":1,"ts":{ts},"dur":{dur},"args":{args}}}'


def trace(*events: str, head: str = "") -> bytes:
    return f'{{{head}"traceEvents":[{",".join(events)}]}}'.encode("utf-8", "surrogatepass")


DEEP = "[" * 200_000 + "]" * 200_000
#: content -> (events used, events that could not be used)
CASES = {
    "arguments nested 200,000 deep": (trace(event(args=f'{{"a":{DEEP}}}'), event()), (1, 1)),
    "a top-level value nested 200,000 deep": (trace(event(), head=f'"x":{DEEP},'), (1, 0)),
    "times no number type holds": (
        trace(event(BIG), event("1e999999", "1e999999"), event("1e308"), event("-1e18"), event("5", BIG)),
        (1, 4),
    ),
    "a pair of events with absurd times and ids": (
        trace(
            '{"ph":"B","cat":"user_annotation","name":"a","pid":1e999999,"tid":2,"ts":9e999999}',
            '{"ph":"E","pid":1e999999,"tid":2,"ts":-9e999999}',
            '{"ph":"B","cat":"user_annotation","name":"a","pid":1,"tid":2,"ts":' + BIG + "}",
            '{"ph":"E","pid":1,"tid":2,"ts":1.5}',
        ),
        (0, 2),
    ),
    "ids beyond 64 bits": (
        trace(
            '{"ph":"X","cat":"kernel","name":"k","pid":1e30,"ts":1,'
            '"args":{"device":1e30,"stream":1e400,"correlation":123456789012345678901234567890,"grid":[],"block":[1e50]}}',
            '{"ph":"X","cat":"kernel","name":"k","ts":3}',
        ),
        (2, 0),
    ),
    "halves of surrogate pairs": (
        trace(event(name='"\\ud800x"'), event(name='"\\u0000"'), '{"ph":"X","cat":"kernel","name":"nccl\\udfff","ts":1}'),
        (3, 0),
    ),
    "top-level values of any type": (
        trace(
            event(),
            head='"baseTimeNanoseconds":true,"distributedInfo":{"rank":99999999999999999999,"world_size":1e99},'
            '"host_name":[1],"deviceProperties":[{"id":[1],"name":{"a":1}},5],"schemaVersion":{},"WARNING":{"a":1},',
        ),
        (1, 0),
    ),
    "a base time beyond the axis": (trace(event(), head='"baseTimeNanoseconds":9223372036854775807,'), (1, 0)),
    "a text of 20 million backslashes": (trace(event(), head='"note":"' + "\\\\" * 10_000_000 + '",'), (1, 0)),
    "events full of gaps": (trace(*[event(args=f'{{"a":[{",".join(["{}"] * 50)}]}}') for _ in range(4000)]), (4000, 0)),
    "names full of gaps": (trace(*[event(name=json.dumps('},{"ph":"X"' * 20)) for _ in range(4000)]), (4000, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("block", [1 << 16, 4 << 20])
def test_absurd_traces_are_read_or_counted(name: str, block: int, tmp_path: Path) -> None:
    data, (used, unread) = CASES[name]
    tables, report = read_bytes(tmp_path, data, block=block)
    assert (report.recognised, report.unread, report.problem) == (used, unread, None)
    assert tables["traces"].height == 1
    assert tables["traces"]["rank"].item() == 0  # from the file name


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"ph":"X","args":'])
def test_a_text_that_only_opens_ends_in_a_sentence(opening: str, tmp_path: Path) -> None:
    _, report = read_bytes(tmp_path, ('{"traceEvents":[' + opening * 100_000).encode())
    assert report.problem == "the file ends inside the list of events (truncated); nothing was read"

"""The rank in a trace file's name, as the tools spell it."""

import pytest

from traceana_parsers.traces.rank_names import FORMS, labelled_pid, rank_of

CASES = [(form, name, wanted) for form in FORMS for name, wanted in form.examples.items()]


@pytest.mark.parametrize(("form", "name", "wanted"), CASES, ids=[name for _, name, _ in CASES])
def test_the_rank_is_read_from_the_name(form: object, name: str, wanted: tuple[int | None, int | None]) -> None:
    assert rank_of(name) == wanted
    assert rank_of(f"/data/rank9/TP-4/{name}") == wanted  # folders do not count


@pytest.mark.parametrize(
    "name", ["trace.json", "frank1.json", "crank-3.json", "coworker1.json", "rank.json", "HTTP-1.trace.json"]
)
def test_a_name_without_a_rank_gives_none(name: str) -> None:
    assert rank_of(name) == (None, None)


def test_processes_of_a_merged_trace_carry_their_rank() -> None:
    assert labelled_pid("[TP03] 4242") == ("TP03", 3, 4242)
    assert labelled_pid("[TP01-DP00-PP00] 0") == ("TP01-DP00-PP00", 1, 0)
    assert labelled_pid("[TP01-PP01] 7") == ("TP01-PP01", None, 7)
    assert labelled_pid("[TP00] Spans") is None
    assert labelled_pid("Spans") is None

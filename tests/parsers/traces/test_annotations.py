"""What a range name says of a step: every form reads its examples, and nothing else claims them."""

import re

import polars as pl
import pytest

from traceana_parsers.traces.annotation_forms import FORMS
from traceana_parsers.traces.annotations import ROLES, annotate, cut, parse

CASES = [(form, name, wanted) for form in FORMS for name, wanted in form.examples.items()]


@pytest.mark.parametrize(("form", "name", "wanted"), CASES, ids=[name for _, name, _ in CASES])
def test_a_form_reads_its_examples(form, name: str, wanted: dict[str, object]) -> None:
    found = parse(name)
    assert found is not None
    assert {key: getattr(found, key) for key in wanted} == wanted
    assert found.raw == name
    assert found.role in ROLES
    bare = re.sub(r"^(?:traceana)?:", "", name)
    decided = next(f for f in FORMS if re.fullmatch(f.pattern, bare))
    assert decided is form


def test_every_form_has_an_example_and_a_known_role() -> None:
    assert [f.label for f in FORMS if not f.examples] == []
    assert {f.role for f in FORMS} <= {None, *ROLES}


@pytest.mark.parametrize(
    ("requests", "tokens", "role"),
    [(1, 1, "step"), (1, 2, "verify"), (8, 8, "step"), (8, 9, "verify"), (8, 32, "verify")],
)
def test_a_verify_computes_more_tokens_than_it_has_requests(requests: int, tokens: int, role: str) -> None:
    found = parse(f"execute_context_0(0)_generation_{requests}({tokens})")
    assert found is not None
    assert found.role == role


@pytest.mark.parametrize(
    "name",
    [
        "forward", "drafting", "redraft", "step", "step[]", "my step[DRAFT bs=8]", "step[DRAFT bs=8] x", "execute_model",
        "execute_context_1(8)", "capture", "aten::mm", "PyTorch Profiler (0)", "", "\n", "## Call CompiledFxGraph fud64 ##",
        "vllm:draft",
    ],
)  # fmt: skip
def test_other_names_say_nothing(name: str) -> None:
    assert parse(name) is None


def test_labels_group_steps_of_one_kind() -> None:
    labels = {parse(f"step[VERIFY bs={n}]").label for n in (1, 2, 64)} | {parse("step[TARGET_VERIFY bs=3]").label}
    assert labels == {"step[VERIFY]"}
    assert {parse(f"aten::to, op_id = {n}").label for n in range(3)} == {"aten::to"}
    assert parse("ncclAllReduce").label == "ncclAllReduce"


def test_counters_of_torch_are_cut_off() -> None:
    assert cut("aten::to, op_id = 990347") == "aten::to"
    assert cut("FlashAttnFunc, seq = 47575, op_id = 999172") == "FlashAttnFunc"
    assert cut("aten::mm, seq = 5, sizes = [[4, 128], [128, 128]]") == "aten::mm"
    assert cut("draft, then verify") == "draft, then verify"


def test_a_column_of_names_is_annotated_in_order() -> None:
    names = pl.Series(["draft", None, "who knows", "execute_context_0(0)_generation_2(8)"])
    frame = annotate(names)
    assert frame["role"].to_list() == ["draft", None, None, "verify"]
    assert frame["generation_tokens"].to_list() == [None, None, None, 8]
    assert frame["name"].to_list() == names.to_list()
    assert annotate(pl.Series([], dtype=pl.String)).height == 0

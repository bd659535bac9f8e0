"""CFG: arguments that the engine changed, refused, or never got."""

from dataclasses import replace

import pytest

from tests.rules.builders import drafting, fact, level, run, setting
from tests.rules.node_builders import found, incident, node, served
from traceana.facts.model import Fact
from traceana.rules import cfg001_draft_tokens_changed_by_topk_1 as cfg001
from traceana.rules import cfg002_incomplete_speculative_arguments as cfg002
from traceana.rules import cfg003_draft_context_shorter_than_target as cfg003
from traceana.rules import stb003_engine_died as stb003
from traceana.rules.interface import CannotTell, Clear, Confidence, Finding, NotApplicable, Severity

COMPARE = "TypeError: '>' not supported between instances of 'NoneType' and 'int'"
CONTEXT = (
    "Target model's context_length (262144) is greater than the derived context_length (131072). This may lead to "
    "incorrect model outputs or CUDA errors."
)


def chain(asked: int | None = 3, reason: str | None = None, **more):
    spec = {"num_draft_tokens_asked": Fact(reason=reason) if reason else fact(asked, 7)}
    return drafting(level(1, 12.0, 1.74, k=1), k=1, speculation={**spec, **more})


def test_three_asked_two_in_use_and_the_ceiling_is_two():
    finding = found(cfg001.check(chain(), None))
    assert finding.title == "3 draft tokens were asked for, 2 are in use (topk 1); accept length cannot exceed 2"
    assert "1.74" in finding.why
    assert "--speculative-num-steps 2 " in finding.fix[0]
    assert "--speculative-num-draft-tokens 3" in finding.fix[0]
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)


def test_the_warning_line_is_enough_when_the_asked_number_is_not_in_the_log():
    finding = found(cfg001.check(chain(None, reason="the log shows the adjusted value only"), None))
    assert "Another number of draft tokens was asked for, 2 are in use" in finding.title


def test_an_engine_message_among_the_settings_is_found_too():
    text = "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1"
    facts = drafting(level(1, 12.0, 1.7, k=1), k=1, settings=(setting("message", text, origin="engine_message"),))
    assert isinstance(cfg001.check(facts, None), Finding)


def test_what_was_asked_and_is_used_is_clear():
    assert isinstance(cfg001.check(chain(None, reason="the engine did not change it"), None), Clear)
    assert isinstance(cfg001.check(chain(2), None), Clear)


def test_trees_other_engines_and_plain_runs_are_no_question():
    assert isinstance(cfg001.check(chain(topk=fact(4)), None), NotApplicable)
    assert isinstance(cfg001.check(run(level(1, 12.0)), None), NotApplicable)
    assert isinstance(cfg001.check(run(engine="vllm"), None), NotApplicable)


def test_without_arguments_in_the_log_it_cannot_tell():
    facts = drafting(level(1, 12.0, 1.7), k=None, speculation={"topk": fact(None)})
    assert isinstance(cfg001.check(facts, None), CannotTell)


# CFG002


@pytest.mark.parametrize(
    ("kind", "text", "frames", "confidence"),
    [
        ("argument_error", "self.speculative_num_draft_tokens is None", (), Confidence.HIGH),
        ("exception", "AssertionError", ("and self.speculative_num_draft_tokens is None",), Confidence.HIGH),
        ("argument_error", COMPARE, ('File "sglang/srt/server_args.py", line 901',), Confidence.HIGH),
        ("exception", COMPARE, ('File "sglang/srt/arg_groups/speculative_hook.py"',), Confidence.HIGH),
        ("argument_error", COMPARE, (), Confidence.MEDIUM),
        ("exception", COMPARE, (), Confidence.MEDIUM),
        ("argument_error", "AssertionError", (), Confidence.MEDIUM),
    ],
)
def test_half_a_set_of_arguments_is_recognised(kind, text, frames, confidence):
    facts = node(engine=None, tp=None, incidents=(incident(kind, text, frames=frames),))
    finding = found(cfg002.check(facts, None))
    assert finding.confidence is confidence
    assert finding.severity is Severity.CRITICAL
    assert "num_steps + 1" in finding.fix[1]
    assert bool(finding.rivals) is (confidence is Confidence.MEDIUM)
    assert isinstance(stb003.check(facts, None), Clear), "one cause, one finding"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("exception", "AssertionError"),
        ("exception", "TypeError: '<' not supported between instances of 'str' and 'int'"),
        ("argument_error", "ValueError: trtllm_mha backend only supports topk = 1 for speculative decoding."),
    ],
)
def test_other_errors_are_not_taken_for_it(kind, text):
    facts = node(incidents=(incident(kind, text),))
    assert isinstance(cfg002.check(facts, None), Clear)
    assert isinstance(stb003.check(facts, None), Finding), "someone has to tell of it"


def test_the_same_type_error_while_serving_is_another_matter():
    facts = node(incidents=(incident("exception", COMPARE),), windows=served())
    assert isinstance(cfg002.check(facts, None), Clear)


def test_vllm_has_other_arguments():
    facts = node(engine="vllm", incidents=(incident("exception", COMPARE),))
    assert isinstance(cfg002.check(facts, None), NotApplicable)
    assert isinstance(stb003.check(facts, None), Finding)


# CFG003


def test_a_short_drafter_stops_the_server_and_the_variable_is_named():
    finding = found(cfg003.check(node(incidents=(incident("context_length", CONTEXT),)), None))
    assert "The drafter is configured for 131,072 tokens of context, 262,144 are asked for" in finding.title
    assert "does not start" in finding.title
    assert "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1" in finding.fix[0]
    assert (finding.severity, finding.confidence) == (Severity.CRITICAL, Confidence.HIGH)


def test_a_server_that_runs_all_the_same_gets_the_caution_only():
    facts = node(incidents=(incident("context_length", CONTEXT),), windows=served())
    finding = found(cfg003.check(facts, None))
    assert finding.severity is Severity.WARNING
    assert "does not start" not in finding.title


def test_the_targets_own_limit_is_not_blamed_on_the_drafter():
    text = CONTEXT.replace("Target model's", "User-specified")
    finding = found(cfg003.check(node(incidents=(incident("context_length", text),)), None))
    assert finding.title.startswith("The model is configured")


def test_no_conflict_is_clear_and_the_same_error_is_not_told_twice():
    assert isinstance(cfg003.check(node(), None), Clear)
    twice = node(incidents=(incident("context_length", CONTEXT), incident("exception", "ValueError: " + CONTEXT)))
    assert isinstance(stb003.check(twice, None), Clear)
    assert isinstance(cfg003.check(run(level(1, 10.0)), None), NotApplicable)
    assert isinstance(cfg003.check(replace(run(level(1, 10.0)), incidents=twice.incidents), None), Finding)

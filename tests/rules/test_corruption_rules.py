"""ACC009: acceptance collapsed when another allreduce was switched on."""

from dataclasses import replace
from typing import Any

from tests.rules.builders import drafting, fact, level, run, setting
from tests.rules.node_builders import found, says
from traceana.facts.model import Facts, Parallelism
from traceana.rules import acc009_allreduce_corrupts_hidden_states as acc009
from traceana.rules.interface import CannotTell, Clear, Confidence, NotApplicable, Severity

FUSED = says("flashinfer_fusion", "on")


def served(tokens: float, cycle: float = 27.0, tp: int = 8, k: int = 3, **more: Any) -> Facts:
    facts = drafting(level(4, cycle, tokens, k), k=k, tokens=tokens, **more)
    return replace(facts, parallelism=Parallelism(tp=fact(tp)))


def test_a_collapse_at_the_same_cycle_beside_a_new_path_is_told():
    finding = found(acc009.check(served(1.18, 29.0, collectives=(FUSED,)), served(2.38)))
    assert "from 2.38 to 1.18" in finding.title
    assert "fused allreduce is on" in finding.title
    assert (finding.severity, finding.confidence) == (Severity.CRITICAL, Confidence.MEDIUM)


def test_an_argument_of_the_path_counts_as_a_difference():
    on, off = (setting("disable_custom_all_reduce", value) for value in (False, True))
    finding = found(acc009.check(served(1.18, settings=(on,)), served(2.38, settings=(off,))))
    assert "disable_custom_all_reduce is False, was True" in finding.title


def test_the_same_paths_another_cycle_or_a_smaller_loss_clear_it():
    assert isinstance(acc009.check(served(1.18), served(2.38)), Clear)
    assert isinstance(acc009.check(served(1.18, 60.0, collectives=(FUSED,)), served(2.38)), Clear)
    assert isinstance(acc009.check(served(2.1, collectives=(FUSED,)), served(2.38)), Clear)


def test_without_a_speculating_baseline_a_path_that_is_on_raises_the_question_only():
    assert isinstance(acc009.check(served(1.18, collectives=(FUSED,)), None), CannotTell)
    assert isinstance(acc009.check(served(1.18, collectives=(FUSED,)), run(level(4, 12.0))), CannotTell)
    assert isinstance(acc009.check(served(1.18), None), NotApplicable)


def test_one_gpu_and_other_drafts_are_not_compared():
    assert isinstance(acc009.check(served(1.18, tp=1, collectives=(FUSED,)), served(2.38)), NotApplicable)
    assert isinstance(acc009.check(served(1.18, k=1, collectives=(FUSED,)), served(2.38)), NotApplicable)

"""Weighing: what is stated stays what the rules stated; causes are ordered, sized and told apart."""

from __future__ import annotations

from dataclasses import replace

from tests.rules.builders import fact
from traceana.facts.model import Facts, Identity, Parallelism, PathStatement, Provenance
from traceana.rules.causes import cause_rows, settle_rows, symptom_rows
from traceana.rules.interface import CannotTell, Clear, Confidence, Explains, Finding, Outcome, Rule, Severity
from traceana.rules.registry import rules
from traceana.rules.weigh import FITS, OPEN, RULED_OUT, weigh

MISSING = Explains(4.0, 6.0, Provenance.DERIVED, "with minus without")
UNSEEN = CannotTell("no trace is among the inputs", "profile 100 cycles")


def _rule(code: str) -> Rule:
    return next(rule for rule in rules() if rule.code == code)


def _finding(code: str, confidence: Confidence, explains: Explains | None = None) -> Finding:
    return Finding(code, code, Severity.WARNING, confidence, "why", ("fix",), (), explains_ms_per_token=explains)


def _weigh(facts: Facts | None = None, **outcomes: Outcome):
    every = {"CYC002": _finding("CYC002", Confidence.HIGH, MISSING), **outcomes}
    (found,) = weigh(facts or Facts(inputs=()), [(_rule(code), outcome) for code, outcome in every.items()])
    return found


def test_the_table_names_rules_and_symptoms_that_exist():
    codes = {rule.code for rule in rules()}
    keys = {row.key for row in symptom_rows()}
    for row in symptom_rows():
        assert {*row.shown_by, *row.doubted_by} <= codes
    for cause in cause_rows():
        assert {cause.code, *cause.excludes, *cause.seen_in} <= codes
        assert cause.symptoms
        assert set(cause.symptoms) <= keys
    for settle in settle_rows():
        assert len(set(settle.between)) == 2
        assert {*settle.between, *settle.answers} <= codes
        assert len(settle.outcomes) >= 2


def test_a_run_without_a_symptom_is_not_weighed():
    assert weigh(Facts(inputs=()), [(_rule("GRF001"), _finding("GRF001", Confidence.HIGH))]) == ()


def test_found_causes_lead_open_ones_follow_and_clear_ones_are_ruled_out():
    found = _weigh(
        GRF001=_finding("GRF001", Confidence.MEDIUM), GRF002=UNSEEN, CYC004=Clear("no cliff between 4 and 64 tokens")
    )
    assert [(c.code, c.standing) for c in found.candidates] == [
        ("GRF001", FITS), ("GRF002", OPEN), ("CYC004", RULED_OUT),
    ]  # fmt: skip
    assert found.candidates[0].confidence == "medium"


def test_of_equally_sure_causes_the_one_that_explains_more_leads():
    small = Explains(0.2, 0.4, Provenance.DERIVED, "")
    large = Explains(3.0, 5.0, Provenance.DERIVED, "")
    found = _weigh(GRF001=_finding("GRF001", Confidence.HIGH, small), CYC004=_finding("CYC004", Confidence.HIGH, large))
    assert [c.code for c in found.candidates] == ["CYC004", "GRF001"]
    assert found.candidates[0].share == (0.6, 1.0)
    assert found.unexplained == (0.0, 3.0)  # together 3.0 to 5.4 of 4.0 to 6.0


def test_what_holds_without_speculation_too_comes_after_what_explains_the_difference():
    found = _weigh(COM001=_finding("COM001", Confidence.HIGH), GRF001=_finding("GRF001", Confidence.LOW))
    assert [c.code for c in found.candidates] == ["GRF001", "COM001"]


def test_a_cause_seen_from_another_side_is_no_rival():
    found = _weigh(COM003=_finding("COM003", Confidence.MEDIUM), COM006=_finding("COM006", Confidence.HIGH))
    assert [c.code for c in found.candidates] == ["COM003", "COM006"]


def test_one_sure_cause_needs_nothing_settled():
    assert _weigh(GRF001=_finding("GRF001", Confidence.HIGH), GRF002=UNSEEN).settle is None


def test_an_open_rival_names_the_observation_that_separates_it():
    found = _weigh(COM006=UNSEEN, COM007=UNSEEN)
    assert found.settle is not None
    assert found.settle.between == ("COM006", "COM007")


def test_an_observation_that_was_made_already_is_not_asked_for_again():
    # NCCL's log told that P2P is lost; what stays open needs a trace
    found = _weigh(COM003=_finding("COM003", Confidence.MEDIUM), GRF002=UNSEEN)
    assert found.settle is not None
    assert found.settle.how == UNSEEN.capture


def test_an_open_cause_has_a_size_only_where_a_model_carries_it():
    pcie = PathStatement("custom_allreduce", "off", "not supported on more than two PCIe-only GPUs", (0,), 1, None)  # type: ignore[arg-type]
    nccl = CannotTell("the log holds no NCCL lines", "NCCL_DEBUG=INFO")
    known = Facts(
        inputs=(),
        identity=Identity(model=fact("moonshotai/Kimi-K2.5")),
        parallelism=Parallelism(tp=fact(8)),
        collectives=(pcie,),
    )
    known = replace(known, acceptance=replace(known.acceptance, accept_length=fact(2.0)))
    (candidate,) = _weigh(known, COM003=nccl).candidates
    assert candidate.explains is not None
    assert candidate.explains.provenance is Provenance.MODELLED
    assert candidate.explains.high_ms == 83.0 * 122 / 1000 / 2.0
    for unknown in (
        replace(known, parallelism=Parallelism(tp=fact(4))),  # measured on eight ranks only
        replace(known, identity=Identity(model=fact("example-org/Tern-32B"))),
        replace(known, collectives=()),
    ):
        assert _weigh(unknown, COM003=nccl).candidates[0].explains is None


def test_communication_is_no_cause_on_one_gpu():
    alone = replace(Facts(inputs=()), parallelism=Parallelism(tp=fact(1)))
    assert _weigh(alone, COM006=UNSEEN, GRF002=UNSEEN).candidates[0].code == "GRF002"

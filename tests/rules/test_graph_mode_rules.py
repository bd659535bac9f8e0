"""GRF004: vLLM's graph mode leaves the verify's attention outside."""

from dataclasses import replace

from tests.rules.builders import drafting, fact, graphs, level, run, spread
from traceana.facts.model import Fact, Facts, GraphFacts, Startup
from traceana.rules import grf004_verify_attention_outside_graph as grf004
from traceana.rules.interface import CannotTell, Clear, Confidence, Finding, NotApplicable, Severity


def mode(name: str | None, reason: str | None = None) -> GraphFacts:
    return GraphFacts(without_attention=fact(name, 19) if name else Fact(reason=reason))


def verifying(name: str | None, **more: object) -> Facts:
    return drafting(level(8, 20.0, 2.6, 3), engine="vllm", graphs=mode(name), **more)


def test_piecewise_alone_says_the_mode_and_not_its_cost():
    finding = grf004.check(verifying("PIECEWISE"), None)
    assert isinstance(finding, Finding)
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.LOW)
    assert finding.explains_ms_per_token is None
    assert "not known" in finding.why


def test_a_cycle_that_grows_with_the_context_makes_it_a_warning():
    short, long = (replace(level(8, ms, 2.6, 3), context_tokens=spread(c)) for ms, c in ((20.0, 2000), (40.0, 30000)))
    finding = grf004.check(verifying("PIECEWISE", context_regimes=(short, long)), None)
    assert isinstance(finding, Finding)
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert "from 20.0 ms to 40.0 ms" in finding.why


def test_a_run_without_speculation_has_no_verify():
    assert isinstance(grf004.check(run(level(8, 20.0), engine="vllm", graphs=mode("PIECEWISE")), None), NotApplicable)


def test_a_full_mode_is_clear_and_a_late_log_cannot_tell():
    full = drafting(level(8, 20.0, 2.6, 3), engine="vllm", graphs=mode(None, "cudagraph_mode is FULL_AND_PIECEWISE"))
    assert isinstance(grf004.check(full, None), Clear)
    late = drafting(level(8, 20.0, 2.6, 3), engine="vllm", graphs=mode(None, "no line names cudagraph_mode"))
    assert isinstance(grf004.check(late, None), CannotTell)
    begun = replace(late, startup=Startup(ready=Fact(reason="no time on that line")), graphs=graphs(captured_max=64))
    assert isinstance(grf004.check(begun, None), CannotTell), "whether the server became ready is not known"

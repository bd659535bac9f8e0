"""What is known of engine releases: the table holds together, and findings say what it means for the run."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tests.rules.builders import at, drafting, fact, level, setting
from traceana.api_compare import compare
from traceana.facts.model import Evidence, Facts
from traceana.rules.interface import Confidence, Finding, Severity
from traceana.rules.known_bugs import KnownBug, between_releases, bugs_of, known_bugs, with_known_bugs
from traceana.rules.registry import rules

HICACHE = setting("enable_hierarchical_cache", True)


def finding(code: str, *evidence: Evidence) -> Finding:
    return Finding(code, "a title", Severity.WARNING, Confidence.LOW, "Why.", ("a fix",), evidence)


def run(engine: str, version: str | None = None, lines_of: str | None = None, *settings) -> Facts:
    facts = drafting(level(4, 15.0, 2.5, 3), engine=engine, settings=settings)
    return replace(facts, identity=replace(facts.identity, version=fact(version), version_range=lines_of))


@pytest.fixture(params=known_bugs(), ids=lambda bug: f"{bug.engine}-{bug.rules[0]}-{bug.versions}")
def bug(request) -> KnownBug:
    return request.param


def test_a_row_names_rules_of_its_engine_and_says_how_it_is_known(bug: KnownBug):
    by_code = {rule.code: rule for rule in rules()}
    assert bug.rules
    for code in bug.rules:
        assert bug.engine in by_code[code].engines
    assert len(bug.checked) > 20
    assert bug.upstream
    assert not bug.what.endswith(".")
    assert all(text == text.lower() for text in bug.texts)


def test_the_releases_with_the_bug_end_where_it_is_fixed(bug: KnownBug):
    specifiers = SpecifierSet(bug.versions)
    if bug.fixed:
        assert Version(bug.fixed) not in specifiers
        assert any(spec.operator == "==" or spec.version == bug.fixed for spec in specifiers)
    else:
        assert any(spec.operator == "<=" for spec in specifiers), "an open end must be the last release that was read"


def test_a_release_with_the_bug_is_told_with_the_one_that_fixes_it():
    told = with_known_bugs(finding("ACC010"), run("sglang", "0.5.9", None, HICACHE))
    assert (
        "You run sglang 0.5.9, in which HiCache stores and loads back the target's KV and not the draft's" in told.why
    )
    assert "fixed in 0.5.11 (PR 21125, issue 16964)" in told.why
    assert told.fix == ("a fix", "update sglang to 0.5.11 or newer (PR 21125, issue 16964)")
    assert told.why.startswith("Why. ")


def test_a_release_behind_the_fix_says_that_this_is_not_it():
    told = with_known_bugs(finding("GRF003"), run("vllm", "0.20.2"))
    assert told.why == (
        "Why. Fixed in vllm 0.20.2, and so not it: the EAGLE head runs without a CUDA graph (PR 25109, after PR 20059)."
    )
    assert told.fix == ("a fix",)


def test_what_no_release_fixes_is_told_without_an_update():
    told = with_known_bugs(finding("ACC001"), run("sglang", "0.5.14"))
    assert "not fixed in any release read" in told.why
    assert told.fix == ("a fix",)


def test_of_releases_newer_than_those_read_nothing_is_said():
    assert with_known_bugs(finding("ACC001"), run("sglang", "0.7.0")) == finding("ACC001")


@pytest.mark.parametrize("version", [None, "trunk"])
def test_without_a_release_nothing_is_said(version: str | None):
    assert with_known_bugs(finding("ACC010"), run("sglang", version, None, HICACHE)) == finding("ACC010")


def test_another_engine_s_bugs_do_not_count():
    assert with_known_bugs(finding("GRF003"), run("sglang", "0.5.9")).why == (
        "Why. Fixed in sglang 0.5.9, and so not it: the draft's extend pass has no CUDA graph "
        "(speculative/eagle_draft_extend_cuda_graph_runner.py)."
    )


def test_a_setting_that_contradicts_the_bug_leaves_it_out_and_an_unseen_one_is_named():
    off = with_known_bugs(finding("ACC006"), run("sglang", "0.5.9", None, setting("enable_hierarchical_cache", False)))
    assert off == finding("ACC006")
    unseen = with_known_bugs(finding("ACC006"), run("sglang", "0.5.9"))
    assert "(with enable_hierarchical_cache=True, which the log does not show)" in unseen.why


def test_a_bug_of_one_text_needs_that_text():
    facts = run("vllm", "0.24.0")
    assert with_known_bugs(finding("STB003"), facts) == finding("STB003")
    died = finding("STB003", Evidence("server.log", 9, text="CUDA error: an illegal memory access was encountered"))
    told = with_known_bugs(died, facts)
    assert "max_position_embeddings" in told.why
    assert "update vllm to 0.27.0 or newer (issue 48894, PR 49343)" in told.fix


def test_lines_that_only_tell_a_range_say_what_holds_for_all_of_it():
    told = with_known_bugs(finding("ACC010"), run("sglang", None, "0.5.9 to 0.5.10.post1", HICACHE))
    assert "You run sglang 0.5.9 to 0.5.10.post1, in which HiCache stores" in told.why
    assert "update sglang to 0.5.11 or newer (PR 21125, issue 16964)" in told.fix


def test_a_range_that_only_partly_has_the_bug_says_so():
    told = with_known_bugs(finding("ACC010"), run("sglang", None, "0.5.11 or later", HICACHE))
    assert (
        "The log does not name the release (its lines are of 0.5.11 or later): before 0.5.18 HiCache leaves" in told.why
    )
    assert "update sglang if it is older than 0.5.18 (PR 30393)" in told.fix
    assert "fixed in sglang 0.5.11 or later, and so are not it: PR 10846, PR 11231, PR 21125, issue 16964" in told.why
    old = with_known_bugs(finding("ACC010"), run("sglang", None, "0.4.6 or earlier", HICACHE))
    assert "are not it" not in old.why
    assert "before 0.5.3 the radix cache reuses one token too many" in old.why


def test_a_development_build_counts_as_its_release_and_is_not_cleared_for_sure():
    told = with_known_bugs(finding("GRF003"), run("vllm", "0.20.2rc1.dev249+fork"))
    assert "vllm 0.20.2, and so not it, if this build has that release's code" in told.why


def test_every_rule_with_a_bug_can_be_looked_up():
    assert {bug.what for bug in bugs_of("STB003")} >= {bug.what for bug in known_bugs() if "STB003" in bug.rules}
    assert bugs_of("CYC001") == ()


def test_the_registry_adds_it_to_what_rules_find(monkeypatch: pytest.MonkeyPatch):
    from traceana.rules import registry

    rule = next(rule for rule in rules() if rule.code == "ACC010")
    monkeypatch.setattr(
        registry, "rules", lambda: (replace(rule, check=lambda facts, baseline: finding("ACC010", at(1))),)
    )
    ((_, outcome),) = registry.run_all(run("sglang", "0.5.9", None, HICACHE))
    assert isinstance(outcome, Finding)
    assert "fixed in 0.5.11" in outcome.why


def test_two_releases_differ_in_the_bugs_between_them():
    graphs = setting("enforce_eager", False)
    told = between_releases(run("vllm", "0.17.1", None, graphs), run("vllm", "0.24.0", None, graphs))
    assert any(said.startswith("no longer in the second: cudagraph_mode FULL") and "GRF001" in said for said in told)
    assert any(said.startswith("only in the second: model runner V2") for said in told)
    assert not any("TRITON_MLA" in said for said in told), "nothing says that this backend ran"
    assert not any("STB003" in said for said in told), "a crash is no change of speed"
    eager = setting("enforce_eager", True)
    assert not any(
        "GRF" in said for said in between_releases(run("vllm", "0.17.1", None, eager), run("vllm", "0.24.0"))
    )


def test_the_same_release_unknown_ones_and_other_engines_have_nothing_between_them():
    assert between_releases(run("vllm", "0.20.2"), run("vllm", "0.20.2")) == ()
    assert between_releases(run("vllm", None), run("vllm", "0.20.2")) == ()
    assert between_releases(run("vllm", "0.20.2"), run("sglang", "0.5.9")) == ()


def test_a_comparison_of_two_releases_tells_them(tmp_path: Path):
    log = (Path(__file__).parents[2] / "fixtures" / "rules" / "GRF004" / "healthy").glob("*.log").__next__().read_text()
    sides = []
    for version in ("0.17.1", "0.24.0"):
        path = tmp_path / f"{version}.log"
        path.write_text(re.sub(r"\(v[\d.]+\)", f"(v{version})", log))
        sides.append([[(str(path), None)]])
    report, _ = compare(sides)
    (row,) = [d for d in report.pairs[0].differences if d.what == "engine version"]
    assert "no longer in the second: cudagraph_mode FULL" in row.why

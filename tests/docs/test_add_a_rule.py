"""The template of docs/add-a-rule.md is a rule: it is found, explained, and fires on a log as the page says."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, template, text_of
from traceana import api
from traceana import rules as package
from traceana.cli.explain import as_markdown, find_rule
from traceana.report.text import FAMILIES
from traceana.rules import registry
from traceana.rules.interface import Rule

PAGE = DOCS / "add-a-rule.md"
MODULE = "stb900_kernels_compiled_while_serving"
HEALTHY = ROOT / "fixtures" / "rules" / "STB003" / "healthy" / "vllm_alive.log"
WARNING = (
    "(Worker_TP0 pid=42) WARNING 02-03 09:20:0{n} [jit_monitor.py:107] Triton kernel JIT compilation during inference: "
    "eagle_prepare_inputs_padded_kernel. This causes a latency spike; consider extending warmup to cover this shape/config.\n"
)


@pytest.fixture
def rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rule]:
    """The page's rule, in the catalogue for the length of a test."""
    (tmp_path / f"{MODULE}.py").write_text(template(PAGE, "rule"))
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    registry.rules.cache_clear()
    yield find_rule("STB900")
    sys.modules.pop(f"{package.__name__}.{MODULE}")
    delattr(package, MODULE)
    registry.rules.cache_clear()


def test_the_rule_is_found_by_its_file_name_and_explained(rule: Rule) -> None:
    assert f"`{MODULE}.py`" in text_of(PAGE)
    assert f"{rule.code.lower()}_{rule.name.replace('-', '_')}" == MODULE
    assert rule in registry.rules()
    assert tuple(registry.doc(rule).sections) == registry.HEADINGS
    assert "| few | 1 warnings |" in as_markdown(rule)


def test_it_fires_on_a_log_with_the_cause_and_not_on_its_twin(rule: Rule, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(HEALTHY.read_text() + "".join(WARNING.format(n=n) for n in range(3)))
    (finding,) = [f for f in api.diagnose([str(log)]).findings if f.code == rule.code]
    assert finding.title == "3 kernels compiled while requests were being served"
    assert finding.evidence
    twin = api.diagnose([str(HEALTHY)])
    assert twin.findings == ()
    assert rule.code in twin.clear


def test_it_says_what_to_capture_when_it_cannot_tell(rule: Rule, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(WARNING.format(n=1))
    (entry,) = [entry for entry in api.diagnose([str(log)]).not_checked if rule.code in entry.codes]
    assert entry.capture == "keep the log while requests are served"


def test_the_page_names_every_family() -> None:
    for code, name in FAMILIES.items():
        assert f"{code} {name}" in text_of(PAGE).replace("\n", " ")

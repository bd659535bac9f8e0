"""Generated pages and shown outputs are what the program says now."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.pages import DOCS, ROOT, text_of
from traceana import __version__, api


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wanted(generate: ModuleType) -> dict[Path, str]:
    return generate.pages()


def test_no_page_is_stale(wanted: dict[Path, str]) -> None:
    stale = [str(path.relative_to(ROOT)) for path, text in wanted.items() if not path.exists() or text_of(path) != text]
    assert not stale, f"run python docs/generate.py: {', '.join(stale)}"


def test_the_readme_shows_the_diagnosis_that_its_command_gives(wanted: dict[Path, str]) -> None:
    page = wanted[ROOT / "README.md"]
    command = next(line for line in page.splitlines() if line.startswith("python3 -m venv") and "diagnose" in line)
    shown = "traceana diagnose" + command.partition("traceana diagnose")[2]
    assert f"\n$ {shown}\n" in page
    assert "Verdict  Speculation pays" in page
    block = page.split(f"$ {shown}\n")[1].split("```")[0]
    assert max(map(len, block.splitlines())) <= 100


def test_a_page_of_a_rule_that_is_gone_is_stale(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "DOCS", tmp_path / "docs")
    assert generate.main(["--check"]) == 1
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    (tmp_path / "docs" / "rules" / "OLD001.md").write_text("# gone\n")
    assert generate.main(["--check"]) == 1
    assert "OLD001.md is stale" in capsys.readouterr().err
    assert generate.main([]) == 0
    assert not (tmp_path / "docs" / "rules" / "OLD001.md").exists()


def test_an_output_is_replaced_and_the_rest_of_the_page_kept(generate: ModuleType) -> None:
    page = "before\n<!-- output: traceana --version -->\nold\n<!-- end -->\nafter\n<!-- test-command -->\nx\n<!-- end -->\n"
    assert generate.refreshed(page) == (
        "before\n<!-- output: traceana --version -->\n```text\n$ traceana --version\n"
        f"traceana {__version__}\n```\n<!-- end -->\nafter\n<!-- test-command -->\nx\n<!-- end -->\n"
    )


def test_only_traceana_is_run_for_a_page(generate: ModuleType) -> None:
    with pytest.raises(ValueError, match="only traceana"):
        generate.output_of("rm -rf x")


def test_the_demo_has_the_answer_that_its_readme_states() -> None:
    demo = ROOT / "fixtures" / "demo"
    found = api.diagnose([str(demo / "server.log")], [str(demo / "plain.log")])
    assert [finding.code for finding in found.findings] == ["GRF001", "CYC002"]
    assert {level.running: level.speedup > 1 for level in found.levels} == {1: True, 4: True, 8: True, 16: False}
    assert all(entry.unread == 0 for entry in (*found.inputs, *found.baseline.inputs))
    assert "1, 4 and 8 running" in text_of(ROOT / "fixtures" / "README.md")

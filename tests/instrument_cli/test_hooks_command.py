"""`traceana instrument hooks`: what of an installed engine is timed, read from its source and never imported."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.instrument_cli.asking import command
from traceana.environment.hooks import tables
from traceana_instrument.hook import Hook


def install(folder: Path, engine: str, version: str | None, leave_out: str = "") -> Path:
    """A site-packages folder whose source defines every method that the table claims for this version."""
    from traceana.environment.hooks import claims

    classes: dict[str, dict[str, set[str]]] = {}
    for hook in tables()[engine].HOOKS:
        if version is None or claims(hook.versions, version):
            wanted = {hook.method, *hook.enders} - {leave_out}
            classes.setdefault(hook.module, {}).setdefault(hook.owner, set()).update(wanted)
    for module, members in classes.items():
        path = folder.joinpath(*module.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        bodies = ["raise RuntimeError('this must never be imported')\n"]
        for name, methods in members.items():
            lines = [f"    def {method}(self): ...\n" for method in sorted(methods)] or ["    pass\n"]
            bodies.append(f"class {name}:\n{''.join(lines)}")
        path.write_text("".join(bodies))
    (folder / engine).mkdir(exist_ok=True)
    (folder / engine / "__init__.py").write_text("raise RuntimeError('this must never be imported')\n")
    if version:
        (folder / f"{engine}-{version}.dist-info").mkdir()
        (folder / f"{engine}-{version}.dist-info" / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {engine}\nVersion: {version}\n\nText\n"
        )
    return folder


def hooks(path: Path) -> dict[str, Any]:
    code, out, error = command("instrument", "hooks", "--engine-path", path, "--format", "json")
    assert code == 0, error
    document = json.loads(out)
    assert document["schema"] == "traceana/hooks/1"
    return dict(document["engines"][0])


def phase(found: dict[str, Any], name: str) -> dict[str, Any]:
    return dict(next(row for row in found["phases"] if row["phase"] == name))


@pytest.mark.parametrize(
    ("engine", "version", "method"),
    [("sglang", "0.5.9", "EAGLE3"), ("sglang", "0.5.23", "EAGLE3"), ("vllm", "0.32.0", "eagle3")],
)
def test_a_release_that_was_read_has_all_of_its_hooks(tmp_path: Path, engine: str, version: str, method: str) -> None:
    found = hooks(install(tmp_path, engine, version))
    assert (found["engine"], found["version"], found["known"]) == (engine, version, True)
    assert all(row["missing"] == 0 and row["present"] > 0 for row in found["phases"])
    assert set(found["methods"][method].values()) == {"yes"}


def test_a_missing_method_is_named_with_what_the_report_loses(tmp_path: Path) -> None:
    path = install(tmp_path, "sglang", "0.5.23", leave_out="_draft_extend_for_decode")
    found = hooks(path)
    assert found["methods"]["EAGLE3"]["re_extend"] == "no"
    assert found["methods"]["EAGLE3"]["verify"] == "yes"
    assert phase(found, "re_extend")["missing"] >= 1
    _, text, _ = command("instrument", "hooks", "--engine-path", path)
    assert "missing: EagleDraftWorker._draft_extend_for_decode" in text
    text = " ".join(text.split())
    assert "the drafter's catch-up is not timed apart" in text


def test_an_engine_without_any_verify_hook_gets_no_line_and_is_told_so(tmp_path: Path) -> None:
    path = install(tmp_path, "sglang", "0.5.1", leave_out="verify")
    for method in ("forward_batch_generation",):
        file = path / "sglang" / "srt" / "managers" / "tp_worker.py"
        file.write_text(file.read_text().replace(method, "renamed"))
    assert phase(hooks(path), "verify")["lost"].startswith("no EAGLE3_PROFILE line")


@pytest.mark.parametrize("version", ["0.9.0", "0.5.24.dev1+gabc"])
def test_a_version_that_was_never_read_is_said_to_be_one(tmp_path: Path, version: str) -> None:
    path = install(tmp_path, "sglang", version)
    assert hooks(path)["known"] is False
    _, text, _ = command("instrument", "hooks", "--engine-path", path)
    assert "not among the releases that were read" in text


def test_an_engine_without_metadata_is_read_all_the_same(tmp_path: Path) -> None:
    found = hooks(install(tmp_path, "vllm", None))
    assert (found["version"], found["known"]) == (None, None)
    assert phase(found, "cycle")["present"] > 0


def test_a_module_that_is_not_python_has_no_hooks_and_stops_nothing(tmp_path: Path) -> None:
    path = install(tmp_path, "sglang", "0.5.23")
    (path / "sglang" / "srt" / "speculative" / "eagle_worker_v2.py").write_bytes(b"\0\xff def (((")
    found = hooks(path)
    assert found["methods"]["EAGLE3"]["draft"] == "no"
    assert found["methods"]["NGRAM"]["cycle"] == "yes"


def test_a_virtual_environment_or_the_package_itself_will_do(tmp_path: Path) -> None:
    packages = tmp_path / "venv" / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    install(packages, "vllm", "0.32.0")
    for path in (tmp_path / "venv", packages, packages / "vllm"):
        assert hooks(path)["version"] == "0.32.0"


def test_a_folder_without_an_engine_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        code, out, error = command("instrument", "hooks", "--engine-path", path)
        assert (code, out) == (2, "")
        assert str(path) in error


def test_hostile_metadata_is_harmless(tmp_path: Path) -> None:
    path = install(tmp_path, "sglang", "0.5.23")
    (path / "sglang-0.5.23.dist-info" / "METADATA").write_bytes(b"Version: \x1b[31m0.5.23\n")
    _, text, _ = command("instrument", "hooks", "--engine-path", path)
    assert "\x1b" not in text


def test_every_line_fits_the_terminal(tmp_path: Path) -> None:
    path = install(tmp_path, "sglang", "0.5.23")
    for width in (80, 160):
        _, text, _ = command("instrument", "hooks", "--engine-path", path, width=width)
        assert max(map(len, text.splitlines())) <= width


def test_the_hook_of_a_row_names_its_class_and_method() -> None:
    hook = Hook("m", "Runner.execute", "cycle", "0.1..", before="a, b")
    assert (hook.owner, hook.method, hook.enders) == ("Runner", "execute", ("a", "b"))

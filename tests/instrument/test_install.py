"""The timers in processes of their own: switched off nothing is there, switched on they are, whatever starts what."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.instrument.engine import HOOKS, MODULE, Clock, install, make_worker
from traceana_instrument.hook import Hook, expected
from traceana_instrument.install import Installed, _AfterImport
from traceana_instrument.settings import Settings
from traceana_instrument.state import State

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "instrument" / "traceana_instrument"
BOOTSTRAP = PACKAGE / "bootstrap"

#: a toy vLLM: the modules, classes and methods of a table, doing nothing for a given time
ENGINE = {
    "vllm/__init__.py": "__version__ = '0.32.0'\n",
    "vllm/v1/__init__.py": "",
    "vllm/v1/worker/__init__.py": "",
    "vllm/v1/worker/gpu_model_runner.py": """
import time
from types import SimpleNamespace

class GPUModelRunner:
    def __init__(self):
        self.speculative_config = SimpleNamespace(method="eagle3", num_speculative_tokens=3)
    def execute_model(self, scheduler_output, intermediate_tensors=None):
        time.sleep(0.002)
    def sample_tokens(self, grammar_output=None):
        self._sample()
        self.propose_draft_token_ids()
        return SimpleNamespace(req_ids=["a"], sampled_token_ids=[[1, 2]])
    def _sample(self):
        pass
    def propose_draft_token_ids(self):
        time.sleep(0.001)
""",
    "toy.py": """
from types import SimpleNamespace

def serve(steps):
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner
    runner = GPUModelRunner()
    for _ in range(steps):
        runner.execute_model(SimpleNamespace(
            scheduled_spec_decode_tokens={"a": [7, 8, 9]}, scheduled_new_reqs=[], num_scheduled_tokens={"a": 4},
            total_num_scheduled_tokens=4))
        runner.sample_tokens()
""",
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the toy engine, for PYTHONPATH."""
    folder = tmp_path / "site"
    for name, text in ENGINE.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def python(
    site: Path, code: str, *, executable: str = sys.executable, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run code in a new process with the bootstrap folder first on its path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "EAGLE3_"))}
    path = f"{BOOTSTRAP}{os.pathsep}{site}"
    return subprocess.run(
        [executable, "-c", code],
        env={**kept, "PYTHONPATH": path, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        cwd=site,
        check=False,
    )


def lines(text: str, word: str = "EAGLE3_PROFILE") -> list[dict]:
    return [json.loads(found) for found in re.findall(rf"{word} (\{{.*\}})", text)]


def test_without_the_switch_nothing_is_imported_and_nothing_is_wrapped(site: Path) -> None:
    code = """
import sys, toy
toy.serve(1)
from vllm.v1.worker.gpu_model_runner import GPUModelRunner
print([m for m in sys.modules if m.startswith("traceana")], len(sys.meta_path), hasattr(GPUModelRunner.execute_model, "__wrapped__"))
"""
    plain = subprocess.run(
        [sys.executable, "-c", "import sys; print(len(sys.meta_path))"], capture_output=True, text=True, check=True
    )
    for value in ({}, {"EAGLE3_PROFILE": "0"}, {"EAGLE3_PROFILE": ""}):
        done = python(site, code, **value)
        assert done.stdout.split() == ["[]", plain.stdout.strip(), "False"], done.stderr
        assert done.stderr == ""


def test_with_the_switch_a_process_says_what_it_times_and_prints_its_cycles(site: Path) -> None:
    done = python(site, "import toy; toy.serve(30)", EAGLE3_PROFILE="1", NCCL_PROTO="LL", EAGLE3_PROFILE_CYCLES="10")
    (start,) = lines(done.stderr, "EAGLE3_PROFILE_START")
    assert (start["engine"], start["version"], start["rank"], start["method"], start["k"]) == (
        "vllm",
        "0.32.0",
        0,
        "eagle3",
        3,
    )
    assert start["env"]["NCCL_PROTO"] == "LL"
    assert "worker.gpu_model_runner.GPUModelRunner.execute_model:verify" in start["hooks"]
    assert any(
        "AsyncGPUModelRunnerOutput.get_output" in text for text in start["missing"]
    )  # this version should have it
    assert not any("generate_draft_token_ids" in text for text in start["missing"])  # only older ones had it
    found = lines(done.stderr)
    assert sum(line["cycles"] for line in found) == 30
    assert all(line["verify_ms"] >= 2 and line["draft_ms"] >= 1 and line["accept_length"] == 2 for line in found)


def test_the_engine_sees_its_own_methods_by_name_and_signature(site: Path) -> None:
    code = """
import inspect
from vllm.v1.worker.gpu_model_runner import GPUModelRunner as R
print(R.execute_model.__name__, list(inspect.signature(R.execute_model).parameters))
"""
    done = python(site, code, EAGLE3_PROFILE="1")
    assert done.stdout.strip() == "execute_model ['self', 'scheduler_output', 'intermediate_tensors']"


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_children_of_every_kind_are_timed(site: Path, tmp_path: Path, method: str) -> None:
    script = tmp_path / "main.py"
    script.write_text(
        "import multiprocessing, toy\n"
        "if __name__ == '__main__':\n"
        f"    context = multiprocessing.get_context({method!r})\n"
        "    toy.serve(2)\n"
        "    children = [context.Process(target=toy.serve, args=(10,)) for _ in range(2)]\n"
        "    [child.start() for child in children]\n"
        "    [child.join() for child in children]\n"
    )
    code = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    done = python(site, code, EAGLE3_PROFILE="1", EAGLE3_PROFILE_CYCLES="1000")
    starts = lines(done.stderr, "EAGLE3_PROFILE_START")
    assert len({start["pid"] for start in starts}) == 3, done.stderr
    assert len({start["switch"] for start in starts}) == 1  # children share the parent's switch
    assert sorted(line["cycles"] for line in lines(done.stderr)) == [2, 10, 10], done.stderr
    assert not Path(starts[0]["switch"]).exists()  # and it is gone with its maker


def test_a_forked_child_that_exits_leaves_its_parents_switch(site: Path) -> None:
    code = """
import os, sys, toy
toy.serve(1)
pid = os.fork()
if pid == 0:
    sys.exit(0)
os.waitpid(pid, 0)
print(os.path.exists(os.environ["EAGLE3_PROFILE_SWITCH"]))
"""
    assert python(site, code, EAGLE3_PROFILE="1").stdout == "True\n"


def test_a_sitecustomize_of_the_users_still_runs(site: Path) -> None:
    (site / "sitecustomize.py").write_text("import sys\nsys.users_own = __file__\n")
    for value in ({}, {"EAGLE3_PROFILE": "1"}):
        done = python(site, "import sys; print(sys.users_own, sys.modules['sitecustomize'].__file__)", **value)
        assert done.stdout.split() == [str(site / "sitecustomize.py")] * 2, done.stderr


def test_a_sitecustomize_of_the_users_that_fails_does_what_it_did_before(site: Path) -> None:
    (site / "sitecustomize.py").write_text("raise RuntimeError('mine')\n")
    done = python(site, "print('runs')", EAGLE3_PROFILE="1")
    assert done.stdout == "runs\n" and "mine" in done.stderr


def test_the_packages_neighbours_do_not_appear_in_the_server(site: Path) -> None:
    code = """
import sys, importlib.util
import toy; toy.serve(1)
print([name for name in ("traceana", "traceana_parsers") if importlib.util.find_spec(name)], "polars" in sys.modules)
"""
    done = python(site, code, executable=_bare_python(), EAGLE3_PROFILE="1")
    assert done.stdout.strip() == "[] False", done.stderr


def _bare_python() -> str:
    """The interpreter without the packages of its venv."""
    return os.path.realpath(sys.executable)


def test_a_module_that_fails_to_import_fails_as_before(site: Path) -> None:
    (site / "vllm/v1/worker/gpu_model_runner.py").write_text("raise ImportError('no such kernel')\n")
    done = python(site, "import vllm.v1.worker.gpu_model_runner", EAGLE3_PROFILE="1")
    assert done.returncode == 1 and "ImportError: no such kernel" in done.stderr


def test_an_engine_that_looks_all_different_runs_on(site: Path) -> None:
    (site / "vllm/v1/worker/gpu_model_runner.py").write_text("class Renamed:\n    pass\nGPUModelRunner = 7\n")
    done = python(site, "import vllm.v1.worker.gpu_model_runner; print('runs')", EAGLE3_PROFILE="comm")
    assert (done.stdout, done.returncode) == ("runs\n", 0)


def test_installing_twice_wraps_once(site: Path) -> None:
    code = """
from traceana_instrument.plugin import register
register(); register()
from vllm.v1.worker.gpu_model_runner import GPUModelRunner as R
depth, method = 0, R._sample
while hasattr(method, "__wrapped__"):
    depth, method = depth + 1, method.__wrapped__
print(depth)
"""
    assert python(site, code, EAGLE3_PROFILE="1").stdout == "1\n"


def test_modules_that_are_loaded_already_are_wrapped_too(site: Path) -> None:
    code = """
import os, vllm.v1.worker.gpu_model_runner
os.environ["EAGLE3_PROFILE"] = "1"
import sys
sys.path.insert(0, os.environ["PACKAGES"])
from traceana_instrument.plugin import register
register()
print(hasattr(vllm.v1.worker.gpu_model_runner.GPUModelRunner._sample, "__wrapped__"))
"""
    assert python(site, code, PACKAGES=str(PACKAGE.parent)).stdout == "True\n"


def test_a_class_is_wrapped_where_it_is_defined_not_where_it_is_imported(clock: Clock) -> None:
    worker = make_worker(clock)
    worker.__module__ = "toyengine.elsewhere"
    _, installed = install(clock, worker)
    assert {why for _, why in installed.missing} == {"not in this version"}


def test_import_hooks_of_others_still_find_the_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A finder before ours and one behind it both answer; ours asks each once and adds nothing."""
    (tmp_path / "toyengine").mkdir()
    (tmp_path / "toyengine" / "__init__.py").write_text("")
    (tmp_path / "toyengine" / "worker.py").write_text("class Worker:\n    def draft(self): return 1\n")
    state = State(Settings(on=True))
    state.started = True
    finder = _AfterImport(Installed(state, [Hook(MODULE, "Worker.draft", "draft", "1.0..")]))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path, finder])
    import importlib

    module = importlib.import_module(MODULE)
    try:
        assert module.Worker().draft() == 1 and hasattr(module.Worker.draft, "__wrapped__")
        assert type(module.__loader__).__name__ == "SourceFileLoader"
        assert importlib.util.find_spec("toyengine.nothing") is None
    finally:
        for name in (MODULE, "toyengine"):
            sys.modules.pop(name, None)


def test_the_entry_points_are_declared_and_name_a_function_that_is_there() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert points == {
        group: {"traceana": "traceana_instrument.plugin:register"}
        for group in ("sglang.srt.plugins", "vllm.general_plugins")
    }
    from traceana_instrument.plugin import register

    assert callable(register)


def test_an_entry_point_without_the_switch_imports_only_itself(site: Path) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(PACKAGE.parent)!r})
from traceana_instrument.plugin import register
register()
print(sorted(name for name in sys.modules if name.startswith("traceana")))
"""
    assert python(site, code).stdout.strip() == "['traceana_instrument', 'traceana_instrument.plugin']"


# ---- the language and the library


SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_sources_are_python_3_9_and_import_only_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    names = set()
    for node in ast.walk(tree):
        assert not isinstance(node, getattr(ast, "Match", ())), "match is Python 3.10"
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    assert names <= {*sys.stdlib_module_names, "traceana_instrument", "nvtx", "sitecustomize"}
    if "nvtx" in names:  # tried inside a function, never needed
        assert not any(
            isinstance(node, (ast.Import, ast.ImportFrom)) and "nvtx" in ast.unparse(node) for node in tree.body
        )


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
def test_other_pythons_run_it(site: Path, version: str) -> None:
    # the shims of pyenv may be there without the version behind them
    places = [
        shutil.which(f"python{version}"),
        *sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))),
    ]
    runs = (
        place
        for place in places
        if place and not subprocess.run([place, "-c", ""], capture_output=True, check=False).returncode
    )
    found = next(runs, None)
    if found is None:
        pytest.skip(f"no Python {version} here")
    done = python(site, "import toy; toy.serve(5)", executable=found, EAGLE3_PROFILE="comm", EAGLE3_PROFILE_CYCLES="5")
    assert done.returncode == 0
    assert [line["cycles"] for line in lines(done.stderr)] == [5], done.stderr


@pytest.mark.parametrize(
    ("versions", "version", "answer"),
    [
        ("0.4.6..0.5.12", "0.5.3.post3", True), ("0.4.6..0.5.12", "0.5.13", False), ("0.5.13..", "0.5.12", False),
        ("0.5.13..", "1.2", True), ("0.31.0", "0.31.0+cpu", True), ("0.31.0", "0.32.0", False),
        ("0.4.6..0.5.2, 0.5.9..", "0.5.4", False), ("0.5.9..", None, True),
    ],
)  # fmt: skip
def test_a_row_is_expected_in_the_versions_it_claims(versions: str, version: str | None, answer: bool) -> None:
    assert expected(HOOKS[0]._replace(versions=versions), version) is answer

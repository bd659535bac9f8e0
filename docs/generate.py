"""Writes the generated pages: `python docs/generate.py`; with `--check` it only says which are stale (exit code 1).

Generated as a whole: docs/tables.md from the table schemas, docs/rules/ from the docstrings of the rules. Refreshed in
place: what stands between `<!-- output: COMMAND -->` and `<!-- end -->` in README.md and the other pages of docs/.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from traceana.cli.explain import as_markdown, needs
from traceana.report.text import FAMILIES
from traceana.rules.interface import Rule
from traceana.rules.known_bugs import known_bugs
from traceana.rules.registry import doc, rules
from traceana.store.tables import ATTRIBUTION_TABLES, STORED
from traceana_parsers.schema import Column
from traceana_parsers.tables.bench import BENCH_TABLES
from traceana_parsers.tables.logs import LOG_TABLES
from traceana_parsers.tables.models import MODEL_TABLES
from traceana_parsers.tables.traces import TRACE_TABLES

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
#: columns that the shown outputs are drawn for
WIDTH = 100

_HEAD = "<!-- written by docs/generate.py; do not edit -->\n\n"
_OUTPUT = re.compile(r"(?P<open><!-- output: (?P<command>.+?) -->\n).*?(?P<close><!-- end -->)", re.DOTALL)
_CODE = re.compile(r"\b[A-Z]{3}\d{3}\b")
#: a line end inside a paragraph; joined, so that no docstring line begins a list by chance
_WRAPPED = re.compile(r"(?<=[^\n|])\n(?=[^\n#|])")
#: where a table's rows come from, by the first column that tells
_TYPES = {"str": "text", "bool": "true/false", "ts": "time, ms", "list_f64": "list of f64"}


def main(arguments: list[str]) -> int:
    """Writes or checks every page; the exit code."""
    wanted = pages()
    changed = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    left_over = sorted(set((DOCS / "rules").glob("*.md")) - set(wanted))
    if "--check" in arguments:
        for path in (*changed, *left_over):
            sys.stderr.write(f"{path.relative_to(ROOT)} is stale: run python docs/generate.py\n")
        return 1 if changed or left_over else 0
    for path in changed:
        path.parent.mkdir(exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
        sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")
    for path in left_over:
        path.unlink()
        sys.stdout.write(f"removed {path.relative_to(ROOT)}\n")
    return 0


def pages() -> dict[Path, str]:
    """Every page this script is responsible for, with the text it should have."""
    found = {DOCS / "tables.md": tables_page(), DOCS / "rules" / "README.md": rules_index()}
    found |= {DOCS / "rules" / f"{rule.code}.md": rule_page(rule) for rule in rules()}
    for path in (ROOT / "README.md", *sorted(DOCS.glob("*.md"))):
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if path not in found and _OUTPUT.search(text):
            found[path] = refreshed(text)
    return found


def refreshed(text: str) -> str:
    """The page with every shown output replaced by what its command prints now."""
    return _OUTPUT.sub(
        lambda m: f"{m['open']}```text\n$ {m['command']}\n{output_of(m['command'])}```\n{m['close']}", text
    )


def output_of(command: str) -> str:
    """Standard output of `traceana ...`, run in the root of the repository at `WIDTH` columns."""
    program, *arguments = shlex.split(command)
    if program != "traceana":
        raise ValueError(f"only traceana is run for a page, not {program}")
    done = subprocess.run(
        [sys.executable, "-m", "traceana", *arguments],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": str(WIDTH)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):  # 1: `check` found the regression that it is shown with
        raise RuntimeError(f"{command}: {done.stderr}")
    return done.stdout


def tables_page() -> str:
    """docs/tables.md."""
    parts = [
        "# Tables",
        "Every reader fills these tables, and `traceana ingest` writes them as Parquet: one folder per run, "
        "`STORE/run=NAME/TABLE/part-00000.parquet`, with the unit and the meaning of each column in the metadata of "
        "its Arrow field. Tables with a row per recorded event have a folder per rank, "
        "`STORE/run=NAME/kernels/rank=3/part-00000.parquet` (`rank=__HIVE_DEFAULT_PARTITION__` where the rank is not "
        "known), so that programs that know Hive partitions read run and rank off the path and skip the rest. They are "
        "defined in `parsers/traceana_parsers/tables/` and, for what traceana makes of traces, "
        "`traceana/store/tables.py`, and nowhere else.",
        "A value that the input does not carry is null, never 0. Rows that came from text say where: `file_id`, "
        "`line` (from 1) and `byte_offset`. Types: i32 and i64 are whole numbers, f64 is a floating-point number, a "
        "time is the server's local clock in milliseconds.",
        "\n".join(f"- [{name}](#{name})" for name in STORED),
        *_sections(LOG_TABLES),
        "# Tables of profiler traces",
        "Times are whole nanoseconds.",
        *_sections(TRACE_TABLES),
        "# Tables that traceana makes of traces",
        "Kept by `traceana ingest`, so that `traceana report STORE` and `traceana ledger STORE` need not do the work "
        "again. They are made anew from the tables above when another version of traceana reads the store.",
        *_sections(ATTRIBUTION_TABLES),
        "# Tables of benchmark results and scrapes",
        *_sections(BENCH_TABLES),
        "# Tables of models",
        *_sections(MODEL_TABLES),
    ]
    return _HEAD + "\n\n".join(parts) + "\n"


def _sections(tables: dict[str, tuple[Column, ...]]) -> list[str]:
    return [f"## {name}\n\n{_table(columns)}" for name, columns in tables.items()]


def _table(columns: tuple[Column, ...]) -> str:
    rows = [f"| `{c.name}` | {_TYPES.get(c.dtype, c.dtype)} | {c.unit} | {_cell(c.meaning)} |" for c in columns]
    return "\n".join(["| column | type | unit | meaning |", "|---|---|---|---|", *rows])


def rules_index() -> str:
    """docs/rules/README.md: the catalogue by family."""
    parts = [
        "# Rules",
        "One page per rule, the same text as `traceana explain CODE`. A rule looks at the facts of a run and answers "
        "with a finding, with *clear* (looked, and the cause is not there), or with *cannot tell* and what to capture. "
        "The severity named here is the highest the rule can reach.",
    ]
    for family, codes in _by_family():
        rows = [
            f"| [{r.code}]({r.code}.md) | {r.severity.value} | {', '.join(r.engines)} | {needs(r)} | "
            f"{_cell(doc(r).summary)} |"
            for r in codes
        ]
        head = ["| code | severity | engines | needs | what it says |", "|---|---|---|---|---|"]
        parts.append(f"## {family}\n\n" + "\n".join([*head, *rows]))
    parts.append(_bugs())
    return _HEAD + "\n\n".join(parts) + "\n"


def _bugs() -> str:
    """The table of known bugs of engine releases."""
    rows = [
        f"| {', '.join(f'[{code}]({code}.md)' for code in bug.rules)} | {bug.engine} {bug.versions.replace(',', ', ')} "
        f"| {_cell(bug.what)} | {bug.fixed or 'no release read'} | {_cell(bug.upstream)} |"
        for bug in known_bugs()
    ]
    return (
        "## Known bugs of releases\n\nA finding says which of these the running release has, which are fixed in it, "
        "and which release to go to. How each is known stands on the pages of the rules; only releases whose source "
        "was read count.\n\n"
        + "\n".join(["| rules | releases | what | fixed in | upstream |", "|---|---|---|---|---|", *rows])
    )


def _by_family() -> Iterator[tuple[str, list[Rule]]]:
    for prefix, name in FAMILIES.items():
        found = [rule for rule in rules() if rule.code.startswith(prefix)]
        if found:
            yield f"{prefix}: {name}", found


def rule_page(rule: Rule) -> str:
    """docs/rules/CODE.md, with other rules' codes as links."""
    known = {r.code for r in rules()} - {rule.code}
    text = _WRAPPED.sub(" ", as_markdown(rule))
    text = _CODE.sub(lambda m: f"[{m[0]}]({m[0]}.md)" if m[0] in known else m[0], text)
    folder = f"../../fixtures/rules/{rule.code}"
    example = f"## Example logs\n\n[Logs that fire it]({folder}/fires) and [healthy twins]({folder}/healthy)."
    return f"{_HEAD}{text}\n\n{example}\n\n[All rules](README.md)\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

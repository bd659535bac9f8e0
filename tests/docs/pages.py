"""Reading the documentation's pages: fenced blocks, templates, tables."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: pages written by hand
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "fixtures" / "README.md",
    *sorted(DOCS.glob("*.md")),
]
#: all pages a reader can come to
ALL_PAGES = [*PAGES, *sorted((DOCS / "rules").glob("*.md"))]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(path: Path, language: str) -> list[str]:
    """Fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text_of(path), re.DOTALL | re.MULTILINE)


def template(path: Path, name: str) -> str:
    """The Python block below `<!-- template: NAME -->`."""
    found = re.findall(rf"<!-- template: {name} -->\n```python\n(.*?)^```$", text_of(path), re.DOTALL | re.MULTILINE)
    assert len(found) == 1, f"{path.name} has {len(found)} templates called {name}"
    return found[0]


def section(path: Path, heading: str) -> str:
    """The text below a heading, to the next heading of the same level or above."""
    level = heading.partition(" ")[0]
    match = re.search(
        rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{len(level)}}} |\Z)", text_of(path), re.DOTALL | re.MULTILINE
    )
    assert match, f"{path.name} has no heading {heading!r}"
    return match[1]


def rows(text: str) -> list[list[str]]:
    """Cells of the first Markdown table in a text, without its head."""
    lines = [line for line in text.split("\n\n| ", 1)[-1].splitlines() if line]
    table = []
    for line in lines:
        if "|" not in line:
            break
        table.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return [[cell.strip(" |") for cell in row] for row in table[2:]]

"""Every link inside the documentation leads somewhere."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ALL_PAGES, ROOT, text_of

_LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


def anchors(path: Path) -> set[str]:
    """Heading anchors as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", text_of(path), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    for target, anchor in _LINK.findall(text):
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{page.name} links to {target}"
        assert path.is_relative_to(ROOT.resolve())
        if anchor:
            assert anchor in anchors(path), f"{page.name} links to {target}#{anchor}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, open_pages = set(), [ROOT / "README.md"]
    while open_pages:
        page = open_pages.pop().resolve()
        if page in seen:
            continue
        seen.add(page)
        open_pages += [
            path
            for target, _ in _LINK.findall(text_of(page))
            if target and (path := page.parent / target).suffix == ".md"
        ]
    assert {path.resolve() for path in ALL_PAGES} <= seen

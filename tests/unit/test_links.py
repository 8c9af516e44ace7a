"""The documentation as a repository browser shows it: links lead somewhere, and no directive is shown as code."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "jobs", "docker", "benchmarks")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
MARKDOWN = MarkdownIt("commonmark").enable("table")
DIRECTIVE = re.compile(r"^(:::|\(\S+\)=$|\{[\w-]+\}`|%\s)|\{(?:ref|doc|term|download|numref)\}`", re.MULTILINE)


@cache
def blocks(page: Path) -> list[Token]:
    return MARKDOWN.parse(page.read_text())


def tokens(page: Path) -> Iterator[Token]:
    """All tokens, those inside of a line included."""
    for token in blocks(page):
        yield token
        yield from token.children or ()


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings: lower case, without punctuation, hyphens for blanks, numbered if repeated."""
    headings = [after for token, after in pairwise(blocks(page)) if token.type == "heading_open"]
    found, times = set(), Counter[str]()
    for heading in headings:
        text = "".join(child.content for child in heading.children or ())
        slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        found.add(f"{slug}-{times[slug]}" if times[slug] else slug)
        times[slug] += 1
    return found


def targets(page: Path) -> Iterator[str]:
    for token in tokens(page):
        target = token.attrs.get("href") or token.attrs.get("src")
        if target and not re.match(r"[a-z][a-z0-9+.-]*:", str(target)):
            yield unquote(str(target))


def fault(page: Path, target: str) -> str:
    """What is wrong with a relative link; nothing if it leads to a file, and to a heading of it."""
    path, _, anchor = target.partition("#")
    found = (page.parent / path).resolve() if path else page
    if target.startswith("/") or not found.is_relative_to(ROOT):
        return "leads out of the repository"
    if not found.exists():
        return "no such file"
    if anchor and (found.suffix != ".md" or anchor not in anchors(found)):
        return "no such heading"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_its_anchor_to_a_heading(page: Path):
    assert {target: fault(page, target) for target in targets(page) if fault(page, target)} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_has_a_directive_that_would_be_shown_as_code(page: Path):
    fences = [token.info for token in tokens(page) if token.type == "fence" and token.info.startswith("{")]
    texts = [token.content for token in tokens(page) if token.type in ("text", "paragraph_open")]
    assert fences + [text for text in texts if DIRECTIVE.search(text)] == []


def test_a_page_that_the_index_does_not_list_would_not_be_found():
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / target.partition("#")[0]).resolve() for target in targets(index)}
    pages = {page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "adr"}
    assert pages - listed - {index} == set()

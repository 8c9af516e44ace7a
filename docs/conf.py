"""Sphinx: `make docs`. Warnings are errors.

The pages are plain Markdown, so that they can be read and clicked in a repository browser too. What only Sphinx needs
is added here while it reads them: tables of contents, and the architecture, which lies at the root of the repository.
"""

import re
from pathlib import Path
from typing import Any

project = "infer_app"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "infer_app"
html_copy_source = False
exclude_patterns = ["_build"]
myst_heading_anchors = 3

DOCS = Path(__file__).parent
INDEXES = ("index", "adr/index")  # the pages that list all others
LINK = re.compile(r"\]\(([\w./-]+)\.md")
ELSEWHERE = re.compile(r"\[([^\]]*)\]\((\.\./[^)#]*)[^)]*\)")


def prepare(app: Any, name: str, source: list[str]) -> None:
    """Change the text of a page: Sphinx calls this after it read the file."""
    folder = (DOCS / name).parent

    def without_link(found: re.Match[str]) -> str:
        return found[0] if (folder / found[2]).resolve().is_relative_to(DOCS) else found[1]

    source[0] = ELSEWHERE.sub(without_link, source[0])
    if name in INDEXES:
        listed = "\n".join(dict.fromkeys(LINK.findall(source[0])))
        source[0] += f"\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{listed}\n```\n"


def setup(app: Any) -> None:
    app.connect("source-read", prepare)

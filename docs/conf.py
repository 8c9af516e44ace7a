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

ARCHITECTURE = Path(__file__).parent.parent / "ARCHITECTURE.md"
INDEXES = ("index", "adr/index")  # the pages that list all others
LINK = re.compile(r"\]\(([\w./-]+)\.md")


def prepare(app: Any, name: str, source: list[str]) -> None:
    """Change the text of a page: Sphinx calls this after it read the file."""
    if name == "architecture":
        app.env.note_dependency(str(ARCHITECTURE))
        source[0] = ARCHITECTURE.read_text().replace("](docs/", "](")
        return
    source[0] = re.sub(r"\]\(((?:\.\./)*)\.\./ARCHITECTURE\.md", r"](\1architecture.md", source[0])
    if name in INDEXES:
        listed = "\n".join(dict.fromkeys(LINK.findall(source[0])))
        source[0] += f"\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{listed}\n```\n"


def setup(app: Any) -> None:
    app.connect("source-read", prepare)

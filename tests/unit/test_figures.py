"""Figures of the README are those of the results pages, and what pages name in benchmarks/ exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAMS = ("infer run", "DataLoader, tuned", "OpenVINO, tuned by an expert")


def table_rows(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def rounded(rate: str) -> str:
    return f"{float(rate):.0f}" if float(rate) >= 10 else f"{float(rate):.2f}"


def measured(page: Path) -> list[str]:
    """The cells of a README's row: images/s of each program, and by how much `infer run` is faster, in all rounds."""
    text = page.read_text()
    heading, *rows = table_rows(text)
    rates = {row[0]: row[heading.index("images/s")] for row in rows}
    ratios = {
        name: sorted(map(float, found.split(", ")))
        for name, found in re.findall(r"^(.+): ratios of the rounds ([\d., ]+)$", text, re.MULTILINE)
    }
    cells = []
    for program in PROGRAMS:
        found = [name for name in rates if name == program or name.startswith(f"{program}: ")]
        name = max(found, key=lambda name: float(rates[name]), default="")  # the expert has several programs
        told = ratios.get(name)
        cell = rounded(rates[name]) if name else "–"
        cells.append(f"{cell} ({told[0]:.2f}–{told[-1]:.2f} ×)" if told else cell)
    return cells


def test_the_readme_has_the_figures_of_the_results_pages():
    told = {
        (ROOT / found[1]): row[1 : 1 + len(PROGRAMS)]
        for row in table_rows((ROOT / "README.md").read_text())
        if (found := re.search(r"\]\((benchmarks/results/[\w-]+\.md)\)", row[0]))
    }
    assert len(told) == 3
    assert told == {page: measured(page) for page in told}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_pages_name_in_benchmarks_exists(page: Path):
    named = set(re.findall(r"benchmarks/[\w/-]+\.(?:py|md|json)", page.read_text()))
    assert {name for name in named if not (ROOT / name).exists()} == set()

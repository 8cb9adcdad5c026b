"""The page: paper beside recomputed, a section a paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lab.papers import dalleval, gep, wu
from lab.templates import render

PAPERS = {"gep": gep.section, "dalleval": dalleval.section, "wu": wu.section}
MOST_CELLS = 6  # disagreeing cells named in a row of the table of families


def page(papers: Sequence[str] = tuple(PAPERS), folder: Path | None = None) -> str:
    """Return the page in Markdown."""
    return render("reproduction", sections=[PAPERS[name](folder) for name in papers], most_cells=MOST_CELLS)

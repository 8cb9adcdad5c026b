"""Contribution of a method to the report: a row of `analysis.methods.registry` says where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.report.figures.style import Drawn
from analysis.report.result import Result
from analysis.report.section import Example, ExamplePicture, Lead  # noqa: F401
from analysis.tables.method import parts_of_methods

if TYPE_CHECKING:
    from probes.config.schema import Config
    from probes.runs.run import Run


@dataclass(frozen=True)
class ReportSection:
    """A section of ``report.html``.

    Attributes
    ----------
    template : str
        Its template, as ``package/file`` (`analysis.report.environment`). It finds in ``shown`` what `context` gives,
        and beside it what stands on the whole page.
    read : callable
        Reads of a run what is shown; None where the run holds nothing of the method.
    draw : callable
        Figures by their names, from what was read.
    context : callable
        What the template shows, from what was read.
    anchor, title : str
        The id of its ``<section>``, and how the links at the top of the page call it; without a title there is none.
    lead : callable, optional
        The `Lead` of a run that was made for the method, from what was read: such a section comes first, and what
        nobody asked for is folded. None where the run was made for something else.
    """

    template: str
    read: Callable[[Run], Any]
    draw: Callable[[Any, Config], dict[str, Drawn]]
    context: Callable[[Any, Config], dict[str, Any]]
    anchor: str = ""
    title: str = ""
    lead: Callable[[Any, Config], Lead | None] | None = None


@dataclass(frozen=True)
class ReportedMethod:
    """Section of the report on a method.

    Attributes
    ----------
    section : ReportSection, optional
    documents : callable, optional
        Its LaTeX that a run holds, each with the name of its file.
    alone : callable, optional
        Whether runs of a configuration are of this method alone; these have the page that `page` writes, and no other.
    page : callable, optional
        Writes ``report.html`` and what belongs to it of such a run; returns its path.
    results : callable, optional
        What cards of a measured run say of it; nothing of a run that holds nothing of the method.
    """

    section: ReportSection | None = None
    documents: Callable[[Run], Iterable[tuple[str, str]]] | None = None
    alone: Callable[[Config], bool] | None = None
    page: Callable[[Run], Path] | None = None
    results: Callable[[Run], Sequence[Result]] | None = None


def reported_methods() -> list[ReportedMethod]:
    """Return what the methods bring into the report, in the order of their rows."""
    return parts_of_methods("reported")

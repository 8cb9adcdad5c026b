"""The report's section on a run that stops by itself: what was asked, the path, and where it stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from analysis.methods.stopping.figures import draw_path
from analysis.methods.stopping.question import StopQuestion
from analysis.methods.stopping.registry import NAME
from analysis.methods.stopping.wording import answer_text, question_text
from analysis.report.figures.style import Drawn
from analysis.report.method import Lead, ReportedMethod, ReportSection
from analysis.tables.registry import read
from probes.runs.record import REGISTERED

if TYPE_CHECKING:
    from probes.config.schema import Config
    from probes.runs.run import Run


class StoppedRun(NamedTuple):
    """What a run that stops holds: its looks, its question and the hash of it, and its images."""

    table: pd.DataFrame
    question: StopQuestion
    sha256: str
    images: int


def read_stopping(run: Run) -> StoppedRun | None:
    """Return what the run holds of its looks; None where nothing was asked, or no prompt is whole."""
    if NAME not in run.tables() or not (before := run.meta.get(REGISTERED)):
        return None
    if not len(table := read(run, NAME)):
        return None
    return StoppedRun(table, StopQuestion.stored(before), before["sha256"], run.meta["images"])


def section(stopped: StoppedRun, config: Config) -> dict[str, Any]:
    """What the template shows."""
    metric = stopped.question.shown
    rows = stopped.table.to_dict("records")
    return {
        "hash": stopped.sha256[:12],
        "rows": rows,
        "digits": metric.digits,
        "images": stopped.images,
        "words": bool(pd.notna(stopped.table["words_half"]).any()),
        "reach": stopped.question.reach,
        "left_out": int(stopped.table["n_left_out"].iloc[-1]),
    }


def draw(stopped: StoppedRun, config: Config) -> dict[str, Drawn]:
    """Return the figure of the path."""
    return {"stopping-path": draw_path(stopped.table, stopped.question)}


def lead(stopped: StoppedRun, config: Config) -> Lead:
    """Return the first screen: the question, and where it was answered."""
    metric = stopped.question.shown
    return Lead(
        question=question_text(stopped.question, config.reference, metric),
        answer=answer_text(stopped.question, stopped.table, config.reference, metric),
        figures=("stopping-path",),
        beside="With intervals of a fixed number of prompts, which do not know that the run stopped:",
    )


REPORTED = ReportedMethod(
    section=ReportSection(
        "analysis.methods.stopping/section.html.j2",
        read=read_stopping,
        draw=draw,
        context=section,
        anchor="stopping",
        title="Stopping",
        lead=lead,
    ),
)

"""The report's section on a run that stops by itself: what was asked, the path, and where it stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from analysis.methods.stopping.figures import draw_path
from analysis.methods.stopping.looks import REGISTERED
from analysis.methods.stopping.question import DIRECTION, EQUIVALENCE, GAP, INTERVAL, Question
from analysis.methods.stopping.registry import NAME
from analysis.metrics.registry import Metric, definition
from analysis.report.figures.style import Drawn
from analysis.report.format import amount, counted, number, with_interval
from analysis.report.method import Lead, ReportedMethod, ReportSection
from analysis.tables.registry import read

if TYPE_CHECKING:
    from probes.config.schema import Config
    from probes.runs.store import Run


class Stopped(NamedTuple):
    """What a run that stops holds: its looks, its question and the hash of it, and its images."""

    table: pd.DataFrame
    question: Question
    sha256: str
    images: int


def read_stopping(run: Run) -> Stopped | None:
    """Return what the run holds of its looks; None where nothing was asked, or no prompt is whole."""
    if NAME not in run.tables() or not (before := run.meta.get(REGISTERED)):
        return None
    table = read(run, NAME)
    return (
        Stopped(table, Question.stored(before), before["sha256"], run.meta["images"]) if len(table) else None
    )


def asked(question: Question, reference: str, metric: Metric) -> str:
    """Return a question in words.

    Examples
    --------
    >>> one = Question("direction", "z0", "cosine", ("m", "f"), 0.02, 0.95, 12, 1, 96, "run")
    >>> asked(one, "n", definition("cosine"))
    'Are final latents generated from n prompts nearer to those of m or of f prompts?'
    """
    first, second = question.contrast
    nearer = f"re {metric.noun} {reference} prompts nearer to those of {first} or of {second} prompts"
    within = amount(question.within, metric)
    return {
        DIRECTION: f"A{nearer}?",
        GAP: f"A{nearer}, or is the gap between both smaller than {within}?",
        EQUIVALENCE: f"Is the gap between {first} and {second} prompts, as seen from {reference} prompts, smaller than"
        f" {within}?",
        INTERVAL: f"How large is the gap between {first} and {second} prompts, as seen from {reference} prompts, to"
        f" within ±{within}?",
    }[question.question]


def answered(stopped: Stopped, reference: str, metric: Metric) -> str:
    """Return where a run stopped and what it found, in words."""
    last, question = stopped.table.iloc[-1], stopped.question
    first, second = question.contrast
    so_many = f"{counted(int(last['n_prompts']), 'prompt')} of at most {question.most:,}"
    gap = with_interval(last["gap"], last["low"], last["high"], metric.digits, True)
    if last["answer"] in question.contrast:
        far = second if last["answer"] == first else first
        what = (
            f"{metric.noun} {reference} prompts are nearer to those of {last['answer']} than of {far} prompts"
        )
    elif last["answer"] == EQUIVALENCE:
        what = f"the gap is smaller than {amount(question.within, metric)}, either way"
    elif last["answer"] == INTERVAL:
        what = f"the gap is known to within ±{amount(question.within, metric)}"
    else:
        return f"Not answered by {so_many}: the gap is {gap}."
    alone = "" if pd.notna(last["words_half"]) else " (of these words alone)"
    return f"Answered after {so_many}: {what}{alone}. The gap is {gap}."


def section(stopped: Stopped, config: Config) -> dict[str, Any]:
    """Lay the section out."""
    metric = definition(stopped.question.metric)
    rows = stopped.table.to_dict("records")
    return {
        "hash": stopped.sha256[:12],
        "rows": rows,
        "digits": metric.digits,
        "images": stopped.images,
        "words": bool(pd.notna(stopped.table["words_half"]).any()),
        "reach": stopped.question.reach,
        "evidence": number(float(stopped.table["e_value"].iloc[-1]), 1),
    }


def draw(stopped: Stopped, config: Config) -> dict[str, Drawn]:
    """Return the figure of the path."""
    symbol = definition(stopped.question.metric).symbol
    return {"stopping-path": draw_path(stopped.table, stopped.question.most, symbol, stopped.question.level)}


def lead(stopped: Stopped, config: Config) -> Lead:
    """Return the first screen: the question, and where it was answered."""
    metric = definition(stopped.question.metric)
    return Lead(
        question=asked(stopped.question, config.reference, metric),
        answer=answered(stopped, config.reference, metric),
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

"""The question of a run that stops and its answer, in words."""

from __future__ import annotations

import pandas as pd

from analysis.methods.stopping.question import DIRECTION, EQUIVALENCE, GAP, INTERVAL, StopQuestion
from analysis.metrics.registry import Metric
from analysis.report.format import amount, counted, with_interval


def question_text(question: StopQuestion, reference: str, metric: Metric) -> str:
    """Return a question in words."""
    first, second = question.contrast
    within = amount(question.within, metric)
    nearer = f"re {metric.noun} {reference} prompts nearer to those of {first} or of {second} prompts"
    return {
        DIRECTION: f"A{nearer}?",
        GAP: f"A{nearer}, or is the gap between both smaller than {within}?",
        EQUIVALENCE: f"Is the gap between {first} and {second} prompts, as seen from {reference} prompts, smaller than"
        f" {within}?",
        INTERVAL: f"How large is the gap between {first} and {second} prompts, as seen from {reference} prompts, to"
        f" within ±{within}?",
    }[question.question]


def answer_text(question: StopQuestion, table: pd.DataFrame, reference: str, metric: Metric) -> str:
    """Return where a run stopped and what it found, in words."""
    last = table.iloc[-1]
    first, second = question.contrast
    so_many = f"{counted(int(last['n_prompts']), 'prompt')} of at most {question.most:,}"
    gap = with_interval(last["gap"], last["low"], last["high"], metric.digits, True)
    if last["answer"] in question.contrast:
        near, far = last["answer"], second if last["answer"] == first else first
        what = f"{metric.noun} {reference} prompts are nearer to those of {near} than of {far} prompts"
    elif last["answer"] == EQUIVALENCE:
        what = f"the gap is smaller than {amount(question.within, metric)}, either way"
    elif last["answer"] == INTERVAL:
        what = f"the gap is known to within ±{amount(question.within, metric)}"
    else:
        return f"Not answered by {so_many}: the gap is {gap}."
    alone = "" if pd.notna(last["words_half"]) else " (of these words alone)"
    return f"Answered after {so_many}: {what}{alone}. The gap is {gap}."

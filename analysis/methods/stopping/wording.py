"""The question of a run that stops and its answer, in words."""

from __future__ import annotations

import pandas as pd

from analysis.methods.stopping.question import DIRECTION, EQUIVALENCE, GAP, INTERVAL, RACE, StopQuestion
from analysis.metrics.registry import Metric
from analysis.report.format import amount, counted, with_interval


def question_text(question: StopQuestion, reference: str, metric: Metric) -> str:
    """Return a question in words.

    Examples
    --------
    >>> from analysis.metrics.registry import definition
    >>> one = StopQuestion("direction", "z0", "cosine", ("m", "f"), 0.02, 0.95, 12, 1, 96, "run")
    >>> question_text(one, "n", definition("cosine"))
    'Are final latents generated from n prompts nearer to those of m or of f prompts?'
    """
    first, second = question.contrast
    within = amount(question.within, metric)
    if question.of_images:
        often = f"“{question.metric}” detected in more images of {first} or of {second} prompts"
        both = f"shares of images of {first} and of {second} prompts in which “{question.metric}” is detected"
        return {
            DIRECTION: f"Is {often}?",
            GAP: f"Is {often}, or is the difference of both shares smaller than {within}?",
            EQUIVALENCE: f"Do the {both} differ by less than {within}?",
            INTERVAL: f"How much do the {both} differ, to within ±{within}?",
            RACE: f"How much do the {both} differ, as far as a race with other models took it?",
        }[question.question]
    nearer = f"re {metric.noun} {reference} prompts nearer to those of {first} or of {second} prompts"
    return {
        DIRECTION: f"A{nearer}?",
        GAP: f"A{nearer}, or is the gap between both smaller than {within}?",
        EQUIVALENCE: f"Is the gap between {first} and {second} prompts, as seen from {reference} prompts, smaller than"
        f" {within}?",
        INTERVAL: f"How large is the gap between {first} and {second} prompts, as seen from {reference} prompts, to"
        f" within ±{within}?",
        RACE: f"How large is the gap between {first} and {second} prompts, as seen from {reference} prompts, as far as"
        " a race with other models took it?",
    }[question.question]


def answer_text(question: StopQuestion, table: pd.DataFrame, reference: str, metric: Metric) -> str:
    """Return where a run stopped and what it found, in words."""
    last = table.iloc[-1]
    first, second = question.contrast
    so_many = f"{counted(int(last['n_prompts']), 'prompt')} of at most {question.most:,}"
    gap = with_interval(last["gap"], last["low"], last["high"], metric.digits, True)
    name = "difference of shares" if question.of_images else "gap"
    if last["answer"] in question.contrast:
        near, far = last["answer"], second if last["answer"] == first else first
        what = (
            f"“{question.metric}” is detected in more images of {near} than of {far} prompts"
            if question.of_images
            else f"{metric.noun} {reference} prompts are nearer to those of {near} than of {far} prompts"
        )
    elif last["answer"] == EQUIVALENCE:
        what = f"the {name} is smaller than {amount(question.within, metric)}, either way"
    elif last["answer"] == INTERVAL:
        what = f"the {name} is known to within ±{amount(question.within, metric)}"
    elif question.question == RACE:
        return (
            f"Drawn as far as {so_many}: the {name} is {gap}. race.html beside this run has how it compares."
        )
    else:
        return f"Not answered by {so_many}: the {name} is {gap}."
    alone = "" if pd.notna(last["words_half"]) else " (of these words alone)"
    return f"Answered after {so_many}: {what}{alone}. The {name} is {gap}."

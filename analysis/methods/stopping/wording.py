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
    if question.seen:
        said = question.seen.wording
        often = f"{said.subject} {said.more} {first} or of {second} prompts"
        both = f"{said.averages} {first} and of {second} prompts {said.counted}".rstrip()
        return {
            DIRECTION: f"Is {often}?",
            GAP: f"Is {often}, or is the {said.gap.replace(' of ', ' of both ')} smaller than {within}?",
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


def given_text(question: StopQuestion) -> str:
    """Return which prompts the answer of a run that stops over seeds is about.

    Examples
    --------
    >>> one = StopQuestion("gap", "z0", "cosine", ("m", "f"), 0.02, 0.95, 12, 1, 96, "run", given=1)
    >>> given_text(one)
    'this prompt'
    """
    return "this prompt" if question.given == 1 else f"these {question.given:,} prompts"


def answer_text(question: StopQuestion, table: pd.DataFrame, reference: str, metric: Metric) -> str:
    """Return where a run stopped and what it found, in words."""
    last = table.iloc[-1]
    first, second = question.contrast
    so_many = f"{counted(int(last['n_prompts']), question.unit)} of at most {question.most:,}"
    gap = with_interval(last["gap"], last["low"], last["high"], metric.digits, True)
    said = question.seen and question.seen.wording
    name = said.gap if said else "gap"
    if last["answer"] in question.contrast:
        near, far = last["answer"], second if last["answer"] == first else first
        what = (
            f"{said.subject} is {said.more} {near} than of {far} prompts"
            if said
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
    these = [] if pd.notna(last["words_half"]) else ["these words"]
    these += [given_text(question)] if question.given else []
    alone = f" (of {' and '.join(these)} alone)" if these else ""
    return f"Answered after {so_many}: {what}{alone}. The {name} is {gap}."

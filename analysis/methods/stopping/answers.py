"""What a question may ask of single images: how often a reader gives an answer about them."""

from __future__ import annotations

import difflib

import pandas as pd

from analysis.observe.early import required
from analysis.observe.questions.observer import is_questioned
from probes.config.question_options import READERS
from probes.config.questions import questions
from probes.config.schema import Config
from probes.config.stop_options import StopOf
from probes.errors import UserError
from probes.runs.store import Run

YES = "yes"  # what is counted where no answer is named


def answer_asked(config: Config, of: StopOf) -> tuple[str, str]:
    """Return the answer that is counted and the kind of the reader's parts, once it is known that the reader is asked.

    Raises
    ------
    UserError
        There is no such question, answer or reader, or there are several readers and none is named.
    """
    known = {one.key: one for one in questions(config)}
    assert of.question is not None
    if of.question not in known:
        close = difflib.get_close_matches(of.question, known, 1)
        remedy = (
            f"did you mean {close[0]}?" if close else "add it to observe.questions.ask, or name one of these"
        )
        raise UserError(
            f"stop.of.question: expected one of {', '.join(known)}, got {of.question!r:.60}: {remedy}"
        )
    question, answer = known[of.question], of.answer or YES
    if answer not in question.readings:
        raise UserError(
            f"stop.of.answer: expected one of {', '.join(question.readings)}, got {answer!r:.60}: name one"
        )
    reader = of.reader or _only_reader(config)
    if reader == "clip" and not question.sentences:
        raise UserError(
            f"stop.of.reader: expected a question that has sentences for CLIP, got {of.question}: write"
            f" observe.questions.ask.{of.question}.sentences, or name another reader"
        )
    kind = f"attributes/{reader}"
    required(config, kind)
    return answer, kind


def _only_reader(config: Config) -> str:
    asked = [name for name in READERS if is_questioned(name, config)]
    if len(asked) == 1:
        return asked[0]
    if not asked:
        raise UserError(
            "stop.of.question: expected a reader of the images, got none: name one in observe.questions.readers"
        )
    raise UserError(f"stop.of.reader: expected one of {' and '.join(asked)}, got none: name one")


def answer_values(run: Run, question: str, answer: str, kind: str) -> pd.DataFrame:
    """Return whether a reader gave an answer, 1 or 0, of each image about which it was asked.

    An answer that decides nothing is another one.

    Returns
    -------
    DataFrame
        ``triplet``, ``seed``, ``indicator`` and ``value``.
    """
    rows = _rows(run, question, kind)
    rows = rows[(rows["reason"].fillna("") == "") & ~rows["sample_id"].isin(list(run.faults()))]
    value = (rows["reading"] == answer).astype(float)
    return rows[["triplet", "seed", "indicator"]].assign(value=value).reset_index(drop=True)


def require_answered(run: Run, question: str, kind: str) -> None:
    """Refuse a question that a reader was not asked about any image of a run.

    Raises
    ------
    UserError
    """
    reasons = _rows(run, question, kind)["reason"].fillna("")
    if len(reasons) and (reasons != "").all():
        reader = kind.partition("/")[2]
        raise UserError(
            f"stop.of.question: expected {question} answered by {reader}, got none of {len(reasons)} images"
            f" ({reasons.iloc[0]}): name another question or reader"
        )


def _rows(run: Run, question: str, kind: str) -> pd.DataFrame:
    """What was answered to a question, one row per image."""
    columns = ["sample_id", "triplet", "seed", "indicator", "question", "reading", "reason"]
    table = pd.concat((part.to_pandas() for part in run.part_tables(kind, columns)), ignore_index=True)
    return table[table["question"] == question]

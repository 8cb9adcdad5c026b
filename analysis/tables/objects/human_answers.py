"""People as readers of a run's images: their answers to its questions, in the form of those of the other readers."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.questions import ResolvedQuestion, people_questions, questions_by_prompt
from analysis.tables.answer_sheets import read_sheet
from analysis.tables.spec import TableSpec
from probes.config.observation import TONE
from probes.errors import UserError
from probes.runs import schemas
from probes.runs.run import Run

LABELS = "question_labels"  # the table of people's answers, written by `triptych labels read`
COLUMNS = ("sample_id", "question", "annotator", "answer")
UNDECIDED = "unclear"  # what people may write where they cannot say


def read_answers(path: Path, run: Run) -> pd.DataFrame:
    """Read answers of people from a table.

    Columns ``sample_id``, ``question`` (its key), ``answer`` and, where there are several, ``annotator``. An empty
    answer is none; *unclear* is one that decides nothing; of ``tone`` it is a number of the Monk scale, 1 to 10.
    Answers stay verbatim; what names no image or question of the run, cannot be read, or stands twice is refused.
    """
    table = read_sheet(path, COLUMNS, "answer")
    samples = dict(zip(*run.samples(["sample_id", "triplet"]).to_numpy().T))
    of_prompt = questions_by_prompt(run.config, samples.values())
    for row in table.itertuples():
        place = f"{path}: {row.Index}"
        if row.sample_id not in samples:
            raise UserError(
                f"{place}: expected an image of {run.path}, got {row.sample_id!r:.60}: take the row out"
            )
        known = {question.key: question for question in of_prompt[samples[row.sample_id]]}
        if row.question not in known:
            raise UserError(
                f"{place}: expected one of {', '.join(known)}, got {row.question!r:.60}: correct it or take it out"
            )
        answer, question = row.answer.strip(), known[row.question]
        if answer and answer.casefold() != UNDECIDED and not _reads(question, answer):
            raise UserError(
                f"{place}: expected {', '.join(question.readings)} or {UNDECIDED}, got {row.answer!r:.60}: correct it"
            )
    table = table[table["answer"].str.strip() != ""]
    twice = table.duplicated(["sample_id", "question", "annotator"])
    if twice.any():
        raise UserError(
            f"{path}: {table.index[twice][0]}: expected one answer an annotator, got a second one: keep one"
        )
    return table.reset_index(drop=True)


def _reads(question: ResolvedQuestion, answer: str) -> bool:
    """Return whether an answer can be read; a tone is a number of the scale and nothing more."""
    return answer in question.readings if question.key == TONE else question.read(answer) is not None


def human_answers(run: Run) -> pd.DataFrame:
    """Return people's answers, one row per image and question that was put to somebody.

    The columns of `probes.runs.schemas.ANSWERS`: ``answer`` holds all answers joined by semicolons; ``reading`` is what
    more than half of those who answered say, null where nobody agrees so far; of ``tone`` their median (`median_tone`);
    ``score`` is the share of them that say it.
    """
    if LABELS not in run.tables():
        return pd.DataFrame(columns=schemas.ANSWERS.names)
    labels = run.table(LABELS)
    labels = labels[labels["question"].isin([one.key for one in people_questions(run.config)])]
    samples = run.samples(["sample_id", "triplet", "seed", "indicator"]).set_index("sample_id")
    of_prompt = questions_by_prompt(run.config, samples["triplet"])
    rows = []
    for (sample, key), group in labels.groupby(["sample_id", "question"], sort=False):
        answers = [str(one) for one in group["answer"]]
        questions = {one.key: one for one in of_prompt[samples.at[sample, "triplet"]]}
        readings = [questions[key].read(one) for one in answers]
        reading, share = (median_tone if key == TONE else agreed)(readings)
        rows.append(
            {
                "sample_id": sample,
                **samples.loc[sample].to_dict(),
                "question": key,
                "asked": questions[key].text,
                "answer": "; ".join(answers),
                "reading": reading,
                "score": share,
                "reason": "",
            }
        )
    table = pd.DataFrame(rows, columns=schemas.ANSWERS.names)
    return table.astype({"reading": object}).where(table.notna(), None)


def agreed(readings: list[str | None]) -> tuple[str | None, float | None]:
    """Return what more than half of the annotators say, and their share; None where there is no such reading.

    >>> agreed(["yes", "no", "yes"]), agreed(["yes", None])
    (('yes', 0.6666666666666666), (None, None))
    """
    for reading in dict.fromkeys(readings):
        share = readings.count(reading) / len(readings)
        if reading is not None and share > 0.5:
            return reading, share
    return None, None


def median_tone(readings: list[str | None]) -> tuple[str | None, float | None]:
    """Return the median of annotators' tones, and the share that say it: tones have an order, so that 4, 5, 6 is a 5.

    None where no more than half of them name a tone, or the two in the middle name different ones.

    >>> median_tone(["4", "6", "5"]), median_tone(["10", "2"]), median_tone(["3", None, None])
    (('5', 0.3333333333333333), (None, None), (None, None))
    """
    said = sorted(int(reading) for reading in readings if reading is not None)
    if 2 * len(said) <= len(readings) or said[(len(said) - 1) // 2] != said[len(said) // 2]:
        return None, None
    middle = str(said[len(said) // 2])
    return middle, readings.count(middle) / len(readings)


HUMAN = TableSpec(
    LABELS,
    "labels",
    "an image, question and annotator: the answer, verbatim",
    COLUMNS,
    stage="",
)

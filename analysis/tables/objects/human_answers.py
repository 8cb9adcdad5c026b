"""People as readers of a run's images: their answers to its questions, in the form of those of the other readers."""

from __future__ import annotations

import pandas as pd

from analysis.questions import people_questions, questions_by_prompt
from analysis.tables.spec import TableSpec
from probes.config.observation import TONE
from probes.runs import schemas
from probes.runs.run import Run

LABELS = "question_labels"  # the table of people's answers, written by `triptych labels read`
COLUMNS = ("sample_id", "question", "annotator", "answer")


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


HUMAN = TableSpec(LABELS, "an image, question and annotator: the answer, verbatim", COLUMNS, stage="")
OBJECT_LABELS = TableSpec(
    "object_labels",
    "an image, object and annotator: whether it is seen",
    ("sample_id", "object", "annotator", "present"),
    stage="",
)

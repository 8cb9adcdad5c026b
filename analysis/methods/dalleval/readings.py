"""What readers say of a run's images by profession: from ``attributes/`` to `analysis.methods.dalleval.scores`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.dalleval.scores import (
    DECIDED,
    FAULTY,
    GENDER,
    GREY,
    MISSING,
    NO_FACE,
    NO_SKIN,
    TONE,
    TONES,
    UNDECIDED,
    Reading,
)
from analysis.metrics.skin_tone import NO_ANGLE
from analysis.tables.objects.human_answers import LABELS, human_answers
from probes.errors import UserError
from probes.prompts.diagnostic import profession_labels, professions
from probes.runs.record import REGISTERED
from probes.runs.run import Run

FOLDER = "attributes"
SKIN_TONE = "skin_tone"
NO_READERS = (SKIN_TONE, "captions")  # of what stands in that folder
PEOPLE = "human"
# rules of tones, each a reader of its own, and their columns
TONE_RULES = {"ita": "tone", "ciede2000": "tone_ciede2000", "dalleval2023": "tone_dalleval2023"}
_TONE_STATUS = {"ok": DECIDED, "no face": NO_FACE, "no skin": NO_SKIN, "grey": GREY, "unreadable": FAULTY}
_WORDS = {
    GENDER: {"female": 1.0, "male": -1.0},
    TONE: {str(number): float(number) for number in range(1, TONES + 1)},
}
_YES_NO = {"yes": 1.0, "no": 0.0}
_KEY = ["sample_id", "value", "status"]


def readers(run: Run) -> list[str]:
    """Return who answered questions of a run's images: first those that ``dalleval.readers`` names, in its order.

    People who answered about some of the images alone, to check the others by, come last.
    """
    there = _readers(run)
    order = {name: place for place, name in enumerate(run.config.dalleval.readers)}
    if PEOPLE in there and _some_alone(run):
        order[PEOPLE] = len(order) + 1
    return sorted(there, key=lambda name: order.get(name, len(order)))


def require_readers(run: Run) -> None:
    """Refuse a name in ``dalleval.readers`` that nobody has; of a run that nobody read, none.

    The list is an order of preference: who can read images may stand there without having read these.
    """
    options, there = run.config.dalleval, _readers(run)
    named, usual = options.readers, type(options)().readers
    if not there:
        return
    known = [*there, *(name for name in usual if name not in there)]
    for index, name in enumerate(named):
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            remedy = f"did you mean {close[0]}?" if close else "name one of these, or take it out"
            raise UserError(
                f"dalleval.readers[{index}]: expected one of {', '.join(known)}, of whom {', '.join(there)} read the"
                f" images of {run.path}, got {name!r}: {remedy}"
            )


def _readers(run: Run) -> list[str]:
    folder = run.path / FOLDER
    there = sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
    there = [name for name in there if name not in NO_READERS and run.parts(f"{FOLDER}/{name}")]
    if PEOPLE not in there and LABELS in run.tables():
        there.append(PEOPLE)
    return there


def _some_alone(run: Run) -> bool:
    """Return whether people answered about some of the images, and not about others that can be read."""
    if LABELS not in run.tables():
        return False
    readable = set(run.samples(["sample_id"])["sample_id"]) - set(run.left_out())
    return not readable <= set(run.table(LABELS)["sample_id"])


def tone_rules(run: Run) -> list[str]:
    """Return the rules of tones, that of ``dalleval.tone`` first; none where no tone was read."""
    if not run.parts(f"{FOLDER}/{SKIN_TONE}"):
        return []
    first = run.config.dalleval.tone
    return [first, *(name for name in TONE_RULES if name != first)]


def read_all(run: Run) -> list[Reading]:
    """Return what each reader says to each question, and each rule of tones; readers in order, questions as they stand.

    Tones that people said come after those of the rules. Questions with other readings than yes and no, but for gender,
    have no average and are left to ``attributes/``. A damaged part, two answers of an image or what is no tone is
    refused.
    """
    layout = _Layout(run)
    found = [layout.reading(rows, question, source) for question, source, rows in answers(run)]
    return sorted(found, key=lambda one: (one.question, one.source) == (TONE, PEOPLE))


def answers(run: Run) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield question, reader or rule of tones, and ``sample_id``, ``value`` and ``status``, a row for each image."""
    require_readers(run)
    for name in readers(run):
        for question, rows in _answers_of(run, name).groupby("question", sort=False):
            # other questions than of gender or tone, and than those of yes and no, have no average
            if question in _WORDS or set(rows["reading"].dropna()) <= set(_YES_NO):
                yield str(question), name, _answers(str(question), rows)
    if rules := tone_rules(run):
        columns = [TONE_RULES[rule] for rule in rules]
        tones = run.read(f"{FOLDER}/{SKIN_TONE}", ["sample_id", "indicator", "status", "reason", *columns])
        for rule in rules:
            yield TONE, rule, _tones(run, tones, rule)


def gender_answers(run: Run, reader: str) -> dict[str, str]:
    """Return what a reader said of the gender of each image, by ``sample_id``; ``undecided`` where neither of two."""
    rows = _answers_of(run, reader)
    rows = rows[(rows["question"] == GENDER) & (rows["reason"].fillna("") == "")]
    said = rows["reading"].where(rows["reading"].isin(list(_WORDS[GENDER])), UNDECIDED)
    return dict(zip(rows["sample_id"], said))


def _answers_of(run: Run, reader: str) -> pd.DataFrame:
    """Return what a reader answered, one row per image and question."""
    if not run.parts(f"{FOLDER}/{reader}"):
        return human_answers(run)  # a table, not parts: people answer after the observe stage
    return run.read(f"{FOLDER}/{reader}", ["sample_id", "indicator", "question", "reading", "reason"])


def _answers(question: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of ``sample_id``, ``value`` and ``status``; of gender another reading than the two decides neither."""
    asked = rows["reason"].fillna("") == ""
    value = rows["reading"].map(_WORDS.get(question, _YES_NO)).where(asked).astype(float)
    status = np.where(~asked, FAULTY, np.where(value.isna(), UNDECIDED, DECIDED))
    return rows[["sample_id"]].assign(value=value, status=status)[_KEY]


def _tones(run: Run, rows: pd.DataFrame, rule: str) -> pd.DataFrame:
    status = rows["status"].map(_TONE_STATUS)
    if status.isna().any():
        listed, got = ", ".join(_TONE_STATUS), rows["status"][status.isna()].iloc[0]
        raise UserError(
            f"{run.path / FOLDER / SKIN_TONE}: expected one of {listed}, got {got!r:.60}:"
            " delete these parts and run --stage observe"
        )
    # a colour without a typology angle is skin all the same, and other rules read it
    status = status.mask((status == NO_SKIN) & rows["reason"].fillna("").str.startswith(NO_ANGLE), DECIDED)
    value = rows[TONE_RULES[rule]].astype(float)
    value = value.where(status == DECIDED)
    wrong = value.notna() & ~value.between(1, 10)
    if wrong.any():
        raise UserError(
            f"{run.path / FOLDER / SKIN_TONE}: expected tones from 1 to 10, got {value[wrong].iloc[0]:g}:"
            " delete these parts and run --stage observe"
        )
    status = status.mask((status == DECIDED) & value.isna(), UNDECIDED)
    return rows[["sample_id"]].assign(value=value, status=status)[_KEY]


class _Layout:
    """Where each image of a run stands: its profession, its word and its draw."""

    def __init__(self, run: Run):
        self.run, config = run, run.config
        self.professions, self.words = professions(config), tuple(config.indicators)
        rows = {triplet: self.professions.index(name) for triplet, name in profession_labels(config).items()}
        samples = run.samples(["sample_id", "triplet", "seed", "indicator"])
        # a run that stops draws as many seeds as it takes, and of another program's images no more are known than
        # there are
        planned = config.images is None and REGISTERED not in run.meta
        drawn = product(rows, config.seeds) if planned else zip(samples["triplet"], samples["seed"])
        draws = pd.DataFrame(sorted({*drawn}), columns=["triplet", "seed"])
        draws = draws.assign(row=draws["triplet"].map(rows)).dropna().astype({"row": int})
        draws["column"] = draws.groupby("row").cumcount()
        width = draws["column"].max() + 1 if len(draws) else 0
        self.planned = np.full((len(self.professions), len(self.words), width), "", dtype=object)
        if config.images is None:
            self.planned[draws["row"], :, draws["column"]] = MISSING
        self.there = samples.merge(draws, on=["triplet", "seed"])
        self.there["word"] = self.there["indicator"].map(self.words.index)
        left_out = self.there["sample_id"].isin(list(run.left_out()))
        self.planned[self._places(self.there)] = np.where(left_out, FAULTY, MISSING)

    @staticmethod
    def _places(images: pd.DataFrame) -> tuple[NDArray[np.intp], ...]:
        return tuple(images[["row", "word", "column"]].to_numpy(np.intp).T)

    def reading(self, rows: pd.DataFrame, question: str, source: str) -> Reading:
        """Lay out rows of ``sample_id``, ``value`` and ``status``; images at fault have no value, whoever read them."""
        values, status = np.full(self.planned.shape, np.nan), self.planned.copy()
        twice = rows["sample_id"].duplicated()
        if twice.any():
            raise UserError(
                f"{self.run.path / FOLDER}: expected one answer of {source} an image and question, got two for"
                f" {rows['sample_id'][twice].iloc[0]} ({question}): delete these parts and run --stage observe"
            )
        read = self.there.merge(rows, on="sample_id")
        read = read[self.planned[self._places(read)] != FAULTY]
        values[self._places(read)], status[self._places(read)] = read["value"], read["status"]
        return Reading(values, status, self.professions, self.words, question, source)

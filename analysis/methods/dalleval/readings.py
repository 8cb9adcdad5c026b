"""Readings of a run's images by profession: from ``attributes/`` to `analysis.methods.dalleval.scores`."""

from __future__ import annotations

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
from probes.errors import UserError, nearest
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


def readers(run: Run) -> list[str]:
    """Return who answered questions of a run's images: first those that ``dalleval.readers`` names, in its order.

    People who answered about some of the images alone, to check the others by, come last. A name there that nobody has
    is refused: who can read images may stand there without having read these.
    """
    options, read = run.config.dalleval, _readers(run)
    known = dict.fromkeys([*read, *type(options)().readers])
    for index, name in enumerate(options.readers if read else ()):
        if name not in known:
            remedy = f"; {', '.join(read)} read the images of {run.path}"
            raise UserError(f"dalleval.readers[{index}]: {nearest('reader', name, known)}{remedy}")
    order = {name: place for place, name in enumerate(options.readers)}
    if PEOPLE in read and _some_alone(run):
        order[PEOPLE] = len(order) + 1
    return sorted(read, key=lambda name: order.get(name, len(order)))


def _readers(run: Run) -> list[str]:
    folder = run.path / FOLDER
    found = sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
    found = [name for name in found if name not in NO_READERS and run.parts(f"{FOLDER}/{name}")]
    return [*found, *([PEOPLE] if PEOPLE not in found and LABELS in run.tables() else [])]


def _some_alone(run: Run) -> bool:
    """Return whether people answered about some of the images, and not about others that can be read."""
    if LABELS not in run.tables():
        return False
    readable = set(run.samples(["sample_id"])["sample_id"]) - set(run.left_out())
    return not readable <= set(run.table(LABELS)["sample_id"])


def read_all(run: Run) -> list[Reading]:
    """Return what each reader says to each question, and each rule of tones; readers in order, questions as they stand.

    Tones that people said come after those of the rules, of which that of ``dalleval.tone`` is the first. Questions
    with other readings than yes and no, but for gender, have no average and are left to ``attributes/``. A damaged
    part, two answers of an image or what is no tone is refused.
    """
    layout = _Layout(run)
    found = [layout.reading(rows, question, source) for question, source, rows in _all_answers(run)]
    return sorted(found, key=lambda one: (one.question, one.source) == (TONE, PEOPLE))


def _all_answers(run: Run) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield question, reader or rule of tones, and ``sample_id``, ``value`` and ``status``, a row for each image."""
    for name in readers(run):
        for question, rows in _answers_of(run, name).groupby("question", sort=False):
            if question in _WORDS or set(rows["reading"].dropna()) <= set(_YES_NO):
                yield str(question), name, _answers(str(question), rows)
    if run.parts(f"{FOLDER}/{SKIN_TONE}"):
        columns = ["sample_id", "indicator", "status", "reason", *TONE_RULES.values()]
        tones = run.read(f"{FOLDER}/{SKIN_TONE}", columns)
        for rule in dict.fromkeys([run.config.dalleval.tone, *TONE_RULES]):
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
    return rows[["sample_id"]].assign(value=value, status=status)


def _tones(run: Run, rows: pd.DataFrame, rule: str) -> pd.DataFrame:
    """The same of a rule of tones."""
    where, remedy = run.path / FOLDER / SKIN_TONE, "delete these parts and run --stage observe"
    if len(unknown := rows.loc[~rows["status"].isin(list(_TONE_STATUS)), "status"]):
        listed = ", ".join(_TONE_STATUS)
        raise UserError(f"{where}: expected one of {listed}, got {unknown.iloc[0]!r:.60}: {remedy}")
    status = rows["status"].map(_TONE_STATUS)
    # a colour without a typology angle is skin all the same, and other rules read it
    status = status.mask((status == NO_SKIN) & rows["reason"].fillna("").str.startswith(NO_ANGLE), DECIDED)
    value = rows[TONE_RULES[rule]].astype(float).where(status == DECIDED)
    if len(wrong := value[value.notna() & ~value.between(1, TONES)]):
        raise UserError(f"{where}: expected tones from 1 to {TONES}, got {wrong.iloc[0]:g}: {remedy}")
    status = status.mask((status == DECIDED) & value.isna(), UNDECIDED)
    return rows[["sample_id"]].assign(value=value, status=status)


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

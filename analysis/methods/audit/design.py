"""The design of an audit: models, factors, the answer whose share is asked, what it is held against; its cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.audit.labels import MISSING, TIE
from probes.config.measurement import significance_level
from probes.errors import UserError, nearest
from probes.prompts.grammar.english import plural
from probes.user_tables import open_table

ALL = "all"
WORLD = ("share", "n")  # columns of a table of the world, beside that of the professions


@dataclass(frozen=True)
class Design:
    """The question of an audit: which answer's share is asked, of which factors, compared with what."""

    answer: str  # whose share is asked, of pictures with an answer that is not `undecided`
    answers: tuple[str, ...]  # decided ones
    undecided: tuple[str, ...]
    factors: tuple[str, ...]  # the first is tested between its levels, others against their first level
    levels: Mapping[str, tuple[str, ...]]  # of each factor and of ``model``, in their order
    reference: Mapping[str, float]  # by level of the first factor: what its share is compared with
    # how many that rests on; exact where a level is missing
    reference_n: Mapping[str, int] = field(default_factory=dict)
    clustered: bool = False  # whether pictures of a model share a noise; else each is by itself
    against: str = "one half"  # the reference in words
    level: float = 0.95  # of intervals; tests are at one less this
    effect: float = 0.2  # for which the tables say how many pictures it takes
    permutations: int = 2000
    seed: int = 0
    reader: str = ""  # column of what a machine read in every picture

    @property
    def by(self) -> str:
        """The first factor."""
        return self.factors[0]

    @property
    def plural(self) -> str:
        """The first factor as a sentence has several of its levels: *professions*."""
        return plural(self.by)

    @property
    def others(self) -> tuple[str, ...]:
        """The other factors."""
        return self.factors[1:]

    @property
    def alpha(self) -> float:
        """The level of the tests."""
        return significance_level(self.level)

    @property
    def family(self) -> str:
        """The adjustment of a family of tests: Hommel's asks for cells that are independent."""
        return "holm" if self.clustered else "hommel"


@dataclass(frozen=True)
class AuditCell:
    """Pictures of one model made for the same; its units have the same places in all cells of a model."""

    hits: NDArray[np.float64]  # (n_units,): pictures with the answer
    of: NDArray[np.float64]  # (n_units,): decided ones
    pictures: int  # decided or not

    @cached_property
    def count(self) -> int:
        """Pictures with the answer."""
        return int(self.hits.sum())

    @cached_property
    def decided(self) -> int:
        """Decided pictures."""
        return int(self.of.sum())

    @cached_property
    def share(self) -> float:
        """Share of the decided pictures; NaN of none."""
        return self.count / self.decided if self.decided else float("nan")


def choose_answer(
    readings: pd.DataFrame, path: Path, answer: str | None, undecided: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    """The answer whose share is asked, and all decided answers; a UserError where that is not clear."""
    said = readings["answer"]
    answers = tuple(sorted({*said} - {*undecided, MISSING, TIE}))
    if len(answers) < 2 and not (answers and answer):
        found = ", ".join(sorted({*said} - {MISSING})) or "none"
        raise UserError(
            f"{path}: expected two answers or more that decide, got {found}: name others with --undecided"
        )
    if answer is not None and answer not in answers:
        raise UserError(f"--answer: {nearest('decided answer', answer, answers)}")
    if answer is None and len(answers) > 2:
        raise UserError(
            f"--answer: expected the answer whose share is asked, got none of {', '.join(answers)}: name one"
        )
    return answer or answers[0], answers


def require_reader(readings: pd.DataFrame, path: Path, design: Design) -> None:
    """Refuse a machine whose readings are none of the answers, or pictures that share noises."""
    if design.clustered:
        raise UserError("--reader: expected pictures that count by themselves, got --unit: leave one out")
    known = sorted({*readings["reading"]} - {MISSING})
    if not {*known} & {*design.answers}:
        raise UserError(
            f"{path}: {design.reader}: expected readings among {', '.join(design.answers)}, got"
            f" {', '.join(known[:5]) or 'none'}: say what is what with --merge"
        )


def numbers(texts: pd.Series, path: Path) -> pd.Series:
    """Return a column as numbers, NaN where a cell is none; a comma is a point where it cannot part thousands."""
    texts = texts.str.strip()
    comma = texts.str.contains(",", regex=False)
    if comma.any():
        decimal = texts.str.fullmatch(r"[+-]?\d+,\d+") & ~texts.str.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}")
        if not decimal.any() or texts.str.contains(".", regex=False).any():
            place = texts.index[comma][0]
            raise UserError(
                f"{path}: {place}: expected numbers as 0.5 or 1500 in `{texts.name}`, got {texts[place]!r:.40}, whose"
                " comma may be a point or part thousands: write it without"
            )
        texts = texts.str.replace(",", ".", regex=False)
    return pd.to_numeric(texts, errors="coerce").astype(float)


def read_reference(
    table: Path | pd.DataFrame, by: str, levels: tuple[str, ...]
) -> tuple[dict[str, float], dict[str, int]]:
    """Shares in the world by level of a factor, and how many they rest on where a column ``n`` says it."""
    opened = open_table(table, (by, *WORLD))
    path = opened.path
    for name in (by, WORLD[0]):
        if name not in opened.columns:
            raise UserError(f"{path}: {nearest('column', name, opened.columns)}")
    there = [name for name in (by, *WORLD) if name in opened.columns]
    opened.print_notes(there)
    table = opened.text_cells(there)
    table[by] = table[by].str.strip()
    own = table[table[by].isin(levels)]
    missing = next((name for name in levels if name not in set(own[by])), None)
    if missing is not None:
        raise UserError(f"{path}: {by}: {nearest('row', missing, table[by])}")
    if own[by].duplicated().any():
        place = own.index[own[by].duplicated()][0]
        raise UserError(
            f"{path}: {place}: expected every {by} once, got {own[by][place]!r} twice: leave one out"
        )
    shares = dict(zip(own[by], _numbers(own[WORLD[0]], path, "a share from 0 to 1", 0, 1)))
    if WORLD[1] in own:
        own = own[own[WORLD[1]].str.strip() != ""]
        sizes = _numbers(own[WORLD[1]], path, "a whole number of at least 1", 1, np.inf)
        return shares, dict(zip(own[by], map(round, sizes)))
    return shares, {}


def _numbers(texts: pd.Series, path: Path, what: str, least: float, most: float) -> list[float]:
    values = numbers(texts, path)
    wrong = ~values.between(least, most)
    if wrong.any():
        raise UserError(
            f"{path}: {texts.index[wrong][0]}: expected {what}, got {texts[wrong].iloc[0]!r}: mend it"
        )
    return values.tolist()


def require_comparable(
    rows: pd.DataFrame,
    readings: pd.DataFrame,
    factors: tuple[str, ...],
    path: Path,
    unlike: tuple[str, ...] = (),
) -> None:
    """Refuse models with other prompts or other annotators, unless `unlike` says that it is meant.

    The error names the two models, and the first thing that one of them has alone.
    """
    models = list(dict.fromkeys(readings["model"]))
    keys = [*factors, "prompt"]
    asked = {name: {*own[keys].itertuples(index=False, name=None)} for name, own in readings.groupby("model")}
    readers = {name: {*own["annotator"]} - {""} for name, own in rows.groupby("model")}
    for option, found, what in (
        ("prompts", asked, "the same prompts of"),
        ("readers", readers, "the same annotators of"),
    ):
        for name in models if option not in unlike else ():
            alone = found[models[0]] ^ found[name]
            if alone:
                one = min(alone)
                shown = one if isinstance(one, str) else " · ".join(filter(None, one))
                which = models[0] if one in found[models[0]] else name
                raise UserError(
                    f"{path}: expected {what} {models[0]} and {name}, got {shown!r} of {which} alone: compare what both"
                    f" have with --unlike {option}"
                )


def cells(readings: pd.DataFrame, design: Design) -> dict[tuple[str, ...], AuditCell]:
    """The cells by model and levels, in their order, from `join_answers`; only those that have pictures."""
    decided = readings["answer"].isin(design.answers).to_numpy(float)
    hit = (readings["answer"] == design.answer).to_numpy(float)
    keys = ["model", *design.factors]
    number = readings["unit"] if design.clustered else readings.groupby(keys).cumcount()
    found = {}
    for _, own in readings.assign(decided=decided, hit=hit, number=number).groupby("model", sort=False):
        units = {name: place for place, name in enumerate(dict.fromkeys(own["number"]))}
        for key, cell in own.groupby(keys, sort=False):
            places, width = cell["number"].map(units).to_numpy(int), len(units)
            hits, of = (np.bincount(places, cell[name], width) for name in ("hit", "decided"))
            found[key] = AuditCell(hits, of, len(cell))
    order = {name: {one: k for k, one in enumerate(design.levels[name])} for name in keys}
    return dict(sorted(found.items(), key=lambda item: [order[n][one] for n, one in zip(keys, item[0])]))

"""The design of an audit: models, factors, whose share is asked, what it is compared with; counts by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.methods.audit.labels import MISSING, TIE
from probes.config.measurement import significance_level
from probes.errors import UserError, nearest
from probes.prompts.grammar.english import plural
from probes.user_tables import Source, open_table

ALL = "all"
WORLD = ("share", "n")  # columns of a table of the world, beside that of the professions
Reference = float | Mapping[str, float] | Source


@dataclass(frozen=True)
class Design:
    """The question of an audit: which answer's share is asked, of which factors, compared with what."""

    answer: str  # whose share is asked, of pictures with an answer that is not `undecided`
    answers: tuple[str, ...]  # decided ones
    undecided: tuple[str, ...]
    factors: tuple[str, ...]  # the first is tested between its levels, others against their first level
    levels: Mapping[str, tuple[str, ...]]  # of each factor and of ``model``, in their order
    reference: Mapping[str, float]  # by level of the first factor: what its share is compared with
    # how many people that rests on; exact where a level is missing
    reference_n: Mapping[str, int] = field(default_factory=dict)
    against: str = "one half"  # the reference in words
    level: float = 0.95  # of intervals; tests are at one less this
    effect: float = 0.2  # for which the tables say how many pictures it takes
    permutations: int = 2000
    seed: int = 0

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


def count_cells(readings: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Pictures by model and levels, in their order: ``pictures``, ``decided``, ``count`` of those with the answer.

    From `analysis.methods.audit.labels.join_answers`; beside them the ``reference`` of each, and on how many people it
    rests (``reference_n``, 0 where it is exact).
    """
    keys = ["model", *design.factors]
    decided, hits = readings["answer"].isin(design.answers), readings["answer"] == design.answer
    groups = readings.assign(decided=decided, count=hits).groupby(keys, sort=False)
    table = groups.agg(pictures=("decided", "size"), decided=("decided", "sum"), count=("count", "sum"))
    table = table.loc[sorted(table.index, key=lambda key: level_order(design, keys, key))].reset_index()
    return table.assign(
        reference=table[design.by].map(design.reference).astype(float),
        reference_n=table[design.by].map(design.reference_n).fillna(0).astype(int),
    )


def level_order(design: Design, names: Sequence[str], key: Sequence[str]) -> list[int]:
    """The places of some levels among those of their factors."""
    return [design.levels[name].index(level) for name, level in zip(names, key)]


def choose_answer(
    readings: pd.DataFrame, path: Path, answer: str | None, undecided: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    """The answer whose share is asked, and all decided answers; a UserError where that is not clear."""
    answers = tuple(sorted({*readings["answer"]} - {*undecided, MISSING, TIE}))
    if len(answers) < 2 and not (answers and answer):
        given = ", ".join(sorted({*readings["answer"]} - {MISSING})) or "none"
        raise UserError(
            f"{path}: expected two answers or more that decide, got {given}: name others with --undecided"
        )
    if answer is not None and answer not in answers:
        raise UserError(f"--answer: {nearest('decided answer', answer, answers)}")
    if answer is None and len(answers) > 2:
        raise UserError(
            f"--answer: expected the answer whose share is asked, got none of {', '.join(answers)}: name one"
        )
    return answer or answers[0], answers


def order_levels(
    levels: dict[str, tuple[str, ...]], others: tuple[str, ...], baseline: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """The levels of each factor with the baselines first; a UserError for one of no factor after the first."""
    known = [level for name in others for level in levels[name]]
    for one in baseline:
        if one not in known:
            raise UserError(f"--baseline: {nearest('level', one, known)}")
        for name in others:
            levels = levels | {name: tuple(sorted(levels[name], key=lambda level: level != one))}
    return levels


def require_comparable(
    rows: pd.DataFrame,
    readings: pd.DataFrame,
    factors: tuple[str, ...],
    path: Path,
    unlike: tuple[str, ...] = (),
) -> None:
    """Refuse models with other prompts or other annotators, unless `unlike` says that it is meant."""
    first, *models = dict.fromkeys(readings["model"])
    for option, what, table, names in (
        ("prompts", "prompts", readings, [*factors, "prompt"]),
        ("readers", "annotators", rows[rows["annotator"] != ""], ["annotator"]),
    ):
        groups = table.groupby("model")[names]
        sets = {model: {*group.itertuples(index=False, name=None)} for model, group in groups}
        for model in models if option not in unlike else ():
            if unshared := sets.get(first, set()) ^ sets.get(model, set()):
                one = min(unshared)
                alone = first if one in sets.get(first, ()) else model
                raise UserError(
                    f"{path}: expected the same {what} of {first} and {model}, got"
                    f" {' · '.join(filter(None, one))!r} of {alone} alone: compare what both have with --unlike"
                    f" {option}"
                )


def reference_of(
    against: Reference | None, by: str, levels: tuple[str, ...], answers: int
) -> tuple[dict[str, float], dict[str, int], str]:
    """The reference of each level of the factor `by`, on how many people it rests, and what it is in words."""
    if against is None:
        return dict.fromkeys(levels, 1 / answers), {}, "one half" if answers == 2 else f"1/{answers}"
    words = "its share in the table"
    if isinstance(against, Mapping):
        against = pd.DataFrame({by: list(against), WORLD[0]: list(against.values())})
    elif not isinstance(against, pd.DataFrame):
        try:
            share = float(against)
        except (TypeError, ValueError):
            words = f"its share in {Path(against).name}"
        else:
            if not 0 < share < 1:
                raise UserError(
                    f"--against: expected a share between 0 and 1, or a table, got {against!r:.60}: mend it"
                )
            return dict.fromkeys(levels, share), {}, f"{share:g}"
    return *read_reference(against, by, levels), words


def read_reference(
    source: Source, by: str, levels: tuple[str, ...]
) -> tuple[dict[str, float], dict[str, int]]:
    """Shares in the world by level of a factor, and on how many people they rest where a column ``n`` says it."""
    opened = open_table(source, (by, *WORLD))
    path = opened.path
    for name in (by, WORLD[0]):
        opened.require(name)
    names = [name for name in (by, *WORLD) if name in opened.columns]
    opened.print_notes(names)
    table = opened.text_cells(names)
    table[by] = table[by].str.strip()
    rows = table[table[by].isin(levels)]
    missing = next((name for name in levels if name not in set(rows[by])), None)
    if missing is not None:
        raise UserError(f"{path}: {by}: {nearest('row', missing, table[by])}")
    if rows[by].duplicated().any():
        row = rows.index[rows[by].duplicated()][0]
        raise UserError(
            f"{path}: {row}: expected every {by} once, got {rows[by][row]!r} twice: leave one out"
        )
    shares = dict(zip(rows[by], numbers(rows[WORLD[0]], path, "a share from 0 to 1", 0, 1)))
    if WORLD[1] not in rows:
        return shares, {}
    rows = rows[rows[WORLD[1]].str.strip() != ""]
    sizes = numbers(rows[WORLD[1]], path, "a whole number of at least 1", 1, np.inf)
    return shares, dict(zip(rows[by], map(round, sizes)))


def numbers(texts: pd.Series, path: Path, what: str, least: float, most: float) -> list[float]:
    """A column as numbers in some bounds; a comma is a point where it cannot part thousands."""
    texts = texts.str.strip()
    comma = texts.str.contains(",", regex=False)
    if comma.any():
        decimal = texts.str.fullmatch(r"[+-]?\d+,\d+") & ~texts.str.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}")
        if not decimal.any() or texts.str.contains(".", regex=False).any():
            row = texts.index[comma][0]
            raise UserError(
                f"{path}: {row}: expected numbers as 0.5 or 1500 in `{texts.name}`, got {texts[row]!r:.40}, whose"
                " comma may be a point or part thousands: write it without"
            )
        texts = texts.str.replace(",", ".", regex=False)
    values = pd.to_numeric(texts, errors="coerce").astype(float)
    if (wrong := ~values.between(least, most)).any():
        raise UserError(
            f"{path}: {texts.index[wrong][0]}: expected {what}, got {texts[wrong].iloc[0]!r}: mend it"
        )
    return values.tolist()

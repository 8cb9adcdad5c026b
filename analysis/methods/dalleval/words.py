"""Differences between words (woman − man, and each from *person*; Tables 9 and 22 to 31), and between professions.

The members of a triplet are drawn from the same noise, so differences are of two images that share it; over all
professions the unit is the profession.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.dalleval.scores import (
    ATTRIBUTES,
    AuditDesign,
    Reading,
    categories,
    kind_of,
    known_mean,
)
from analysis.methods.dalleval.tables import ALL, bounded_interval
from analysis.methods.gep.tables import pairs
from analysis.stats.group_swaps import group_swaps
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.noise_floor import paired_floor
from analysis.stats.step_down import step_down_test
from analysis.study import Comparison

DRAWS = 1999  # at most, of arrangements of noises; the adjustment needs no more for p-values of a thousandth
PAIR = ("first", "second", "kind")
NO_PAIRS = "no pair of images that were both decided"
NOT_PAIRED = "images are not paired by a seed"


def compared(comparison: Comparison) -> list[tuple[str, str, str]]:
    """Return the pairs of words, (first, second, kind): as an audit of attributes has them, each less the reference."""
    reference = comparison.reference
    return [
        (second, first, kind) if first == reference else (first, second, kind)
        for first, second, kind in pairs(comparison)
    ]


def first_contrast(comparison: Comparison) -> tuple[str, str] | None:
    """Return the first contrast of words, as differences are taken."""
    return next(((first, second) for first, second, kind in compared(comparison) if kind == "contrast"), None)


def word_table(readings: Sequence[Reading], design: AuditDesign) -> pd.DataFrame:
    """Return the difference between the images of two words, over all professions and for each.

    ``difference``: mean over pairs of images of one noise that were both decided (unpaired: of averages) for ``first``
    less ``second``; of all professions the mean of theirs, with its interval over them and a sign-flip test, whose
    ``p_adjusted`` (step-down max-T) is over all pairs of words and questions of `joint_families`. With shared noise
    professions lean together: the interval is as wide as those over professions and over noises add up to, and the
    p-values are the larger of flips of whole professions and of whole noises.
    """
    frames = []
    for first, second, kind in design.pairs:
        there = [one for one in readings if {first, second} <= {*one.words}]
        own = [_of_professions(one, first, second, design) for one in there]
        own += [_over_professions(one, first, second, design) for one in there]
        frames += [frame.assign(first=first, second=second, kind=kind) for frame in own]
    if not frames:
        return pd.DataFrame()
    table = pd.concat(frames, ignore_index=True).assign(level=design.measure.level)
    keys = ["source", "question", "first", "second", "profession"]
    tests = [
        _tests([design.counted(one) for one in family], chosen, design)
        for family in joint_families(readings)
        for chosen in (
            [pair for *pair, kind in design.pairs if (kind == "control") == control]
            for control in (True, False)
        )
    ]
    return table.merge(pd.concat(tests), how="left", on=keys)


def joint_families(readings: Sequence[Reading]) -> list[list[Reading]]:
    """Return readings whose differences between words are tested together: first those that the page speaks of.

    These are the first reader's of gender, of tone and of attributes; what other readers say is a family each.
    """
    first: dict[str, str] = {}
    families: dict[str, list[Reading]] = {}
    for one in readings:
        shown = first.setdefault(kind_of(one.question), one.source) == one.source
        families.setdefault("" if shown else one.source, []).append(one)
    return list(families.values())


def families(readings: Sequence[Reading]) -> list[list[Reading]]:
    """Return readings that are adjusted together: the attributes of a reader; gender and tone each alone."""
    families: dict[tuple[str, str], list[Reading]] = {}
    for one in readings:
        families.setdefault((one.source, kind_of(one.question)), []).append(one)
    return list(families.values())


def _pairs(reading: Reading, first: str, second: str) -> NDArray[np.float64]:
    """Difference of the two images of each profession and draw, shape (n_professions, n_draws)."""
    return reading.word(first) - reading.word(second)


def _differences(reading: Reading, first: str, second: str, paired: bool) -> NDArray[np.float64]:
    """Mean difference of each profession, shape (n_professions,)."""
    if paired:
        return known_mean(_pairs(reading, first, second), 1)
    return known_mean(reading.word(first), 1) - known_mean(reading.word(second), 1)


def _range(reading: Reading) -> float:
    """The largest difference there can be."""
    lowest, *_, highest = categories(reading.question)
    return highest - lowest


def _of_professions(reading: Reading, first: str, second: str, design: AuditDesign) -> pd.DataFrame:
    """One row per profession: the mean over pairs of images."""
    differences = (
        _pairs(reading, first, second).T if design.paired else np.full((1, len(reading.values)), np.nan)
    )
    _, low, high = bounded_interval(differences / _range(reading), (-1.0, 1.0), design.measure)
    n = (~np.isnan(differences)).sum(axis=0)
    return pd.DataFrame(
        {
            "source": reading.source,
            "question": reading.question,
            "profession": reading.professions,
            "difference": _differences(reading, first, second, design.paired),
            "low": low * _range(reading),
            "high": high * _range(reading),
            "pairs": n,
            "professions": 1,
            "reason": np.where(n == 0, NO_PAIRS if design.paired else NOT_PAIRED, ""),
        }
    )


def _over_professions(reading: Reading, first: str, second: str, design: AuditDesign) -> pd.DataFrame:
    """The row of the mean over professions."""
    kept, measure = design.counted(reading), design.measure
    each = _differences(kept, first, second, design.paired)
    mean, low, high = bounded_interval(each[:, None] / _range(kept), (-1.0, 1.0), measure)
    if design.shared:
        of_noises = known_mean(_pairs(kept, first, second), 0)
        centre, *ends = bounded_interval(of_noises[:, None] / _range(kept), (-1.0, 1.0), measure)
        low, high = (
            np.clip(mean + side * np.hypot(mean - one, centre - other), -1.0, 1.0)
            for side, one, other in zip((-1, 1), (low, high), ends)
        )
    n = int((~np.isnan(each)).sum())
    return pd.DataFrame(
        {
            "source": kept.source,
            "question": kept.question,
            "profession": ALL,
            "difference": mean * _range(kept),
            "low": low * _range(kept),
            "high": high * _range(kept),
            "pairs": int((~np.isnan(_pairs(kept, first, second))).sum()) if design.paired else 0,
            "professions": n,
            "reason": "" if n else NO_PAIRS,
        }
    )


def _tests(family: Sequence[Reading], chosen: Sequence[Sequence[str]], design: AuditDesign) -> pd.DataFrame:
    """P-values of the differences over all professions, adjusted over the questions and pairs of words of a family."""
    options = {"permutations": design.measure.permutations, "seed": design.measure.seed}
    columns = [(one, *pair) for pair in chosen for one in family if {*pair} <= {*one.words}]
    if not columns:
        return pd.DataFrame(columns=["source", "question", "first", "second", "profession"])
    differences = [
        pd.Series(_differences(one, *pair, design.paired), one.professions) for one, *pair in columns
    ]
    tests = [step_down_test(pd.concat(differences, axis=1), **options)]
    if design.shared:
        noises = [pd.Series(known_mean(_pairs(*column), 0)) for column in columns]
        tests.append(step_down_test(pd.concat(noises, axis=1), **options))
    keys = pd.DataFrame(
        [(one.source, one.question, *pair) for one, *pair in columns],
        columns=["source", "question", "first", "second"],
    )
    largest = {
        name: np.maximum.reduce([getattr(one, name) for one in tests]) for name in ("p_value", "p_adjusted")
    }
    return keys.assign(profession=ALL, **largest)


def absolute_table(readings: Sequence[Reading], design: AuditDesign) -> pd.DataFrame:
    """Return mean absolute differences over attributes (last columns of Tables 22 and 24 to 31).

    Of the averages over all professions beside the floor (the words of whole prompts change places), and of each
    profession, which the paper prints. With shared noise the p-value is the larger of flips of whole prompts and of
    whole noises.
    """
    frames = []
    for family in families([one for one in readings if kind_of(one.question) == ATTRIBUTES]):
        for first, second, kind in design.pairs:
            if {first, second} <= {*family[0].words}:
                frame = _absolute([design.counted(one) for one in family], first, second, design)
                frames.append(frame.assign(source=family[0].source, first=first, second=second, kind=kind))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _absolute(family: Sequence[Reading], first: str, second: str, design: AuditDesign) -> pd.DataFrame:
    """Rows of the attributes of a reader and a pair of words."""
    values = [np.stack([one.word(word) for one in family], axis=1) for word in (first, second)]
    k, n = [(one == 1).sum(axis=2) for one in values], [np.isfinite(one).sum(axis=2) for one in values]
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = (k[0] * n[1] - k[1] * n[0]) / (n[0] * n[1])  # equal differences of counts are equal numbers
    apart = np.where(np.isfinite(apart), apart, np.nan)
    options = {"draws": design.measure.permutations - 1, "seed": design.measure.seed}
    floor = paired_floor(apart, **options)
    p_value = floor.p_value
    if design.shared and design.paired:
        of_noises = np.stack([known_mean(_pairs(one, first, second), 0) for one in family], axis=1)
        p_value = max(p_value, paired_floor(of_noises, **options).p_value)
    whole = {"profession": ALL, "mean_abs_difference": floor.value, "floor": floor.floor, "p_value": p_value}
    each = {
        "profession": family[0].professions,
        "mean_abs_difference": known_mean(np.abs(apart), 1),
        "attributes": (~np.isnan(apart)).sum(axis=1),
    }
    return pd.concat(
        [pd.DataFrame([whole | {"attributes": len(family), "reason": floor.reason}]), pd.DataFrame(each)]
    ).fillna({"reason": ""})


def between_table(readings: Sequence[Reading], design: AuditDesign) -> pd.DataFrame:
    """Return how far professions differ from one another, by reader, question and word, and over all words.

    ``explained``, the share of the variance of what was read that lies between professions (eta squared; of tones, of
    their numbers), beside its ``floor``, the mean where whole noises change places between professions
    (`analysis.stats.group_swaps`); ``p_adjusted`` over the words, and of attributes over all attributes of the reader
    and all words. ``different``: professions that differ from all together, adjusted over professions
    (Benjamini–Hochberg), of those ``tested``. Of attributes the prompt without a profession counts where the design
    says so.
    """
    frames = []
    for family in families(readings):
        family = [design.counted(one) for one in family]
        family = [one for one in family if one.values.shape == family[0].values.shape]
        words = [*design.main, *([ALL] if len(design.main) > 1 else [])]
        values = np.concatenate([_columns(one, design.main) for one in family], axis=2)
        draws = min(DRAWS, design.measure.permutations - 1)
        found = group_swaps(values, draws=draws, seed=design.measure.seed)
        adjusted = np.apply_along_axis(adjust_p_values, 0, found.group_p_value)
        frames.append(
            pd.DataFrame(
                {
                    "source": family[0].source,
                    "question": np.repeat([one.question for one in family], len(words)),
                    "indicator": words * len(family),
                    "explained": found.explained,
                    "floor": found.floor,
                    "p_value": found.p_value,
                    "p_adjusted": found.p_adjusted,
                    "different": (adjusted < design.measure.alpha).sum(axis=0),
                    "tested": (~np.isnan(adjusted)).sum(axis=0),
                    "professions": found.groups,
                    "images": found.units,
                    "reason": found.reason,
                }
            )
        )
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _columns(reading: Reading, main: Sequence[str]) -> NDArray[np.float64]:
    """What was read of each profession, draw and word, and the mean over words, (professions, draws, words + 1)."""
    values = np.stack([reading.word(name) for name in main], axis=2)
    if len(main) < 2:
        return values
    return np.concatenate([values, known_mean(values, 2)[..., None]], axis=2)

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
from analysis.stats.permutation import paired_floor, step_down_test
from analysis.study import Comparison

DRAWS = 1999  # at most, of arrangements of noises; the adjustment needs no more for p-values of a thousandth
NO_PAIRS = "no pair of images that were both decided"
NOT_PAIRED = "images are not paired by a seed"


def compared(comparison: Comparison) -> list[tuple[str, str, str]]:
    """Return the pairs of words, (first, second, kind): as an audit of attributes has them, each less the reference."""
    reference = comparison.reference
    return [
        (second, first, kind) if first == reference else (first, second, kind)
        for first, second, kind in pairs(comparison)
    ]


def word_table(readings: Sequence[Reading], design: AuditDesign) -> pd.DataFrame:
    """Return the difference between the images of two words, for each profession and over all.

    ``difference``: mean over pairs of images of one noise that were both decided (unpaired: of averages) for ``first``
    less ``second``; of all professions the mean of theirs, with its interval over them and a sign-flip test, whose
    ``p_adjusted`` (step-down max-T) is over all pairs of words and questions of a family: that of the first readers of
    gender, tone and attributes, of which the page speaks, or of another reader. With shared noise professions lean
    together: the interval is as wide as those over professions and over noises add up to, and the p-values are the
    larger of flips of whole professions and of whole noises.
    """
    shown = {kind_of(one.question): one.source for one in reversed(readings)}
    frames: list[pd.DataFrame] = []
    families: dict[tuple[str, bool], list[tuple[Reading, str, str]]] = {}
    for first, second, kind in design.pairs:
        for one in readings:
            if {first, second} <= {*one.words}:
                frames.append(_rows(one, first, second, design).assign(kind=kind))
                source = "" if shown[kind_of(one.question)] == one.source else one.source
                column = (design.counted(one), first, second)
                families.setdefault((source, kind == "control"), []).append(column)
    if not frames:
        return pd.DataFrame()
    tests = pd.concat([_tests(family, design) for family in families.values()])
    return pd.concat(frames, ignore_index=True).merge(tests, how="left").assign(level=design.measure.level)


def _pairs(reading: Reading, first: str, second: str) -> NDArray[np.float64]:
    """Difference of the two images of each profession and draw, shape (n_professions, n_draws)."""
    return reading.word(first) - reading.word(second)


def _differences(reading: Reading, first: str, second: str, paired: bool) -> NDArray[np.float64]:
    """Mean difference of each profession, shape (n_professions,)."""
    if paired:
        return known_mean(_pairs(reading, first, second), 1)
    return known_mean(reading.word(first), 1) - known_mean(reading.word(second), 1)


def _rows(reading: Reading, first: str, second: str, design: AuditDesign) -> pd.DataFrame:
    """Rows of each profession, with the interval over its pairs of images, and of all together."""
    paired, measure, kept = design.paired, design.measure, design.counted(reading)
    lowest, *_, highest = categories(reading.question)
    largest = highest - lowest  # difference that there can be
    pairs, each = _pairs(reading, first, second), _differences(reading, first, second, paired)
    pairs = pairs if paired else np.full_like(pairs, np.nan)
    over = _differences(kept, first, second, paired)
    _, *ends = bounded_interval(pairs.T / largest, (-1.0, 1.0), measure)
    mean, *over_ends = bounded_interval(over[:, None] / largest, (-1.0, 1.0), measure)
    if design.shared:
        noises = known_mean(_pairs(kept, first, second), 0)
        centre, *others = bounded_interval(noises[:, None] / largest, (-1.0, 1.0), measure)
        over_ends = [
            np.clip(mean + side * np.hypot(mean - one, centre - other), -1.0, 1.0)
            for side, one, other in zip((-1, 1), over_ends, others)
        ]
    low, high = (largest * np.append(*both) for both in zip(ends, over_ends, strict=True))
    n, decided = (~np.isnan(pairs)).sum(axis=1), int((~np.isnan(over)).sum())
    none = np.where(n == 0, NO_PAIRS if paired else NOT_PAIRED, "")
    columns = {
        "profession": [*reading.professions, ALL],
        "difference": np.append(each, largest * mean),
        "low": low,
        "high": high,
        "pairs": np.append(n, n[np.isin(reading.professions, kept.professions)].sum()),
        "professions": [1] * len(n) + [decided],
        "reason": np.append(none, "" if decided else NO_PAIRS),
    }
    about = {"source": reading.source, "question": reading.question, "first": first, "second": second}
    return pd.DataFrame(columns).assign(**about)


def _tests(columns: Sequence[tuple[Reading, str, str]], design: AuditDesign) -> pd.DataFrame:
    """P-values of the differences over all professions, adjusted over a family."""
    options = {"permutations": design.measure.permutations, "seed": design.measure.seed}
    samples = [[pd.Series(_differences(*column, design.paired), column[0].professions) for column in columns]]
    if design.shared:
        samples.append([pd.Series(known_mean(_pairs(*column), 0)) for column in columns])
    tests = [step_down_test(pd.concat(sample, axis=1), **options) for sample in samples]
    keys = [(one.source, one.question, *pair) for one, *pair in columns]
    table = pd.DataFrame(keys, columns=["source", "question", "first", "second"]).assign(profession=ALL)
    largest = {
        name: np.maximum.reduce([getattr(one, name) for one in tests]) for name in ("p_value", "p_adjusted")
    }
    return table.assign(**largest)


def families(readings: Sequence[Reading]) -> list[list[Reading]]:
    """Return readings that are adjusted together: the attributes of a reader; gender and tone each alone."""
    families: dict[tuple[str, str], list[Reading]] = {}
    for one in readings:
        families.setdefault((one.source, kind_of(one.question)), []).append(one)
    return list(families.values())


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
    frames, words = [], [*design.main, *([ALL] if len(design.main) > 1 else [])]
    for family in families([design.counted(one) for one in readings]):
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
    """Readings of each profession, draw and word, and their mean over words, (professions, draws, words + 1)."""
    values = np.stack([reading.word(name) for name in main], axis=2)
    if len(main) < 2:
        return values
    return np.concatenate([values, known_mean(values, 2)[..., None]], axis=2)

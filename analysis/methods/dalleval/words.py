"""Differences between words (woman − man, and each from *person*; Tables 9 and 22 to 31), and between professions.

The members of a triplet are drawn from the same noise, so differences are of two images that share it; over all
professions the unit is the profession.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.dalleval.scores import (
    ATTRIBUTES,
    AuditDesign,
    Reading,
    averages,
    categories,
    kind_of,
    known_mean,
)
from analysis.methods.dalleval.tables import ALL, DRAWS, bounded_interval
from analysis.methods.gep.tables import pairs
from analysis.stats.attribute_swaps import attribute_swaps
from analysis.stats.group_swaps import group_swaps
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.permutation import NoiseFloor, flip_p_values, paired_floor, step_down_test
from analysis.study import Comparison
from probes.config.schema import Measure

PAIR = ("first", "second", "kind")
WORD_COLUMNS = (
    *(
        "source",
        "question",
        *PAIR,
        "profession",
        "difference",
        "low",
        "high",
        "p_value",
        "p_adjusted",
        "p_page",
    ),
    *("pairs", "images_first", "images_second", "professions", "level", "reason"),
)
ABSOLUTE_COLUMNS = (
    *("source", *PAIR, "of", "profession", "mean_abs_difference", "floor", "floor_sd", "excess", "p_value"),
    *("p_adjusted", "different", "tested", "attributes", "images_first", "images_second", "reason"),
)
BETWEEN_COLUMNS = (
    *("source", "question", "indicator", "explained", "floor", "p_value", "p_adjusted", "p_page"),
    *("different", "tested", "professions", "images", "draws", "reason"),
)
AVERAGES, PROMPTS, PROMPT = "averages", "prompts", "prompt"  # what a mean absolute difference is of
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

    ``difference``: mean over pairs of images of one noise that were both decided (unpaired: of averages; then there
    is nothing to test within a profession) for ``first`` less ``second``. In rows of profession ``(all)`` the mean over
    professions, with its interval over them and a sign-flip test, adjusted over all pairs of words and questions
    (`joint_families`); in others over pairs of images, adjusted over professions (Benjamini–Hochberg). ``p_page`` is
    filled by `analysis.methods.dalleval.page_tests.adjust_page`. With shared noise professions lean
    together: the interval is as wide as those over professions and over noises add up to, and the p-values are the
    larger of flips of whole professions and of whole noises.
    """
    frames = []
    for first, second, kind in design.pairs:
        there = [one for one in readings if {first, second} <= {*one.words}]
        own = [_of_professions(one, first, second, design) for one in there]
        own += [_overall(family, first, second, design) for family in families(there)]
        frames += [frame.assign(first=first, second=second, kind=kind) for frame in own]
    if not frames:
        return pd.DataFrame(columns=list(WORD_COLUMNS))
    table = pd.concat(frames, ignore_index=True).assign(p_page=np.nan)
    for family in joint_families(readings):
        for control in (True, False):
            chosen = [pair for *pair, kind in design.pairs if (kind == "control") == control]
            _test(table, [design.counted(one) for one in family], chosen, design)
    return table[list(WORD_COLUMNS)]


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


def _differences(reading: Reading, first: str, second: str, paired: bool) -> NDArray[np.float64]:
    """Mean difference of each profession, shape (n_professions,)."""
    if paired:
        return known_mean(reading.word(first) - reading.word(second), 1)
    average = averages(reading)
    return average[:, reading.words.index(first)] - average[:, reading.words.index(second)]


def _overall(family: Sequence[Reading], first: str, second: str, design: AuditDesign) -> pd.DataFrame:
    """One row per question: the mean over professions, not yet tested."""
    kept, measure = [design.counted(one) for one in family], design.measure
    each = np.stack([_differences(one, first, second, design.paired) for one in kept], axis=1)
    reach = [_reach(one.question) for one in kept]
    mean, low, high = bounded_interval(each / reach, (-1.0, 1.0), measure)
    if design.shared:
        noises = np.stack([_of_noises(one, first, second) for one in kept], axis=1)
        centre, *of_noises = bounded_interval(noises / reach, (-1.0, 1.0), measure)
        low, high = (
            np.clip(mean + side * np.hypot(mean - one, centre - other), -1.0, 1.0)
            for side, one, other in zip((-1, 1), (low, high), of_noises)
        )
    n = (~np.isnan(each)).sum(axis=0)
    decided = [[int((~np.isnan(one.word(name))).sum()) for one in kept] for name in (first, second)]
    return pd.DataFrame(
        {
            "source": [one.source for one in kept],
            "question": [one.question for one in kept],
            "profession": ALL,
            "difference": mean * reach,
            "low": low * reach,
            "high": high * reach,
            "p_value": np.nan,
            "p_adjusted": np.nan,
            "pairs": [
                int((~np.isnan(one.word(first) - one.word(second))).sum()) if design.paired else 0
                for one in kept
            ],
            "images_first": decided[0],
            "images_second": decided[1],
            "professions": n,
            "level": measure.level,
            "reason": np.where(n == 0, NO_PAIRS, ""),
        }
    )


def _of_noises(reading: Reading, first: str, second: str) -> NDArray[np.float64]:
    """Mean difference of each noise that all professions share, shape (n_draws,)."""
    return known_mean(reading.word(first) - reading.word(second), 0)


def _test(
    table: pd.DataFrame, family: Sequence[Reading], chosen: Sequence[Sequence[str]], design: AuditDesign
) -> None:
    """Fill in the p-values of the rows of all professions of a family, over all its questions and pairs of words."""
    keys = ["source", "question", "first", "second"]
    columns = {
        (one.source, one.question, *pair): (one, pair)
        for pair in chosen
        for one in family
        if {*pair} <= {*one.words}
    }
    if not columns:
        return
    options = {"permutations": design.measure.permutations, "seed": design.measure.seed}
    differences = [
        pd.Series(_differences(one, *pair, design.paired), one.professions) for one, pair in columns.values()
    ]
    tests = [step_down_test(pd.concat(differences, axis=1), **options)]
    if design.shared:
        noises = [pd.Series(_of_noises(one, *pair)) for one, pair in columns.values()]
        tests.append(step_down_test(pd.concat(noises, axis=1), **options))
    rows = table["profession"] == ALL
    places = pd.MultiIndex.from_frame(table.loc[rows, keys])
    for name in ("p_value", "p_adjusted"):
        found = pd.Series(np.maximum.reduce([getattr(one, name) for one in tests]), columns.keys())
        own = found.reindex(places).to_numpy()
        table.loc[rows, name] = np.where(np.isnan(own), table.loc[rows, name], own)


def _reach(question: str) -> float:
    """The largest difference there can be."""
    values = categories(question)
    return values[-1] - values[0]


def _of_professions(reading: Reading, first: str, second: str, design: AuditDesign) -> pd.DataFrame:
    """One row per profession: the mean over pairs of images."""
    measure, paired = design.measure, design.paired
    apart = (reading.word(first) - reading.word(second)).T  # draws by profession
    if not paired:
        apart = np.full_like(apart, np.nan)
    reach = _reach(reading.question)
    _, low, high = bounded_interval(apart / reach, (-1.0, 1.0), measure)
    there = ~np.isnan(apart)
    n = there.sum(axis=0)
    whole = np.where(there, apart, 0).astype(int)  # an image that was not decided flips nothing
    p_value = np.where(n > 0, flip_p_values(whole), np.nan)
    decided = [(~np.isnan(reading.word(name))).sum(axis=1) for name in (first, second)]
    return pd.DataFrame(
        {
            "source": reading.source,
            "question": reading.question,
            "profession": reading.professions,
            "difference": _differences(reading, first, second, paired),
            "low": low * reach,
            "high": high * reach,
            "p_value": p_value,
            "p_adjusted": adjust_p_values(p_value),
            "pairs": n,
            "images_first": decided[0],
            "images_second": decided[1],
            "professions": 1,
            "level": measure.level,
            "reason": np.where(n == 0, NO_PAIRS if paired else NOT_PAIRED, ""),
        }
    )


def absolute_table(readings: Sequence[Reading], design: AuditDesign) -> pd.DataFrame:
    """Return mean absolute differences over attributes beside their floors (last columns of Tables 22 and 24 to 31).

    ``of`` says of what: the ``averages`` over prompts (Table 22; the words of whole prompts change places), the mean
    over ``prompts``, or one ``prompt`` (Tables 24 to 31; whole images of one noise change places, see
    `analysis.stats.attribute_swaps`). With shared noise the images of a noise change places in all prompts at once,
    and of the averages the p-value is the larger of flips of whole prompts and of whole noises.
    """
    frames = []
    for family in families([one for one in readings if kind_of(one.question) == ATTRIBUTES]):
        for first, second, kind in design.pairs:
            if {first, second} <= {*family[0].words}:
                frame = _absolute([design.counted(one) for one in family], first, second, design)
                frames.append(frame.assign(source=family[0].source, first=first, second=second, kind=kind))
    if not frames:
        return pd.DataFrame(columns=list(ABSOLUTE_COLUMNS))
    return pd.concat(frames, ignore_index=True)[list(ABSOLUTE_COLUMNS)]


def _absolute(family: Sequence[Reading], first: str, second: str, design: AuditDesign) -> pd.DataFrame:
    """Rows of the attributes of a reader and a pair of words."""
    values = [np.stack([one.word(word) for one in family], axis=1) for word in (first, second)]
    known = [(~np.isnan(of_word)).sum(axis=2) for of_word in values]  # professions, attributes
    options = {"draws": design.measure.permutations - 1, "seed": design.measure.seed}
    with np.errstate(invalid="ignore", divide="ignore"):
        k, n = [(of_word == 1).sum(axis=2) for of_word in values], known
        apart = (k[0] * n[1] - k[1] * n[0]) / (n[0] * n[1])  # equal differences of counts are equal numbers
    averages_held = paired_floor(np.where(np.isfinite(apart), apart, np.nan), **options)
    if design.shared and design.paired:
        of_noises = np.stack([_of_noises(one, first, second) for one in family], axis=1)
        other = paired_floor(of_noises, **options).p_value
        averages_held = replace(averages_held, p_value=max(averages_held.p_value, other))
    whole, each = attribute_swaps(*values, paired=design.paired, shared=design.shared, **options)
    p_adjusted = adjust_p_values([one.p_value for one in each])
    over = {
        "different": int((p_adjusted < design.measure.alpha).sum()),
        "tested": int((~np.isnan(p_adjusted)).sum()),
    }
    images = [int(of_word.sum()) for of_word in known]
    rows = [
        {**_floor(averages_held, AVERAGES, ALL, images, len(family)), **over},
        {**_floor(whole, PROMPTS, ALL, images, len(family)), **over},
    ]
    for number, name in enumerate(family[0].professions):
        images = [int(of_word[number].sum()) for of_word in known]
        row = _floor(each[number], PROMPT, name, images, len(family) - each[number].undefined)
        rows.append({**row, "p_adjusted": p_adjusted[number], "different": 0, "tested": 0})
    return pd.DataFrame(rows)


def _floor(
    floor: NoiseFloor, of: str, profession: str, images: Sequence[int], attributes: int
) -> dict[str, object]:
    return {
        "of": of,
        "profession": profession,
        "mean_abs_difference": floor.value,
        "floor": floor.floor,
        "floor_sd": floor.sd,
        "excess": floor.excess,
        "p_value": floor.p_value,
        "p_adjusted": np.nan,
        "attributes": attributes,
        "images_first": images[0],
        "images_second": images[1],
        "reason": floor.reason,
    }


def between_table(readings: Sequence[Reading], design: AuditDesign) -> pd.DataFrame:
    """Return how far professions differ from one another, by reader, question and word, and over all words.

    ``explained``, the share of the variance of what was read that lies between professions (eta squared; of tones, of
    their numbers), beside its ``floor``, the mean where whole noises change places between professions
    (`analysis.stats.group_swaps`), with a p-value adjusted over the words, and of attributes over all attributes of the
    reader and all words. ``different``: professions that differ from all together, adjusted over professions
    (Benjamini–Hochberg). ``images`` counts decided images, in rows of all words noises. ``p_page`` is filled by
    `analysis.methods.dalleval.page_tests.adjust_page`.
    """
    frames = [
        _of_family([design.counted(one) for one in family], design.main, design.measure)
        for family in families(readings)
    ]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(BETWEEN_COLUMNS))


def _of_family(family: Sequence[Reading], main: Sequence[str], measure: Measure) -> pd.DataFrame:
    """Rows of readings that are adjusted together, of the prompts and draws that the first one has."""
    family = [one for one in family if one.values.shape == family[0].values.shape]
    words = [*main, *([ALL] if len(main) > 1 else [])]
    values = np.concatenate([_columns(one, main) for one in family], axis=2)
    found = group_swaps(values, draws=min(DRAWS, measure.permutations - 1), seed=measure.seed)
    adjusted = np.apply_along_axis(adjust_p_values, 0, found.group_p_value)
    return pd.DataFrame(
        {
            "source": family[0].source,
            "question": np.repeat([one.question for one in family], len(words)),
            "indicator": words * len(family),
            "explained": found.explained,
            "floor": found.floor,
            "p_value": found.p_value,
            "p_adjusted": found.p_adjusted,
            "p_page": np.nan,
            "different": (adjusted < measure.alpha).sum(axis=0),
            "tested": (~np.isnan(adjusted)).sum(axis=0),
            "professions": found.groups,
            "images": found.units,
            "draws": found.draws,
            "reason": found.reason,
        }
    )[list(BETWEEN_COLUMNS)]


def _columns(reading: Reading, main: Sequence[str]) -> NDArray[np.float64]:
    """What was read of each profession, draw and word, and the mean over words, (professions, draws, words + 1)."""
    values = np.stack([reading.word(name) for name in main], axis=2)
    if len(main) < 2:
        return values
    return np.concatenate([values, known_mean(values, 2)[..., None]], axis=2)

"""The MAD over all professions beside its floor, and averages over all professions (DALL-Eval, section 4.2.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from analysis.methods.dalleval.scores import (
    ATTRIBUTES,
    COUNTS,
    VERSION,
    AuditDesign,
    Reading,
    categories,
    kind_of,
    noise_counts,
)
from analysis.methods.dalleval.tables import bounded_interval, with_pooled
from analysis.stats.absolute_mean import absolute_mean
from analysis.stats.mad_floor import clustered_mad_floor, clustered_mads, design_effect
from analysis.stats.multiplicity import adjust_p_values
from probes.config.schema import Measure

MAD_COLUMNS = (
    *("source", "question", "indicator", "average", "average_low", "average_high", "average_images_low"),
    *(
        "average_images_high",
        "average_least",
        "average_most",
        "mad",
        "low",
        "high",
        "floor",
        "floor_sd",
        "chance_low",
        "chance_high",
        "excess",
    ),
    *(
        "excess_low",
        "excess_high",
        "p_value",
        "p_adjusted",
        "p_page",
        "debiased",
        "images_low",
        "images_high",
    ),
    *(
        "corrected",
        "corrected_least",
        "corrected_most",
        "professions",
        "without_images",
        "tested",
        "different",
        *COUNTS,
        "level",
        "reason",
        "version",
    ),
)


def mad_table(readings: Sequence[Reading], professions: pd.DataFrame, design: AuditDesign) -> pd.DataFrame:
    """Return the MAD over all professions beside its floor (Table 8), and the average (last rows of Tables 6 and 7).

    Intervals are over professions (bootstrap), ``images_low``, ``images_high``, ``average_images_low`` and
    ``average_images_high`` over the images of these professions. ``average_least`` and ``average_most``: the average if
    all images that were read and not decided had the lowest, or the highest, category. ``chance_low`` and
    ``chance_high``: between them lies the MAD by chance. ``debiased``: less what the errors of the shares add to it;
    where the images of a noise stand together these errors are multiplied by their design effect. Its
    interval leaves out 0 only where the test does: near 0 the errors of few images are far from normal. ``p_value``:
    whether the MAD is above its floor; of tones no finding about professions: a model may draw few. ``p_adjusted``: of
    attributes, over those of a reader and word. ``p_page`` is filled by
    `analysis.methods.dalleval.page_tests.adjust_page`.
    """
    rows = []
    for one in with_pooled(readings, design.main):
        kept = design.counted(one)
        if not len(kept.professions):
            continue  # the prompt without a profession alone
        by_word = dict(list(professions[_of(professions, kept)].groupby("indicator", sort=False)))
        of_noises = noise_counts(kept, shared=design.paired)
        rows += [
            _mad_row(kept, word, of_noises[:, number], by_word[word], design.measure)
            for number, word in enumerate(kept.words)
        ]
    if not rows:
        return pd.DataFrame(columns=list(MAD_COLUMNS))
    table = pd.DataFrame(rows)
    families = table["question"].map(kind_of)
    alone = table.index.to_series().where(families != ATTRIBUTES, -1)
    adjusted = table.groupby(["source", "indicator", families, alone], sort=False)["p_value"].transform(
        lambda column: adjust_p_values(column.to_numpy())
    )
    return table.assign(p_adjusted=adjusted, p_page=np.nan)[list(MAD_COLUMNS)]


def _of(table: pd.DataFrame, reading: Reading) -> pd.Series:
    same = (table["source"] == reading.source) & (table["question"] == reading.question)
    same &= table["indicator"].isin(reading.words)
    return same & table["profession"].isin(reading.professions)


def _mad_row(
    reading: Reading, word: str, of_noises: NDArray[np.int64], rows: pd.DataFrame, measure: Measure
) -> Mapping[str, object]:
    """The row of a reader, question and word; counts of shape (n_professions, n_noises, n_categories)."""
    counts = of_noises.sum(axis=1)
    read = counts[counts.sum(axis=1) > 0]
    floor = clustered_mad_floor(of_noises, draws=measure.permutations - 1, seed=measure.seed)
    chance = clustered_mads(of_noises, draws=measure.bootstrap, seed=measure.seed)
    ends = [(1 - measure.level) / 2, (1 + measure.level) / 2]
    chance_low, chance_high = np.quantile(chance, ends)
    values = categories(reading.question)
    largest = 2 * (len(values) - 1) / len(values) ** 2
    mean, low, high = bounded_interval(rows[["average"]].to_numpy(float), (values[0], values[-1]), measure)
    _, mad_low, mad_high = bounded_interval(rows[["mad"]].to_numpy(float), (0.0, largest), measure)
    excess = rows[["excess"]].to_numpy(float)
    _, excess_low, excess_high = bounded_interval(excess, (-largest, largest), measure)
    effect = design_effect(of_noises)
    of_images = _over_images(read, effect, measure.level)
    half = _half_of_average(read, np.array(values), effect, measure.level)
    tested = rows["p_adjusted"].dropna()
    return {
        "source": reading.source,
        "question": reading.question,
        "indicator": word,
        "average": mean[0],
        "average_low": low[0],
        "average_high": high[0],
        "average_images_low": max(mean[0] - half, values[0]),
        "average_images_high": min(mean[0] + half, values[-1]),
        **_worst_case(rows, values),
        "mad": floor.value,
        "low": mad_low[0],
        "high": mad_high[0],
        "floor": floor.floor,
        "floor_sd": floor.sd,
        "chance_low": chance_low,
        "chance_high": chance_high,
        "excess": floor.excess,
        "excess_low": excess_low[0],
        "excess_high": excess_high[0],
        "p_value": floor.p_value,
        "debiased": of_images.score,
        "images_low": 0.0 if floor.p_value >= measure.alpha else of_images.low,
        "images_high": min(of_images.high, largest),
        **{name: rows[name].mean() for name in ("corrected", "corrected_least", "corrected_most")},
        "professions": len(read),
        "without_images": floor.undefined,
        "tested": len(tested),
        "different": int((tested < measure.alpha).sum()),
        **{name: int(rows[name].sum()) for name in COUNTS},
        "level": measure.level,
        "reason": floor.reason,
        "version": VERSION,
    }


def _worst_case(rows: pd.DataFrame, values: Sequence[float]) -> dict[str, float]:
    """Bounds of the mean over professions for any answers to the images that were not decided (Manski 1989)."""
    asked, decided = rows["asked"].to_numpy(float), rows["decided"].to_numpy(float)
    total = np.where(decided > 0, rows["average"].to_numpy(float), 0.0) * decided
    ends = []
    for end in (values[0], values[-1]):
        with np.errstate(invalid="ignore", divide="ignore"):
            each = (total + end * (asked - decided)) / asked
        ends.append(float(each[asked > 0].mean()) if (asked > 0).any() else float("nan"))
    return dict(zip(("average_least", "average_most"), ends))


def _smoothed(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Shares with one image more, spread over the categories: those of images all alike have errors, too."""
    return (counts + 1 / counts.shape[1]) / (counts.sum(axis=1, keepdims=True) + 1)


def _over_images(counts: NDArray[np.int64], effect: float, level: float):
    """The MAD less what the errors of the shares add to it, with its interval over the images of these professions.

    The errors are those of independent images, times the design effect.
    """
    if not len(counts):
        return absolute_mean([], np.zeros((0, 0)))
    n, size = counts.sum(axis=1), counts.shape[1]
    shares = _smoothed(counts)
    covariance = np.zeros((counts.size, counts.size))
    for row, (share, images) in enumerate(zip(shares, n)):
        block = slice(row * size, (row + 1) * size)
        covariance[block, block] = (np.diag(share) - np.outer(share, share)) / images * effect
    return absolute_mean((counts / n[:, None] - 1 / size).ravel(), covariance, level=level)


def _half_of_average(
    counts: NDArray[np.int64], values: NDArray[np.float64], effect: float, level: float
) -> float:
    """Half the interval of the mean over professions of their averages, over the images of these professions."""
    if not len(counts):
        return float("nan")
    shares = _smoothed(counts)
    spread = (shares @ values**2 - (shares @ values) ** 2) / counts.sum(axis=1)
    return float(stats.norm.ppf((1 + level) / 2) * np.sqrt(spread.sum() * effect) / len(counts))

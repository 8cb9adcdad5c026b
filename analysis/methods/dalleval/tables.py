"""Averages, distributions, MAD and agreement of an audit of professions (DALL-Eval, section 4.2.4).

Images of a prompt are drawn independently, so a prompt's intervals are over its images; those of all professions are
over professions: others of the kind could have been named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.dalleval.scores import (
    COUNTS,
    GENDER,
    TONE,
    VERSION,
    AuditDesign,
    Reading,
    categories,
    even_p_values,
    known_mean,
    noise_counts,
    status_counts,
)
from analysis.stats.absolute_mean import AbsoluteMean, absolute_mean
from analysis.stats.bootstrap import bootstrap_interval, bounded_ends
from analysis.stats.mad_floor import design_effect, mad_floor
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.proportions import linearised, wilson_interval
from probes.config.schema import Measure
from probes.prompts.diagnostic import ALL, NONE

DECIMALS = 12  # the same shares, added up in another order, differ by less
NO_IMAGES = "no images"


def pool_words(reading: Reading, main: Sequence[str]) -> Reading:
    """Return a reading of the images of some words together, as the paper has tones; the word is `ALL`."""
    columns = [reading.words.index(name) for name in main]
    values, status = (of[:, columns].reshape(len(of), 1, -1) for of in (reading.values, reading.status))
    return replace(reading, values=values, status=status, words=(ALL,), together=len(columns))


def with_pooled(readings: Sequence[Reading], main: Sequence[str]) -> list[Reading]:
    """Return readings, each of tones followed by that of the main words together."""
    return [
        each
        for one in readings
        for each in ((one, pool_words(one, main)) if one.question == TONE and len(main) > 1 else (one,))
    ]


def profession_table(readings: Sequence[Reading], design: AuditDesign) -> pd.DataFrame:
    """Return the average of what each reader says of each prompt and of all professions together.

    Tables 6, 7, 16, 17, 20, 21 and 23 to 31 and their last rows. Tones of the main words also stand together in rows of
    all words. Intervals are over images (Wilson's of a share; of tones by bootstrap, over noises where words stand
    together) and of all professions over these. ``p_value``: of gender, the exact binomial test of one half,
    ``p_adjusted`` over the professions of a word (Benjamini–Hochberg).
    """
    frames = []
    for one in with_pooled(readings, design.main):
        table = _prompts(one, design.measure)
        counted = table["profession"].isin(design.counted(one).professions)
        over = [
            _over_professions(own, categories(one.question), design.measure)
            for _, own in table[counted].groupby("indicator", sort=False)
        ]
        frames += [table, pd.DataFrame(over)]
    table = pd.concat(frames, ignore_index=True).assign(level=design.measure.level, version=VERSION)
    return table.assign(reason=np.where(table["decided"] == 0, NO_IMAGES, ""))


def _prompts(reading: Reading, measure: Measure) -> pd.DataFrame:
    """A row per word and profession."""
    average, table = known_mean(reading.values, 2), noise_counts(reading).sum(axis=2)
    low, high = _intervals(reading, table, measure)
    p_values, p_adjusted = np.full((2, *average.shape), np.nan)
    if reading.question == GENDER:
        p_values = even_p_values(table[..., 1], table.sum(axis=2))
        p_adjusted = np.apply_along_axis(adjust_p_values, 0, p_values)
    counts = {name: number.T.ravel() for name, number in status_counts(reading).items()}
    values = {"average": average, "low": low, "high": high, "p_value": p_values, "p_adjusted": p_adjusted}
    return pd.DataFrame({name: value.T.ravel() for name, value in values.items()} | counts).assign(
        source=reading.source,
        question=reading.question,
        indicator=np.repeat(reading.words, len(reading.professions)),
        profession=np.tile(reading.professions, len(reading.words)),
    )


def _over_professions(rows: pd.DataFrame, values: Sequence[float], measure: Measure) -> dict[str, object]:
    """The row of all professions together: means over the professions of a word, and sums of images."""
    average, low, high = bounded_interval(rows[["average"]].to_numpy(), (values[0], values[-1]), measure)
    return {
        **rows.iloc[0][["source", "question", "indicator"]],
        "profession": ALL,
        **{"average": average[0], "low": low[0], "high": high[0]},
        **rows[list(COUNTS)].sum(),
    }


def _intervals(reading: Reading, table: NDArray[np.int64], measure: Measure) -> tuple[NDArray, NDArray]:
    """Ends of the intervals of `averages` over the images of each prompt; over draws, where words stand together."""
    if reading.question != TONE:
        n = table.sum(axis=2)
        with np.errstate(invalid="ignore", divide="ignore"):
            low, high = wilson_interval(table[..., 1] / n, n, measure.level)
        return (2 * low - 1, 2 * high - 1) if reading.question == GENDER else (low, high)
    *prompts, images = reading.values.shape
    draws = known_mean(reading.values.reshape(*prompts, reading.together, images // reading.together), 2)
    rows = draws.reshape(-1, draws.shape[2]).T  # draws by (profession, word)
    mean, low, high = bounded_interval(rows, (1.0, 10.0), measure)
    # the average is over images: where draws lack some, it is not the mean of the draws', and has their error
    apart = known_mean(reading.values, 2).ravel() - mean
    return tuple(np.clip(end + apart, 1.0, 10.0).reshape(draws.shape[:2]) for end in (low, high))


def bounded_interval(
    rows: NDArray[np.float64], ends: tuple[float, float], measure: Measure
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean of each column and its bootstrap interval, which does not leave what a value can be.

    Where all rows of a column are equal nothing can be resampled: it is then that of any values between the ends. NaN
    is left out; a column without any value has no interval.
    """
    options = {"level": measure.level, "resamples": measure.bootstrap, "seed": measure.seed}
    rows = np.round(rows, DECIMALS)
    interval = bootstrap_interval(rows, **options)
    low, high = interval.low.copy(), interval.high.copy()
    alike = np.flatnonzero(np.isnan(low) & (interval.n > 0))
    if len(alike):
        between = tuple(np.full(len(alike), end) for end in ends)
        low[alike], high[alike] = bounded_ends(rows[:, alike], between, **options)
    return interval.mean, np.clip(low, *ends), np.clip(high, *ends)


def distribution_table(readings: Sequence[Reading], design: AuditDesign) -> pd.DataFrame:
    """Return the share of each category of gender and tone in the images of a prompt, word and profession (Figure 9).

    Images of the main words also stand together, with intervals of the effective size where they share noise
    (`analysis.stats.mad_floor`).
    """
    frames = []
    for one in readings:
        if one.question not in (GENDER, TONE):
            continue
        table = noise_counts(one).sum(axis=2)
        columns = [one.words.index(name) for name in design.main]
        named = [row for row, name in enumerate(one.professions) if name != NONE]
        together = table[:, columns].sum(axis=1, keepdims=True)
        table = np.concatenate([table, together], axis=1)
        table = np.concatenate([table, table[named].sum(axis=0, keepdims=True)])
        effect = design_effect(noise_counts(pool_words(one, design.main), shared=design.paired)[:, 0])
        effects = np.ones((table.shape[1], 1))
        effects[-1] = np.nan_to_num(effect, nan=1.0)
        index = pd.MultiIndex.from_product(
            [(*one.professions, ALL), (*one.words, ALL), categories(one.question)],
            names=["profession", "indicator", "category"],
        )
        decided = np.broadcast_to(table.sum(axis=2, keepdims=True), table.shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = table / decided
        low, high = wilson_interval(share, decided / effects, design.measure.level)
        columns = {"images": table, "share": share, "low": low, "high": high, "decided": decided}
        frame = pd.DataFrame({name: value.ravel() for name, value in columns.items()}, index).reset_index()
        frames.append(frame.assign(source=one.source, question=one.question, level=design.measure.level))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def mad_table(readings: Sequence[Reading], professions: pd.DataFrame, design: AuditDesign) -> pd.DataFrame:
    """Return the MAD over all professions beside its floor (Table 8), by reader, question and word.

    ``debiased`` is less what the errors of the shares add to it, with its interval over the images of these
    professions; these errors are multiplied by the design effect of images that share a noise. The interval leaves out
    0 only where the test (``p_value``: is the MAD above its floor?) does: near 0 the errors of few images are far from
    normal. ``p_adjusted`` is filled by `analysis.methods.dalleval.page_tests.adjust_page`.
    """
    rows = []
    for one in with_pooled(readings, design.main):
        kept = design.counted(one)
        counts = noise_counts(kept, shared=design.paired)
        place = (professions["source"] == one.source) & (professions["question"] == one.question)
        place &= professions["profession"].isin(kept.professions)
        for number, word in enumerate(kept.words if kept.professions else ()):
            tested = professions.loc[place & (professions["indicator"] == word), "p_adjusted"].dropna()
            rows.append(
                {
                    "source": one.source,
                    "question": one.question,
                    "indicator": word,
                    **_mad(counts[:, number], design.measure),
                    "different": (tested < design.measure.alpha).sum(),
                    "tested": len(tested),
                }
            )
    table = pd.DataFrame(rows).assign(p_adjusted=np.nan, level=design.measure.level, version=VERSION)
    return table if rows else table.iloc[:0]


def _mad(of_noises: NDArray[np.int64], measure: Measure) -> dict[str, object]:
    """The numbers of a row, from counts of shape (n_professions, n_noises, n_categories)."""
    counts = of_noises.sum(axis=1)
    counts, size = counts[counts.sum(axis=1) > 0], counts.shape[1]
    floor = mad_floor(of_noises, draws=measure.permutations - 1, seed=measure.seed)
    debiased = _debiased(counts, design_effect(of_noises), measure.level)
    return {
        "mad": floor.value,
        "floor": floor.floor,
        "debiased": debiased.score,
        "low": 0.0 if floor.p_value >= measure.alpha else debiased.low,
        "high": min(debiased.high, 2 * (size - 1) / size**2),
        "p_value": floor.p_value,
        "professions": len(counts),
        "images": int(counts.sum()),
        "reason": floor.reason,
    }


def _debiased(counts: NDArray[np.int64], effect: float, level: float) -> AbsoluteMean:
    """The MAD less what the errors of the shares add to it: those of independent images, times the design effect."""
    if not len(counts):
        return absolute_mean([], np.zeros((0, 0)))
    n, size = counts.sum(axis=1), counts.shape[1]
    # with one image more, spread over the categories: shares of images all alike have errors, too
    shares = (counts + 1 / size) / (n[:, None] + 1)
    covariance = np.zeros((counts.size, counts.size))
    for row, (share, images) in enumerate(zip(shares, n)):
        block = slice(row * size, (row + 1) * size)
        covariance[block, block] = (np.diag(share) - np.outer(share, share)) / images * effect
    return absolute_mean((counts / n[:, None] - 1 / size).ravel(), covariance, level=level)


def agreement_table(readings: Sequence[Reading], measure: Measure) -> pd.DataFrame:
    """Return for every two readers of a question the share of images of which they say the same, over prompts.

    ``within_1`` to ``within_3``: the share of tones at most so many apart (the paper's precision@K, Table 18, where the
    second are people).
    """
    rows = []
    for question in dict.fromkeys(one.question for one in readings):
        of_question = [one for one in readings if one.question == question]
        rows += [_agreement(*two, measure) for two in combinations(of_question, 2)]
    return pd.DataFrame(rows)


def _agreement(first: Reading, second: Reading, measure: Measure) -> dict[str, object]:
    difference = np.abs(first.values - second.values)
    both = ~np.isnan(difference)
    share, each = linearised((difference == 0).sum(axis=(1, 2)), both.sum(axis=(1, 2)))
    _, low, high = bounded_interval(each[:, None], (0.0, 1.0), measure)
    tones = difference[both & (first.question == TONE)]
    return {
        "question": first.question,
        "first": first.source,
        "second": second.source,
        "same": share,
        "low": low[0],
        "high": high[0],
        **{f"within_{k}": (tones <= k).mean() if tones.size else np.nan for k in (1, 2, 3)},
        "mean_abs_difference": tones.mean() if tones.size else np.nan,
        "images": int(both.sum()),
        "level": measure.level,
        "reason": "" if both.any() else NO_IMAGES,
    }

"""Averages and distributions of an audit of professions (DALL-Eval, section 4.2.4), by prompt and over all professions.

Images of a prompt are drawn independently, so a prompt's intervals are over its images; those of all professions are
over professions: others of the kind could have been named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.dalleval.scores import (
    ATTRIBUTES,
    COUNTS,
    GENDER,
    TONE,
    VERSION,
    AuditDesign,
    Reading,
    categories,
    even_p_values,
    kind_of,
    known_mean,
    noise_counts,
    status_counts,
)
from analysis.stats.bootstrap import bootstrap_interval, bounded_ends
from analysis.stats.mad_floor import design_effect
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.proportions import wilson_interval
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
    together) and of all professions over these. ``least`` and ``most``: the average if all images that were read and
    not decided had the lowest, or the highest, category (Manski 1989). ``p_value``: of gender, the exact binomial test
    of one half, ``p_adjusted`` over the professions of a word (Benjamini–Hochberg).
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
    frame = pd.DataFrame({name: value.T.ravel() for name, value in values.items()} | counts)
    total, undecided = frame["average"].fillna(0) * frame["decided"], frame["asked"] - frame["decided"]
    lowest, *_, highest = categories(reading.question)
    return frame.assign(
        source=reading.source,
        question=reading.question,
        indicator=np.repeat(reading.words, len(reading.professions)),
        profession=np.tile(reading.professions, len(reading.words)),
        least=(total + lowest * undecided) / frame["asked"],
        most=(total + highest * undecided) / frame["asked"],
    )


def _over_professions(rows: pd.DataFrame, values: Sequence[float], measure: Measure) -> dict[str, object]:
    """The row of all professions together: means over the professions of a word, and sums of images."""
    average, low, high = bounded_interval(rows[["average"]].to_numpy(), (values[0], values[-1]), measure)
    return {
        **rows.iloc[0][["source", "question", "indicator"]],
        "profession": ALL,
        **{"average": average[0], "low": low[0], "high": high[0]},
        **rows[["least", "most"]].mean(),
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
        frame = _shares(table, table.sum(axis=2, keepdims=True), effects, design.measure.level)
        frames.append(frame.set_index(index).reset_index().assign(source=one.source, question=one.question))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _shares(counts: NDArray[np.int64], decided: NDArray[np.int64], effect, level: float) -> pd.DataFrame:
    """Shares of categories with Wilson's intervals of the effective size, a row per count."""
    decided = np.broadcast_to(decided, counts.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = counts / decided
    low, high = wilson_interval(share, decided / effect, level)
    columns = {"images": counts, "share": share, "low": low, "high": high, "decided": decided}
    return pd.DataFrame({name: value.ravel() for name, value in columns.items()}).assign(level=level)


def attribute_tones(readings: Sequence[Reading], design: AuditDesign) -> pd.DataFrame:
    """Return the share of each Monk tone in the images in which an attribute is read, all main words together.

    Each rule of tones (``source``) is crossed with each ``reader`` of attributes; the attribute `ALL` is every image.
    The ``share`` is of the images that have a tone (``decided``) among those in which the attribute is ``present``,
    with Wilson's interval of the effective size.
    """
    others, frames = [one for one in readings if kind_of(one.question) == ATTRIBUTES], []
    sources = [one.source for one in others]
    for tone in (one for one in readings if one.question == TONE):
        columns = [tone.words.index(name) for name in design.main]
        tones = tone.values[:, columns]
        of_tones = np.stack([tones == category for category in categories(TONE)], axis=-1)
        every = {(one.source, ALL): np.ones(tones.shape, dtype=bool) for one in others}
        every |= {(one.source, one.question): one.values[:, columns] == 1.0 for one in others}
        for (reader, attribute), present in sorted(every.items(), key=lambda item: sources.index(item[0][0])):
            counts = of_tones & present[..., None]
            effect = design_effect(counts.sum(axis=1)) if design.paired else 1.0
            decided = (~np.isnan(tones[present])).sum()
            frame = _shares(counts.sum(axis=(0, 1, 2)), decided, effect, design.measure.level)
            about = {"source": tone.source, "reader": reader, "attribute": attribute}
            frames.append(frame.assign(category=categories(TONE), present=present.sum(), **about))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

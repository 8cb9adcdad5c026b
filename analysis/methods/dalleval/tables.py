"""Tables of an audit of professions (DALL-Eval, section 4.2.4): averages, distributions and MAD beside their floors.

Images of a prompt are drawn independently, so a prompt's intervals are over its images. Over all professions there are
two: over professions (others of the kind could have been named) and over images (the professions are these).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.dalleval.readings import CHECKER
from analysis.methods.dalleval.scores import (
    ATTRIBUTES,
    COUNTS,
    GENDER,
    TONE,
    UNDECIDED,
    VERSION,
    AuditDesign,
    Reading,
    averages,
    categories,
    category_counts,
    even_p_values,
    kind_of,
    known_mean,
    noise_counts,
    other_p_values,
    status_counts,
)
from analysis.stats.bootstrap import bootstrap_interval
from analysis.stats.group_swaps import group_swaps
from analysis.stats.mad_floor import clustered_mad_floor, design_effect
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.proportions import wilson_interval
from analysis.stats.rare_changes import bounded_ends, exponential_weights
from analysis.stats.reader_correction import NO_IMAGES, corrected_shares
from probes.config.schema import Measure
from probes.prompts.diagnostic import ALL, NONE

DRAWS = 1999  # at most, of arrangements of noises; the adjustment needs no more for p-values of a thousandth
ROUNDING = 1e-12  # of the range of a value: by no more do the same shares differ, added up in another order
LABELS = ("human", CHECKER)  # readers that others are held against
PLACE = ("source", "question", "profession", "indicator")
PROFESSION_COLUMNS = (
    *(*PLACE, "average", "low", "high", "mad", "floor", "excess", "p_value", "p_adjusted", "tested"),
    *(
        "corrected",
        "corrected_low",
        "corrected_high",
        "corrected_least",
        "corrected_most",
        "corrected_reason",
    ),
    *(*COUNTS, "level", "reason", "version"),
)
DISTRIBUTION_COLUMNS = (*PLACE, "category", "images", "share", "low", "high", "decided", "level")
TONE_COLUMNS = (
    *("source", "reader", "attribute", "category", "images", "share", "low", "high"),
    *("decided", "present", "level"),
)
TESTED = {
    GENDER: "read as female in half of the images (exact binomial)",
    TONE: "average as in all professions together (noises change places, {draws} draws)",
    "": "as frequent as in the other prompts of the word (Fisher)",
}


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
    """Return what each reader says of each prompt (Tables 6, 7, 16, 17, 20, 21 and 23 to 31).

    Tones of the main words also stand together in rows of all words, as in Tables 20 and 21. Their images share noise:
    intervals are over draws, floor and test over noises (`analysis.stats.mad_floor`,
    `analysis.stats.group_swaps`). The prompt without a profession has no p-value of its tones but where it counts.
    Other intervals are over images (Wilson's of a share, of tones by bootstrap); p-values are adjusted over the
    professions of a word. ``corrected_least`` and ``corrected_most``: between them the corrected average lies where the
    odds of any two answers in these images differ by a factor of at most 2 from those in the labelled ones. A prompt
    without a decided image has its row.
    """
    checkers = {one.question: one for one in readings if one.source == CHECKER}
    return pd.concat(
        [
            _professions(one, design, checkers.get(one.question) if design.correct else None)
            for one in with_pooled(readings, design.main)
        ],
        ignore_index=True,
    )[list(PROFESSION_COLUMNS)]


def _professions(reading: Reading, design: AuditDesign, checker: Reading | None) -> pd.DataFrame:
    measure = design.measure
    average, counts, table = averages(reading), status_counts(reading), category_counts(reading)
    of_noises = noise_counts(reading, shared=design.paired)
    low, high = _intervals(reading, table, measure)
    right = corrected(reading, checker, measure)
    p_values, tested, reasons = _tests(reading, table, design)
    frames = []
    for number, word in enumerate(reading.words):
        own = table[:, number]
        options = {"draws": measure.permutations - 1, "seed": measure.seed}
        floors = [clustered_mad_floor(noises, **options) for noises in of_noises[:, number]]
        frames.append(
            pd.DataFrame(
                {
                    "source": reading.source,
                    "question": reading.question,
                    "profession": reading.professions,
                    "indicator": word,
                    "average": average[:, number],
                    "low": low[:, number],
                    "high": high[:, number],
                    "mad": [floor.value for floor in floors],
                    "floor": [floor.floor for floor in floors],
                    "excess": [floor.excess for floor in floors],
                    "p_value": p_values[:, number],
                    "p_adjusted": adjust_p_values(p_values[:, number]),
                    "tested": tested,
                    **{name: value[:, number] for name, value in right.items()},
                    **{name: counts[name][:, number] for name in COUNTS},
                    "level": measure.level,
                    "reason": np.where(own.sum(axis=1) == 0, NO_IMAGES, reasons[:, number]),
                    "version": VERSION,
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def _tests(
    reading: Reading, table: NDArray[np.int64], design: AuditDesign
) -> tuple[NDArray[np.float64], str, NDArray[np.object_]]:
    """P-values of each profession and word, of what, and why a profession of which images were decided has none."""
    shape = table.shape[:2]
    none = np.full(shape, "", dtype=object)
    if reading.question != TONE:
        test = even_p_values if reading.question == GENDER else other_p_values
        p_values = [test(own[:, 1], own.sum(axis=1)) for own in np.moveaxis(table, 1, 0)]
        return np.stack(p_values, axis=1), TESTED.get(reading.question, TESTED[""]), none
    kept, measure = design.counted(reading), design.measure
    found = group_swaps(
        _of_draws(kept).swapaxes(1, 2), draws=min(DRAWS, measure.permutations - 1), seed=measure.seed
    )
    p_values, reasons = np.full(shape, np.nan), none
    rows = [reading.professions.index(name) for name in kept.professions]
    p_values[rows], reasons[rows] = found.group_p_value, found.reason
    return p_values, TESTED[TONE].format(draws=found.draws), reasons


def _of_draws(reading: Reading) -> NDArray[np.float64]:
    """The values of each draw, the mean of words that stand together, shape (n_professions, n_words, n_draws)."""
    shape = reading.values.shape
    return known_mean(reading.values.reshape(*shape[:2], reading.together, shape[2] // reading.together), 2)


def _intervals(reading: Reading, table: NDArray[np.int64], measure: Measure) -> tuple[NDArray, NDArray]:
    """Ends of the intervals of `averages` over the images of each prompt; over draws, where words stand together."""
    if reading.question != TONE:
        n = table.sum(axis=2)
        with np.errstate(invalid="ignore", divide="ignore"):
            low, high = wilson_interval(table[..., 1] / n, n, measure.level)
        return (2 * low - 1, 2 * high - 1) if reading.question == GENDER else (low, high)
    draws = _of_draws(reading)
    rows = draws.reshape(-1, draws.shape[2]).T  # draws by (profession, word)
    mean, low, high = bounded_interval(rows, (1.0, 10.0), measure)
    # the average is over images: where draws lack some, it is not the mean of the draws', and has their error
    apart = averages(reading).ravel() - mean
    return tuple(np.clip(end + apart, 1.0, 10.0).reshape(draws.shape[:2]) for end in (low, high))


def bounded_interval(
    rows: NDArray[np.float64], ends: tuple[float, float], measure: Measure
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean of each column and its bootstrap interval, which does not leave what a value can be.

    Where all rows of a column are equal, but for rounding, nothing can be resampled: it is then that of any values
    between the ends. NaN is left out; a column without any value has no interval.
    """
    options = {"level": measure.level, "resamples": measure.bootstrap, "seed": measure.seed}
    rows = _equalled(rows, ROUNDING * (ends[1] - ends[0]))
    interval = bootstrap_interval(rows, **options)
    low, high = interval.low.copy(), interval.high.copy()
    alike = np.flatnonzero(np.isnan(low) & (interval.n > 0))
    if len(alike):
        weights = exponential_weights(len(rows), measure.bootstrap, measure.seed)
        between = tuple(np.full(len(alike), end) for end in ends)
        low[alike], high[alike] = bounded_ends(rows[:, alike], weights, between, measure.level)
    return interval.mean, np.clip(low, *ends), np.clip(high, *ends)


def _equalled(rows: NDArray[np.float64], rounding: float) -> NDArray[np.float64]:
    """Set all values of a column that differ by no more than `rounding` to the smallest of them."""
    low = np.fmin.reduce(rows, axis=0, initial=np.inf)
    equal = np.fmax.reduce(rows, axis=0, initial=-np.inf) - low <= rounding
    return np.where(equal & ~np.isnan(rows), low, rows)


def corrected(reading: Reading, checker: Reading | None, measure: Measure) -> dict[str, NDArray]:
    """Return averages set right for what the reader says of images that the checker decided, of the other professions.

    Of two answers and *undecided*, which may depend on what is there, and of readers that are models; NaN otherwise,
    with a reason where it could be expected.
    """
    shape = reading.values.shape[:2]
    nothing = {f"corrected{end}": np.full(shape, np.nan) for end in ("", "_low", "_high", "_least", "_most")}
    if checker is None or reading.source in LABELS or reading.question == TONE:
        return {**nothing, "corrected_reason": np.full(shape, "", dtype=object)}
    yes = categories(reading.question)[1]
    no = categories(reading.question)[0]
    said = np.stack(
        [reading.values == yes, reading.values == no, reading.status == UNDECIDED]
    )  # answers, professions, words, draws
    truth = np.stack([checker.values == yes, checker.values == no])
    answers = np.moveaxis(said.sum(axis=3), 0, -1)
    labels = np.einsum("apwd,tpwd->pwta", said.astype(int), truth.astype(int))
    labels = labels.sum(axis=0) - labels  # of the same word, in the other professions
    right = corrected_shares(answers.reshape(-1, 3), labels.reshape(-1, 2, 3), level=measure.level)
    ends = (right.share, right.low, right.high, right.least, right.most)
    scaled = [2 * one - 1 if reading.question == GENDER else one for one in ends]
    values = {name: one.reshape(shape) for name, one in zip(nothing, scaled)}
    return {**values, "corrected_reason": right.reason.reshape(shape)}


def distribution_table(readings: Sequence[Reading], design: AuditDesign) -> pd.DataFrame:
    """Return the share of each category in the images of a prompt, of a word, and of a profession (Figure 9).

    Of gender and tone: a presence is its own distribution. Images of the main words also stand together, with
    intervals of the effective size where they share noise (`analysis.stats.mad_floor`).
    """
    frames = []
    for one in readings:
        if one.question not in (GENDER, TONE):
            continue
        table = category_counts(one)
        columns = [one.words.index(name) for name in design.main]
        named = [row for row, name in enumerate(one.professions) if name != NONE]
        together = table[:, columns].sum(axis=1, keepdims=True)
        table = np.concatenate([table, together], axis=1)
        table = np.concatenate([table, table[named].sum(axis=0, keepdims=True)])
        effect = design_effect(noise_counts(pool_words(one, design.main), shared=design.paired)[:, 0])
        effects = np.ones(table.shape[1])
        effects[-1] = np.nan_to_num(effect, nan=1.0)
        frames.append(_shares(one, table, effects, design.measure.level))
    return (
        pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(DISTRIBUTION_COLUMNS))
    )


def _shares(
    reading: Reading, table: NDArray[np.int64], effects: NDArray[np.float64], level: float
) -> pd.DataFrame:
    """Rows of counts of shape (n_professions + 1, n_words + 1, n_categories), and of design effects of the words."""
    decided = np.broadcast_to(table.sum(axis=2, keepdims=True), table.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = table / decided
    low, high = wilson_interval(share, decided / effects[:, None], level)
    index = pd.MultiIndex.from_product(
        [(*reading.professions, ALL), (*reading.words, ALL), categories(reading.question)],
        names=["profession", "indicator", "category"],
    )
    columns = {"images": table, "share": share, "low": low, "high": high, "decided": decided}
    frame = pd.DataFrame({name: value.ravel() for name, value in columns.items()}, index=index).reset_index()
    frame = frame.assign(source=reading.source, question=reading.question, level=level)
    return frame[list(DISTRIBUTION_COLUMNS)]


def attribute_tones(readings: Sequence[Reading], design: AuditDesign) -> pd.DataFrame:
    """Return the share of each Monk tone in the images in which an attribute is read, all main words together.

    Each rule of tones (``source``) is crossed with each ``reader`` of attributes; the attribute `ALL` is every image.
    The ``share`` is of the images that have a tone (``decided``) among those in which the attribute is ``present``,
    with Wilson's interval of the effective size (`analysis.stats.mad_floor`: images of a noise are no independent
    ones, unless not `paired`).
    """
    others = [one for one in readings if kind_of(one.question) == ATTRIBUTES]
    frames = []
    for tone in readings:
        if tone.question != TONE or not others:
            continue
        columns = [tone.words.index(name) for name in design.main]
        values = tone.values[:, columns]
        for reader in dict.fromkeys(one.source for one in others):
            read = {one.question: one.values[:, columns] == 1.0 for one in others if one.source == reader}
            for attribute, there in ({ALL: np.ones(values.shape, dtype=bool)} | read).items():
                about = {"source": tone.source, "reader": reader, "attribute": attribute}
                frames.append(_tones_of(values, there, design).assign(**about))
    return (
        pd.concat(frames, ignore_index=True)[list(TONE_COLUMNS)]
        if frames
        else pd.DataFrame(columns=list(TONE_COLUMNS))
    )


def _tones_of(tones: NDArray[np.float64], there: NDArray[np.bool_], design: AuditDesign) -> pd.DataFrame:
    """A row per tone of the images in which something is there; arrays of shape (n_professions, n_words, n_draws)."""
    counts = np.stack([(tones == category) & there for category in categories(TONE)], axis=-1)
    effect = design_effect(counts.sum(axis=1)) if design.paired else 1.0
    images, level = counts.sum(axis=(0, 1, 2)), design.measure.level
    decided = (~np.isnan(tones[there])).sum()
    with np.errstate(invalid="ignore"):
        share = images / decided
    low, high = wilson_interval(share, np.full(len(share), decided / effect), level)
    values = {"images": images, "share": share, "low": low, "high": high, "decided": decided}
    return pd.DataFrame({"category": categories(TONE), **values, "present": there.sum(), "level": level})

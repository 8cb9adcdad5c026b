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
    GENDER,
    NOT_ASKED,
    STATUSES,
    TONE,
    UNDECIDED,
    VERSION,
    Reading,
    averages,
    categories,
    category_counts,
    even_p_values,
    noise_counts,
    other_p_values,
    status_counts,
)
from analysis.stats.clustered_floor import clustered_mad_floor
from analysis.stats.design_effect import design_effect
from analysis.stats.effects import wilson_interval
from analysis.stats.group_swaps import group_swaps
from analysis.stats.intervals import bootstrap_interval
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.rare_changes import bounded_ends, exponential_weights
from analysis.stats.reader_correction import NO_IMAGES, corrected_shares
from probes.config.schema import Measure
from probes.prompts.diagnostic import ALL, NONE

DRAWS = 1999  # at most, of arrangements of noises; the adjustment needs no more for p-values of a thousandth
ROUNDING = 1e-12  # of the range of a value: by no more do the same shares differ, added up in another order
LABELS = ("human", CHECKER)  # readers that others are held against
COUNTS = ("planned", "asked", *(name.replace(" ", "_") for name in STATUSES))
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
TESTED = {
    GENDER: "read as female in half of the images (exact binomial)",
    TONE: "average as in all professions together (noises change places, {draws} draws)",
    "": "as frequent as in the other prompts of the word (Fisher)",
}


def counted(reading: Reading) -> dict[str, NDArray[np.int64]]:
    """Return by name of `COUNTS` how many images each prompt has: planned, asked (decided or not), and the rest."""
    counts = status_counts(reading)
    not_asked = sum(counts[name] for name in NOT_ASKED)
    counts["asked"] = counts["planned"] - not_asked
    return {name.replace(" ", "_"): value for name, value in counts.items()}


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


def with_bare(reading: Reading, bare: str) -> Reading:
    """Return a reading with the prompt that names no profession, or without it, as ``dalleval.bare`` says."""
    counts = bare == "all" or (bare == "attributes" and reading.question not in (GENDER, TONE))
    return reading if counts else reading.of([name for name in reading.professions if name != NONE])


def profession_table(
    readings: Sequence[Reading],
    main: Sequence[str],
    measure: Measure,
    bare: str = "attributes",
    *,
    correct: bool = True,
    paired: bool = True,
) -> pd.DataFrame:
    """Return what each reader says of each prompt (Tables 6, 7, 16, 17, 20, 21 and 23 to 31).

    Parameters
    ----------
    readings : sequence of Reading
    main : sequence of str
        Indicators whose tones stand together in the rows of all words, as in Tables 20 and 21. Their images share
        noise: intervals are over draws, floor and test over noises (`analysis.stats.clustered_floor`,
        `analysis.stats.group_swaps`).
    measure : Measure
    bare : {"attributes", "all", "none"}
        Where the prompt without a profession counts as one: in the others it has no p-value of its tones.
    correct : bool
    paired : bool
        Whether the images of a draw share their noise; another program's may not.

    Returns
    -------
    DataFrame
        ``average`` of gender (-1 to 1), tone (1 to 10) or presence (0 to 1), with its interval over images (Wilson's of
        a share; of tones by bootstrap), the MAD from equally likely categories with its floor, a test (``tested`` says
        of what: of tones, whether the profession differs from all together) and its p-value adjusted over the
        professions of a word; ``corrected``: set right for what the reader
        confuses and leaves undecided, of all images that were asked, with its interval; ``corrected_least`` and
        ``corrected_most``: between them it lies where the odds of any two answers in these images differ by a factor of
        at most 2 from those in the labelled ones; and what became of every image that was planned. A prompt without a
        decided image has its row.
    """
    checkers = {one.question: one for one in readings if one.source == CHECKER}
    return pd.concat(
        [
            _professions(one, paired, measure, bare, checkers.get(one.question) if correct else None)
            for one in with_pooled(readings, main)
        ],
        ignore_index=True,
    )[list(PROFESSION_COLUMNS)]


def _professions(
    reading: Reading, paired: bool, measure: Measure, bare: str, checker: Reading | None
) -> pd.DataFrame:
    average, counts, table = averages(reading), counted(reading), category_counts(reading)
    of_noises = noise_counts(reading, shared=paired)
    low, high = _intervals(reading, table, measure)
    right = corrected(reading, checker, measure)
    p_values, tested, reasons = _tests(reading, table, measure, bare)
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
    reading: Reading, table: NDArray[np.int64], measure: Measure, bare: str
) -> tuple[NDArray[np.float64], str, NDArray[np.object_]]:
    """P-values of each profession and word, of what, and why a profession of which images were decided has none."""
    shape = table.shape[:2]
    none = np.full(shape, "", dtype=object)
    if reading.question != TONE:
        test = even_p_values if reading.question == GENDER else other_p_values
        p_values = [test(own[:, 1], own.sum(axis=1)) for own in np.moveaxis(table, 1, 0)]
        return np.stack(p_values, axis=1), TESTED.get(reading.question, TESTED[""]), none
    kept = with_bare(reading, bare)
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
    values = reading.values.reshape(*shape[:2], reading.together, shape[2] // reading.together)
    decided = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(decided, values, 0.0).sum(axis=2) / decided.sum(axis=2)


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
    between the ends.

    Parameters
    ----------
    rows : ndarray of float64, shape (n_rows, n_columns)
        NaN is left out; a column without any has no interval.
    ends : (float, float)
        Between them lies every value.
    measure : Measure

    Examples
    --------
    >>> mean, low, high = bounded_interval(np.full((9, 1), 5.0), (1.0, 10.0), Measure())
    >>> [round(float(one[0]), 1) for one in (mean, low, high)]
    [5.0, 3.7, 6.6]
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


def distribution_table(
    readings: Sequence[Reading], main: Sequence[str], measure: Measure, *, paired: bool = True
) -> pd.DataFrame:
    """Return the share of each category in the images of a prompt, of a word, and of a profession (Figure 9).

    Parameters
    ----------
    readings : sequence of Reading
        Those of gender and tone are taken: a presence is its own distribution.
    main : sequence of str
        Indicators whose images stand together in the rows of all words, as in Tables 20 and 21.
    measure : Measure
    paired : bool
        As for `profession_table`: the intervals of those rows are of the effective size
        (`analysis.stats.design_effect`).
    """
    frames = []
    for one in readings:
        if one.question not in (GENDER, TONE):
            continue
        table = category_counts(one)
        columns = [one.words.index(name) for name in main]
        named = [row for row, name in enumerate(one.professions) if name != NONE]
        together = table[:, columns].sum(axis=1, keepdims=True)
        table = np.concatenate([table, together], axis=1)
        table = np.concatenate([table, table[named].sum(axis=0, keepdims=True)])
        effect = design_effect(noise_counts(pool_words(one, main), shared=paired)[:, 0])
        effects = np.ones(table.shape[1])
        effects[-1] = np.nan_to_num(effect, nan=1.0)
        frames.append(_shares(one, table, effects, measure.level))
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

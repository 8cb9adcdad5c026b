"""Is what the neutral prompt makes nearer to the masculine or to the feminine, and where in the model?

The gap

    s(reference, first) - s(reference, second)

of a contrast such as (masculine, feminine), signed so that positive always says "the reference is nearer to
the first". The paper compares the means by eye; the paired gap, its interval, its test and the controls are
ours.

A gap says that two prompts' representations stand at unequal distance from the reference's, no more. Two
words that mean the same have different embeddings, so even a model without bias has gaps: the geometric part.
Control words, each interchangeable with one of the indicators, measure it: the gap is held against 0 and
against words that mean the same (`analysis.stats.word_test`), and only the second speaks of bias.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.metrics.registry import definition
from analysis.stats.cautions import looks_like
from analysis.stats.crossed import crossed_mean
from analysis.stats.effects import EffectSizes, effect_sizes, prompt_means
from analysis.stats.equivalence import equivalence_test
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.rare_changes import few_carry, unseen_share
from analysis.stats.resampling import moments
from analysis.stats.sign_flips import FlipColumns, adjusted_together, flip_columns
from analysis.tables.similarities.control_columns import (
    ROUNDING,
    below_rounding,
    changed_prompts,
    control_columns,
    words_of,
)
from analysis.tables.similarities.families import PROMPT_SPACE, named, stacked
from analysis.tables.similarities.similarities import Family, Similarities, similarities
from probes.config.schema import Measure

GAP_COLUMNS = (
    *("space", "site", "step", "metric", "contrast", "gap", "ci_low", "ci_high", "p_value", "p_adjusted"),
    *("n_prompts", "n", "d_z", "d_z_low", "d_z_high", "superiority", "superiority_low", "superiority_high"),
    *("ruled_out", "delta", "delta_source", "p_equivalent", "n_effective", "n_changed", "unseen"),
    *("control_gap", "control_low", "control_high", "n_controls"),
    *(
        "word_gap",
        "word_correction",
        "word_low",
        "word_high",
        "word_error",
        "word_df",
        "n_words_first",
        "n_words_second",
        "n_references",
    ),
    *("share_words", "share_references", "share_prompts"),
    *("p_control", "p_control_adjusted", "p_permutation", "p_floor", "reason", "warning", "version"),
)
NO_DIFFERENCE = "no difference beyond rounding in any prompt"
SMALLEST_EFFECT = Measure().smallest_effect  # share of the distance between the two sides
STATED, DERIVED, LEAST = "measure.equivalence", "measure.smallest_effect", "least of the measure"


def gap(pairs: Similarities | pd.DataFrame, **choices: Any) -> pd.DataFrame:
    r"""Return by how much the reference is nearer to the first of a contrast, for every site and step.

    .. math:: g = \frac{1}{n} \sum_i \pm [s_i(r, a) - s_i(r, b)]

    for a contrast (a, b), with + where a higher s is nearer (cosine, SSIM) and - where a lower one is (Diff.
    Pix.). A positive gap says that the reference is nearer to a. 0 means no difference.

    Parameters
    ----------
    pairs : Similarities or DataFrame
        Similarities of a run, or a tidy table with the columns of `analysis.tables.similarities.similarities.COLUMNS`.
    **choices
        Of `GapChoices`.

    Returns
    -------
    DataFrame
        One row per (space, site, step, metric, contrast), with the columns `GAP_COLUMNS`, in the units of the metric.

        ``gap`` with ``ci_low``, ``ci_high`` (``envelope``), and ``p_value`` of the sign flips: is it 0?
        ``n_prompts`` counts prompts and ``n`` single differences. ``d_z`` and ``superiority``: effect sizes, see
        `analysis.stats.effects.EffectSizes`. ``ruled_out``: a gap of so much or more is ruled out at 1 - level;
        ``p_equivalent``: of the test that the gap lies within ±``delta``, at the end of each space (step -1) alone
        where δ is not stated; ``delta_source`` says whether it was stated, is such a share, or the measure's least.

        ``control_gap``: the largest absolute gap between two words that mean the same (two controls of the reference,
        or two words of one side), with ``control_high`` and ``control_low`` for it and its negative; ``n_controls``
        counts control words. ``word_gap`` with its interval and ``p_control``: the gap between all words of a and all
        words of b, less ``word_correction``, and the test that it is more than these words differ among themselves, see
        `analysis.stats.word_test.word_test`; ``word_error`` is its standard error. ``word_correction`` is half the
        difference of how near the words of a and those of b are to each other, and what the median over pairs of words
        takes off; NaN, and nothing is taken off, where a side has one word. The test rests on
        ``n_words_first`` and ``n_words_second`` words of a and b, these among them, and on ``n_references`` words that
        stood as reference, each where it was compared; with one the claim is about that word alone. ``word_df``: words
        less one a group. ``share_words``, ``share_references`` and ``share_prompts``: shares of its variance, 1
        together. ``p_permutation``: of the exact permutation of words over the sides, before the correction, which
        cannot fall below ``p_floor``. Where neither side has a control, the reference's stand for their spread.

        ``n_effective``: how many prompts carry the variance of the gap, and ``n_changed``: at how many it is more than
        rounding; ``unseen``: the share that a kind of prompt can have which none of these prompts is, at 95 %; see
        `analysis.stats.rare_changes`. ``warning``: what in this row is as in a simulated case in which a number of it
        misses, see `analysis.stats.cautions`.

        What cannot be told is NaN, with a ``reason``: where there is one prompt, or the same difference in all (as
        at the first step, where the members of a triplet share the latent), or no control.

    Examples
    --------
    Two prompts, nearer to m by 0.9 - 0.7 and 0.8 - 0.7; of their four sign flips two reach that mean.

    >>> pairs = pd.DataFrame(
    ...     {"pair": ["n-f", "n-m"] * 2, "triplet": [0, 0, 1, 1], "value": [0.7, 0.9, 0.7, 0.8]}
    ... )
    >>> pairs = pairs.assign(space="image", site="image", metric="ssim", step=-1, seed=0)
    >>> row = gap(pairs, indicators=["n", "f", "m"], reference="n", contrasts=[["m", "f"]]).iloc[0]
    >>> row["contrast"], round(row["gap"], 6), row["p_value"], row["reason"]
    ('m-f', np.float64(0.15), np.float64(0.5), 'controls: none')
    """
    chosen = GapChoices(**choices)
    tables = [family_gap(family, chosen) for family in similarities(pairs).families()]
    return stacked(tables, GAP_COLUMNS)


@dataclass(frozen=True, kw_only=True)
class GapChoices:
    """What `gap` is asked.

    Attributes
    ----------
    indicators : sequence of str
        All of them, in the order that names the pairs.
    reference : str
    contrasts : sequence of (str, str)
        Indicators a and b, neither of them the reference.
    controls : mapping of str to str, optional
        For each control word the indicator with which it is interchangeable: the reference or one of a contrast.
    deltas : mapping of str to float, optional
        For a metric the difference δ that would matter, in its units, chosen before the data are seen.
    smallest_effect : float, optional
        For every other metric δ is this share of the mean distance between the two sides of the contrast: of
        1 − s(a, b) where a higher s is nearer, and of s(a, b) itself where a lower one is; and at least
        `analysis.metrics.registry.Metric.least_delta`, so that sides that hardly differ can be said not to. None: no δ.
    shared_noise : bool
        Whether all prompts of a seed share their noise, so that prompts depend on each other: intervals and p-values
        are then those of prompts crossed with seeds (`analysis.stats.crossed`), adjusted by Holm; those of d_z and
        superiority are undefined, and with fewer than three seeds all are.
    level, resamples, permutations, seed
        Of the bootstrap and of the sign flips over prompts, see `analysis.stats.intervals`. p-values are adjusted over
        all sites and steps of one contrast in one family (space and metric): ``p_adjusted`` by max-T,
        ``p_control_adjusted`` by Benjamini and Hochberg.

    Raises
    ------
    ValueError
        If a contrast names the reference or no indicator, or a control stands for none.
    """

    indicators: Sequence[str]
    reference: str
    contrasts: Sequence[Sequence[str]]
    controls: Mapping[str, str] = field(default_factory=dict)
    deltas: Mapping[str, float] = field(default_factory=dict)
    smallest_effect: float | None = SMALLEST_EFFECT
    shared_noise: bool = False
    level: float = 0.95
    resamples: int = 2000
    permutations: int = 10000
    seed: int = 0

    def __post_init__(self) -> None:
        names = list(self.indicators)
        for contrast in self.contrasts:
            if len(set(contrast)) != 2 or self.reference in contrast or not set(contrast) <= set(names):
                raise ValueError(
                    f"contrasts: expected two of {names} other than {self.reference}, got {list(contrast)}"
                )
        strange = {
            name: of for name, of in self.controls.items() if not {name, of} <= set(names) or name == of
        }
        if strange:
            raise ValueError(f"controls: expected two of {names} each, got {strange}")

    @property
    def sampling(self) -> dict:
        """Level, number and seed of resamples."""
        return {"level": self.level, "resamples": self.resamples, "seed": self.seed}


@dataclass(frozen=True)
class GapColumns:
    """What `gap` says of some columns of a family without knowing the others, for each contrast.

    Attributes
    ----------
    space, metric : str
    tables : list of DataFrame
        One row per column, with all but what is adjusted over the family.
    flips : list of FlipColumns or None
        Their sign flips; None where prompts share their noise.
    """

    space: str
    metric: str
    tables: list[pd.DataFrame]
    flips: list[FlipColumns | None]


def family_gap(family: Family, choices: GapChoices) -> pd.DataFrame:
    """Return the rows of `gap` of one family."""
    return joined_gap([gap_columns(family, choices)])


def gap_columns(family: Family, choices: GapChoices) -> GapColumns:
    """Return what `gap` says of the columns of a family, or of some of them, before they are adjusted together."""
    found = [_contrast(family, (first, second), choices) for first, second in choices.contrasts]
    tables, flips = [table for table, _ in found], [flips for _, flips in found]
    return GapColumns(family.space, family.metric, tables, flips)


def joined_gap(shares: Sequence[GapColumns]) -> pd.DataFrame:
    """Return the rows of `gap` of one family from the shares of its columns, in order."""
    tables = [
        _adjusted([(share.tables[at], share.flips[at]) for share in shares])
        for at in range(len(shares[0].tables))
    ]
    return named(stacked(tables, GAP_COLUMNS), shares[0].space, shares[0].metric, GAP_COLUMNS)


def _adjusted(shares: Sequence[tuple[pd.DataFrame, FlipColumns | None]]) -> pd.DataFrame:
    """One contrast of a whole family, adjusted over its columns."""
    table = pd.concat([table for table, _ in shares], ignore_index=True)
    flips = [share for _, share in shares if share is not None]
    if flips:
        test = adjusted_together(flips)
        table["p_value"], table["p_adjusted"] = test.p_value, test.p_adjusted
    else:
        table["p_adjusted"] = adjust_p_values(table["p_value"].to_numpy(), method="holm")
    table["p_control_adjusted"] = adjust_p_values(table["p_control"].to_numpy())
    return table


def _contrast(
    family: Family, contrast: tuple[str, str], choices: GapChoices
) -> tuple[pd.DataFrame, FlipColumns | None]:
    """One contrast: block by block what a column says by itself, and its sign flips."""
    crossed = choices.shared_noise and family.space != PROMPT_SPACE
    values = np.empty((family.shape[1], family.shape[3]))
    found: list[dict[str, NDArray]] = []
    for place, block in family.blocks(max(1, len(family.pairs) // 3)):  # control words ask for many
        columns, values[:, place] = _block(block, contrast, choices, crossed)
        found.append(columns)
    table = family.columns.copy()
    table["contrast"] = "-".join(contrast)
    for name in found[0]:
        table[name] = np.concatenate([columns[name] for columns in found])
    if crossed:
        return table, None
    return table, flip_columns(values, permutations=choices.permutations, seed=choices.seed)


def _block(
    family: Family, contrast: tuple[str, str], choices: GapChoices, crossed: bool
) -> tuple[dict[str, NDArray], NDArray[np.float64]]:
    """Columns of the gap table that no other column alters, and the gap of each prompt."""
    known, (first, second) = definition(family.metric), contrast
    kept: dict[tuple[str, str], NDArray[np.float64]] = {}

    def near(one: str, other: str) -> NDArray[np.float64]:
        key = min((one, other), (other, one))
        if key not in kept:
            kept[key] = known.sign * family.pair(one, other, choices.indicators)
        return kept[key]

    sides, width = (near(choices.reference, first), near(choices.reference, second)), family.shape[3]
    single, nothing = single_gaps(sides)
    values, reach = prompt_means(single), family.reach()
    stated = choices.deltas.get(family.metric)
    if stated is None:
        share = _smallest(family.pair(first, second, choices.indicators), known.sign, choices.smallest_effect)
        delta = share if choices.smallest_effect is None else np.fmax(share, known.least_delta)
        source = np.where(delta == share, DERIVED, LEAST)
    else:
        delta, source = np.full(width, stated), STATED
    ends = (family.columns["step"] < 0).to_numpy() if stated is None else np.full(width, True)
    tested = np.where(ends, delta, np.nan)
    size = effect_sizes(values, reach=reach, **choices.sampling)
    columns: dict[str, NDArray] = {
        "delta": delta,
        "delta_source": np.where(np.isnan(delta), "", source).astype(object),
        "n": (~np.isnan(single)).sum(axis=(0, 1)),
        "n_effective": size.n_effective,
        "n_changed": changed_prompts(sides),
        "unseen": unseen_share(size.n),
    }
    if crossed:
        columns |= _shared_columns(single, size, tested, choices.level)
    else:
        columns |= _size_columns(size)
        columns["p_equivalent"] = _equivalence(values, tested, reach, choices.sampling)
    span = known.high - known.low  # no difference of two values is larger
    columns["ci_low"] = np.maximum(columns["ci_low"], -span)
    columns["ci_high"] = np.minimum(columns["ci_high"], span)
    against = control_columns(
        near,
        words_of(contrast, choices.reference, choices.controls),
        choices.level,
        shared_noise=crossed,
        nearest=known.high if known.higher_is_nearer else -known.low,
    )
    unequal, why = against.pop("unequal"), against.pop("controls")
    columns |= against
    reason = np.where(nothing & (size.n > 1), NO_DIFFERENCE, columns["reason"])
    columns["reason"] = np.array([*map(_join, reason, why), None], object)[:-1]
    columns["warning"] = looks_like(
        values,
        size.n_effective,
        n_references=against["n_references"],
        unequal=unequal,
        sizes=(against["n_words_first"], against["n_words_second"]),
        tested=~np.isnan(against["p_control"]),
    )
    return columns, values


def single_gaps(
    sides: Sequence[NDArray[np.float64]],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the gap of every prompt and seed, 0 where a column holds nothing but rounding, and which columns do.

    Parameters
    ----------
    sides : (ndarray, ndarray) of shape (n_prompts, n_seeds, n_columns)
        Nearness of the reference to the first and to the second of a contrast.
    """
    single, nothing = sides[0] - sides[1], below_rounding(sides)
    return np.where(nothing & ~np.isnan(single), 0.0, single), nothing


def _smallest(apart: NDArray[np.float64], sign: float, share: float | None) -> NDArray[np.float64]:
    """A share of the mean distance between the sides of a contrast, in each column; NaN where there is none."""
    if share is None:
        return np.full(apart.shape[-1], np.nan)
    mean = moments(prompt_means(apart))[1]
    distance = 1 - mean if sign > 0 else mean
    return np.where(distance > ROUNDING, share * distance, np.nan)


def _size_columns(size: EffectSizes) -> dict[str, NDArray]:
    """The gap with its interval and effect sizes over prompts that are independent."""
    columns = {
        "gap": size.mean,
        "ci_low": size.mean_low,
        "ci_high": size.mean_high,
        "ruled_out": size.ruled_out,
    }
    columns |= {"n_prompts": size.n, "reason": size.mean_reason}
    ends = [name + end for name in ("d_z", "superiority") for end in ("", "_low", "_high")]
    return columns | {name: getattr(size, name) for name in ends}


def _shared_columns(
    single: NDArray[np.float64], size: EffectSizes, delta: NDArray[np.float64], level: float
) -> dict[str, NDArray]:
    """The same, with the test, where prompts of a seed share their noise: prompts and seeds are crossed samples."""
    both, undefined = crossed_mean(single, level=level), np.full(single.shape[2], np.nan)
    untold = few_carry(size.n_effective, size.n) | np.isnan(delta)
    columns = _size_columns(size) | dict.fromkeys(
        ("d_z_low", "d_z_high", "superiority_low", "superiority_high"), undefined
    )
    return columns | {
        "gap": both.mean,
        "ci_low": both.low,
        "ci_high": both.high,
        "n_prompts": both.n,
        "p_value": both.p_value,
        "ruled_out": np.where(few_carry(size.n_effective, size.n), np.nan, both.ruled_out),
        "p_equivalent": np.where(untold, np.nan, both.p_equivalent(np.nan_to_num(delta))),
        "reason": both.reason,
    }


def _equivalence(
    values: NDArray[np.float64], delta: NDArray[np.float64], reach: NDArray[np.float64], sampling: dict
) -> NDArray[np.float64]:
    """p-values of equivalence, NaN where there is no δ."""
    p_value = np.full(values.shape[1], np.nan)
    asked = np.flatnonzero(~np.isnan(delta))
    if len(asked):
        options = {name: sampling[name] for name in ("resamples", "seed")}
        scaled = values[:, asked] / delta[asked]  # each column has a δ of its own; the test knows no scale
        options["reach"] = reach[asked] / delta[asked]
        p_value[asked] = equivalence_test(scaled, 1.0, **options)
    return p_value


def _join(*reasons: str) -> str:
    return "; ".join(reason for reason in reasons if reason)

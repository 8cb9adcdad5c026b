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
from analysis.stats.bootstrap import prompt_means
from analysis.stats.cautions import looks_like
from analysis.stats.crossed import crossed_mean
from analysis.stats.effects import EffectSizes, effect_sizes
from analysis.stats.equivalence import equivalence_test
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.permutation import FlipColumns, adjusted_together, flip_columns
from analysis.stats.rare_changes import few_carry, unseen_share
from analysis.stats.resampling import moments
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

    for a contrast (a, b), with + where a higher s is nearer (cosine, SSIM) and - where a lower one is (Diff. Pix.). A
    positive gap says that the reference is nearer to a. 0 means no difference.

    `pairs` are similarities of a run, or a tidy table with the columns of
    `analysis.tables.similarities.similarities.COLUMNS`; `choices` are fields of `GapChoices`. One row per (space, site,
    step, metric, contrast), with `GAP_COLUMNS`, which ``columns.csv`` describes: the gap with its interval
    (``envelope``) and sign flips; effect sizes (`analysis.stats.effects`); equivalence, at the end of each space (step
    -1) alone where δ is not stated; the gap over all words and its test (`analysis.stats.word_test`), where neither
    side has a control with the reference's in their place; how many prompts carry it (`analysis.stats.rare_changes`).
    What cannot be told is NaN, with a ``reason``: where there is one prompt, or the same difference in all (as at the
    first step, where the members of a triplet share the latent), or no control.

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
    tables = [joined_gap([gap_columns(family, chosen)]) for family in similarities(pairs).families()]
    return stacked(tables, GAP_COLUMNS)


@dataclass(frozen=True, kw_only=True)
class GapChoices:
    """What `gap` is asked.

    ``indicators`` in the order that names the pairs; ``contrasts`` (a, b), neither of them the reference; ``controls``:
    for each control word the indicator with which it is interchangeable, the reference or one of a contrast.
    ``deltas``: for a metric the difference δ that would matter, in its units, chosen before the data are seen.
    ``smallest_effect``: for every other metric δ is this share of the mean distance between the two sides of the
    contrast, of 1 − s(a, b) where a higher s is nearer and of s(a, b) itself where a lower one is, and at least
    `analysis.metrics.registry.Metric.least_delta`, so that sides that hardly differ can be said not to; None: no δ.
    ``shared_noise``: all prompts of a seed share their noise and so depend on each other; intervals and p-values are
    then those of prompts crossed with seeds (`analysis.stats.crossed`), adjusted by Holm, those of d_z and superiority
    are undefined, and with fewer than three seeds all are. p-values are adjusted over all sites and steps of one
    contrast in one family (space and metric): ``p_adjusted`` by max-T, ``p_control_adjusted`` by Benjamini and
    Hochberg.
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
    """The rows of `gap` before they are adjusted over the family, a table and its sign flips for each contrast.

    Flips are None where prompts share their noise.
    """

    space: str
    metric: str
    tables: list[pd.DataFrame]
    flips: list[FlipColumns | None]


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

    `sides` are the nearness of the reference to both, each ``(n_prompts, n_seeds, n_columns)``.
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

"""Is what the neutral prompt makes nearer to the masculine or to the feminine, and where in the model?

The gap

    s(reference, first) - s(reference, second)

of a contrast such as (masculine, feminine), signed so that positive always says "the reference is nearer to
the first". The paper compares the means by eye; the paired gap, its interval and its tests are ours.

Table ``disparity`` has the similarities themselves: representational disparity of Wu et al. 2025, section 4.1, the mean
similarity of each pair of indicators in the prompt, denoising and image space (equations 1 and 2), here for every site
and step, with an interval.

A gap says that two prompts' representations stand at unequal distance from the reference's, no more. Two
words that mean the same have different embeddings, so even a model without bias has gaps: the geometric part.
Table ``gap`` compares the gap with 0, ``equivalence`` with the smallest gap that matters, and ``word_gap``
(`analysis.tables.similarities.word_gap`) with words that mean the same: the last alone speaks of bias.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.metrics.registry import NO_STEP, Metric, definition
from analysis.stats.bootstrap import (
    FEW_CARRY,
    bootstrap_interval,
    effective_prompts,
    equivalence_test,
    few_carry,
    gap_cautions,
    prompt_means,
)
from analysis.stats.crossed import crossed_mean
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.permutation import FlipColumns, adjusted_together, flip_columns
from analysis.stats.resampling import moments
from analysis.tables.similarities.similarities import PROMPT_SPACE, Similarities
from probes.config.schema import Measure

DISPARITY_COLUMNS = (
    *("space", "site", "step", "metric", "pair", "mean", "ci_low", "ci_high"),
    *("n_prompts", "n", "reason", "version"),
)
KEYS = ("space", "site", "step", "metric", "contrast")
GAP_COLUMNS = (
    *(*KEYS, "gap", "ci_low", "ci_high", "p_value", "p_sites", "n_prompts", "n_effective", "delta"),
    *("reason", "warning", "version"),
)
EQUIVALENCE_COLUMNS = (*(*KEYS, "gap", "delta", "delta_source", "p_value", "n_prompts", "reason", "version"),)
NO_DIFFERENCE = "no difference beyond rounding in any prompt"
NO_DELTA = "no δ: the two sides do not differ"
SMALLEST_EFFECT = Measure().smallest_effect  # share of the distance between the two sides
STATED, DERIVED, LEAST = "measure.equivalence", "measure.smallest_effect", "least of the measure"
ROUNDING = 8 * float(np.finfo(np.float32).eps)  # similarities are stored in float32


@dataclass(frozen=True, kw_only=True)
class GapChoices:
    """What is compared, and how.

    ``indicators`` in the order that names the pairs; ``contrasts`` (a, b), neither of them the reference; ``controls``:
    for each control word the indicator with which it is interchangeable, the reference or one of a contrast.
    ``deltas``: for a metric the difference δ that would matter, in its units, chosen before the data are seen.
    ``smallest_effect``: for every other metric δ is this share of the mean distance between the two sides of the
    contrast, of 1 − s(a, b) where a higher s is nearer and of s(a, b) itself where a lower one is, and at least
    `analysis.metrics.registry.Metric.least_delta`, so that sides that hardly differ can be said not to; None: no δ.
    ``shared_noise``: all prompts of a seed share their noise and so depend on each other; intervals and p-values are
    then those of prompts crossed with seeds (`analysis.stats.crossed`), adjusted by Holm, and with fewer than three
    seeds all are undefined. p-values are adjusted over all sites and steps of one contrast, space and metric:
    those of ``gap`` by max-T, those of ``word_gap`` by Benjamini and Hochberg.
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

    def crossed(self, space: str) -> bool:
        """Return whether prompts of a space depend on each other, through a noise that they share."""
        return self.shared_noise and space != PROMPT_SPACE


def disparity(family: Similarities, choices: GapChoices) -> pd.DataFrame:
    r"""Return the mean similarity of every pair at every site and step.

    .. math:: s(\mathcal{P}, \mathcal{P}') = \frac{1}{|\mathcal{P}|} \sum_i s(p_i, p'_i)

    with a prompt's value the mean over its seeds. The interval over prompts is ``envelope`` of
    `analysis.stats.bootstrap.bootstrap_interval`, cut off where the metric's values end; where all prompts of a seed
    share their noise, that of `analysis.stats.crossed`. One row per (site, step, pair), with `DISPARITY_COLUMNS`;
    ``mean`` is in the units of the metric: a cosine or SSIM of at most 1, which is no difference, or Diff. Pix. from 0
    (no difference) to 100.

    Source: Wu et al. 2025, equations 1 and 2.
    """
    n_pairs, tables, known = len(family.pairs), [], definition(family.metric)
    for _, block in family.blocks(n_pairs):
        # columns first, pairs inside, as the rows will stand
        values = block.values.transpose(1, 2, 3, 0).reshape(*block.values.shape[1:3], -1).astype(np.float64)
        if choices.crossed(family.space):
            result = crossed_mean(values, level=choices.level)
        else:
            options = {"level": choices.level, "resamples": choices.resamples, "seed": choices.seed}
            result = bootstrap_interval(prompt_means(values), **options)
        rows = block.columns.loc[np.repeat(block.columns.index, n_pairs)].reset_index(drop=True)
        columns = {
            "space": family.space,
            "metric": family.metric,
            "pair": family.pairs * len(block.columns),
            "mean": result.mean,
            "ci_low": np.maximum(result.low, known.low),
            "ci_high": np.minimum(result.high, known.high),
            "n_prompts": result.n,
            "n": (~np.isnan(values)).sum(axis=(0, 1)),
            "reason": result.reason,
            "version": known.version,
        }
        tables.append(rows.assign(**columns)[[*DISPARITY_COLUMNS]])
    return pd.concat(tables, ignore_index=True)


def gap_rows(
    family: Similarities, contrast: Sequence[str], choices: GapChoices
) -> tuple[pd.DataFrame, pd.DataFrame, FlipColumns | None]:
    r"""Return by how much the reference is nearer to the first of a contrast, for every site and step.

    .. math:: g = \frac{1}{n} \sum_i \pm [s_i(r, a) - s_i(r, b)]

    for a contrast (a, b), with + where a higher s is nearer (cosine, SSIM) and - where a lower one is (Diff. Pix.). A
    positive gap says that the reference is nearer to a. 0 means no difference.

    The rows of ``gap``, with the interval ``envelope``, before their p-values are adjusted (`adjusted_gap`), those of
    ``equivalence``, and the sign flips of the columns, None where prompts share their noise. Equivalence is tested at
    the end of each space alone (step -1) where δ is not stated.
    """
    blocks = [(_block(block, contrast, choices), place) for place, block in family.blocks(4)]
    columns = {name: np.concatenate([own[name] for (own, _), _ in blocks]) for name in blocks[0][0][0]}
    keys = {"space": family.space, "site": family.columns["site"], "step": family.columns["step"]}
    keys |= {"metric": family.metric, "contrast": "-".join(contrast)}
    table = pd.DataFrame(keys | columns | {"version": definition(family.metric).version})
    tested = table.pop("tested")
    equivalence = table.assign(p_value=table.pop("p_equivalent"))[tested.to_numpy(bool)]
    untold = equivalence["p_value"].isna() & (equivalence["reason"] == "")
    why = np.where(equivalence["delta"].isna(), NO_DELTA, FEW_CARRY)
    equivalence = equivalence.assign(reason=np.where(untold, why, equivalence["reason"]))
    flips = None
    if not choices.crossed(family.space):
        values = np.concatenate([values for (_, values), _ in blocks], axis=1)
        flips = flip_columns(values, permutations=choices.permutations, seed=choices.seed)
    return table, equivalence[[*EQUIVALENCE_COLUMNS]], flips


def adjusted_gap(tables: Sequence[pd.DataFrame], flips: Sequence[FlipColumns | None]) -> pd.DataFrame:
    """Return the rows of ``gap`` of one contrast, space and metric, from those of some of its sites each."""
    table = pd.concat(tables, ignore_index=True)
    if drawn := [some for some in flips if some is not None]:
        test = adjusted_together(drawn)
        table["p_value"], table["p_sites"] = test.p_value, test.p_adjusted
    else:
        table["p_sites"] = adjust_p_values(table["p_value"].to_numpy(np.float64), method="holm")
    return table[[*GAP_COLUMNS]]


def _block(
    family: Similarities, contrast: Sequence[str], choices: GapChoices
) -> tuple[dict[str, NDArray], NDArray[np.float64]]:
    """Columns of ``gap`` and ``equivalence`` that no other site alters, and the gap of each prompt."""
    known, sampling = definition(family.metric), {"resamples": choices.resamples, "seed": choices.seed}
    sides = [known.sign * family.pair(choices.reference, side, choices.indicators) for side in contrast]
    single, nothing = single_gaps(sides)
    values, reach = prompt_means(single), family.reach()
    n, n_effective = (~np.isnan(values)).sum(axis=0), effective_prompts(values)
    delta, source = _smallest_gap(known, family.pair(*contrast, choices.indicators), choices)
    ends = (family.columns["step"] == NO_STEP).to_numpy()
    tested = ends if known.metric not in choices.deltas else np.full(len(ends), True)
    if choices.crossed(family.space):
        result = crossed_mean(single, level=choices.level)
        p_value, p_equivalent = result.p_value, result.p_equivalent(np.nan_to_num(delta))
        p_equivalent = np.where(few_carry(n_effective, n) | np.isnan(delta), np.nan, p_equivalent)
    else:
        result = bootstrap_interval(values, reach=reach, level=choices.level, **sampling)
        p_value = p_equivalent = np.full(values.shape[1], np.nan)
        if len(asked := np.flatnonzero(tested & ~np.isnan(delta))):
            p_equivalent = p_equivalent.copy()
            scaled = (
                values[:, asked] / delta[asked]
            )  # each column has a δ of its own; the test knows no scale
            p_equivalent[asked] = equivalence_test(scaled, 1.0, reach=reach[asked] / delta[asked], **sampling)
    span = known.high - known.low  # no difference of two values is larger
    columns = {
        "gap": result.mean,
        "ci_low": np.maximum(result.low, -span),
        "ci_high": np.minimum(result.high, span),
        "p_value": p_value,
        "n_prompts": result.n,
        "n_effective": n_effective,
        "delta": delta,
        "reason": np.where(nothing & (n > 1), NO_DIFFERENCE, result.reason),
        "warning": gap_cautions(values, n_effective),
        "tested": tested,
        "delta_source": source,
        "p_equivalent": p_equivalent,
    }
    return columns, values


def single_gaps(
    sides: Sequence[NDArray[np.float64]],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the gap of every prompt and seed, 0 where a column holds nothing but rounding, and which columns do.

    `sides` are the nearness of the reference to both, each ``(n_prompts, n_seeds, n_columns)``.
    """
    single, nothing = sides[0] - sides[1], below_rounding(sides)
    return np.where(nothing & ~np.isnan(single), 0.0, single), nothing


def below_rounding(words: Sequence[NDArray[np.float64]]) -> NDArray[np.bool_]:
    """Return for each column whether all differences between words are what float32 leaves of no difference."""
    largest, scale = (
        np.max([np.nan_to_num(np.abs(part)).max(axis=(0, 1), initial=0.0) for part in parts], axis=0)
        for parts in ([words[0] - word for word in words[1:]], words)
    )
    return largest <= ROUNDING * scale


def _smallest_gap(
    metric: Metric, between: NDArray[np.float64], choices: GapChoices
) -> tuple[NDArray[np.float64], NDArray[np.object_]]:
    """The smallest gap δ that matters in each column, NaN where there is none, and where it comes from."""
    width = between.shape[-1]
    if (stated := choices.deltas.get(metric.metric)) is not None:
        return np.full(width, stated), np.full(width, STATED, object)
    if choices.smallest_effect is None:
        return np.full(width, np.nan), np.full(width, "", object)
    mean = moments(prompt_means(between))[1]
    distance = 1 - mean if metric.higher_is_nearer else mean
    share = np.where(distance > ROUNDING, choices.smallest_effect * distance, np.nan)
    delta = np.fmax(share, metric.least_delta)
    return delta, np.where(delta == share, DERIVED, LEAST).astype(object)

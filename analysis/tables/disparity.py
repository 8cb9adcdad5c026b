"""Is what the neutral prompt makes nearer to the masculine or to the feminine, and where in the model?

Representational disparity of Wu et al. 2025, section 4.1: the mean similarity of each pair of indicators in
the prompt, denoising and image space (equations 1 and 2), here for every site and step, with an interval; and
the gap

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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.metrics.registry import definition
from analysis.stats.cautions import looks_like
from analysis.stats.crossed import crossed_mean
from analysis.stats.effects import EffectSizes, effect_sizes, prompt_means
from analysis.stats.equivalence import equivalence_test
from analysis.stats.intervals import bootstrap_interval
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.rare_changes import few_carry, unseen_share
from analysis.stats.resampling import moments
from analysis.stats.sign_flips import sign_flip_test
from analysis.tables.control_columns import (
    ROUNDING,
    below_rounding,
    changed_prompts,
    control_columns,
    words_of,
)
from analysis.tables.similarities import pair_name

DISPARITY_COLUMNS = (
    *("space", "site", "step", "metric", "pair", "mean", "ci_low", "ci_high"),
    *("n_prompts", "n", "reason", "version"),
)
GAP_COLUMNS = (
    *("space", "site", "step", "metric", "contrast", "gap", "ci_low", "ci_high", "p_value", "p_adjusted"),
    *("n_prompts", "n", "d_z", "d_z_low", "d_z_high", "superiority", "superiority_low", "superiority_high"),
    *("ruled_out", "delta", "delta_source", "p_equivalent", "n_effective", "n_changed", "unseen"),
    *("control_gap", "control_low", "control_high", "n_controls"),
    *("word_gap", "word_low", "word_high", "word_df", "n_words_first", "n_words_second", "n_references"),
    *("share_words", "share_references", "share_prompts"),
    *("p_control", "p_control_adjusted", "p_permutation", "p_floor", "reason", "warning", "version"),
)
INTERVAL = "envelope"
PROMPT_SPACE = "prompt"  # no noise enters it
NO_DIFFERENCE = "no difference beyond rounding in any prompt"
SMALLEST_EFFECT = 0.1  # share of the distance between the two sides
STATED, DERIVED = "measure.equivalence", "measure.smallest_effect"


@dataclass(frozen=True)
class Family:
    """All values of one metric in one space.

    Attributes
    ----------
    space, metric : str
    columns : DataFrame
        ``site`` and ``step`` of each column, in the order of the table of pairs.
    pairs : list of str
    values : ndarray of float64, shape (n_pairs, n_prompts, n_seeds, n_columns)
        NaN where there is no value. Prompts and seeds are those of the whole run, so that every family sees
        the same resamples.
    """

    space: str
    metric: str
    columns: pd.DataFrame
    pairs: list[str]
    values: NDArray[np.float64]

    def pair(self, first: str, second: str, indicators: Sequence[str]) -> NDArray[np.float64]:
        """Return the values of a pair, shape (n_prompts, n_seeds, n_columns); NaN if it was not compared."""
        name = pair_name(first, second, indicators)
        if name in self.pairs:
            return self.values[self.pairs.index(name)]
        return np.full(self.values.shape[1:], np.nan)


def families(pairs: pd.DataFrame) -> Iterator[Family]:
    """Cut the table of pairs into families and yield their values as arrays.

    Parameters
    ----------
    pairs : DataFrame
        With the columns of `analysis.tables.similarities.COLUMNS`.

    Raises
    ------
    ValueError
        If a value stands in the table twice.
    """
    prompts, seeds = (np.sort(pairs[name].unique()) for name in ("triplet", "seed"))
    for (space, metric), rows in pairs.groupby(["space", "metric"], observed=True, sort=False):
        site_code, sites = pd.factorize(rows["site"])
        step = rows["step"].to_numpy(np.int64)
        width = int(step.max()) + 2  # steps begin at -1
        column, keys = pd.factorize(site_code * width + step + 1)
        pair, names = pd.factorize(rows["pair"])
        place = (
            pair,
            np.searchsorted(prompts, rows["triplet"]),
            np.searchsorted(seeds, rows["seed"]),
            column,
        )
        shape = (len(names), len(prompts), len(seeds), len(keys))
        flat = np.ravel_multi_index(place, shape)
        values = np.full(shape, np.nan)
        seen = np.zeros(values.size, bool)
        seen[flat] = True
        if seen.sum() < len(flat):
            raise ValueError(f"pairs: {space}, {metric}: expected each value once, found some twice")
        values.ravel()[flat] = rows["value"].to_numpy(np.float64)
        columns = pd.DataFrame({"site": np.asarray(sites, object)[keys // width], "step": keys % width - 1})
        yield Family(str(space), str(metric), columns, [str(name) for name in names], values)


def shares_noise(config: Mapping) -> bool:
    """Return whether all prompts of a seed share their noise, from a run's configuration."""
    return (config.get("sampler") or {}).get("noise") == "shared"


def disparity(
    pairs: pd.DataFrame,
    *,
    shared_noise: bool = False,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    r"""Return the mean similarity of every pair at every site and step.

    .. math:: s(\mathcal{P}, \mathcal{P}') = \frac{1}{|\mathcal{P}|} \sum_i s(p_i, p'_i)

    with a prompt's value the mean over its seeds.

    Parameters
    ----------
    pairs : DataFrame
        With the columns of `analysis.tables.similarities.COLUMNS`.
    shared_noise : bool
        Whether all prompts of a seed share their noise: the interval is then that of `analysis.stats.crossed`.
    level, resamples, seed
        Of the interval over prompts, ``envelope`` of `analysis.stats.intervals.bootstrap_interval`, cut off where the
        metric's values end.

    Returns
    -------
    DataFrame
        A row a (space, site, step, metric, pair), with the columns `DISPARITY_COLUMNS`. ``mean`` is in the
        units of the metric: a cosine or SSIM of at most 1, which is no difference, or Diff. Pix. from 0 (no
        difference) to 100. ``n_prompts`` counts prompts and ``n`` single values; ``reason`` says why an
        interval is NaN.

    Source
    ------
    Wu et al. 2025, equations 1 and 2.

    Examples
    --------
    >>> pairs = pd.DataFrame({"triplet": [0, 0, 1, 1], "seed": [0, 1, 0, 1], "value": [0.5, 0.7, 0.9, 0.9]})
    >>> pairs = pairs.assign(space="image", site="image", metric="ssim", step=-1, pair="n-m")
    >>> row = disparity(pairs).iloc[0]
    >>> round(row["mean"], 6), row["n_prompts"], row["n"]  # the mean of 0.6 and 0.9
    (np.float64(0.75), np.int64(2), np.int64(4))
    """
    tables = []
    for family in families(pairs):
        n_pairs, _, _, n_columns = family.values.shape
        # columns first, pairs inside, as the rows will stand
        values = family.values.transpose(1, 2, 3, 0).reshape(*family.values.shape[1:3], n_columns * n_pairs)
        options = {"level": level, "resamples": resamples, "seed": seed}
        if shared_noise and family.space != PROMPT_SPACE:
            result = crossed_mean(values, level=level)
        else:
            result = bootstrap_interval(prompt_means(values), method=INTERVAL, **options)
        table = family.columns.loc[np.repeat(family.columns.index, n_pairs)].reset_index(drop=True)
        table["pair"] = family.pairs * n_columns
        known = definition(family.metric)
        table["mean"] = result.mean
        table["ci_low"] = np.maximum(result.low, known.least)
        table["ci_high"] = np.minimum(result.high, known.most)
        table["n_prompts"], table["n"] = result.n, (~np.isnan(values)).sum(axis=(0, 1))
        table["reason"] = result.reason
        tables.append(_named(table, family, DISPARITY_COLUMNS))
    return _stack(tables, DISPARITY_COLUMNS)


def gap(
    pairs: pd.DataFrame,
    *,
    indicators: Sequence[str],
    reference: str,
    contrasts: Sequence[Sequence[str]],
    controls: Mapping[str, str] | None = None,
    deltas: Mapping[str, float] | None = None,
    smallest_effect: float | None = SMALLEST_EFFECT,
    shared_noise: bool = False,
    level: float = 0.95,
    resamples: int = 2000,
    permutations: int = 10000,
    seed: int = 0,
) -> pd.DataFrame:
    r"""Return by how much the reference is nearer to the first of a contrast, for every site and step.

    .. math:: g = \frac{1}{n} \sum_i \pm [s_i(r, a) - s_i(r, b)]

    for a contrast (a, b), with + where a higher s is nearer (cosine, SSIM) and - where a lower one is (Diff.
    Pix.). A positive gap says that the reference is nearer to a. 0 means no difference.

    Parameters
    ----------
    pairs : DataFrame
        With the columns of `analysis.tables.similarities.COLUMNS`.
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
        1 − s(a, b) where a higher s is nearer, and of s(a, b) itself where a lower one is. None: no δ.
    shared_noise : bool
        Whether all prompts of a seed share their noise, so that prompts depend on each other: intervals and p-values
        are then those of prompts crossed with seeds (`analysis.stats.crossed`), adjusted by Holm; those of d_z and
        superiority are undefined, and with fewer than three seeds all are.
    level, resamples, permutations, seed
        Of the bootstrap and of the sign flips over prompts, see `analysis.stats.intervals`. p-values are adjusted over
        all sites and steps of one contrast in one family (space and metric): ``p_adjusted`` by max-T,
        ``p_control_adjusted`` by Benjamini and Hochberg.

    Returns
    -------
    DataFrame
        A row a (space, site, step, metric, contrast), with the columns `GAP_COLUMNS`, in the units of the metric.

        ``gap`` with ``ci_low``, ``ci_high`` (``envelope``), and ``p_value`` of the sign flips: is it 0?
        ``n_prompts`` counts prompts and ``n`` single differences. ``d_z`` and ``superiority``: effect sizes, see
        `analysis.stats.effects.EffectSizes`. ``ruled_out``: a gap of so much or more is ruled out at 1 - level;
        ``p_equivalent``: of the test that the gap lies within ±``delta``, at the end of each space (step -1) alone
        where δ is a share of the distance; ``delta_source`` says whether it was stated or is such a share.

        ``control_gap``: the largest absolute gap between two words that mean the same (two controls of the reference,
        or two words of one side), with ``control_high`` and ``control_low`` for it and its negative; ``n_controls``
        counts control words. ``word_gap`` with its interval and ``p_control``: the gap between all words of a and all
        words of b, and the test that it is more than these words differ among themselves, see
        `analysis.stats.word_test.word_test`. It rests on ``n_words_first`` and ``n_words_second`` words of a and b,
        these among them, and on ``n_references`` words that stood as reference, each where it was compared; with one
        the claim is about that word alone. ``word_df``: words less one a group. ``share_words``, ``share_references``
        and ``share_prompts``: shares of its variance, 1 together. ``p_permutation``: of the exact permutation of words
        over the sides, which cannot fall below ``p_floor``. Where neither side has a control, the reference's stand for
        their spread.

        ``n_effective``: how many prompts carry the variance of the gap, and ``n_changed``: at how many it is more than
        rounding; ``unseen``: the share that a kind of prompt can have which none of these prompts is, at 95 %; see
        `analysis.stats.rare_changes`. ``warning``: what in this row is as in a simulated case in which a number of it
        misses, see `analysis.stats.cautions`.

        What cannot be told is NaN, with a ``reason``: where there is one prompt, or the same difference in all (as
        at the first step, where the members of a triplet share the latent), or no control.

    Raises
    ------
    ValueError
        If a contrast names the reference or no indicator, or a control stands for none.

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
    for contrast in contrasts:
        if len(set(contrast)) != 2 or reference in contrast or not set(contrast) <= set(indicators):
            raise ValueError(
                f"contrasts: expected two of {list(indicators)} other than {reference}, got {list(contrast)}"
            )
    controls = dict(controls or {})
    strange = {name: of for name, of in controls.items() if not {name, of} <= set(indicators) or name == of}
    if strange:
        raise ValueError(f"controls: expected two of {list(indicators)} each, got {strange}")
    sampling = {"level": level, "resamples": resamples, "seed": seed}
    tables = []
    for family in families(pairs):
        known = definition(family.metric)
        sign = 1.0 if known.higher_is_nearer else -1.0

        def near(one: str, other: str) -> NDArray[np.float64]:
            return sign * family.pair(one, other, indicators)  # noqa: B023

        reach, crossed = _reach(family), shared_noise and family.space != PROMPT_SPACE
        for first, second in contrasts:
            sides = near(reference, first), near(reference, second)
            single, nothing = sides[0] - sides[1], below_rounding(sides)
            single = np.where(nothing & ~np.isnan(single), 0.0, single)
            values = prompt_means(single)
            delta = (deltas or {}).get(family.metric, np.nan)
            table = family.columns.copy()
            table["contrast"] = f"{first}-{second}"
            stated = (deltas or {}).get(family.metric)
            apart = family.pair(first, second, indicators)
            delta = _smallest(apart, sign, smallest_effect) if stated is None else np.full(len(table), stated)
            table["delta"] = delta
            table["delta_source"] = np.where(np.isnan(delta), "", DERIVED if stated is None else STATED)
            ends = (table["step"] < 0).to_numpy() if stated is None else np.full(len(table), True)
            size = effect_sizes(values, reach=reach, **sampling)
            table["n"], table["n_effective"] = (~np.isnan(single)).sum(axis=(0, 1)), size.n_effective
            table["n_changed"], table["unseen"] = changed_prompts(sides), unseen_share(size.n)
            tested = np.where(ends, delta, np.nan)
            if crossed:
                columns = _shared_columns(single, size, tested, level)
            else:
                test = sign_flip_test(values, permutations=permutations, seed=seed)
                columns = _size_columns(size) | {"p_value": test.p_value, "p_adjusted": test.p_adjusted}
                columns["p_equivalent"] = _equivalence(values, tested, reach, sampling)
            span = known.most - known.least  # no difference of two values is larger
            columns["ci_low"] = np.maximum(columns["ci_low"], -span)
            columns["ci_high"] = np.minimum(columns["ci_high"], span)
            for name, column in columns.items():
                table[name] = column
            reason = np.where(nothing & (size.n > 1), NO_DIFFERENCE, table["reason"])
            words = words_of((first, second), reference, controls)
            options = {
                "shared_noise": crossed,
                "nearest": known.most if known.higher_is_nearer else -known.least,
            }
            columns = control_columns(near, words, level, **options)
            unequal = columns.pop("unequal")
            for name, column in columns.items():
                table[name] = column
            table["reason"] = [_join(*both) for both in zip(reason, table.pop("controls"))]
            table["warning"] = looks_like(
                values,
                size.n_effective,
                n_references=columns["n_references"],
                unequal=unequal,
                sizes=(columns["n_words_first"], columns["n_words_second"]),
                tested=~np.isnan(columns["p_control"]),
            )
            tables.append(_named(table, family, GAP_COLUMNS))
    return _stack(tables, GAP_COLUMNS)


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
    """The same where the prompts of a seed share their noise: prompts and seeds are samples crossed with each other."""
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
        "p_adjusted": adjust_p_values(both.p_value, method="holm"),
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
        options = {name: sampling[name] for name in ("resamples", "seed")} | {"alpha": 1 - sampling["level"]}
        scaled = values[:, asked] / delta[asked]  # each column has a δ of its own; the test knows no scale
        options["reach"] = reach[asked] / delta[asked]
        p_value[asked] = equivalence_test(scaled, 1.0, method=INTERVAL, **options).p_value
    return p_value


def _reach(family: Family) -> NDArray[np.float64]:
    """By how much a prompt's difference could at most be other than 0, judging by all words of the run."""
    flat = family.values.reshape(-1, family.values.shape[-1])
    low, high = (smaller.reduce(flat, axis=0, initial=np.nan) for smaller in (np.fmin, np.fmax))
    return np.nan_to_num(high - low)


def _named(table: pd.DataFrame, family: Family, columns: Sequence[str]) -> pd.DataFrame:
    table["space"], table["metric"] = family.space, family.metric
    table["version"] = definition(family.metric).version
    return table[list(columns)]


def _stack(tables: list[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(columns))


def _join(*reasons: str) -> str:
    return "; ".join(reason for reason in reasons if reason)

"""Gaps of the benchmark models, and rejection rates of their tests under permuted words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from analysis.loaded_run import load_run
from analysis.metrics.registry import definition, headline_metrics
from analysis.stats.bootstrap import prompt_means
from analysis.stats.multiplicity import gatekept
from analysis.stats.permutation import sign_flip_test
from analysis.stats.word_test import word_test
from analysis.tables.similarities.stored import StoredSimilarities
from analysis.tables.similarities.word_gap import joined_gaps
from probes.runs.run import Run

QUANTITIES = {metric.place: metric.symbol for metric in headline_metrics()} | {
    ("denoising", "x0_pred", "cosine"): "x̂₀ at the last step"
}


def headline_gaps(run: Run, contrast: str = "masculine-feminine") -> pd.DataFrame:
    """The run's main gaps, one row per quantity: ``quantity`` and the columns of ``tables/gap`` and ``word_gap``."""
    gap = joined_gaps(load_run(run.path).table)
    gap = gap[gap["contrast"] == contrast]
    rows = []
    for (space, site, metric), label in QUANTITIES.items():
        steps = gap[(gap["space"] == space) & (gap["site"] == site) & (gap["metric"] == metric)]
        if len(steps):
            rows.append({"quantity": label} | steps.sort_values("step").iloc[-1].to_dict())
    return pd.DataFrame(rows)


def permuted_p_values(
    pairs: StoredSimilarities, names: Sequence[str], *, size: int = 3, permutations: int = 2000
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """P-values of each quantity when words that all mean the same change places: against 0, and against words.

    Against 0, by sign flips, of all choices of a reference and two other words; against words
    (`analysis.stats.word_test`) of all choices of `size` reference words and two sides of `size` words.
    """
    p_values = {}
    for (space, site, metric), label in QUANTITIES.items():
        family = pairs.family(space, site, metric)
        if family is None:
            continue
        sign = 1 if definition(metric).higher_is_nearer else -1
        last = int(family.columns["step"].argmax())
        near = {
            (a, b): sign * prompt_means(family.pair(a, b, names)[..., [last]])[:, 0]
            for a in names
            for b in names
            if a != b
        }
        there = ~np.all([np.isnan(value) for value in near.values()], axis=0)  # prompts with any value
        near = {key: value[there] for key, value in near.items()}
        gaps, sides, pairs_within = [], ([], []), ([], [])
        undefined = np.full_like(next(iter(near.values())), np.nan)  # of a word with itself
        for reference in names:
            others = [name for name in names if name != reference]
            gaps += [near[reference, a] - near[reference, b] for a, b in combinations(others, 2)]
        for references in combinations(names, size):
            for chosen in _two_sides([name for name in names if name not in references], size):
                for side, inside, words in zip(sides, pairs_within, chosen):
                    side.append([[near[reference, name] for name in words] for reference in references])
                    inside.append([[near.get((a, b), undefined) for b in words] for a in words])
        flips = sign_flip_test(np.array(gaps).T, permutations=permutations).p_value
        first, second, *within = (np.array(side).transpose(1, 2, 3, 0) for side in (*sides, *pairs_within))
        p_values[label] = flips, word_test(first, second, within=within).p_value
    return p_values


def claims_together(
    p_values: dict[str, tuple[np.ndarray, np.ndarray]], primary: str = "z₀"
) -> tuple[float, float]:
    """How often any headline measure is beyond words at 5 %, unadjusted and as the report adjusts them."""
    labels = [metric.symbol for metric in headline_metrics() if metric.symbol in p_values]
    words = np.array([p_values[label][1] for label in labels])
    gate = labels.index(primary) if primary in labels else None
    adjusted = np.array([gatekept(column, gate) for column in words.T])
    return float((words < 0.05).any(axis=0).mean()), float((adjusted < 0.05).any(axis=1).mean())


def _two_sides(names: Sequence[str], size: int) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Every way to choose two sides of so many words, each once."""
    for one in combinations(names, size):
        for two in combinations([name for name in names if name not in one], size):
            if one < two:
                yield one, two

"""Artificial sets of an audit: groups of its images with known differences, and how estimates follow these.

An audit has as many differences to judge an estimate by as it has attributes. Zhang et al. 2023, appendix C, put groups
of images together whose frequencies differ by known amounts, on the scales of Table 17, and so have hundreds. Examples
of one attribute have one slope of estimate against difference, so that they are no independent draws: what is drawn
again for an interval are attributes, with all of their examples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from analysis.methods.gep.evaluation import EQUAL
from analysis.methods.gep.scores import Audit, like
from analysis.methods.gep.sources import POWERED
from analysis.methods.gep.tables import LABELS, with_percentiles
from analysis.stats.resampling import resample_counts
from probes.config.schema import Config

GROUP_IMAGES = 80  # of a group of an artificial set: the differences of Table 17 are multiples of 1/80
EACH_SCALE = 10  # examples of an attribute and scale
# largest difference of each scale of Table 17, in images of 80; its 19 differences are evenly spaced
SCALES = {"1.0": 72, "0.5": 36, "0.25": 18, "0.125": 9}


def artificial_table(
    audits: Sequence[Audit], compared: Sequence[tuple[str, str, str]], config: Config
) -> pd.DataFrame:
    """Return how estimates follow the known differences of artificial sets (Tables 5, 8, 9), with intervals.

    Images of both settings are drawn from, for attributes that were labelled in each; `POWERED` says nothing of single
    images and is left out. Measures are those of ``gep_agreement``; intervals are percentiles over attributes.
    """
    measure, rows = config.measure, []
    for about, source, examples in _examples(audits, compared, config):
        known = examples[["attribute", "labelled", source]].dropna()
        n = known["attribute"].nunique()
        counts = np.ones((1, n))
        if n > 1:
            counts = np.vstack([counts, resample_counts(n, measure.bootstrap, measure.seed)])
        about |= {"source": source, "n_examples": len(known), "n_attributes": n, "level": measure.level}
        drawn = example_agreement(known["attribute"], known[source], known["labelled"], counts)
        rows += with_percentiles(drawn, about, measure.level, "too few attributes, or no difference to order")
    return pd.DataFrame(rows)


def _examples(
    audits: Sequence[Audit], compared: Sequence[tuple[str, str, str]], config: Config
) -> Iterator[tuple[dict[str, object], str, pd.DataFrame]]:
    """Every contrast, source of labels and estimate, with the examples of the contrast and labels."""
    by = {(one.source, one.setting): one for one in audits}
    for source in LABELS:
        labels = [one for one in audits if one.source == source]
        names = labels[0].attributes if labels else ()
        shared = [name for name in names if all(name in one.attributes for one in labels)]
        places = [[one.attributes.index(name) for name in shared] for one in labels]
        labels = [
            replace(one, values=one.values[..., own], attributes=tuple(shared))
            for one, own in zip(labels, places)
        ]
        estimates = {
            name: [like(by[name, one.setting], one) for one in labels]
            for name in dict.fromkeys(one.source for one in audits)
            if name not in (source, POWERED) and all((name, one.setting) in by for one in labels)
        }
        for first, second, kind in compared if shared else ():
            if kind != "contrast" or not all({first, second} <= {*one.indicators} for one in labels):
                continue
            chosen = {"examples": config.gep.examples, "seed": config.measure.seed}
            examples = artificial_set(labels, estimates, first, second, **chosen)
            for name in estimates:
                yield {"labels": source, "first": first, "second": second}, name, examples


def example_agreement(
    attributes: Sequence[str], estimated: ArrayLike, labelled: ArrayLike, counts: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Return tau, mcc and pearson of examples, shape (n_draws,), by how often each attribute was drawn, (n_draws, k).

    As in `analysis.methods.gep.evaluation.agreements`; pairs of two attributes count as often as both were drawn.
    """
    x, y = (np.asarray(side, float).round(EQUAL) for side in (estimated, labelled))
    codes = pd.factorize(np.asarray(attributes, object))[0]
    member = np.equal.outer(np.arange(counts.shape[1]), codes).astype(float)
    order = [np.sign(np.subtract.outer(side, side)) for side in (x, y)]

    def pairs(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        block = member @ matrix @ member.T
        whole = np.einsum("ra,ab,rb->r", counts, block, counts, optimize=True)
        return whole - (counts**2 - counts) @ np.diag(
            block
        )  # pairs of an attribute, as often as it was drawn

    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.sqrt(pairs(np.abs(order[0])) * pairs(np.abs(order[1])))
        tau = np.where(apart > 0, np.clip(pairs(order[0] * order[1]) / apart, -1.0, 1.0), np.nan)
    times = counts @ member
    signs = np.nan_to_num(_correlation((x >= 0).astype(float), (y >= 0).astype(float), times))
    pearson = np.where(apart > 0, _correlation(x, y, times), np.nan)
    return {"tau": tau, "mcc": np.where(times.any(axis=1), signs, np.nan), "pearson": pearson}


def _correlation(x: NDArray, y: NDArray, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Correlation of examples that count so often, (n_draws,); NaN where one side is constant."""
    n = times.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        left, right = (side - times @ side[:, None] / n for side in (x, y))
        size = np.sqrt((times * left**2).sum(axis=1) * (times * right**2).sum(axis=1))
        return np.where(size > 1e-12, (times * left * right).sum(axis=1) / size, np.nan)


def artificial_set(
    labels: Sequence[Audit],
    estimates: Mapping[str, Sequence[Audit]],
    first: str,
    second: str,
    *,
    examples: int = EACH_SCALE,
    seed: int = 0,
) -> pd.DataFrame:
    """Return groups of images with a known difference of frequencies, and what estimates make of them (appendix C).

    For each attribute and scale differences are drawn at random from the scale's 19; a group of images of the first
    indicator and one of the second are then put together, drawn with replacement from those with and those without the
    attribute, so that their frequencies differ by just that. Where in 0 to 1 the two frequencies lie is drawn evenly
    among those that the images allow; the paper leaves it open, and the size of a group (its differences are multiples
    of 1/80).

    `labels` are of both settings, as in the paper, with the same attributes; `estimates`, by name, of the same images
    in the same layout. One row per example: ``attribute``, ``scale``, ``labelled`` (the difference), and a column for
    each estimate; what cannot be put together, because an indicator has no image with (or without) the attribute, is
    left out.
    """

    def images(audits: Sequence[Audit]) -> list[NDArray[np.float64]]:  # of each indicator, (n, n_attributes)
        size = len(labels[0].attributes)
        return [
            np.concatenate([one.of(word).reshape(-1, size) for one in audits]) for word in (first, second)
        ]

    truth, estimated = images(labels), {name: images(audits) for name, audits in estimates.items()}
    rng = np.random.default_rng(seed)
    rows = []
    for attribute, name in enumerate(labels[0].attributes):
        pools = [[np.flatnonzero(side[:, attribute] == label) for label in (0, 1)] for side in truth]
        for scale, largest in SCALES.items():
            for _ in range(examples):
                difference = int(rng.integers(-9, 10)) * largest // 9
                groups = _groups(pools, difference, rng)
                if groups:
                    means = {
                        source: float(
                            sides[0][groups[0], attribute].mean() - sides[1][groups[1], attribute].mean()
                        )
                        for source, sides in estimated.items()
                    }
                    about = {"attribute": name, "scale": scale, "labelled": difference / GROUP_IMAGES}
                    rows.append(about | means)
    return pd.DataFrame(rows, columns=["attribute", "scale", "labelled", *estimates])


def _groups(
    pools: Sequence[Sequence[NDArray[np.intp]]], difference: int, rng: np.random.Generator
) -> list[NDArray[np.intp]]:
    """A group of images of either word, from those without and with an attribute, whose counts differ by so many.

    Empty where there are none.
    """
    images = GROUP_IMAGES
    counts = [
        (count, count - difference)
        for count in range(max(0, difference), min(images, images + difference) + 1)
        if all(
            (len(pool[1]) or not there) and (len(pool[0]) or there == images)
            for pool, there in zip(pools, (count, count - difference))
        )
    ]
    if not counts:
        return []
    return [
        np.concatenate([rng.choice(pool[1], there), rng.choice(pool[0], images - there)])
        if 0 < there < images
        else rng.choice(pool[int(there > 0)], images)
        for pool, there in zip(pools, counts[int(rng.integers(len(counts)))])
    ]

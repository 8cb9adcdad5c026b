"""How well an estimate of the GEP vector follows labels (Zhang et al. 2023, section 6 and appendices C, D)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from analysis.methods.gep.scores import Audit, place

GROUP_IMAGES = 80  # of a group of an artificial set: the differences of Table 17 are multiples of 1/80
EQUAL = (
    12  # digits after the point: differences that are equal but for the order of a sum are ties, and 0 is 0
)
EACH_SCALE = 10  # examples of an attribute and scale
# largest difference of each scale of Table 17, in images of 80; its 19 differences are evenly spaced
SCALES = {"1.0": 72, "0.5": 36, "0.25": 18, "0.125": 9}


def agreements(
    estimated: ArrayLike, labelled: ArrayLike, *, zero: str = "positive"
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return how pairs of GEP vectors, shape (n_pairs, n), agree: tau, mcc, pearson and n, shape (n_pairs,) each.

    Kendall's tau-b: the same order of differences. Matthews' correlation of their signs: the same direction; the paper
    counts a difference of 0 as positive (appendix D), and since a labelled difference of 0 has no direction to be found
    it can be ``left out``; 0 where one vector has one sign alone. NaN on either side is left out; ``n`` counts the
    rest.
    """
    first, second = (np.asarray(side, float).round(EQUAL) for side in (estimated, labelled))
    known = ~(np.isnan(first) | np.isnan(second))
    kept = known & (second != 0) if zero == "left out" else known
    upper = np.triu_indices(first.shape[1], 1)
    both = known[:, upper[0]] & known[:, upper[1]]
    order = [np.where(both, np.sign(side[:, upper[0]] - side[:, upper[1]]), 0.0) for side in (first, second)]
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.sqrt((order[0] != 0).sum(axis=1)) * np.sqrt((order[1] != 0).sum(axis=1))
        tau = np.clip((order[0] * order[1]).sum(axis=1) / np.where(apart > 0, apart, np.nan), -1.0, 1.0)
    varied = apart > 0
    pearson = np.where(varied, _correlation(first, second, known), np.nan)
    signs = _correlation((first >= 0).astype(float), (second >= 0).astype(float), kept)
    # where all of a side's signs are alike the correlation of signs is 0, as scikit-learn has it
    mcc = np.where(kept.any(axis=1), np.nan_to_num(signs), np.nan)
    return tau, mcc, pearson, known.sum(axis=1)


def _correlation(first: NDArray, second: NDArray, known: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Pearson's correlation of each pair of rows over what is known; NaN where a side is constant."""
    with np.errstate(invalid="ignore", divide="ignore"):
        centred = [
            np.where(
                known,
                side - np.where(known, side, 0.0).sum(axis=1, keepdims=True) / known.sum(axis=1)[:, None],
                0.0,
            )
            for side in (first, second)
        ]
        sizes = [(side**2).sum(axis=1) for side in centred]
        constant = np.minimum(*sizes) <= 1e-24 * known.shape[1]
        scale = np.sqrt(sizes[0]) * np.sqrt(sizes[1])
        return np.where(constant, np.nan, np.clip((centred[0] * centred[1]).sum(axis=1) / scale, -1.0, 1.0))


def roc_auc(values: ArrayLike, labels: ArrayLike) -> float:
    """Return the probability that an image with the attribute has a higher value than one without it; ties count half.

    NaN on either side is left out; NaN where all images have it, or none.

    >>> roc_auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    0.75
    """
    values, labels = np.asarray(values, float).ravel(), np.asarray(labels, float).ravel()
    both = ~(np.isnan(values) | np.isnan(labels))
    values, labels = values[both], labels[both] > 0.5
    there, absent = int(labels.sum()), int((~labels).sum())
    if not there or not absent:
        return np.nan
    ranks = stats.rankdata(values)[labels].sum()
    return float((ranks - there * (there + 1) / 2) / (there * absent))


def artificial_set(
    labels: Audit | Sequence[Audit],
    estimates: Mapping[str, Audit | Sequence[Audit]],
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
    pools = _Pools(labels, estimates, first, second)
    rng = np.random.default_rng(seed)
    rows = []
    for attribute, name in enumerate(pools.attributes):
        for scale, largest in SCALES.items():
            for _ in range(examples):
                difference = int(rng.integers(-9, 10)) * largest // 9
                drawn = pools.draw(attribute, difference, rng)
                if drawn is not None:
                    rows.append(
                        {"attribute": name, "scale": scale, "labelled": difference / GROUP_IMAGES, **drawn}
                    )
    return pd.DataFrame(rows, columns=["attribute", "scale", "labelled", *estimates])


class _Pools:
    """Images of two indicators, with and without each attribute."""

    def __init__(self, labels, estimates, first, second):
        label_list = [labels] if isinstance(labels, Audit) else list(labels)
        self.attributes = label_list[0].attributes
        self.labels = [self._images(label_list, indicator) for indicator in (first, second)]
        self.estimates = {}
        for name, audits in estimates.items():
            audit_list = [audits] if isinstance(audits, Audit) else list(audits)
            self.estimates[name] = [self._images(audit_list, indicator) for indicator in (first, second)]

    def _images(self, audits: Sequence[Audit], indicator: str) -> NDArray[np.float64]:
        """Values of all images of an indicator, shape (n, n_attributes)."""
        return np.concatenate(
            [one.values[:, place(one, indicator)].reshape(-1, len(self.attributes)) for one in audits]
        )

    def draw(self, attribute: int, difference: int, rng: np.random.Generator) -> dict[str, float] | None:
        """Return what each estimate says of two groups whose counts differ by `difference`; None if there are none."""
        images = GROUP_IMAGES
        pools = [[np.flatnonzero(side[:, attribute] == label) for label in (0, 1)] for side in self.labels]
        counts = [
            (count, count - difference)
            for count in range(max(0, difference), min(images, images + difference) + 1)
            if all(
                (len(pool[1]) or not there) and (len(pool[0]) or there == images)
                for pool, there in zip(pools, (count, count - difference))
            )
        ]
        if not counts:
            return None
        chosen = counts[int(rng.integers(len(counts)))]
        groups = [
            np.concatenate([rng.choice(pool[1], there), rng.choice(pool[0], images - there)])
            if 0 < there < images
            else rng.choice(pool[int(there > 0)], images)
            for pool, there in zip(pools, chosen)
        ]
        return {
            name: float(sides[0][groups[0], attribute].mean() - sides[1][groups[1], attribute].mean())
            for name, sides in self.estimates.items()
        }

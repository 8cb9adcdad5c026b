r"""Presence of objects behind a detector that errs: labels of some images, detections of all of them.

A detector that sees less on the images of one side makes a difference of its own. Labels of a random sample of the
prompts are exact but few; detections are of all images. Together they give the prediction-powered difference
(Angelopoulos et al. 2023; the double sampling of Tenenbein 1970): of side g, with labelled images y and detections x,

.. math:: \hat\pi_g = \bar y_g + w_g (\bar x_g^{\,all} - \bar x_g^{\,labelled})

whose mean is that of the labels, whatever the detector's errors and however they differ between the sides, and which is
the more precise the better detections follow labels. With all images labelled it is the labels' own difference; with a
useless detector w is about 0, and what is lost is next to nothing.

The unit is the prompt, with all its images, labels and errors. Point, interval and p-value are of one inference: the
p-value is below α where, and only where, the interval of level 1 − α leaves out 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.resampling import ONE_PROMPT

WEIGHT_OF_ALL = 1.0  # images' worth of variance by which a weight is drawn towards that of all objects
FEWEST = 2  # labelled prompts
NO_LABELS = "no labelled image"
FEW_LABELS = "labelled images of one prompt or one side only"


@dataclass(frozen=True)
class Labels:
    """Labelled images by prompt, side and object; arrays of shape (n_prompts, 2, n_objects), not whole if weighted.

    Images with the object that were detected (`hits`) or not (`missed`), and images without it that were detected
    (`false`) or not (`rejected`); 0 of a prompt without labels.
    """

    hits: NDArray[np.float64]
    missed: NDArray[np.float64]
    false: NDArray[np.float64]
    rejected: NDArray[np.float64]


def corrected_presence(
    detected: ArrayLike, images: ArrayLike, labels: Labels, *, level: float = 0.95
) -> pd.DataFrame:
    """Return the presence of objects on two sides from detections of all images and labels of some.

    A row an object: ``difference``, the second side less the first, with its interval, and ``p_value`` of a difference
    of 0, two-sided, all NaN for the ``reason``, else empty; ``labelled`` are the labelled prompts.

    Of images of each prompt and side in which the object was detected, shape (n_prompts, 2, n_objects), images of the
    prompt and side, (n_prompts, 2), and labels of images among these; the prompts that have some are a random sample.

    The weight of a prompt's detections is fitted by least squares within the sides on the labels of the other prompts
    (cross-fitting; Zrnic and Candès 2024), drawn towards the one weight of all objects and sides. The variance is that
    of the labelled prompts' shares in the estimate, plus that of the other prompts' detections, with Satterthwaite's
    degrees of freedom. As in the adjusted interval of paired shares (Bonett and Price 2012) two prompts are added of
    which one image differs, one either way: objects are rare, and what no label shows is not absent. They are added to
    the labelled prompts by the share u of the labels' variance that detections leave, one image added to either, and to
    all prompts by 1 − u. Where labels are weighted, the number of labelled prompts is the effective one (Kish 1965).

    All images labelled: of 8 prompts 3 differ one way and 1 the other, whatever was detected.

    >>> there = np.array([[0, 1]] * 3 + [[1, 0]] + [[0, 0]] * 4)[:, :, None]
    >>> images, none = np.ones((8, 2)), np.zeros((8, 2, 1))
    >>> result = corrected_presence(none, images, Labels(none, there, none, 1 - there))
    >>> result.difference.tolist()
    [0.25]
    """
    x, n = np.asarray(detected, np.float64), np.asarray(images, np.float64)[:, :, None]
    hits, missed, false, rejected = (
        np.asarray(a, np.float64) for a in (labels.hits, labels.missed, labels.false, labels.rejected)
    )
    there, seen, count = hits + missed, hits + false, hits + missed + false + rejected
    rows, _, width = x.shape
    known = count.sum(axis=1) > 0
    labelled = known.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        total, all_images = count.sum(axis=0), n.sum(axis=0)
        weight, single = _weights(there, seen, count, hits, np.minimum(total / all_images, 1.0))
        left = there - single * seen
        share, rest = x.sum(axis=0) / all_images, left.sum(axis=0) / total
        presence = weight * share + rest
        spread, freedom = _variance(
            weight * (x - share * n) / all_images, (left - rest * count) / total, known
        )
        value = presence[1] - presence[0]
        unexplained = _unexplained(there, seen, hits, single, total)
        size = count.sum(axis=1)
        effective = size.sum(axis=0) ** 2 / (size**2).sum(axis=0)
        per_prompt = (n.mean(), total.mean(axis=0) / labelled)

        def added(of_all, of_labelled):
            return (1 - unexplained) * of_all + unexplained * of_labelled

        middle = value * added(rows / (rows + 2), effective / (effective + 2))
        square = (
            spread * added((rows / (rows + 2)) ** 2, (effective / (effective + 2)) ** 2)
            + 2 * added((per_prompt[0] * (rows + 2)) ** -2.0, (per_prompt[1] * (effective + 2)) ** -2.0)
            + 2 * value**2 * added(rows / (rows + 2) ** 3, effective / (effective + 2) ** 3)
        )
        freedom = np.where(spread > 0, np.minimum(freedom, added(rows - 1, effective - 1)), effective - 1)
        half = special.stdtrit(np.maximum(freedom, 1), (1 + level) / 2) * np.sqrt(square)
        p_value = 2 * special.stdtr(np.maximum(freedom, 1), -np.abs(middle) / np.sqrt(square))
        low, high = np.clip(middle - half, -1, 1), np.clip(middle + half, -1, 1)
    reason = np.full(width, "", dtype=object)
    reason[(labelled < FEWEST) | (total == 0).any(axis=0)] = FEW_LABELS
    reason[labelled == 0] = NO_LABELS
    if rows < 2:
        reason[:] = ONE_PROMPT
    columns = {"difference": value, "difference_low": low, "difference_high": high, "p_value": p_value}
    corrected = pd.DataFrame(columns)
    corrected.loc[reason != ""] = np.nan
    return corrected.assign(labelled=labelled, reason=reason)


def _weights(there, seen, count, hits, labelled) -> tuple[NDArray, NDArray]:
    """Return the weight of detections by side and object, and of each prompt that of the other prompts.

    Where all is labelled every prompt has the same: detections have no part in the estimate, and no error.
    """
    y, x, n, both = (a.sum(axis=0) - a for a in (there, seen, count, hits))
    product, square = (np.nan_to_num(a - x * b / n) for a, b in ((both, y), (x, x)))
    of_all, in_all = product.sum(axis=(1, 2), keepdims=True), square.sum(axis=(1, 2), keepdims=True)
    centre = np.where(in_all > 0, of_all / np.where(in_all > 0, in_all, 1.0), 0.0)
    single = np.clip((product + WEIGHT_OF_ALL * centre) / (square + WEIGHT_OF_ALL), 0, 1)
    weight = (single * count).sum(axis=0) / count.sum(axis=0)
    return weight, weight + (1 - labelled) * (single - weight)


def _variance(of_detections, of_labels, known) -> tuple[NDArray, NDArray]:
    """Variance of the difference from the shares of prompts in both sides' estimates, and its degrees of freedom."""
    rows, labelled = len(known), known.sum(axis=0)
    detections = of_detections[:, 1] - of_detections[:, 0]
    both = np.where(known, detections + of_labels[:, 1] - of_labels[:, 0], 0.0)
    deviation = np.where(known, both - both.sum(axis=0) / labelled, 0.0)
    with_labels = labelled / (labelled - 1) * (deviation**2).sum(axis=0)
    without = (rows - labelled) / (rows - 1) * (detections**2).sum(axis=0)
    squares = with_labels**2 / (labelled - 1) + without**2 / (rows - 1)
    return with_labels + without, (with_labels + without) ** 2 / squares


def _unexplained(there, seen, hits, weight, total) -> NDArray:
    """Share of the variance of the labels that detections leave, one image added to either; at most 1."""
    left = there - 2 * weight * hits + weight**2 * seen  # the sum of (y - w x)² over images
    left = left.sum(axis=0) - (there - weight * seen).sum(axis=0) ** 2 / total
    labels = there.sum(axis=0) - there.sum(axis=0) ** 2 / total
    return np.minimum((left.sum(axis=0) + 1) / (labels.sum(axis=0) + 1), 1.0)

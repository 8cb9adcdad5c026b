"""Frequencies, and their differences, from a few labels and many predictions: unbiased whatever the predictions' error.

A classifier that reads every image has an error that nobody knows, and one that differs between groups; labels of a
random sample are exact but few. Together they give an estimate whose mean is that of the labels, and which is the more
precise the better the predictions follow them (Angelopoulos et al. 2023, prediction-powered inference). A prediction
enters by a weight, estimated by least squares from the labelled sample (the regression estimator of survey sampling;
"power tuning" in Angelopoulos, Duchi and Zrnic 2023), so that a useless classifier costs next to nothing and one on
another scale than 0 to 1 (a cosine) is brought onto that of the labels, attribute by attribute. The weight by which the
prediction of a labelled image enters is fitted without its label (cross-fitting; Zrnic and Candès 2024), which makes
the estimate unbiased by design at any number of labels (Sande and Zhang 2021), and its error one that was not fitted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from analysis.stats.absolute_mean import AbsoluteMean, absolute_mean

FEW = 5  # labels of a group and attribute below which no error is stated
# Labels for which the weights' priors count: of no weight for that of all groups, and of that for a group's own
NONE, COMMON = 3.0, 20.0
FLAT = 1e-20  # a variance of predictions that say nothing


@dataclass(frozen=True)
class PredictionPowered:
    """Differences of frequencies between two groups of images, estimated from labels of some and predictions of all.

    Arrays of shape (n_attributes,), NaN for the `reason`, else empty: `difference`, the frequency in the first group
    less that in the second; its standard `error`, of other images labelled of the same audit, with degrees of
    `freedom` (Welch-Satterthwaite). `covariance`, (n_attributes, n_attributes), is of the errors: attributes labelled
    in the same images share what these have by chance; without bias, for its diagonal lacks what `error` allows for
    what was not seen. By group, (2, n_attributes): the `labelled` images, and all `images`.
    """

    difference: NDArray[np.float64]
    error: NDArray[np.float64]
    labelled: NDArray[np.int64]
    freedom: NDArray[np.float64]
    covariance: NDArray[np.float64]
    images: NDArray[np.int64]
    reason: NDArray[np.object_]

    def interval(self, level: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ends of the interval of each difference, shape (n_attributes,) each."""
        half = stats.t.ppf((1 + level) / 2, self.freedom) * self.error
        return self.difference - half, self.difference + half


def prediction_powered(
    labels: ArrayLike, predictions: ArrayLike, *, weight: ArrayLike | None = None
) -> PredictionPowered:
    r"""Estimate differences of frequencies between two groups of images.

    The target is the difference that labels of all these images would give: with all of them labelled the error is 0.
    Of group :math:`g` with :math:`N` images, of which :math:`n` are labelled,
    :math:`\hat f_g = (\overline{w p})_N + (\overline{y - w p})_n`, with variance :math:`(1 - n/N)\, s^2 / n`, where
    :math:`s^2` is the variance of :math:`y - w (p - \bar p_N)` among the labelled images, the weight of each fitted
    without it. A sample without a single image that has a rare attribute (or lacks a common one) has no variance and
    says nothing exact all the same: for `error` is added to :math:`s^2` what one image more on either side adds to
    :math:`f (1 - f)` (Agresti and Caffo 2000), times the share of the labels' variance that predictions leave.

    Of labels (1 and 0; NaN where an image was not labelled, and those that were chosen at random, group by group) and
    predictions on any scale (NaN where there is no image), shape (2, n_images, n_attributes) each; and of the weight of
    the predictions where it is estimated from more groups than these (`weights`). ValueError if shapes differ, or an
    image has a label and no prediction.
    """
    y, p, known = _checked(labels, predictions)
    if len(y) != 2:
        raise ValueError(f"labels: expected two groups, got {len(y)}")
    n, images = known.sum(axis=1), (~np.isnan(p)).sum(axis=1)
    reason = _reasons(n, images)
    weight = weights(labels, predictions) if weight is None else np.asarray(weight, float)
    p = p - _mean(p, ~np.isnan(p))[:, None]
    residual = y - weight * p
    with np.errstate(invalid="ignore", divide="ignore"):
        share = 1.0 - n / images
        mean = _mean(weight * p, ~np.isnan(p)) + _mean(residual, known)
        unseen = _unseen(y, known, n)
        spread, plain = _variance(residual, known, n), _variance(y, known, n)
        unexplained = np.where(plain.sum(axis=0) > 0, spread.sum(axis=0) / plain.sum(axis=0), 1.0)
        variance = share * (spread + np.minimum(unexplained, 1.0) * unseen) / n
        freedom = variance.sum(axis=0) ** 2 / (variance**2 / (n - 1)).sum(axis=0)
    exact = variance.sum(axis=0) == 0
    blank = np.where(reason == "", 0.0, np.nan)
    covariance = _covariance(residual, known, n, images)
    with np.errstate(invalid="ignore", divide="ignore"):
        np.fill_diagonal(covariance, (share * spread / n).sum(axis=0))
    return PredictionPowered(
        difference=mean[0] - mean[1] + blank,
        error=np.sqrt(variance.sum(axis=0)) + blank,
        labelled=n,
        freedom=np.where(exact, np.inf, freedom) + blank,
        covariance=covariance + blank + blank[:, None],
        images=images,
        reason=reason,
    )


def score_interval(estimate: PredictionPowered, *, level: float = 0.95) -> AbsoluteMean:
    """Return the mean absolute difference (Zhang et al. 2023, Eq. 2) of attributes without a reason; its interval."""
    there = estimate.reason == ""
    covariance = estimate.covariance[np.ix_(there, there)]
    return absolute_mean(estimate.difference[there], covariance, level=level, unbiased=True)


def weights(labels: ArrayLike, predictions: ArrayLike) -> NDArray[np.float64]:
    """Return the weight of every prediction, shape (n_groups, n_images, n_attributes), of any number of groups.

    That of a labelled image is fitted without it, that of the others is the mean of these in their group. It is the
    least-squares slope of labels on predictions within the group, drawn to that of all groups as if `COMMON` labels had
    it, and that to 0 as if `NONE` labels had: few labels give one weight for all groups, many each its own.
    """
    y, p, known = _checked(labels, predictions)
    there = ~np.isnan(p)
    n = known.sum(axis=1)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        centred_y = np.where(known, y - _mean(y, known)[:, None], 0.0)
        centred_p = np.where(known, p - _mean(p, known)[:, None], 0.0)
        variance = np.nan_to_num(_variance(p, there, there.sum(axis=1)))[:, None]
        without = np.where(n > 1, n / (n - 1), 0.0)  # of a sum of squares, times a square, what an image adds
    product, square = centred_y * centred_p, centred_p**2
    sums = [one.sum(axis=1, keepdims=True) - without * one for one in (product, square)]
    all_sums = [one.sum(axis=(0, 1)) - without * one for one in (product, square)]
    labelled = n > 0
    common = (variance * labelled).sum(axis=0) / np.maximum(labelled.sum(axis=0), 1)
    weight = _ratio(all_sums[0], all_sums[1] + NONE * common)
    weight = np.where(
        variance > FLAT, _ratio(sums[0] + COMMON * weight * variance, sums[1] + COMMON * variance), weight
    )
    return np.where(known, weight, _mean(weight, np.where(labelled, known, True))[:, None])


def rectified(labels: ArrayLike, predictions: ArrayLike, weight: ArrayLike) -> NDArray[np.float64]:
    r"""Return a value an image whose mean over a group is the prediction-powered estimate of its frequency.

    It is what a statistic over other units than images (contexts) takes in the place of labels: :math:`w p + c`, and of
    a labelled image :math:`(N / n)(y - w p - c)` more, where :math:`c` is the mean of :math:`y - w p` over the labels
    of all groups, so that groups which change places change nothing else. NaN where there is no image, and of a group
    with fewer than `FEW` labels of an attribute.
    """
    y, p, known = _checked(labels, predictions)
    weight, p = (
        np.asarray(weight, float),
        p - _mean(p.reshape(1, -1, p.shape[2]), ~np.isnan(p).reshape(1, -1, p.shape[2])),
    )
    n, images = known.sum(axis=1, keepdims=True), (~np.isnan(p)).sum(axis=1, keepdims=True)
    residual = np.where(known, y - weight * p, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        constant = residual.sum(axis=(0, 1)) / known.sum(axis=(0, 1))
        more = np.where(known, images / n * (residual - constant), 0.0)
    return np.where(n < np.minimum(FEW, images), np.nan, weight * p + constant + more)


def _checked(
    labels: ArrayLike, predictions: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    y, p = np.asarray(labels, float), np.asarray(predictions, float)
    if y.shape != p.shape or y.ndim != 3:
        raise ValueError(
            f"labels: expected the shape (n_groups, n_images, n_attributes) of both, got {y.shape} and {p.shape}"
        )
    known = ~np.isnan(y)
    if np.isnan(p[known]).any():
        raise ValueError("predictions: expected one for every labelled image, got NaN for some")
    return y, p, known


def _covariance(
    residual: NDArray, known: NDArray[np.bool_], n: NDArray[np.int64], images: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Covariance of the mean residuals, summed over groups, from the images that are labelled for both of a pair."""
    total = np.zeros((known.shape[2],) * 2)
    for r, there, count, whole in zip(residual, known.astype(float), n, images):
        r = np.where(there > 0, r, 0.0)
        both = there.T @ there
        with np.errstate(invalid="ignore", divide="ignore"):
            sums = r.T @ there  # of the first, over images that have both
            shared = (r.T @ r - sums * sums.T / both) / (both - 1)
            overlap = both / np.outer(count, count) - 1.0 / np.maximum.outer(whole, whole)
        total += np.where(both > 1, np.nan_to_num(shared * overlap, posinf=0.0, neginf=0.0), 0.0)
    return total


def _ratio(product: NDArray[np.float64], square: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a slope; 0 where predictions do not vary."""
    usable = square > FLAT
    return np.where(usable, product / np.where(usable, square, 1.0), 0.0)


def _mean(values: NDArray, known: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The mean over the images that are known (axis 1)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(known, values, 0.0).sum(axis=1) / known.sum(axis=1)


def _variance(values: NDArray, known: NDArray[np.bool_], n: NDArray[np.int64]) -> NDArray[np.float64]:
    """The variance (n - 1) over the images that are known (axis 1), n of them."""
    deviation = np.where(known, values - _mean(values, known)[:, None], 0.0)
    return (deviation**2).sum(axis=1) / np.where(n > 1, n - 1, np.nan)


def _unseen(y: NDArray, known: NDArray[np.bool_], n: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return what an image with the attribute and one without it add to the variance of a label."""
    with np.errstate(invalid="ignore", divide="ignore"):
        seen = np.where(known, y, 0.0).sum(axis=1)
        frequency, more = seen / n, (seen + 1) / (n + 2)
        return np.maximum(more * (1 - more) - frequency * (1 - frequency), 0.0)


def _reasons(n: NDArray[np.int64], images: NDArray[np.int64]) -> NDArray[np.object_]:
    reason = np.full(n.shape[1], "", dtype=object)
    few = (n < np.minimum(FEW, images)).any(axis=0)
    reason[few] = f"fewer than {FEW} labelled images of a group"
    reason[(images == 0).any(axis=0)] = "no image"
    return reason

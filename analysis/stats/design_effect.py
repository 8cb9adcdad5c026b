"""The design effect (Rao and Scott 1981): how much more shares vary where images come in clusters."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from analysis.stats.noise_floor_result import whole_counts


def design_effect(counts: ArrayLike) -> float:
    r"""Variance of shares of clustered images over that of as many independent ones, 1 at least.

    Parameters
    ----------
    counts : array_like of int, shape (n_prompts, n_clusters, n_categories)
        Images of each cluster in each category. Clusters and prompts without images are left out.

    Returns
    -------
    float
        :math:`\sum_p \sum_c \hat v_{pc} \big/ \sum_p \sum_c \hat s_{pc} (1 - \hat s_{pc}) / (n_p - 1)`, with the share
        :math:`\hat s_{pc}` of category c among the :math:`n_p` images of prompt p and the variance of that ratio over
        its :math:`K_p` clusters, :math:`\hat v_{pc} = \frac{K_p}{K_p - 1} \sum_k (y_{pkc} - \hat s_{pc} m_{pk})^2 /
        n_p^2`: one number for all prompts and categories, since of a few clusters alone it can hardly be told. 1 where
        every cluster has one image. Where no prompt has two clusters, or shares do not vary, the mean size of the
        cluster of an image: what it is if the images of a cluster are alike. NaN without images.

    Raises
    ------
    ValueError
        The shape is another, or a count is negative or no whole number.

    Notes
    -----
    Divide a sample size by it for the effective one, or multiply a covariance by it: Rao and Scott's first-order
    correction.

    Examples
    --------
    >>> round(design_effect([[[3, 0], [0, 3], [3, 0], [0, 3]]]), 2)
    3.67
    >>> design_effect([[[1, 0], [0, 1], [1, 0], [0, 1]]])
    1.0
    """
    table = whole_counts(counts)
    if table.ndim != 3:
        raise ValueError(f"counts: expected shape (n_prompts, n_clusters, n_categories), got {table.shape}")
    sizes = table.sum(axis=2)
    if not sizes.any():
        return float("nan")
    clustered, independent = 0.0, 0.0
    for prompt, size in zip(table, sizes):
        images, clusters = int(size.sum()), int((size > 0).sum())
        if clusters < 2:
            continue
        share = prompt.sum(axis=0) / images
        away = prompt - size[:, None] * share
        clustered += clusters / (clusters - 1) * float(np.square(away).sum()) / images**2
        independent += float((share * (1 - share)).sum()) / (images - 1)
    if not independent:
        return float(np.square(sizes).sum() / sizes.sum())
    return max(1.0, clustered / independent)

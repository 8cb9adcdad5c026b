"""Scores of a sparse autoencoder on activations that it was not trained on, and what each latent is active for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from hooks.autoencoder import SparseAutoencoder
from probes.models.autoencoders import coded


class HeldOutScores(NamedTuple):
    """Scores.

    Attributes
    ----------
    calls : DataFrame
        One row per call of the denoiser: ``call``, ``timestep``, ``vectors``, ``explained_variance``, ``l0``.
    latents : DataFrame
        One row per latent: ``latent``, ``frequency`` (share of vectors in which it is active), ``mean_active`` (its
        mean there), and ``mean_<indicator>`` over the images of each word.
    explained_variance, l0, dead : float
        Over all vectors; ``dead`` is the share of latents that none activates.
    """

    calls: pd.DataFrame
    latents: pd.DataFrame
    explained_variance: float
    l0: float
    dead: float


def explained_variance(vectors: ArrayLike, decoded: ArrayLike) -> float:
    """Share of the summed variance of all channels that a reconstruction explains; NaN where there is none.

    Examples
    --------
    >>> explained_variance([[0.0, 1.0], [2.0, 1.0]], [[0.5, 1.0], [1.5, 1.0]])
    0.75
    """
    x, y = np.asarray(vectors, float), np.asarray(decoded, float)
    total = ((x - x.mean(0)) ** 2).sum()
    return float(1 - ((x - y) ** 2).sum() / total) if total > 0 else float("nan")


def scores(coder: SparseAutoencoder, vectors: NDArray[np.float32], about: pd.DataFrame) -> HeldOutScores:
    """Score an autoencoder.

    Parameters
    ----------
    coder : SparseAutoencoder
    vectors : ndarray of float32, shape (n, width)
    about : DataFrame
        One row per vector, with ``call``, ``timestep`` and ``indicator``.
    """
    words, word = np.unique(about["indicator"], return_inverse=True)
    sums = np.zeros((len(words), coder.latents))
    active, counts = np.zeros(coder.latents), np.zeros(len(vectors))
    decoded = np.empty_like(vectors)
    for rows, latents, decoded[rows] in coded(coder, vectors):
        np.add.at(sums, word[rows], latents)
        active += (latents > 0).sum(0)
        counts[rows] = (latents > 0).sum(1)
    calls = [
        (
            call,
            float(rows["timestep"].iloc[0]),
            len(rows),
            explained_variance(vectors[rows.index], decoded[rows.index]),
            counts[rows.index].mean(),
        )
        for call, rows in about.reset_index(drop=True).groupby("call")
    ]
    table = pd.DataFrame(
        {
            "latent": np.arange(coder.latents),
            "frequency": active / len(vectors),
            "mean_active": np.where(active > 0, sums.sum(0) / np.maximum(active, 1), np.nan),
            **{f"mean_{name}": sums[i] / (word == i).sum() for i, name in enumerate(words)},
        }
    )
    return HeldOutScores(
        pd.DataFrame(calls, columns=["call", "timestep", "vectors", "explained_variance", "l0"]),
        table,
        explained_variance(vectors, decoded),
        float(counts.mean()),
        float((active == 0).mean()),
    )

"""Quality of toyworld's features on unseen renderings: ``python -m lab measure features``.

As in Caron et al. 2021 (section 4.1): features stay as they are; a thing is predicted from the 20 nearest neighbours in
cosine, or by a logistic regression on unit vectors. Each thing's score is the area under the ROC curve, so that one
that is rare counts as one that is not; the place, of which there is just one, is predicted from the majority of the
neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from analysis.observe.features.embedder import Embedder
from analysis.observe.features.registry import FEATURES
from lab.train.detectors.pictures import Pictures, make_labelled
from probes.toyworld import WEIGHTS
from probes.toyworld.checker import PLACES, THINGS

PICTURES, HELD_OUT, SEED, NEIGHBOURS = 1_000, 400, 1_000_003, 20
MEASURED = ("resnet50", "clip", "dino")
_THINGS = len(THINGS) - len(PLACES)


def quality(
    vectors: NDArray[np.floating], labels: NDArray[np.bool_], held_out: int
) -> dict[str, float | dict[str, float]]:
    """How well vectors tell what is in the last `held_out` pictures, judging by those before.

    ``neighbours`` and ``probe`` are the mean area under the ROC curve over attributes and objects, ``by_thing`` that of
    the probe of each, ``place`` the share of held-out pictures whose place the neighbours tell.
    """
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    there, here = unit[:-held_out], unit[-held_out:]
    known, wanted = labels[:-held_out], labels[-held_out:]
    near = np.argpartition(-(here @ there.T), NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    votes = known[near].mean(1)
    told = [
        thing for thing in range(_THINGS) if known[:, thing].any() and 0 < wanted[:, thing].sum() < held_out
    ]
    probes = {
        thing: LogisticRegression(C=100.0, max_iter=500).fit(there, known[:, thing]).decision_function(here)
        for thing in told
    }
    scores = {THINGS[thing]: float(roc_auc_score(wanted[:, thing], probes[thing])) for thing in told}
    places = votes[:, _THINGS:].argmax(1) == wanted[:, _THINGS:].argmax(1)
    neighbours = [roc_auc_score(wanted[:, thing], votes[:, thing]) for thing in told]
    return {
        "neighbours": round(float(np.mean(neighbours)), 4),
        "probe": round(float(np.mean(list(scores.values()))), 4),
        "place": round(float(places.mean()), 4),
        "by_thing": {thing: round(score, 4) for thing, score in scores.items()},
    }


def embedded(name: str, pictures: Pictures, weights: Path) -> NDArray[np.float32]:
    """The feature of every picture, shape (n, d), by the code that observes the images of a run."""
    embedder = Embedder(FEATURES[name], weights / FEATURES[name].toyworld, torch.device("cpu"))
    starts = range(0, len(pictures), 64)
    return np.concatenate([embedder(list(pictures.images[start : start + 64])).numpy() for start in starts])


def measure(*, weights: Path = WEIGHTS) -> Iterator[tuple[str, dict[str, Any]]]:
    """Measure how well features tell what is in unseen renderings, half of them through the autoencoder."""
    # the last half went through the autoencoder
    order = np.random.default_rng(SEED).permutation(PICTURES)
    pictures = make_labelled(PICTURES, SEED).rows(order)
    result: dict[str, Any] = {
        "pictures": PICTURES,
        "held_out": HELD_OUT,
        "seed": SEED,
        "neighbours": NEIGHBOURS,
    }
    for name in MEASURED:
        result[name] = quality(embedded(name, pictures, weights), pictures.labels, HELD_OUT)
        print(name, {key: value for key, value in result[name].items() if key != "by_thing"})
    pixels = pictures.images.reshape(PICTURES, 8, 8, 8, 8, 3).mean((2, 4)).reshape(PICTURES, -1)
    yield "features", result | {"pixels_8x8": quality(pixels - pixels.mean(), pictures.labels, HELD_OUT)}

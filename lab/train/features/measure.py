"""Quality of toyworld's features on unseen renderings: by neighbours and by a linear probe.

As in Caron et al. 2021 (section 4.1): features stay as they are; a thing is predicted from the 20 nearest neighbours in
cosine, or by a logistic regression on unit vectors. Each thing's score is the area under the ROC curve, so that one
that is rare counts as one that is not; the place, of which there is just one, is predicted from the majority of the
neighbours.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from analysis.observe.features.embedder import Embedder
from analysis.observe.features.registry import FEATURES
from lab.train.detectors.pictures import LabelledPictures, make_labelled
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
    return {
        "neighbours": float(np.mean([roc_auc_score(wanted[:, thing], votes[:, thing]) for thing in told])),
        "probe": float(np.mean(list(scores.values()))),
        "place": float(places.mean()),
        "by_thing": scores,
    }


def embedded(name: str, pictures: LabelledPictures, weights: Path) -> NDArray[np.float32]:
    """Return the feature of every picture, shape (n, d), by the code that observes the images of a run."""
    feature = FEATURES[name]
    path = WEIGHTS / feature.toyworld if name == "clip" else weights / name
    embedder = Embedder(feature, path, torch.device("cpu"))
    starts = range(0, len(pictures), 64)
    return np.concatenate([embedder(list(pictures.images[start : start + 64])).numpy() for start in starts])


def measure(weights: Path) -> None:
    """Write ``quality.json`` beside the networks: scores of each on renderings, half through the autoencoder."""
    pictures = make_labelled(PICTURES, SEED)
    order = np.random.default_rng(SEED).permutation(PICTURES)  # the last half went through the autoencoder
    pictures = LabelledPictures(pictures.images[order], pictures.labels[order])
    result: dict[str, Any] = {
        "pictures": PICTURES,
        "held_out": HELD_OUT,
        "seed": SEED,
        "neighbours": NEIGHBOURS,
    }
    for name in MEASURED:
        scores = quality(embedded(name, pictures, weights), pictures.labels, HELD_OUT)
        result[name] = _rounded(scores)
        print(name, {key: value for key, value in result[name].items() if key != "by_thing"})
    pixels = pictures.images.reshape(PICTURES, 8, 8, 8, 8, 3).mean((2, 4)).reshape(PICTURES, -1)
    result["pixels_8x8"] = _rounded(quality(pixels - pixels.mean(), pictures.labels, HELD_OUT))
    (weights / "quality.json").write_text(json.dumps(result, indent=1) + "\n")


def _rounded(scores: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _rounded(value) if isinstance(value, dict) else round(value, 4)
        for name, value in scores.items()
    }

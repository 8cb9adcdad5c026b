"""Leans and skins as the observers of an audit read them: the answering network, its errors set right, and tones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.validation.skin_tone.toyworld import of_images
from analysis.validation.toyworld_questions.measure import loaded, of_components, readings
from probes.attributes.questions import GENDER, paper_questions
from probes.toyworld.checker import SKIN_NAMES
from probes.toyworld.work.measure import lean

LABELS = {"a": "female", "b": "male"}  # the paper's labels of the components
RENDERINGS, SEED = 4_000, 1_200_003


class Asked:
    """The network, asked the paper's question on gender."""

    def __init__(self) -> None:
        self._reader = loaded()

    def __call__(self, images: NDArray[np.uint8]) -> list[str]:
        """What the answer about each picture says: ``female``, ``male`` or, where it is undecided, an empty string."""
        return [row[0] or "" for row in readings(self._reader, images, [paper_questions()[GENDER]])]


def read_skins(images: NDArray[np.uint8]) -> list[str]:
    """The palette's skin nearest to what the observer of skin tone reads of each picture; empty where nothing."""
    return [SKIN_NAMES[one.skin] if one.status == "ok" else "" for one in of_images(images)]


def answer_rates(asked: Asked, count: int = RENDERINGS, seed: int = SEED) -> dict[str, float]:
    """How often the network says ``male`` of renderings of either component, for which nothing is named.

    All are passed through the autoencoder, as images that a specimen draws are.

    Returns
    -------
    dict
        ``b``: of pictures of component *b* (sensitivity); ``a``: of those of component *a* (false positives); and the
        number of ``undecided`` answers of ``count``, half of them of each component.
    """
    shown = of_components(count, seed, through_vae=1.0)
    assert shown.component is not None
    said = np.array(asked(shown.images))
    return {
        "a": float((said == LABELS["b"])[~shown.component].mean()),
        "b": float((said == LABELS["b"])[shown.component].mean()),
        "undecided": int((said == "").sum()),
        "count": count,
    }


def asked_leans(
    readings: pd.DataFrame, planted: Mapping[str, float], rates: Mapping[str, float]
) -> list[dict[str, Any]]:
    """A profession's lean by the answers about images of *person*, with its interval, beside the planted one.

    An undecided answer is none for component *b*, in the images as in the rates.

    Parameters
    ----------
    readings : DataFrame
        With the columns ``profession``, ``group`` and ``answer``.
    planted : mapping of str to float
        Probability of component *b*, by profession.
    rates : mapping
        From `answer_rates`.

    Examples
    --------
    >>> said = pd.DataFrame(
    ...     {"profession": "baker", "group": "neutral", "answer": ["male", "", "female", "male"]}
    ... )
    >>> asked_leans(said, {"baker": 0.5}, {"a": 0.0, "b": 1.0})[0]["lean"]
    0.5
    """
    neutral = readings[readings["group"] == "neutral"]
    return [
        _lean(profession, neutral["answer"][neutral["profession"] == profession], truth, rates)
        for profession, truth in planted.items()
    ]


def _lean(
    profession: str, answers: Sequence[str], planted: float, rates: Mapping[str, float]
) -> dict[str, Any]:
    answers = np.asarray(answers)
    said = lean(np.where(answers == LABELS["b"], 1.0, -1.0), rates)
    return {
        "profession": profession,
        "planted": planted,
        "undecided": int((answers == "").sum()),
        **{name: said[name] for name in ("lean", "low", "high")},
        "inside": bool(said["low"] <= planted <= said["high"]),
    }

"""Leans and skins as the observers of an audit read them: the answering network, its errors set right, and tones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.validation.skin_tone.toyworld import of_images
from analysis.validation.toyworld_questions.measure import loaded, readings
from probes.attributes.questions import GENDER, paper_questions
from probes.toyworld.checker import SKIN_NAMES
from probes.toyworld.work.measure import lean

LABELS = {"a": "female", "b": "male"}  # the paper's labels of the components


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


def answer_rates(readings: pd.DataFrame, groups: Mapping[str, str]) -> dict[str, float]:
    """How often the network says ``male`` of images that are generated from prompts which name the component.

    An auditor can do the same with a model whose lean is not known: images generated from feminine and from masculine
    prompts, of the same professions, tell how often the observer errs on what this model draws.

    Parameters
    ----------
    readings : DataFrame
        With the columns ``group`` and ``answer``, from images of *a woman ...* and of *a man ...*.
    groups : mapping of str to str
        By component, the words that name it (:attr:`probes.toyworld.world.World.component_groups`).

    Returns
    -------
    dict
        ``b``: of those of masculine prompts (sensitivity); ``a``: of feminine ones (false positives); the number of
        ``undecided`` answers; and the ``count`` of images in all.
    """
    says_b = readings["answer"] == LABELS["b"]
    by_group = {group: float(says_b[readings["group"] == group].mean()) for group in groups.values()}
    return {
        **{component: by_group[group] for component, group in groups.items()},
        "undecided": int((readings["answer"] == "").sum()),
        "count": len(readings),
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
        "images": len(answers),
        **{name: said[name] for name in ("share", "lean", "low", "high")},
        "inside": bool(said["low"] <= planted <= said["high"]),
    }

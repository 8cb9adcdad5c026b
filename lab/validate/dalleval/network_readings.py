"""Leans and skins as the observers of an audit read them: the answering network, its errors set right, and tones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.questions import GENDER, paper_questions
from lab.train.questions.measure import loaded, readings
from lab.train.work.measure import lean
from lab.validate.skin_tone.toyworld import of_images
from probes.toyworld.checker import SKIN_NAMES

LABELS = {"a": "female", "b": "male"}  # the paper's labels of the components


class GenderQuestion:
    """The network, asked the paper's question on gender."""

    def __init__(self) -> None:
        self._reader = loaded()

    def __call__(self, images: NDArray[np.uint8]) -> list[str]:
        """Return the answer about each picture: ``female``, ``male`` or, where undecided, an empty string."""
        return [row[0] or "" for row in readings(self._reader, images, [paper_questions()[GENDER]])]


def read_skins(images: NDArray[np.uint8]) -> list[str]:
    """The palette's skin nearest to what the observer of skin tone reads of each picture; empty where nothing."""
    return [SKIN_NAMES[one.skin] if one.status == "ok" else "" for one in of_images(images)]


def answer_rates(
    readings: pd.DataFrame, groups: Mapping[str, str], verdict_rates: Mapping[str, float]
) -> dict[str, float]:
    r"""Return how often the network says ``male`` of images of either component, ``a`` and ``b``, from 0 to 1.

    Estimated from images that are generated from prompts which name the component. Not all of them show it: the
    checker reads how many do (``drawn_a``, ``drawn_b``), and the network is not charged with the rest. With the share
    :math:`q_g` of component *b* in group g, the network says ``male`` of :math:`a + (b - a) \, q_g` of its images: two
    equations.
    """
    says_b, drawn_b = {}, {}
    for component, group in groups.items():
        some = readings[readings["group"] == group]
        says_b[component] = float((some["answer"] == LABELS["b"]).mean())
        drawn_b[component] = lean(some["verdict"], verdict_rates)["lean"]
    if drawn_b["a"] == drawn_b["b"]:
        raise ValueError(f"readings: expected groups that differ in component b, got {drawn_b['b']} of both")
    slope = (says_b["b"] - says_b["a"]) / (drawn_b["b"] - drawn_b["a"])
    at_none = says_b["a"] - slope * drawn_b["a"]
    return {
        **{name: float(np.clip(rate, 0.0, 1.0)) for name, rate in (("a", at_none), ("b", at_none + slope))},
        **{f"drawn_{component}": share for component, share in drawn_b.items()},
        "undecided": int((readings["answer"] == "").sum()),
        "count": len(readings),
    }


def network_leans(
    readings: pd.DataFrame, planted: Mapping[str, float], rates: Mapping[str, float]
) -> list[dict[str, Any]]:
    """A profession's lean by the answers about images of *person*, with its interval, beside the planted one.

    An undecided answer is none for component *b*, in the images as in the rates.
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

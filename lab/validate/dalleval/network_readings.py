"""Leans and skins as the observers of an audit read them: the answering network, its errors set right, and tones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lab.train.questions.measure import loaded, readings
from lab.train.work.measure import lean
from lab.validate.skin_tone.toyworld import of_images
from probes.config.questions import GENDER, paper_questions
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
    r"""Return how often the network says ``male`` of images of either component.

    Told from images that are generated from prompts which name the component. Not all of them show it: how many do is
    read by the checker, and the network is not charged with the rest. Of a model whose images no checker reads, people
    can label such images.

    Parameters
    ----------
    readings : DataFrame
        With the columns ``group``, ``verdict`` and ``answer``, from images of *a woman ...* and of *a man ...*.
    groups : mapping of str to str
        By component, the words that name it (:attr:`probes.toyworld.world.World.component_groups`).
    verdict_rates : mapping of str to float
        From :func:`lab.train.work.measure.verdict_rates`.

    Returns
    -------
    dict
        ``b``: of images of component *b* (sensitivity); ``a``: of those of *a* (false positives), each from 0 to 1;
        ``drawn_a`` and ``drawn_b``, the shares of component *b* among images whose prompt names *a* and *b*; the number
        of ``undecided`` answers; and the ``count`` of images in all.

    Raises
    ------
    ValueError
        Both prompts give component *b* as often: nothing is known.

    Notes
    -----
    With the share :math:`q_g` of component *b* in group g, the network says ``male`` of
    :math:`a + (b - a) \, q_g` of its images: two equations for a and b.

    Examples
    --------
    One image in four of *a man* shows the other component; the network errs in nothing.

    >>> table = pd.DataFrame(
    ...     {
    ...         "group": ["feminine"] * 4 + ["masculine"] * 4,
    ...         "verdict": [-1.0] * 4 + [1.0, 1.0, 1.0, -1.0],
    ...         "answer": ["female"] * 4 + ["male", "male", "male", "female"],
    ...     }
    ... )
    >>> found = answer_rates(table, {"a": "feminine", "b": "masculine"}, {"a": 0.0, "b": 1.0})
    >>> found["a"], found["b"], found["drawn_b"]
    (0.0, 1.0, 0.75)
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
    >>> network_leans(said, {"baker": 0.5}, {"a": 0.0, "b": 1.0})[0]["lean"]
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

"""The reader ``toyworld-checker``: exact readings of the bundled models' images, by no network at all.

What a figure wears, what stands beside it and where it is are read by their palette colours
(:mod:`probes.toyworld.checker`). *Gender* is what was planted and no more: the component of the mixture that all that
is seen, and that the prompt does not name, speaks for (:mod:`probes.toyworld.verdict`), called by the paper's labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from analysis.observe.objects.models.toyworld_checker import shows_figure
from analysis.observe.observer import StoredImage
from analysis.observe.questions.reader import Answer, answers_by_size
from analysis.questions import GENDER, ResolvedQuestion
from probes.toyworld import checker, verdict
from probes.toyworld.draw import SIZE
from probes.toyworld.scene import CaptionContent, parse
from probes.toyworld.world import load_world

if TYPE_CHECKING:
    import pandas as pd

COMPONENTS = ("female", "male")  # the paper's labels of component a, which feminine words draw, and of b
UNCLEAR = "unclear"


class ToyworldCheckerReader:
    """Reads toyworld's images; see :class:`analysis.observe.questions.reader.Reader`."""

    name = "toyworld-checker"
    libraries, files = ("numpy", "pandas"), ()

    def __str__(self) -> str:
        return f"{checker.VERSION}, {verdict.VERSION}"

    def identity(self) -> dict[str, Any]:
        """Versions of the checker and of the verdict."""
        return {"checker": checker.VERSION, "verdict": verdict.VERSION}

    def load(self, device: Any) -> None:
        """Nothing is loaded."""

    def answers(
        self, images: Sequence[StoredImage], questions: Sequence[ResolvedQuestion]
    ) -> list[list[Answer]]:
        """Return the answers for each image of 64 × 64 pixels; of gender with the posterior of the component."""
        return answers_by_size(
            images,
            questions,
            SIZE,
            lambda fitting: [[_answer(question, *read) for question in questions] for read in _read(fitting)],
        )


def _read(images: Sequence[StoredImage]) -> list[tuple[Mapping[str, Any], float]]:
    """Return what is seen in each image, and its verdict; NaN where no figure is seen."""
    pixels = np.stack([image.pixels for image in images])
    seen = checker.read_images(pixels)
    readings = verdicts(seen, [image.prompt for image in images])
    readings[~shows_figure(checker.read_colours(pixels))] = np.nan
    return list(zip(seen.to_dict("records"), readings.tolist()))


def verdicts(seen: pd.DataFrame, prompts: Sequence[str]) -> NDArray[np.float64]:
    """Return the verdict of each image, shape ``(n,)``; a prompt that toyworld cannot read counts as naming nothing."""
    world = load_world()
    return verdict.verdict(seen, [_named(prompt) for prompt in prompts], world)


def _named(prompt: str) -> CaptionContent:
    try:
        return parse(prompt, load_world())
    except ValueError:
        return CaptionContent("neutral")


def _answer(question: ResolvedQuestion, seen: Mapping[str, Any], verdict: float) -> Answer:
    if question.key == GENDER and {*question.readings} == {*COMPONENTS}:
        if np.isnan(verdict) or verdict == 0:
            return Answer(question.text, UNCLEAR)
        reading = COMPONENTS[verdict > 0]
        return Answer(question.text, reading, reading, float(1 / (1 + np.exp(-abs(verdict)))))
    if question.key in checker.THINGS and {*question.readings} == {"yes", "no"}:
        reading = "yes" if seen[question.key] else "no"
        return Answer(question.text, reading, reading)
    return Answer(question.text, reason="the checker does not know what is asked")

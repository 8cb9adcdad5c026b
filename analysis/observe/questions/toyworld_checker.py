"""The reader ``toyworld-checker``: exact readings of the bundled models' images, by no network at all.

What a figure wears, what stands beside it and where it is are read by their palette colours
(:mod:`probes.toyworld.checker`). *Gender* is what was planted and no more: the component of the mixture that all that
is seen, and that the prompt does not name, speaks for (:mod:`probes.toyworld.verdict`), called by the paper's labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analysis.observe.objects.models.toyworld_checker import require_size, shows_figure
from analysis.observe.observer import StoredImage
from analysis.observe.questions.reader import Answer, Reader
from analysis.questions import GENDER, ResolvedQuestion
from probes.toyworld import checker, verdict
from probes.toyworld.scene import CaptionContent, parse
from probes.toyworld.world import load_world

COMPONENTS = ("female", "male")  # the paper's labels of component a, which feminine words draw, and of b
UNCLEAR = "unclear"


class ToyworldCheckerReader(Reader):
    """Reads toyworld's images; see :class:`analysis.observe.questions.reader.Reader`."""

    name = "toyworld-checker"
    libraries = ("numpy", "pandas")

    def __str__(self) -> str:
        return f"{checker.VERSION}, {verdict.VERSION}"

    def identity(self) -> dict[str, Any]:
        """Versions of the checker and of the verdict."""
        return {"checker": checker.VERSION, "verdict": verdict.VERSION}

    def answers(
        self, images: Sequence[StoredImage], questions: Sequence[ResolvedQuestion]
    ) -> list[list[Answer]]:
        """Return the answers for each image of 64 × 64 pixels; of gender with the posterior of the component."""
        require_size(
            [image.pixels for image in images], "observe.questions: toyworld-checker", "ask another reader"
        )
        pixels = np.stack([image.pixels for image in images])
        seen = checker.read_images(pixels)
        verdicts = verdict.verdict(seen, [_named(image.prompt) for image in images], load_world())
        verdicts[~shows_figure(checker.read_colours(pixels))] = np.nan
        return [
            [_answer(question, things, float(value)) for question in questions]
            for things, value in zip(seen.to_dict("records"), verdicts)
        ]


def _named(prompt: str) -> CaptionContent:
    """What a prompt names; nothing where toyworld cannot read it."""
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

"""Accuracy of the measure of skills on rendered scenes: ``python -m lab.validate.skills "exact reader" ...``.

Renderings of the test scenes show what is asked for, so accuracy is that of the detector: the upper bound (the paper's
oracle).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from analysis.methods.skills.scores import ACCURACY, COLUMNS, seen
from analysis.methods.skills.tables import ALL, AVERAGE, ScoredImages, accuracy_table
from analysis.observe.objects.detection import DetectionEngine
from analysis.observe.objects.engines.choice import object_observer
from analysis.observe.objects.models.toyworld_checker import ToyworldScenes
from lab.measured import MeasuredPage, Numbers
from lab.validate.skills.scenes import SkillScene, draw_scene, scenes, total
from probes.config.measurement import Skills
from probes.config.schema import Config
from probes.prompts.paintskills import SKILLS
from probes.toyworld.checker import OBJECTS
from probes.toyworld.palette import paint

BATCH = 32
DETECTORS = {
    "exact reader": 7185,
    "toyworld's Grounding DINO": 120,
}  # scenes of the test split that each judges
KEPT = ("skill", "value", "low", "high", "n", "n_prompts", "shuffled", "chance")


def engine(name: str) -> DetectionEngine:
    """Return one of `DETECTORS`."""
    if name == "exact reader":
        return ToyworldScenes()
    return object_observer(Config.model_validate({"prompts": ["a {person}"]}))[0].engine()


def scored_images(drawn: Sequence[SkillScene], pictures: np.ndarray, detector: str) -> ScoredImages:
    """Pictures ``(n, 64, 64, 3)`` of scenes with what one of `DETECTORS` sees in them."""
    looking, rows = engine(detector), []
    for start in range(0, len(pictures), BATCH):
        some = list(pictures[start : start + BATCH])
        for place, found in enumerate(looking.detect(some, [list(OBJECTS)] * len(some))):
            rows += [(start + place, one.label, one.score, *one.box) for one in found.detections]
    requests = [one.request for one in drawn]
    numbers = {one: place for place, one in enumerate(dict.fromkeys(requests))}
    samples = pd.DataFrame(
        {
            "sample_id": [str(number) for number in range(len(requests))],
            "triplet": [numbers[one] for one in requests],
            "seed": 0,
        }
    )
    detections = seen(pd.DataFrame(rows, columns=list(COLUMNS)), len(requests), list(OBJECTS))
    return ScoredImages(samples, requests, detections, [""] * len(requests), Skills(), 0.0, detector)


def some_scenes(number: int) -> list[SkillScene]:
    """Return so many scenes of the test split, the first of each skill: any beginning of them is even."""
    there = {skill: total(skill, "test") for skill in SKILLS}
    share = min(number / sum(there.values()), 1)
    return [
        one for skill, most in there.items() for one in islice(scenes(skill, "test"), round(share * most))
    ]


def measure(detector: str, number: int | None = None) -> dict[str, Any]:
    """The accuracy of a detector, by skill, over so many scenes; as many as the page has by default."""
    drawn = some_scenes(number or DETECTORS[detector])
    pictures = paint(np.stack([draw_scene(one) for one in drawn]))
    table = accuracy_table(scored_images(drawn, pictures, detector), 0.95)
    table = table[(table["split"] == ALL) & (table["task"] == ACCURACY)].set_index("skill", drop=False)
    return {detector: json.loads(table[list(KEPT)].to_json(orient="index", double_precision=6))}


def values(numbers: Numbers) -> dict[str, Any]:
    """What the page shows of `measure`."""
    return {"rows": numbers, "skills": (*SKILLS, AVERAGE)}


PAGE = MeasuredPage(
    "paintskills",
    "lab.validate.skills",
    "Measure how right the detectors of the bundled models are on rendered scenes of skills.",
    values,
    measure,
    tuple(DETECTORS),
)

if __name__ == "__main__":
    sys.exit(PAGE.main())

"""Accuracy of the measure of skills on rendered scenes: ``python -m lab.validate.skills``.

Renderings of the test scenes show what is asked for, so accuracy is that of the detector: the upper bound (the paper's
oracle). ``--out`` keeps it, and the table of the page on PaintSkills is printed from what is kept there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from analysis.methods.skills.scores import ACCURACY, COLUMNS, seen
from analysis.methods.skills.tables import ALL, AVERAGE, ScoredImages, accuracy_table
from analysis.observe.objects.detection import DetectionEngine
from analysis.observe.objects.engines.choice import object_observer
from analysis.observe.objects.models.toyworld_checker import ToyworldScenes
from lab.templates import render
from lab.validate.skills.scenes import SkillScene, draw_scene, scenes, total
from probes import command_line
from probes.config.measurement import Skills
from probes.config.schema import Config
from probes.prompts.paintskills import SKILLS
from probes.runs.parts import write_bytes
from probes.toyworld.checker import OBJECTS
from probes.toyworld.checker import SKILLS_VERSION as VERSION
from probes.toyworld.palette import paint

BATCH = 32
DETECTORS = {"exact": VERSION, "groundingdino": "toyworld's Grounding DINO"}
SPLITS = {"object": "object", "count": "count", "spatial": "relation"}  # of each skill, kept in --out
STORED = Path(__file__).parents[3] / "docs" / "validation" / "paintskills.json"
ROWS = {
    "renderings": "exact reader, renderings",
    "grounding dino": "toyworld's Grounding DINO, renderings",
}
KEPT = ("skill", "split", "level", "task", "value", "low", "high", "n", "n_prompts", "shuffled", "chance")


def engine(name: str) -> DetectionEngine:
    """Return what looks: the exact reader, or toyworld's own Grounding DINO."""
    if name == "exact":
        return ToyworldScenes()
    return object_observer(Config.model_validate({"prompts": ["a {person}"]}))[0].engine()


def scored_images(
    drawn: Sequence[SkillScene], pictures: np.ndarray, detector: str, rules: Skills | None = None
) -> ScoredImages:
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
    return ScoredImages(
        samples, requests, detections, [""] * len(requests), rules or Skills(), 0.0, DETECTORS[detector]
    )


def some_scenes(number: int) -> list[SkillScene]:
    """Return so many scenes of the test split, the first of each skill: any beginning of them is even."""
    there = {skill: total(skill, "test") for skill in SKILLS}
    share = min(number / sum(there.values()), 1)
    return [
        one for skill, most in there.items() for one in islice(scenes(skill, "test"), round(share * most))
    ]


def rendered(drawn: Sequence[SkillScene]) -> np.ndarray:
    """Return the renderings of scenes, ``(n, 64, 64, 3)`` uint8."""
    return paint(np.stack([draw_scene(one) for one in drawn]))


def record(accuracy: pd.DataFrame, detector: str) -> dict[str, object]:
    """Return what is kept of a measurement: its accuracies over all and by the splits of `SPLITS`."""
    own = accuracy["split"] == accuracy["skill"].map(SPLITS)
    kept = accuracy[(accuracy["split"] == ALL) | (own & (accuracy["task"] == ACCURACY))][list(KEPT)]
    return {
        "pictures": "rendered",
        "detector": detector,
        "images": int(accuracy.loc[accuracy["split"] == ALL, "n"].max()),
        "accuracy": json.loads(kept.to_json(orient="records", double_precision=6)),
    }


def whole(table: pd.DataFrame, skill: str) -> pd.Series:
    """Return the accuracy of a skill over all of its images."""
    chosen = table[(table["skill"] == skill) & (table["split"] == ALL) & (table["task"] == ACCURACY)]
    return chosen.iloc[0]


def section(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table of the page in Markdown, from what `record` returns by name."""
    found = {name: pd.DataFrame(row["accuracy"]) for name, row in rows.items()}
    return render(
        "skills",
        rows={name: ROWS[name] for name in rows},
        skills=(*SKILLS, AVERAGE),
        whole=lambda name, skill: whole(found[name], skill),
    )


def parser() -> argparse.ArgumentParser:
    """Return the command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.skills",
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = main.add_argument
    add("--detector", choices=list(DETECTORS), default="exact")
    add("--scenes", type=command_line.count, default=7185, help="of the test split, evenly over the skills")
    add("--threads", type=command_line.threads, default=1)
    add(
        "--out",
        type=Path,
        default=STORED,
        help="JSON file in which the accuracies are kept beside other rows",
    )
    add("--name", choices=list(ROWS), default="renderings", help="of the row in --out")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    torch.set_num_threads(options.threads)
    command_line.writable(options.out)
    drawn = some_scenes(options.scenes)
    accuracy = accuracy_table(scored_images(drawn, rendered(drawn), options.detector), 0.95)
    rows = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    rows[options.name] = record(accuracy, options.detector)
    write_bytes(options.out, (json.dumps(rows, indent=1) + "\n").encode())
    print(section(rows), end="")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

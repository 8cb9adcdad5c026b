"""``imagefolder`` of Hugging Face `datasets`: ``train/`` with the images and ``metadata.jsonl``, a line each.

Objects stand as `datasets` and its users have them: ``objects`` with ``bbox`` (x, y, width and height in pixels),
``categories``, and what else is known of each in lists of the same length
(https://huggingface.co/docs/datasets/image_dataset).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.export.images import SeenObject, image_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from probes.runs.run import Run


def write(run: Run, out: Path) -> None:
    """Write a run as an image folder."""
    folder = out / "train"
    folder.mkdir(parents=True)
    with open(folder / "metadata.jsonl", "w", encoding="utf-8") as lines:
        for part in image_parts(run):
            for image in part:
                row = {"file_name": image.write(folder), **image.texts, "objects": objects(image.detections)}
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")


def objects(detections: Sequence[SeenObject]) -> dict[str, list[Any]]:
    """Return the objects of an image as lists of the same length."""
    return {
        "bbox": [[round(side, 3) for side in one.box] for one in detections],
        "categories": [one.label for one in detections],
        "lemmas": [one.lemma for one in detections],
        "dependency_groups": [one.group for one in detections],
        "scores": [one.score for one in detections],
        "areas": [one.area for one in detections],
    }

"""FiftyOne: ``data/`` and ``labels.json`` in the layout of ``fiftyone.types.FiftyOneImageDetectionDataset``.

Documented at https://docs.voxel51.com/user_guide/import_datasets.html: labels are keyed by the name of an image's file
without its ending, boxes are shares of width and height, and what else is known of an object stands in its
``attributes``. The layout has no masks; those of `analysis.export.coco` load as ``COCODetectionDataset``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.export.images import ExportedImage, SeenObject, image_parts

if TYPE_CHECKING:
    from probes.runs.store import Run


def write(run: Run, out: Path) -> None:
    """Write a run for FiftyOne into a folder."""
    (out / "data").mkdir(parents=True)
    labels: dict[str, list[dict[str, Any]]] = {}
    for part in image_parts(run):
        for image in part:
            key = image.write(out / "data").removesuffix(f".{image.ending}")
            labels[key] = [_label(image, one) for one in image.detections]
    classes = sorted({one["label"] for own in labels.values() for one in own})
    places = {label: place for place, label in enumerate(classes)}
    for one in (one for own in labels.values() for one in own):
        one["label"] = places[one["label"]]
    text = json.dumps({"classes": classes, "labels": labels}, ensure_ascii=False)
    (out / "labels.json").write_text(text, "utf-8")


def _label(image: ExportedImage, seen: SeenObject) -> dict[str, Any]:
    width, height = image.size
    x, y, wide, high = seen.box
    box = (x / width, y / height, wide / width, high / height)
    return {
        "label": seen.label,
        "bounding_box": [round(min(max(side, 0.0), 1.0), 6) for side in box],
        "confidence": seen.score,
        "attributes": {
            "lemma": seen.lemma,
            "dependency_group": seen.group,
            "source": seen.source,
            **{name: image.texts[name] for name in ("prompt", "indicator", "word", "triplet", "seed")},
        },
    }

"""The images of a run as other programs take them: encoded, with the prompt of each and what was detected in it."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from probes.errors import UserError
from probes.runs.images import read_header, read_image
from probes.runs.parts import read_part

if TYPE_CHECKING:
    from probes.runs.run import Run

# what is said of an image beside its pixels
TEXTS = ("sample_id", "triplet", "prompt_id", "indicator", "word", "prompt", "negative_prompt", "seed")
_UNSAFE = re.compile(r"[^\w.-]+")


@dataclass(frozen=True)
class ExportedImage:
    """An image of a run: ``texts`` by the names of `TEXTS`, encoded ``data``, ``size`` (width, height), detections.

    A detection has ``label``, ``lemma`` (without tables the label), ``dependency_group`` (empty where it has none),
    ``source`` of the word that was searched for, ``score``, ``bbox`` (x, y, width and height in pixels, from the upper
    left corner), ``area`` of its mask in pixels, and ``segmentation``, COCO's compressed run lengths of the mask.
    """

    texts: dict[str, Any]
    data: bytes
    size: tuple[int, int]
    detections: list[dict[str, Any]]

    @property
    def file_name(self) -> str:
        """Name of its file: the id of the sample."""
        return f"{_UNSAFE.sub('_', str(self.texts['sample_id']))}.png"

    def write(self, folder: Path) -> str:
        """Write the file into a folder; return its name."""
        (folder / self.file_name).write_bytes(self.data)
        return self.file_name


def image_parts(run: Run) -> Iterator[list[ExportedImage]]:
    """Yield the images of each part of a run, without those that enter no mean (`Run.left_out`), a part at a time."""
    left_out, grouped, any_image = run.left_out(), _groups(run), False
    beside = {file.name: file for file in run.parts("objects")}
    for file in run.parts("samples"):
        detections = _detections(beside[file.name], grouped) if file.name in beside else {}
        images = [
            _exported(row, detections.get(row["sample_id"], []), drawn_here=run.config.images is None)
            for row in read_part(file, [*TEXTS, "image"]).to_pylist()
            if row["sample_id"] not in left_out
        ]
        any_image |= bool(images)
        yield images
    if not any_image:
        raise UserError(f"{run.path}: expected images, found none that can be shown: generate them first")


def _exported(row: dict[str, Any], detections: list[dict[str, Any]], *, drawn_here: bool) -> ExportedImage:
    """Keep the bytes of what this program drew; bring others upright, to eight bits, without alpha."""
    data = row["image"]["bytes"]
    ending, size = read_header(data)
    if not drawn_here or size is None or ending != "png":
        picture, sink = read_image(data), io.BytesIO()
        picture.save(sink, "png")
        data, size = sink.getvalue(), picture.size
    return ExportedImage({name: row[name] for name in TEXTS}, data, size, detections)


def _groups(run: Run) -> dict[tuple[str, int], tuple[str, str]]:
    """Lemma and dependency group by sample and number of the object; nothing of a run that was not measured."""
    if "objects" not in run.tables():
        return {}
    table = run.table("objects", ("sample_id", "object", "lemma", "group"))
    keys = zip(table["sample_id"], table["object"])
    return dict(zip(keys, zip(table["lemma"], table["group"].fillna(""))))


def _detections(file: Path, grouped: dict) -> dict[str, list[dict[str, Any]]]:
    by_sample: dict[str, list[dict[str, Any]]] = {}
    for row in read_part(file).to_pylist():
        lemma, group = grouped.get((row["sample_id"], row["object"]), (row["label"], ""))
        detection = {
            "bbox": [row["x0"], row["y0"], row["x1"] - row["x0"], row["y1"] - row["y0"]],
            "area": row["area"],
            "segmentation": {"size": [row["height"], row["width"]], "counts": row["mask"]},
            "iscrowd": 0,
            "score": round(row["score"], 6),
            "lemma": lemma,
            "dependency_group": group,
            "source": row["source"],
            "label": row["label"],
        }
        by_sample.setdefault(row["sample_id"], []).append(detection)
    return by_sample


def left_out_line(run: Run) -> str:
    """Say how many images are left out of an export since they enter no mean; empty where none is."""
    left_out = pd.Series(run.left_out(), dtype=object).str.removeprefix("image left out: ")
    why = "; ".join(f"{reason}: {count}" for reason, count in left_out.value_counts(sort=False).items())
    return f"{len(left_out)} left out ({why})" if why else ""

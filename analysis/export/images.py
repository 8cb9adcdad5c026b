"""The images of a run as other programs take them: encoded, with the prompt of each and what was detected in it."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
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


def image_parts(run: Run) -> Iterator[list[dict[str, Any]]]:
    """Yield the images of each part of a run, without those that enter no mean (`Run.left_out`), a part at a time.

    An image has `TEXTS`, the encoded ``data``, ``size`` (width, height), ``file_name``, and ``detections`` with
    ``label``, ``lemma`` (without tables the label), ``dependency_group`` (empty where it has none), ``source`` of the
    word that was searched for, ``score``, ``bbox`` (x, y, width and height in pixels, from the upper left corner),
    ``area`` of its mask in pixels, and ``segmentation``, COCO's compressed run lengths of the mask.
    """
    left_out, drawn_here, any_image = run.left_out(), run.config.images is None, False
    beside = {file.name: file for file in run.parts("objects")}
    columns = ["sample_id", "object", "lemma", "group"]
    measured = "objects" in run.tables()
    words = run.table("objects", columns)[columns] if measured else pd.DataFrame(columns=columns)
    for file in run.parts("samples"):
        detections = _detections(beside[file.name], words) if file.name in beside else {}
        images = []
        for row in read_part(file, [*TEXTS, "image"]).to_pylist():
            if (name := row["sample_id"]) not in left_out:
                data, size = _encoded(row.pop("image")["bytes"], drawn_here)
                file_name = f"{_UNSAFE.sub('_', name)}.png"
                row |= {"data": data, "size": size, "file_name": file_name}
                images.append({**row, "detections": detections.get(name, [])})
        any_image |= bool(images)
        yield images
    if not any_image:
        raise UserError(f"{run.path}: expected images, found none that can be shown: generate them first")


def _encoded(data: bytes, drawn_here: bool) -> tuple[bytes, tuple[int, int]]:
    """Keep the bytes of what this program drew; bring others upright, to eight bits, without alpha."""
    ending, size = read_header(data)
    if drawn_here and size is not None and ending == "png":
        return data, size
    picture, sink = read_image(data), io.BytesIO()
    picture.save(sink, "png")
    return sink.getvalue(), picture.size


def _detections(file: Path, words: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """The detections of a part by sample; lemma and dependency group stand in a table of words."""
    rows = read_part(file).to_pandas().merge(words, "left", ["sample_id", "object"])
    by_sample: dict[str, list[dict[str, Any]]] = {}
    for row in rows.to_dict("records"):
        measured = isinstance(row["lemma"], str)
        detection = {
            "bbox": [row["x0"], row["y0"], row["x1"] - row["x0"], row["y1"] - row["y0"]],
            "area": row["area"],
            "segmentation": {"size": [row["height"], row["width"]], "counts": row["mask"]},
            "iscrowd": 0,
            "score": round(row["score"], 6),
            "lemma": row["lemma"] if measured else row["label"],
            "dependency_group": row["group"] if isinstance(row["group"], str) else "",
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

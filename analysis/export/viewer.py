"""Rows of images as the viewer of the Hugging Face Hub shows them: image, overlay, prompt, objects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from analysis.export.images import ExportedImage
from analysis.export.overlays import overlay_bytes
from probes.runs.images import read_image
from probes.runs.parts import parquet_bytes
from probes.runs.schemas import IMAGE

_OBJECT = pa.struct(
    [
        ("label", pa.string()),
        ("lemma", pa.string()),
        ("dependency_group", pa.string()),
        ("score", pa.float32()),
        ("bbox", pa.list_(pa.float32())),
        ("area", pa.int32()),
    ]
)
COLUMNS = {  # of an image: its type and what it is
    "image": (IMAGE, "the image"),
    "overlay": (IMAGE, "the image with masks, boxes and lemmas of its objects, by dependency group"),
    "prompt": (pa.string(), "the prompt it was generated from"),
    "indicator": (pa.string(), "which word stands for the person, by its name in the configuration"),
    "word": (pa.string(), "that word"),
    "triplet": (pa.int32(), "number of the prompt; images of a triplet and seed are compared"),
    "seed": (pa.int64(), "seed of the noise, as configured"),
    "prompt_id": (pa.string(), "name of the prompt"),
    "sample_id": (pa.string(), "name of the image, as in every table"),
    "negative_prompt": (pa.string(), "negative prompt"),
    "objects": (
        pa.list_(_OBJECT),
        "what was detected: label, lemma, group, score, box (x, y, width, height), area",
    ),
}
_DETECTED = ("overlay", "objects")  # not of a run that was not searched for objects


def columns(*, detected: bool) -> list[str]:
    """Return the columns of an image, in order."""
    return [name for name in COLUMNS if detected or name not in _DETECTED]


def viewer_bytes(images: Sequence[ExportedImage], *, detected: bool) -> memoryview:
    """Return images as Parquet that `datasets` and the viewer show; the same images give the same bytes.

    Parameters
    ----------
    images : sequence of ExportedImage
    detected : bool
        Whether the run was searched for objects; without, there is no overlay.
    """
    names = columns(detected=detected)
    schema = pa.schema([(name, COLUMNS[name][0]) for name in names])
    features = {name: _feature(COLUMNS[name][0]) for name in names}
    rows = [
        {name: value for name, value in _row(image, detected).items() if name in names} for image in images
    ]
    table = pa.Table.from_pylist(rows, schema=schema)
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return parquet_bytes(table.replace_schema_metadata(metadata))


def _row(image: ExportedImage, detected: bool) -> dict[str, Any]:
    row: dict[str, Any] = {**image.texts, "image": {"bytes": image.data, "path": image.file_name}}
    if detected:
        drawn = overlay_bytes(read_image(image.data), image.detections)
        row["overlay"] = {"bytes": drawn, "path": f"{image.texts['sample_id']}.jpg"}
        row["objects"] = [
            {
                "label": seen.label,
                "lemma": seen.lemma,
                "dependency_group": seen.group,
                "score": seen.score,
                "bbox": list(seen.box),
                "area": seen.area,
            }
            for seen in image.detections
        ]
    return row


def _feature(kind: pa.DataType) -> Any:
    """Return how `datasets` writes a type."""
    if kind == IMAGE:
        return {"_type": "Image"}
    if pa.types.is_list(kind):
        return [_feature(kind.value_type)]
    if pa.types.is_struct(kind):
        return {field.name: _feature(field.type) for field in kind}
    return {"dtype": "float32" if pa.types.is_float32(kind) else str(kind), "_type": "Value"}

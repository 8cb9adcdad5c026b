"""Hugging Face `datasets`: ``data/`` with the images for the viewer of the Hub, ``tables/``, the report and a card."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from analysis.export.card import datasets_card
from analysis.export.images import ExportedImage, image_parts
from probes.runs.parts import parquet_bytes
from probes.runs.schemas import IMAGE

if TYPE_CHECKING:
    from probes.runs.run import Run

_BESIDE = ("triplets.yaml", "report.html")
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


def write(run: Run, out: Path) -> None:
    """Write a run as a dataset into a folder."""
    (out / "data").mkdir(parents=True)
    names = [name for name in COLUMNS if name != "objects" or run.parts("objects")]
    for number, images in enumerate(image_parts(run)):
        (out / f"data/images-{number:05d}.parquet").write_bytes(_image_bytes(images, names))
    (out / "tables").mkdir()
    for name in run.tables():
        (out / f"tables/{name}.parquet").write_bytes((run.path / f"tables/{name}.parquet").read_bytes())
    for name in _BESIDE:
        if (run.path / name).exists():
            (out / name).write_bytes((run.path / name).read_bytes())
    card = datasets_card(run, {name: COLUMNS[name][1] for name in names})
    (out / "README.md").write_text(card, encoding="utf-8")


def _image_bytes(images: Sequence[ExportedImage], names: Sequence[str]) -> memoryview:
    """Return images as Parquet that `datasets` and the viewer show; the same images give the same bytes."""
    schema = pa.schema([(name, COLUMNS[name][0]) for name in names])
    features = {name: _feature(COLUMNS[name][0]) for name in names}
    table = pa.Table.from_pylist([_row(image) for image in images], schema=schema)
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return parquet_bytes(table.replace_schema_metadata(metadata))


def _row(image: ExportedImage) -> dict[str, Any]:
    return {
        **image.texts,
        "image": {"bytes": image.data, "path": image.file_name},
        "objects": image.detections,
    }


def _feature(kind: pa.DataType) -> Any:
    """Return how `datasets` writes a type."""
    if kind == IMAGE:
        return {"_type": "Image"}
    if pa.types.is_list(kind):
        return [_feature(kind.value_type)]
    if pa.types.is_struct(kind):
        return {field.name: _feature(field.type) for field in kind}
    return {"dtype": "float32" if pa.types.is_float32(kind) else str(kind), "_type": "Value"}

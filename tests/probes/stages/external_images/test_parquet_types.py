"""Columns of Parquet tables of others: each layout of a text, a number or an image is read, every other type named."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from probes.config.generation import Images
from probes.errors import UserError
from probes.stages.external_images.table import find_source, read_image_bytes, read_rows

BYTES = b"\x89PNG and so on"
TEXTS = ["a person", "a woman"]
BOTH = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


@pytest.fixture
def folder(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    return tmp_path


def rows(folder, **columns):
    """The rows of a table with some columns in the place of the usual ones; None takes one out."""
    usual = {
        "image": pa.array(["a.png"] * 2),
        "prompt": pa.array(TEXTS),
        "indicator": pa.array(["neutral", "feminine"]),
        "seed": pa.array([3, 3]),
        "triplet": pa.array(["x", "x"]),
    }
    pq.write_table(pa.table({**usual, **columns}), folder / "t.parquet")
    images = Images.model_validate({"from": "t.parquet"})
    return read_rows(images, find_source(images, folder))


def test_texts_that_are_encoded_by_a_dictionary_are_read(folder):
    said = {
        "image": ["a.png"] * 2,
        "prompt": TEXTS,
        "indicator": ["neutral", "feminine"],
        "seed": ["3", "4"],
        "triplet": ["x", "y"],
    }
    found = rows(folder, **{name: pa.array(values).dictionary_encode() for name, values in said.items()})
    columns = ["prompt", "indicator", "seed", "triplet"]
    assert [*found[columns].itertuples(index=False, name=None)] == [
        ("a person", "neutral", 3, "x"),
        ("a woman", "feminine", 4, "y"),
    ]
    assert {*found["image"]} == {(folder / "a.png",)}


@pytest.mark.parametrize(
    "image",
    [
        pa.array([BYTES] * 2),
        pa.array([BYTES] * 2).dictionary_encode(),
        pa.array([{"bytes": BYTES, "path": None}] * 2, BOTH),
        pa.array([{"bytes": BYTES}] * 2),
    ],
    ids=lambda array: str(array.type),
)
def test_bytes_in_any_layout_are_read(image, folder):
    assert [read_image_bytes(image, at) for at, image in rows(folder, image=image)["image"].items()] == [
        BYTES
    ] * 2


WRONG = {
    "image as lists": ("image", pa.array([["a.png"]] * 2)),
    "bytes as texts": ("image", pa.array([{"bytes": "x", "path": "a.png"}] * 2)),
    "path as bytes": ("image", pa.array([{"path": BYTES}] * 2)),
    "prompt as bytes": ("prompt", pa.array([b"\xff"] * 2)),
    "seed as fractions": ("seed", pa.array([1.0, float("nan")])),
    "triplet as lists": ("triplet", pa.array([["x"]] * 2)),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_column_of_another_type_is_named(case, folder):
    name, values = WRONG[case]
    said = r"t\.parquet: (row [12]: )?expected (a|an|the) (text|image|path|whole number|Parquet file)\b"
    with pytest.raises(UserError, match=said) as caught:
        rows(folder, **{name: values})
    assert "\n" not in str(caught.value)

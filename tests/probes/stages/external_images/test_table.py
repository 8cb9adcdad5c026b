"""Rows of images from tables and file names; each fault is told in one line, by its place."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from probes.config.generation import Images
from probes.errors import UserError
from probes.stages.external_images.table import find_source, read_image_bytes, read_rows


def png(shade=0):
    data = io.BytesIO()
    Image.new("RGB", (8, 8), (shade,) * 3).save(data, "png")
    return data.getvalue()


@pytest.fixture
def folder(tmp_path):
    for shade, name in enumerate("ab"):
        (tmp_path / f"{name}.png").write_bytes(png(shade))
    return tmp_path


def rows(folder, **options):
    images = Images.model_validate({"from": "."} | options)
    return read_rows(images, find_source(images, folder))


def said(found):
    return [*found[["prompt", "indicator", "seed"]].itertuples(index=False, name=None)]


def test_bytes_in_parquet_as_datasets_stores_them_are_read_across_groups_of_rows(folder):
    cells = [
        {"bytes": png(5), "path": None},
        {"bytes": None, "path": "b.png"},
        {"bytes": png(7), "path": "x"},
    ]
    table = pa.table({"image": cells, "prompt": ["a person"] * 3, "indicator": ["neutral"] * 3})
    pq.write_table(table, folder / "part-0.parquet", row_group_size=2)
    pq.write_table(
        table.set_column(0, "image", pa.array([png(9)] * 3)), folder / "part-1.parquet", row_group_size=1
    )
    found = rows(folder)
    assert [read_image_bytes(image, at) for at, image in found["image"].items()] == [
        png(5),
        png(1),
        png(7),
        *[png(9)] * 3,
    ]
    assert {*found["seed"]} == {None}


def test_names_of_files_say_it_all(tmp_path):
    names = ("a_person_at_home/neutral-3", "a man, at home/masculine-12")
    for name in names:
        path = tmp_path / f"{name}.png"
        path.parent.mkdir()
        path.write_bytes(png())
    found = rows(tmp_path, names="{prompt}/{indicator}-{seed}")
    assert said(found) == [("a man, at home", "masculine", 12), ("a person at home", "neutral", 3)]
    (tmp_path / "stray.txt").write_bytes(png())
    with pytest.raises(UserError, match=r"stray\.txt: expected a name like '\{prompt\}"):
        rows(tmp_path, names="{prompt}/{indicator}-{seed}")
    for wrong in ("{prompt}", "{prompt}_{indicator}_{indicator}", "{prompt}_{indicator}_{model}"):
        with pytest.raises(UserError, match=r"images\.names: expected"):
            rows(tmp_path, names=wrong)


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        (
            "file,prompt,indicator\nz.png,a person,neutral",
            {},
            r"t.csv: line 2: expected an image at .*z\.png",
        ),
        ("file,prompt,indicator\na.png,,neutral", {}, r"line 2: expected a text in `prompt`"),
        (
            "file,prompt,indicator,seed\na.png,a person,neutral,x",
            {},
            r"line 2: expected a whole number .* got 'x'",
        ),
        ("file,prompt\na.png,a person", {}, r"expected a column `indicator`, found file, prompt"),
        ("file,prompt,indicator\n", {}, r"expected rows of images, found none"),
        ("f,prompt,indicator\na.png,a person,neutral", {}, r"expected a column of images \(image, file"),
        ("file,prompt,indicator\na.png,a person,neutral", {"seed": "n"}, r"expected a column `n`"),
        (
            "file,prompt,indicator,triplet\na.png,a person,neutral,",
            {},
            r"line 2: expected a text or a number in `triplet`",
        ),
    ],
)
def test_a_fault_of_a_table_is_told_by_its_line(folder, text, options, error):
    (folder / "t.csv").write_text(text)
    with pytest.raises(UserError, match=error):
        rows(folder, **{"from": "t.csv"}, **options)


def test_a_table_that_is_none_or_not_the_only_one_is_refused(folder):
    with pytest.raises(UserError, match=r"expected a table .* in this folder, found none"):
        rows(folder)
    for name in ("s.csv", "t.jsonl"):
        (folder / name).write_text("[1]")
    with pytest.raises(UserError, match=r"found s\.csv and t\.jsonl"):
        rows(folder)
    with pytest.raises(UserError, match=r"expected a table .* got '\.png'"):
        rows(folder, **{"from": "a.png"})
    (folder / "u.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(UserError, match="expected a Parquet file, got a damaged one"):
        rows(folder, **{"from": "u.parquet"})


def test_images_of_every_ending_are_read_and_other_files_are_named(tmp_path):
    for ending, kind in {"jfif": "jpeg", "avif": "avif", "gif": "gif", "PNG": "png", "x": "webp"}.items():
        Image.new("RGB", (8, 8)).save(tmp_path / f"a_nurse_{ending}.{ending}", kind)
    (tmp_path / "a_nurse_1.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    (tmp_path / ".DS_Store").write_bytes(b"\0")
    images, said = Images.model_validate({"from": ".", "names": "{prompt}_{number}"}), []
    found = read_rows(images, tmp_path, by_prompt=True, log=said.append)
    assert [*found["prompt"]] == ["a nurse"] * 5
    assert said == [
        f"{tmp_path}: 1 not read, no PNG, JPEG, WebP, GIF, BMP, TIFF or AVIF image by content: a_nurse_1.eps"
    ]

"""Readers on small files in each published layout, told by their content, and what is said of files that are wrong."""

import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from probes.errors import UserError
from probes.prompts import readers
from probes.prompts.readers import read_captions

SAID = ["A person in a hat", 'Two people, one "dog"', "A café at night"]
ADDRESS = "http://images.example/a.jpg"


def coco(captions):
    images = [{"id": 9, "file_name": "000000000009.jpg", "height": 480, "width": 640}]
    entries = [{"image_id": 9, "id": 40 + i, "caption": caption} for i, caption in enumerate(captions)]
    return json.dumps(
        {"info": {"description": "COCO"}, "images": images, "licenses": [], "annotations": entries}
    )


def textcaps(captions):
    head = {"dataset_type": "val", "dataset_name": "textcaps", "dataset_version": "0.1"}
    entries = [
        {"question": "", "image_id": "a1", "image_classes": ["Hat"], "caption_str": caption, "caption_id": i}
        | {"caption_tokens": caption.split(), "reference_strs": captions, "reference_tokens": [["a"]]}
        for i, caption in enumerate(captions)
    ]
    return json.dumps({**head, "data": entries})


def karpathy(captions):
    sentences = [{"tokens": c.split(), "raw": c, "imgid": 0, "sentid": i} for i, c in enumerate(captions)]
    return json.dumps({"images": [{"sentids": [0], "sentences": sentences}], "dataset": "flickr30k"})


def quoted(captions):
    return ['"' + caption.replace('"', '""') + '"' for caption in captions]


LAYOUTS = {
    "coco": ("captions_val2017.json", coco),
    "textcaps": ("TextCaps_0.1_val.json", textcaps),
    "karpathy": ("dataset_flickr30k.json", karpathy),
    "flickr30k": ("results_20130124.token", lambda c: "".join(f"10.jpg#{i}\t{s}\n" for i, s in enumerate(c))),
    "flickr30k-csv": (
        "results.csv",
        lambda c: (
            "image_name| comment_number| comment\n" + "".join(f"10.jpg| {i}| {s}\n" for i, s in enumerate(c))
        ),
    ),
    "gcc": ("Validation_GCC-1.1.0-Validation.tsv", lambda c: "".join(f"{s}\t{ADDRESS}\n" for s in c)),
    "text": ("captions.txt", lambda c: "\n".join(c) + "\n"),
    "csv": ("a.csv", lambda c: "image,caption\n" + "".join(f"a.jpg,{s}\n" for s in quoted(c))),
    "tsv": ("a.tsv", lambda c: "image\tcaption\n" + "".join(f"a.jpg\t{s}\n" for s in quoted(c))),
    "json": ("a.json", lambda c: json.dumps([{"caption": s} for s in c])),
    "jsonl": ("a.jsonl", lambda c: "".join(json.dumps({"text": s}) + "\n" for s in c)),
}


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("form", LAYOUTS)
def test_each_published_layout_is_told_and_read(form, named, tmp_path):
    name, write = LAYOUTS[form]
    path = tmp_path / name
    path.write_text(write(SAID), encoding="utf-8")
    told, captions = read_captions(path, form if named else "auto")
    assert told == form
    assert [caption.strip() for caption in captions] == SAID


def test_parquet_with_a_list_of_captions_and_a_column_that_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": [1, 2], "sentences": [SAID[:2], SAID[2:]], "alt": ["x", None]}), path)
    assert list(read_captions(path)[1]) == SAID
    assert list(read_captions(path, column="alt")[1]) == ["x"]


def test_flickr_annotations_keep_a_json_list_in_a_cell(tmp_path):
    path = tmp_path / "flickr_annotations_30k.csv"
    cell = json.dumps(SAID).replace('"', '""')
    path.write_text(f'raw,sentids,split\n"{cell}","[0]",train\n')
    assert list(read_captions(path)[1]) == [json.loads(json.dumps(s)) for s in SAID]


def test_a_line_of_flickr30k_that_lacks_a_bar_is_read_as_published(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text(
        "image_name| comment_number| comment\n2199200615.jpg| 4   A dog runs .\n1.jpg| 0| a | b\n"
    )
    assert [caption.strip() for caption in read_captions(path)[1]] == ["A dog runs .", "a | b"]


def test_lines_are_a_stream(tmp_path):
    """What is wrong farther down is said when it is reached."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"caption": "a person"}\n' * 3 + "{broken\n")
    _, captions = read_captions(path)
    assert [next(captions) for _ in range(3)] == ["a person"] * 3
    with pytest.raises(UserError, match="line 4: expected JSON"):
        next(captions)


WRONG = {
    "empty": ("a.txt", b" \n", "auto", None, "expected captions, got an empty file"),
    "binary": ("a.txt", b"a\0b", "auto", None, "got binary data"),
    "latin": ("a.txt", "one\ncaf\xe9\n".encode("latin-1"), "auto", None, "line 2: expected UTF-8 text"),
    "broken json": (
        "a.json",
        b'{"annotations": [\n{"caption": "a"},\n{]}',
        "auto",
        None,
        "line 3: expected JSON",
    ),
    "another json": ("a.json", b'{"a": \n1}', "auto", None, "none of coco, textcaps, karpathy"),
    "not coco": ("a.json", textcaps(SAID).encode(), "coco", None, "a JSON object with a list `annotations`"),
    "no column": ("a.csv", b"image,words\n1,a\n", "auto", None, "expected a column of captions"),
    "no tab": (
        "a.token",
        b"1.jpg#0\ta\n1.jpg#1 b\n",
        "flickr30k",
        None,
        "line 2: expected image.jpg#0, a tab",
    ),
    "no parquet": ("a.parquet", b"PAR1abc", "auto", None, "expected a Parquet file, got a damaged one"),
    "a column of text": (
        "a.txt",
        b"a person\n",
        "text",
        "caption",
        "expected no column for captions of the form",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_in_a_line(case, tmp_path):
    name, content, form, column, expected = WRONG[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError) as said:
        list(read_captions(path, form, column)[1])
    assert expected in str(said.value)
    assert str(said.value).startswith(str(path)) and "\n" not in str(said.value)


def test_a_data_set_of_the_package_datasets(tmp_path, monkeypatch):
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "set"
    folder.mkdir()
    pq.write_table(pa.table({"caption": SAID}), folder / "train.parquet")
    assert list(readers.from_datasets(str(folder), None, None)) == SAID
    assert list(readers.from_datasets(str(folder), "train", "caption")) == SAID
    with pytest.raises(UserError, match="row 1: expected a column 'text', got caption"):
        list(readers.from_datasets(str(folder), "train", "text"))
    with pytest.raises(UserError, match="cannot be read by `datasets`"):
        list(readers.from_datasets(str(folder), "nosuch", None))


def test_without_the_package_datasets(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match="found it not installed: pip install datasets"):
        list(readers.from_datasets("someone/flickr30k", "test", None))

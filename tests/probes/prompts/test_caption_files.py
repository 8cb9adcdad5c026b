"""Readers on small files in each published layout, told by their ending, and what is said of files that are wrong."""

import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from probes.errors import UserError
from probes.prompts.captions import from_datasets, open_captions

SAID = ["A person in a hat", 'Two people, one "dog"', "A café at night"]
ADDRESS = "http://images.example/a.jpg"


def coco(captions):
    images = [{"id": 9, "file_name": "000000000009.jpg", "height": 480, "width": 640}]
    entries = [{"image_id": 9, "id": 40 + i, "caption": caption} for i, caption in enumerate(captions)]
    return json.dumps(
        {"info": {"description": "COCO"}, "images": images, "licenses": [], "annotations": entries}
    )


def textcaps(captions):
    entries = [
        {"question": "", "image_id": "a1", "image_classes": ["Hat"], "caption_str": caption, "caption_id": i}
        | {"caption_tokens": caption.split(), "reference_strs": captions, "reference_tokens": [["a"]]}
        for i, caption in enumerate(captions)
    ]
    return json.dumps({"dataset_type": "val", "dataset_name": "textcaps", "data": entries})


def karpathy(captions):
    sentences = [{"tokens": c.split(), "raw": c, "imgid": 0, "sentid": i} for i, c in enumerate(captions)]
    return json.dumps({"images": [{"sentids": [0], "sentences": sentences}], "dataset": "flickr30k"})


def quoted(captions):
    return ['"' + caption.replace('"', '""') + '"' for caption in captions]


LAYOUTS = {
    "captions_val2017.json": coco,
    "TextCaps_0.1_val.json": textcaps,
    "dataset_flickr30k.json": karpathy,
    "results_20130124.token": lambda c: "".join(f"10.jpg#{i}\t{s}\n" for i, s in enumerate(c)),
    "Validation_GCC-1.1.0-Validation.tsv": lambda c: "".join(f"{s}\t{ADDRESS}\n" for s in c),
    "captions.txt": lambda c: "\n".join(c) + "\n",
    "flickr8k.txt": lambda c: "image,caption\n" + "".join(f"a.jpg,{s}\n" for s in quoted(c)),
    "a.csv": lambda c: "image,caption\n" + "".join(f"a.jpg,{s}\n" for s in quoted(c)),
    "flickr_annotations_30k.csv": lambda c: "raw,split\n" + ",".join([*quoted([json.dumps(c)]), "train\n"]),
    "a.tsv": lambda c: "image\tcaption\n" + "".join(f"a.jpg\t{s}\n" for s in quoted(c)),
    "a.json": lambda c: json.dumps([{"caption": s} for s in c]),
    "a.jsonl": lambda c: "".join(json.dumps({"text": s}) + "\n" for s in c),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_published_layout_is_read(name, tmp_path):
    path = tmp_path / name
    path.write_text(LAYOUTS[name](SAID), encoding="utf-8")
    assert list(open_captions(path)[1]) == SAID


def test_parquet_with_a_list_of_captions_and_a_column_that_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": [1, 2], "sentences": [SAID[:2], SAID[2:]], "alt": ["x", None]}), path)
    assert list(open_captions(path)[1]) == SAID
    assert list(open_captions(path, "alt")[1]) == ["x"]


WRONG = {
    "latin": ("a.txt", "one\ncaf\xe9\n".encode("latin-1"), None, "line 2: expected UTF-8 text"),
    "broken json": ("a.json", b'{"annotations": [\n{"caption": "a"},\n{]}', None, "line 3: expected JSON"),
    "another json": ("a.json", b'{"a": \n1}', None, "expected captions as COCO's or Karpathy's JSON"),
    "no caption": ("a.json", b'[{"caption": 3}]', None, "[0]: caption: expected a caption, got 3"),
    "broken line": ("a.jsonl", b'{"caption": "a"}\n{broken\n', None, "line 2: expected a JSON object"),
    "no column": ("a.csv", b"image,words\n1,a\n", None, "expected a column of captions"),
    "no such column": ("a.txt", b"a person\n", "caption", "expected a column 'caption', got a person"),
    "no parquet": ("a.parquet", b"PAR1abc", None, "expected a Parquet file, got a damaged one"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_in_a_line(case, tmp_path):
    name, content, column, expected = WRONG[case]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError) as said:
        list(open_captions(path, column)[1])
    assert expected in str(said.value)
    assert str(said.value).startswith(str(path)) and "\n" not in str(said.value)


def test_a_data_set_of_the_package_datasets(tmp_path, monkeypatch):
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "set"
    folder.mkdir()
    pq.write_table(pa.table({"caption": SAID}), folder / "train.parquet")
    assert list(from_datasets(str(folder), None, None)) == SAID
    assert list(from_datasets(str(folder), "train", "caption")) == SAID
    with pytest.raises(UserError, match="row 1: expected a column 'text', got caption"):
        list(from_datasets(str(folder), "train", "text"))
    with pytest.raises(UserError, match="cannot be read by `datasets`"):
        list(from_datasets(str(folder), "nosuch", None))


def test_without_the_package_datasets(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"expected the package datasets, found none: pip install .*\[data\]"):
        list(from_datasets("someone/flickr30k", "test", None))

"""Pipes, devices and links to them: what no end is read of is refused in one line, wherever a file is named."""

import os
from pathlib import Path

import pytest
import yaml
from PIL import Image

from probes.csv_text import csv_rows
from probes.errors import UserError
from probes.prompts.user_tables import read_answers
from probes.storage.paths import expand, expand_model, expand_run, require_regular
from tests.soon import soon
from triptych.cli.run import main

WORDS = {"neutral": "person", "feminine": "woman"}
DRAWN = {"prompts": ["a {person} in a hat"], "indicators": WORDS, "reference": "neutral", "model": "toyworld"}
OWN = {"detector": "toyworld", "segmenter": "toyworld"}


@pytest.fixture(params=["pipe", "link", "/dev/zero", "/dev/stdin"])
def endless(request, tmp_path):
    """The path of something that no end is read of."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    return str(tmp_path / request.param)  # an absolute path stays as it is


FIELDS = {
    "images.from": lambda path: {"indicators": WORDS, "images": {"from": path}},
    "prompts.from": lambda path: {**DRAWN, "prompts": {"from": path}},
    "prompts.from as csv": lambda path: {**DRAWN, "prompts": {"from": path, "format": "csv"}},
    "model": lambda path: {**DRAWN, "model": path},
    "observe.vocabulary": lambda path: {**DRAWN, "observe": {**OWN, "vocabulary": path}},
    "observe.detector": lambda path: {**DRAWN, "observe": {"detector": path, "segmenter": "toyworld"}},
    "observe.segmenter": lambda path: {**DRAWN, "observe": {"detector": "toyworld", "segmenter": path}},
    "observe.tagger": lambda path: {**DRAWN, "observe": {**OWN, "tags": ["tagger"], "tagger": path}},
    "observe.ram": lambda path: {**DRAWN, "observe": {**OWN, "tags": ["ram"], "ram": path}},
    "observe.feature_weights": lambda path: {
        **DRAWN,
        "observe": {"features": ["clip"], "feature_weights": {"clip": path}},
    },
    "observe.questions.blip2": lambda path: {
        **DRAWN,
        "observe": {"questions": {"readers": ["blip2"], "blip2": path}},
    },
}


@pytest.fixture
def command(capsys):
    """Call the command line; gives exit status and stderr."""

    def run(*arguments):
        with soon():
            status = main([str(one) for one in arguments])
        return status, capsys.readouterr().err

    return run


def refused(status, said):
    assert status == 2 and said.count("\n") == 1, said
    assert "expected a regular file, got a " in said


@pytest.mark.parametrize("field", FIELDS)
def test_a_pipe_in_a_field_is_refused(field, tmp_path, command):
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump(FIELDS[field](str(tmp_path / "pipe"))))
    status, said = command(path, "--out", tmp_path / "run", "--dry-run")
    refused(status, said)
    assert field.split()[0].split(".")[-1] in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("field", ["images.from", "prompts.from"])
def test_whatever_has_no_end_is_refused(field, endless, tmp_path, command):
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump(FIELDS[field](endless)))
    refused(*command(path, "--dry-run"))


def test_the_configuration_itself(endless, command):
    refused(*command(endless, "--dry-run"))


def images(folder, names, table="metadata.csv"):
    (folder / "pictures").mkdir(exist_ok=True)
    Image.new("RGB", (16, 16)).save(folder / "pictures" / "a.png")
    rows = [f"{name},a {word} sings,{who}" for name, (who, word) in zip(names, WORDS.items())]
    (folder / "pictures" / table).write_text("\n".join(["file,prompt,indicator", *rows]))
    (folder / "a.yaml").write_text(
        yaml.safe_dump({"indicators": WORDS, "reference": "neutral", "images": {"from": "pictures"}})
    )
    return folder / "a.yaml"


def test_an_image_of_a_table(endless, tmp_path, command):
    path = images(tmp_path, ["a.png", endless])
    status, said = command(path, "--dry-run")
    refused(status, said)
    assert said.startswith("metadata.csv: line 3: ")


def test_an_image_by_its_name_in_a_folder(tmp_path, command):
    (tmp_path / "pictures").mkdir()
    os.mkfifo(tmp_path / "pictures" / "a_woman_sings_feminine.png")
    settings = {"indicators": WORDS, "images": {"from": "pictures", "names": "{prompt}_{indicator}"}}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump({**settings, "reference": "neutral"}))
    refused(*command(tmp_path / "a.yaml", "--dry-run"))


def test_sheets_that_people_filled_in(endless):
    for read in (csv_rows, lambda path: read_answers(path, ("sample_id", "answer"), "answer")):
        with soon(), pytest.raises(UserError, match="expected a regular file, got a "):
            read(Path(endless))


def test_files_of_a_models_folder(tmp_path):
    (tmp_path / "unet").mkdir()
    assert expand_model(tmp_path, "model") == tmp_path
    os.mkfifo(tmp_path / "unet" / "config.json")
    with pytest.raises(UserError, match=r"^model: .*config\.json: expected a regular file, got a pipe: "):
        expand_model(tmp_path, "model")


def test_what_is_there_and_what_is_not(tmp_path):
    (tmp_path / "a.csv").touch()
    (tmp_path / "loop").symlink_to("loop")
    for name in ("", "a.csv", "none"):
        assert require_regular(tmp_path / name) == tmp_path / name == expand(name, "place", tmp_path)
    with pytest.raises(UserError, match=r"^place: expected a path, got 'a/a/.*File name too long"):
        expand("a/" * 3000, "place", tmp_path)
    for read in (expand, expand_run):  # where a run is to be written, what cannot be is said in other words
        with pytest.raises(UserError, match="got a NUL"):
            read("a\0", "place")

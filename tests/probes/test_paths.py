"""Pipes, devices and links to them: what no end is read of is refused in one line, wherever a file is named."""

import os

import pytest
import yaml

from probes.errors import UserError
from probes.paths import expand, expand_model, expand_run, require_regular
from tests.soon import soon
from triptych.cli.main import main

WORDS = {"neutral": "person", "feminine": "woman"}
DRAWN = {"prompts": ["a {person} in a hat"], "indicators": WORDS, "reference": "neutral", "model": "toyworld"}
OWN = {"detector": "toyworld", "segmenter": "toyworld"}


@pytest.fixture(params=["link", "/dev/zero"])
def endless(request, tmp_path):
    """The path of something that no end is read of."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    return str(tmp_path / request.param)  # an absolute path stays as it is


FIELDS = {
    "images.from": lambda path: {"indicators": WORDS, "images": {"from": path}},
    "prompts.from": lambda path: {**DRAWN, "prompts": {"from": path}},
    "model": lambda path: {**DRAWN, "model": path},
    "observe.vocabulary": lambda path: {**DRAWN, "observe": {**OWN, "vocabulary": path}},
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
def test_what_has_no_end_is_refused_in_a_field(field, endless, tmp_path, command):
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump(FIELDS[field](endless)))
    status, said = command("plan", path, "--out", tmp_path / "run")
    refused(status, said)
    assert field.split()[0].split(".")[-1] in said
    assert not (tmp_path / "run").exists()


def test_the_configuration_itself(endless, command):
    refused(*command("plan", endless))


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

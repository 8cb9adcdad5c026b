"""``triptych doctor``: what is here and what is missing, without a network."""

import configparser
import socket
from importlib import metadata
from types import SimpleNamespace

import pytest
from huggingface_hub import constants
from packaging.requirements import Requirement

from analysis.observe import checkpoints
from probes.errors import pip_line
from tests.runs import ROOT
from triptych import installation
from triptych.cli import doctor
from triptych.cli.main import main


def test_what_is_here_is_said_without_a_network(capsys, monkeypatch):
    def refused(*_):
        raise AssertionError("asked the network")

    monkeypatch.setattr(socket.socket, "connect", refused)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for title in ("versions:", "this machine:", "optional parts:", "checkpoints that observe images"):
        assert out.count(title) == 1
    assert f"torch {installation.version('torch')}" in out
    assert all(name in out for name in checkpoints.known())


def test_every_optional_part_has_its_use():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", "utf-8")
    assert set(doctor.USES) == set(config["options.extras_require"]) - {"docs", "test"}


def test_what_is_not_met_is_named_with_what_is_there():
    there = installation.version("numpy")
    needed = [Requirement(text) for text in ("numpy>=1", "numpy>=99", "no-such-package>=2", "packaging")]
    assert doctor.unmet_requirements(needed) == [f"numpy>=99 ({there})", "no-such-package>=2 (missing)"]


def test_an_optional_part_needs_its_own_packages_alone():
    names = {one.name for one in doctor.requirements()}
    assert {"torch", "pydantic"} <= names and not {"ray", "pytest"} & names
    assert [one.name for one in doctor.requirements("cluster")] == ["ray"]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (None, "pip install 'triptych[xlsx]'"),
        ('{"url": "file:///a%20b/c", "dir_info": {"editable": true}}', "pip install -e '/a b/c[xlsx]'"),
        ('{"url": "file:///c", "dir_info": {}}', "pip install '/c[xlsx]'"),
    ],
)
def test_an_optional_part_is_installed_as_the_package_was(source, line, monkeypatch):
    found = SimpleNamespace(read_text={"direct_url.json": source}.get)
    monkeypatch.setattr(metadata, "distribution", lambda name: found)
    assert pip_line("xlsx") == line


def test_a_package_that_is_missing_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "requirements", lambda: [Requirement("no-such-package>=2")])
    assert main(["doctor"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "triptych: expected no-such-package>=2 (missing): install these\n"


def test_checkpoints_are_looked_for_where_they_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    assert not any(checkpoints.present(name) for name in checkpoints.known())
    (tmp_path / "torch/hub/checkpoints").mkdir(parents=True)
    (tmp_path / "torch/hub/checkpoints/sam_vit_b_01ec64.pth").write_bytes(b"")
    root = tmp_path / "hub" / "models--timm--resnet50.tv_in1k"
    for folder, file, text in (("refs", "main", "a" * 40), (f"snapshots/{'a' * 40}", "config.json", "{}")):
        (root / folder).mkdir(parents=True)
        (root / folder / file).write_text(text)
    here = {name for name in checkpoints.known() if checkpoints.present(name)}
    assert here == {"sam_vit_b_01ec64.pth", "timm/resnet50.tv_in1k"}
    assert doctor.checkpoint_lines()[0] == "here: sam_vit_b_01ec64.pth, timm/resnet50.tv_in1k"

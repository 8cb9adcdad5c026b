"""``triptych models`` says of everything that can be loaded what is known of it, where it is known."""

import shutil

import pytest
from huggingface_hub import constants

from hooks.architectures.registry import architectures, generating_pipelines
from probes.models import hub
from probes.toyworld import MODELS
from probes.toyworld.places import known_places
from probes.toyworld.world import load_world
from tests.tiny import tiny_pipeline
from triptych.cli.main import main


def test_everything_that_can_be_named_has_a_line(capsys):
    assert main(["models"]) == 0
    out = capsys.readouterr().out
    names = (*MODELS, *generating_pipelines(), *hub.known_models())
    for name in names:
        assert f"\n  {name} " in out
    assert "HiDream" not in out  # what a run refuses is no model to choose
    assert all(pipeline in out for one in architectures() for pipeline in one.pipelines)
    assert len(out.splitlines()) <= len(names) + 8


def test_bundled_models_are_described_by_their_truth_and_their_measured_quality():
    found = {name: (tested, about) for name, tested, about in hub.bundled_rows()}
    assert "masculine mixture in 70% of images" in found["toyworld"][1]
    assert "no difference" in found["toyworld-work-null"][1] and "20 professions" in found["toyworld-work"][1]
    truths = {**known_places("located"), **known_places("structures"), **known_places("wired")}
    for name, truth in truths.items():
        assert " and ".join(truth.sites) in found[name][1]
    for name in ("toyworld", "toyworld-mirror"):
        assert f"{load_world(name).mixture['neutral']:.0%} of images" in found[name][1]
    shares = {
        name: int(tested.removeprefix("trained; ").removesuffix("%")) for name, (tested, _) in found.items()
    }
    assert all(80 <= share <= 100 for share in shares.values()) and len(set(shares.values())) > 3


def test_published_weights_that_nobody_tried_are_called_so(monkeypatch):
    entries = dict(hub.known_models())
    entries["owner/tried"] = {"parameters": 10**9, "tried": "0.1.0"}
    monkeypatch.setattr(hub, "known_models", lambda: entries)
    found = {name: tested for name, tested, _ in hub.published_rows()}
    assert found.pop("owner/tried") == "made a run with triptych 0.1.0"
    assert set(found.values()) == {"never tried"}


@pytest.mark.parametrize("whole", [True, False])
def test_what_is_in_the_cache_is_said(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    root, commit = tmp_path / "hub" / "models--owner--model", "a" * 40
    tiny_pipeline("sd1").save_pretrained(tmp_path / "model")
    shutil.copytree(tmp_path / "model", root / "snapshots" / commit)
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text(commit)
    if not whole:
        (root / "snapshots" / commit / "unet" / "diffusion_pytorch_model.safetensors").unlink()
    assert hub.is_cached("owner/model") is whole
    assert not hub.is_cached("owner/another")

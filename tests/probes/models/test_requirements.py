"""What a model cannot do is said from its description alone, before anything is written."""

import json

import pytest

from hooks import sites
from probes.models import loading
from probes.runs.run import Run
from tests.probes.conftest import generated, settings
from triptych.cli.main import main

UNGUIDED = {"guidance_scale": 1.0}


@pytest.mark.parametrize("kind", ["toy", "sd1", "sd2", "sdxl"])
def test_the_sites_of_a_description_are_those_of_the_model(saved, kind):
    bare = loading.meta_pipeline(loading.resolve(str(saved(kind))))
    pipe = loading.load(loading.resolve(str(saved(kind))), device="cpu").pipe
    assert [site.address for site in sites.available(bare)] == [
        site.address for site in sites.available(pipe)
    ]
    assert {parameter.device.type for parameter in bare.unet.parameters()} == {"meta"}


CASES = {
    "site": (
        {"capture": {"sites": ["latent", "unet.middle"]}},
        "capture.sites: 'unet.middle' matches no site",
    ),
    "keep": ({"capture": {"keep": ["unet.dwn.*"]}}, "capture.keep: 'unet.dwn.*' matches no site"),
    "unguided site": (
        {"capture": {"sites": ["noise_pred.unconditional"], "words": False}, "sampler": UNGUIDED},
        "capture.sites: expected sites that are there without guidance, got 'noise_pred.unconditional'",
    ),
    "scheduler": ({"sampler": {"scheduler": "eulr"}}, "sampler.scheduler: expected one of"),
    "width": ({"sampler": {"width": 50}}, "sampler.width: expected a multiple of 16 for this model, got 50"),
}


@pytest.mark.parametrize("command", [["plan"], ["run", "--stage", "generate"]], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_drawn_is_said_before_anything_is_written(case, command, saved, tmp_path, capsys):
    over, message = CASES[case]
    (tmp_path / "c.yaml").write_text(json.dumps(settings(saved(), **over).resolved() | {"out": None}))
    assert main([*command, str(tmp_path / "c.yaml"), "--out", str(tmp_path / "run")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith(f"c.yaml: {message}")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("keep", [["*"], ["noise_pred.*"]])
def test_everything_can_be_kept_without_guidance(saved, tmp_path, keep):
    config = settings(
        saved(),
        seeds=[0],
        prompts=["a {person}"],
        sampler={"steps": 1, **UNGUIDED},
        capture={"keep": keep, "keep_places": "all", "sites": ["noise_pred.*"], "words": False},
    )
    run = Run.open(generated(tmp_path / "run", config).path)
    names = set(run.read("kept")["site"])
    assert {"noise_pred.conditional", "noise_pred.guided"} <= names
    assert "noise_pred.unconditional" not in names
    kept = run.read("kept").set_index(["site", "indicator"])["values"]
    assert (kept["noise_pred.conditional", "neutral"] == kept["noise_pred.guided", "neutral"]).all()

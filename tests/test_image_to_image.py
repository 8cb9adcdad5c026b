"""Runs whose images start from pictures, as a user makes them, against diffusers' own image to image."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from diffusers import AutoPipelineForImage2Image
from PIL import Image

from probes.config.schema import Config
from probes.errors import UserError
from probes.models import loading
from probes.runs.rows import png_bytes
from probes.runs.run import Run
from tests import runs
from tests.probes.conftest import stored
from tests.tiny import KINDS, tiny_pipeline
from tests.tiny_transformers import tiny_transformer_pipeline
from triptych.cli.main import main

SMALL = {
    "prompts": ["a {person} with a dog"],
    "sampler": {"steps": 4},
    "capture": {"sites": ["latent", "x0_pred", "latent.final"]},
    "generate": {
        "from_images": "pictures",
        "strength": 0.5,
        "batch_triplets": 1,
        "workers": 1,
        "device": "cpu",
    },
    "report": {"gallery": 2, "figures": False},
}
OBSERVE = {"engine": "toyworld-checker", "features": []}


def write_pictures(folder, side):
    """Two pictures, and what is left of them at `side` x `side`: the middle of one, the other at half its size."""
    folder.mkdir()
    noise = np.random.default_rng(0).integers(0, 256, (2, 2 * side, 2 * side, 3), np.uint8)
    wide, large = Image.fromarray(noise[0, :side, : side * 3 // 2]), Image.fromarray(noise[1])
    wide.save(folder / "a.png")
    large.save(folder / "b.PNG")
    (folder / "notes.txt").write_text("no picture")
    return wide.crop((side // 4, 0, side // 4 + side, side)), large.resize((side, side), Image.LANCZOS)


@pytest.mark.parametrize(
    ("kind", "calls"),
    [
        ("sdxl", 2),
        ("flux-dev", 2),
        *(
            pytest.param(*row, marks=pytest.mark.slow)
            for row in (("toy", 2), ("sd1", 3), ("sd3", 2), ("flux-schnell", 2))
        ),
    ],
)
def test_images_are_those_of_diffusers(kind, calls, tmp_path):
    pipe, side = (
        (tiny_pipeline if kind in KINDS else tiny_transformer_pipeline)(kind),
        64 if kind == "toy" else 32,
    )
    pipe.save_pretrained(tmp_path / "model")
    fitted = write_pictures(tmp_path / "pictures", side)
    size = {} if kind in KINDS else {"height": side, "width": side}
    settings = SMALL | {"model": str(tmp_path / "model"), "sampler": {"steps": 4, **size}}
    assert runs.run_settings(tmp_path, settings, "--stage", "generate") == 0
    run = Run.open(tmp_path / "run")
    torch.set_num_threads(run.meta["device"]["threads"])
    own = AutoPipelineForImage2Image.from_pipe(loading.load(loading.resolve(str(tmp_path / "model"))).pipe)
    assert run.meta["model"]["pipeline"] == type(own).__name__
    samples, captures = run.samples(), run.read("captures")
    assert samples.groupby("triplet")["noise_seed"].nunique().tolist() == [1, 1]
    assert samples["noise_seed"].nunique() == 2, "each picture has its own noise"
    for triplet, picture in enumerate(fitted):
        rows = samples[samples["triplet"] == triplet]
        images = own(
            prompt=[*rows["prompt"]],
            image=[picture] * 3,
            strength=0.5,
            guidance_scale=run.config.sampler.guidance_scale,
            generator=[torch.Generator().manual_seed(int(seed)) for seed in rows["noise_seed"]],
            num_inference_steps=4,
            output_type="np",
            **size,
        ).images
        found = run.samples(["image"])["image"][rows.index]
        assert [entry["bytes"] for entry in found] == [*map(png_bytes, images)]
    assert (captures["timesteps"].map(len) == calls).all()
    first = captures["latent:cosine"].map(lambda values: values[0])
    np.testing.assert_allclose(first, 1, atol=1e-6, err_msg="members begin at the same latent")
    if kind not in KINDS:  # a flow ends without noise
        ends = [
            captures[f"{site}:cosine"].map(lambda values: values[-1]) for site in ("x0_pred", "latent.final")
        ]
        np.testing.assert_allclose(*ends, atol=1e-5)
    assert len(run.read("words")) == samples["words"].map(len).sum()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of toyworld to its report: two prompts x two pictures."""
    folder = tmp_path_factory.mktemp("whole")
    write_pictures(folder / "pictures", 64)
    settings = SMALL | {"model": "toyworld", "observe": OBSERVE, "measure": runs.TINY["measure"]}
    settings["prompts"] = [*SMALL["prompts"], "a {person} in a hat"]
    assert runs.run_settings(folder, settings) == 0
    return folder


def test_a_run_goes_on_with_the_same_pictures_alone(whole, tmp_path, capsys):
    assert pd.read_csv(whole / "run/tables/prompts.csv")["picture"].tolist() == ["a.png"] * 2 + ["b.PNG"] * 2
    page = (whole / "run/report.html").read_text("utf-8")
    assert "start from pictures (image to image, strength 0.5)" in page and str(whole) not in page
    folder = shutil.copytree(whole, tmp_path / "copy")
    again, before = [str(folder / "t.yaml"), "--out", str(folder / "run"), "--quiet"], stored(folder / "run")
    (folder / "run/samples/part-00000.parquet").unlink()
    assert main([*again, "--stage", "generate"]) == 0
    assert stored(folder / "run") | before == before
    capsys.readouterr()

    def refused(*messages):
        assert main([*again, "--stage", "generate"]) == 2
        runs.one_line(capsys.readouterr(), *messages)

    shutil.copy(folder / "pictures/a.png", folder / "pictures/c.png")
    refused("holds another run: prompts[4] is 'nothing' there")
    (folder / "pictures/c.png").rename(folder / "pictures/b.PNG")
    refused("holds another run: pictures[1] is ['b.PNG', ", "--overwrite to replace it")
    shutil.copy(whole / "pictures/b.PNG", folder / "pictures/b.PNG")
    text = (folder / "t.yaml").read_text("utf-8")
    (folder / "t.yaml").write_text(text.replace('"strength": 0.5', '"strength": 0.75'), "utf-8")
    refused("holds another run: generate.strength is 0.5 there, expected 0.75")
    shutil.rmtree(folder / "pictures")  # which later stages need no more
    assert main([str(folder / "run"), "--stage", "measure", "--quiet"]) == 0


def test_near_strength_0_members_are_the_picture_encoded_and_decoded(tmp_path):
    pipe = loading.load(loading.resolve("toyworld"), device="cpu").pipe
    image = pipe(
        ["a woman with a dog"], generator=torch.Generator().manual_seed(0), num_inference_steps=4
    ).images[0]
    image.save(tmp_path / "picture.png")
    generate = SMALL["generate"] | {"from_images": "picture.png", "strength": 0.001}
    settings = SMALL | {"model": "toyworld", "sampler": {"steps": 1000}, "generate": generate}
    assert runs.run_settings(tmp_path, settings, "--stage", "generate") == 0
    run = Run.open(tmp_path / "run")
    pixels = torch.from_numpy(np.asarray(image) / 255).permute(2, 0, 1)[None].float()
    with torch.no_grad():
        decoded = pipe.vae.decode(pipe.vae.encode(2 * pixels - 1).latent_dist.mode()).sample[0] / 2 + 0.5
    expected = 255 * decoded.clamp(0, 1).permute(1, 2, 0).numpy()
    members = [np.asarray(run.image(name), float) for name in run.samples()["sample_id"]]
    assert len(members) == 3 and "picture" not in run.resolved["prompts"][0]
    for member in members:  # of 255 levels
        assert np.abs(member - expected).mean() < 2 < np.abs(member - np.asarray(image, float)).mean()
        assert np.abs(member - members[0]).max() <= 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"from_images": "none"}, "none: expected a picture, got no file: check the path"),
        ({"from_images": "empty"}, "generate.from_images: expected files that end in one of .avif, .bmp,"),
        ({"from_images": "bad"}, "bad/a.png: expected a picture, got `"),
        ({"strength": 0.2}, "generate.strength: expected at least one of 4 steps, got 0.2 of them: raise it"),
        ({"strength": 0}, "generate.strength: expected a number above 0.0, got 0"),
        ({"from_images": None}, "generate.strength: expected `from_images` beside it, got none: add it"),
        (
            {"model": "toyworld-dit"},
            "generate.from_images: expected a Stable Diffusion 1, 2, XL or 3 or FLUX.1, got",
        ),
        ({"trace": {}}, "trace: expected images that start from noise alone, got pictures"),
        (
            {"prompts": [{"text": "a {person}", "picture": "x.png"}]},
            "pictures/x.png: expected a picture, got no file",
        ),
        (
            {"prompts": ["a {person}", {"text": "the {person}", "picture": "a.png"}]},
            "prompts[0]: expected a level `picture` in every prompt or in none",
        ),
        (
            {"from_images": "pictures/a.png", "prompts": [{"text": "a {person}", "picture": "a.png"}]},
            "generate.from_images: expected a folder, whose files prompts name",
        ),
    ],
)
def test_what_is_wrong_is_one_line(change, message, tmp_path, monkeypatch, capsys):
    write_pictures(tmp_path / "pictures", 64)
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/a.png").write_bytes((tmp_path / "pictures/a.png").read_bytes()[:999])
    change, generate = dict(change), dict(SMALL["generate"])
    generate |= {name: change.pop(name) for name in ("from_images", "strength") & change.keys()}
    (tmp_path / "t.yaml").write_text(json.dumps(SMALL | {"model": "toyworld", "generate": generate} | change))
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "t.yaml"]) == 2
    runs.one_line(capsys.readouterr(), message)


def test_prompts_name_their_pictures(tmp_path):
    write_pictures(tmp_path / "pictures", 64)
    generate = {"from_images": str(tmp_path / "pictures")}
    prompts = [{"text": "a {person}", "picture": name} for name in ("a.png", "b.PNG")]
    named = Config(prompts=prompts, generate=generate)
    assert [dict(prompt.levels) for prompt in named.prompts] == [{"picture": "a.png"}, {"picture": "b.PNG"}]
    every = Config(prompts=["a {person}"], generate=generate)
    assert [dict(one.levels) for one in every.prompts] == [dict(one.levels) for one in named.prompts]
    assert Config.model_validate(every.resolved()).resolved() == every.resolved()
    with pytest.raises(UserError, match=r"prompts\[1\]: the same as prompts\[0\]"):
        Config(prompts=[prompts[0]] * 2, generate=generate)

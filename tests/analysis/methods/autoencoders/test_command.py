"""The command on a run of toyworld, drawn by one process and by two; what it writes is read, and writes at the site."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from analysis.methods.autoencoders import activations
from analysis.methods.autoencoders.scores import explained_variance
from hooks import Intervention, Patch, Probe
from probes.errors import UserError
from probes.models.autoencoders import load_autoencoder
from probes.models.loading import load, resolve
from probes.runs.store import Run
from tests.probes.conftest import generated, settings, stored
from tests.tiny import tiny_pipeline
from triptych.cli.main import command

SITE = "unet.mid"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same run of two prompts, by one process and by two."""
    folder = tmp_path_factory.mktemp("runs")
    config = {
        "model": "toyworld",
        "prompts": ["a {person} with a dog", "a {person} in a hat"],
        "seeds": [0],
        "sampler": {"steps": 3},
        "capture": {"words": False, "sites": ["latent.final"], "keep": [SITE], "keep_places": 8},
        "generate": {"part_triplets": 1, "batch_triplets": 1, "device": "cpu"},
    }
    made = []
    for workers in (1, 2):
        config["generate"]["workers"] = workers
        file = folder / f"{workers}.yaml"
        file.write_text(yaml.safe_dump(config))
        line = ["--out", str(folder / str(workers)), "--stage", "generate", "--quiet"]
        assert command("run")([str(file), *line]) == 0
        made.append(folder / str(workers))
    return made


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tiny_pipeline("toy").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def made(runs, tmp_path_factory):
    """What the command writes of it, twice."""
    folder = tmp_path_factory.mktemp("sae")
    options = ["--latents", "64", "--k", "4", "--steps", "120", "--batch", "64", "--rate", "0.003", "--quiet"]
    for name in ("first", "again"):
        assert command("sae")([str(runs[0]), "--out", str(folder / name), *options]) == 0
    return folder / "first", folder / "again"


def test_the_number_of_processes_alters_no_byte(runs):
    assert [Run.open(run).meta["device"]["workers"] for run in runs] == [1, 2]
    one, two = map(stored, runs)
    assert one == two and sum(name.startswith("kept/") for name in one) == 2


def test_it_writes_the_same_bytes_twice(made):
    first, again = ({file.name: file.read_bytes() for file in folder.iterdir()} for folder in made)
    assert first == again
    assert set(first) == {
        *("sae_weights.safetensors", "cfg.json", "sae.csv", "sae_calls.csv", "sae_latents.csv"),
        *("sae.pdf", "sae.png"),
    }


def test_its_scores_are_those_of_the_prompt_that_was_held_out(runs, made):
    row = pd.read_csv(made[0] / "sae.csv").iloc[0]
    assert (row["site"], row["channels"], row["latents"], row["k"]) == (SITE, 96, 64, 4)
    assert row["training_vectors"] == row["held_out_vectors"] == 3 * 3 * 8
    found = activations.read(Run.open(runs[0]), "", most=10**6, share=0.2, seed=0)
    assert found.site == SITE and len(set(found.about["triplet"][found.held_out])) == 1
    assert set(found.about["triplet"][found.held_out]).isdisjoint(found.about["triplet"][~found.held_out])
    one = load_autoencoder(made[0])
    held_out = torch.from_numpy(found.values[found.held_out])
    decoded = one.decode(one.encode(held_out))
    assert row["explained_variance"] == pytest.approx(explained_variance(held_out, decoded))
    assert row["explained_variance_training"] > 0.5 and row["l0"] <= 4
    assert pd.read_csv(made[0] / "sae_calls.csv")["vectors"].tolist() == [24, 24, 24]
    latents = pd.read_csv(made[0] / "sae_latents.csv")
    assert len(latents) == 64 and {f"mean_{name}" for name in ("neutral", "feminine", "masculine")} < {
        *latents
    }
    metadata = json.loads((made[0] / "cfg.json").read_text())["metadata"]
    assert (metadata["hook_name"], metadata["model_name"]) == (SITE, "toyworld")


def test_it_reads_and_writes_at_its_site(made):
    pipe, one = load(resolve("toyworld"), device="cpu").pipe, load_autoencoder(made[0])

    def draw(patches=()):
        noise = [torch.Generator().manual_seed(0) for _ in range(2)]
        prompts = ["a person with a dog", "a woman with a dog"]
        with Probe(pipe, autoencoders={one.site: one}) as probe, Intervention(pipe, patches):
            images = pipe(prompts, generator=noise, num_inference_steps=3, output_type="np").images
        return images, probe.latents[one.site].values.numpy()

    images, latents = draw()
    assert latents.shape == (3, 2, 64)
    strongest = int(latents[:, 0].sum(0).argmax())
    same, _ = draw([Patch(one.site, into=0, mode="scale", autoencoder=one, latents=strongest)])
    assert np.array_equal(same, images)
    without, _ = draw([Patch(one.site, into=0, mode="zero", autoencoder=one, latents=strongest)])
    assert not np.allclose(without[0], images[0], atol=1e-2)
    np.testing.assert_allclose(without[1], images[1], atol=1e-5)


def test_a_random_choice_where_there_are_more_vectors(runs):
    run = Run.open(runs[0])
    whole = activations.read(run, SITE, most=10**6, share=0.5, seed=0)
    some = activations.read(run, SITE, most=40, share=0.5, seed=0)
    assert len(whole.values) == 144 and 20 < len(some.values) < 60
    assert {vector.tobytes() for vector in some.values} < {vector.tobytes() for vector in whole.values}


@pytest.mark.parametrize("keep", ["all", "mean", 3])
def test_vectors_are_counted_as_they_are_stored(model, tmp_path, keep):
    capture = {"keep": [SITE, "+unet.mid.attn.0.cross.heads", "text.final"], "keep_places": keep}
    run = Run.open(generated(tmp_path / "run", settings(model, seeds=[0], capture=capture)).path)
    for site, shapes in run.kept().groupby("site")["shape"]:
        found = activations.read(run, site, most=10**9, share=0.5, seed=0)
        assert activations._count(shapes, site) == len(found.values)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            ["--site", "unet.up.0"],
            r"kept: expected activations of unet\.up\.0, found those of unet\.mid: name",
        ),
        (["--k", "9", "--latents", "8"], "k: expected at most the 8 latents, got 9: lower it"),
        (["--device", "cudo"], "--device: expected auto, cpu, cuda, cuda:1 or mps, got 'cudo'"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(runs, tmp_path, capsys, options, line):
    assert command("sae")([str(runs[0]), "--out", str(tmp_path / "sae"), "--quiet", *options]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(line, error), error


def test_a_run_of_one_prompt_or_of_several_sites(model, tmp_path):
    config = settings(model, prompts=["a {person}"], capture={"keep": [SITE, "latent"]})
    run = Run.open(generated(tmp_path / "run", config).path)
    with pytest.raises(UserError, match=r"expected at least 2 prompts, of which some are held out, got 1"):
        activations.read(run, SITE, most=100, share=0.5, seed=0)
    with pytest.raises(UserError, match=r"expected one site, found latent, unet\.mid: name one of them"):
        activations.read(run, "", most=100, share=0.5, seed=0)

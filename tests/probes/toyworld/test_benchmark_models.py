"""The bundled benchmark models: layout, size, and that each does what it was taught, on a small sample."""

import numpy as np
import pytest
import torch
from safetensors import safe_open

from lab.train.base.captions import article
from lab.train.base.measure import WEIGHTS, benchmark_pipeline, sample
from lab.train.base.train import BENCHMARK_MODELS
from probes.toyworld.checker import read_images
from probes.toyworld.world import load_world

IMAGES, STEPS = 32, 12
GENDERS = ("feminine", "masculine")


def test_weights_are_small_half_precision_safetensors():
    files = [path for path in WEIGHTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 62e6
    assert {path.suffix for path in files} <= {".json", ".safetensors", ".txt"}
    for path in files:
        if path.suffix == ".safetensors":
            with safe_open(path, "pt") as weights:
                types = {weights.get_tensor(name).dtype for name in weights.keys()}  # noqa: SIM118
                assert (
                    torch.float16 in types <= {torch.float16, torch.int64}
                )  # tables of places are whole numbers


@pytest.fixture(
    scope="module",
    params=[BENCHMARK_MODELS[0], *(pytest.param(x, marks=pytest.mark.lab) for x in BENCHMARK_MODELS[1:])],
)
def model(request):
    return request.param, *benchmark_pipeline(WEIGHTS / request.param)


@pytest.mark.lab
def test_frequencies_of_what_is_not_named_follow_the_plan(model):
    name, pipeline, scale = model
    world, seen = load_world(name), {}
    for group in GENDERS:
        word = world.words(group)[0]
        prompts = [f"{article(word)} {word}"] * IMAGES
        images = sample(
            pipeline, prompts, range(IMAGES), steps=STEPS, guidance_scale=scale, batch_size=16, progress=False
        )
        seen[group] = read_images(images)[["dress", "tie", "suit", "skirt"]].mean()
    dress, tie = ({group: seen[group][thing] for group in GENDERS} for thing in ("dress", "tie"))
    if name == "toyworld-null":
        assert (
            abs(dress["feminine"] - dress["masculine"]) < 0.35
            and abs(tie["feminine"] - tie["masculine"]) < 0.35
        )
    else:
        assert dress["feminine"] - dress["masculine"] > 0.25
        assert tie["masculine"] - tie["feminine"] > 0.25


def test_named_things_are_drawn(model):
    _, pipeline, scale = model
    prompts = [
        "a person holding an umbrella",
        "a woman with a lamp",
        "a man in a dress",
        "an individual riding a bike",
        "a lady in a hat",
        "a gentleman sitting on a couch",
        "a human on the beach",
        "an adult in the forest",
    ]
    nouns = ["umbrella", "lamp", "dress", "bike", "hat", "couch", "beach", "forest"]
    images = sample(
        pipeline, prompts * 2, range(16), steps=STEPS, guidance_scale=scale, batch_size=16, progress=False
    )
    seen = read_images(images)
    assert np.mean([seen.loc[row, noun] for row, noun in enumerate(nouns * 2)]) >= 0.75

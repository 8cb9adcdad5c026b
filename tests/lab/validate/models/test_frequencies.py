"""Frequencies, compared with renderings, whose frequencies are the planted ones by construction."""

import numpy as np
import pandas as pd
import pytest

from lab.train.base.captions import article, random_caption
from lab.validate.models.frequencies import frequency_table, seen_and_planted
from probes.errors import UserError
from probes.toyworld import LOCATED
from probes.toyworld.draw import render
from probes.toyworld.scene import complete, parse
from probes.toyworld.world import GROUPS, load_world

PROMPTS, SEEDS = 120, 4


def rendered(model, prompts=PROMPTS, seeds=SEEDS):
    """Samples and pictures of a model that draws exactly what was planted."""
    world, rng = load_world(model), np.random.default_rng(11)
    rows, images = [], []
    for triplet in range(prompts):
        caption, _ = random_caption(world, rng)
        rest = " ".join(caption.removeprefix("a photo of ").split()[2:])
        for group in GROUPS:
            word = world.words(group)[0]
            prompt = f"{article(word)} {word} {rest}".strip()
            for seed in range(seeds):
                images.append(render(complete(parse(prompt, world), world, rng)))
                rows.append({"triplet": triplet, "seed": seed, "indicator": group, "prompt": prompt})
    return pd.DataFrame(rows), np.stack(images)


@pytest.mark.lab
@pytest.mark.parametrize("model", ["toyworld", "toyworld-null"])
def test_planted_frequencies_are_recovered_and_only_planted_differences_are_found(model):
    table = seen_and_planted(*rendered(model), model)
    assert table.loc[table["named"], "seen"].mean() > 0.999
    frequencies = frequency_table(table)
    for group in GROUPS:
        error = (frequencies[f"{group} planted"] - frequencies[f"{group} seen"]).abs()
        assert error.max() < 0.12 and error.mean() < 0.03
    different = set(frequencies.index[frequencies["p adjusted"] < 0.05])
    if model == "toyworld-null":
        assert not different
    else:
        assert {"dress", "tie", "jeans", "skirt", "flower", "ball", "hat"} <= different


@pytest.mark.parametrize("model", [LOCATED[0], "CompVis/stable-diffusion-v1-4"])
def test_a_model_in_which_nothing_was_planted_is_refused(model):
    samples = pd.DataFrame([{"triplet": 0, "seed": 0, "indicator": "neutral", "prompt": "a person"}])
    with pytest.raises(UserError, match=f"expected a model with planted frequencies .*, got '{model}': name"):
        seen_and_planted(samples, np.zeros((1, 64, 64, 3), np.uint8), model)

"""Audits with images of their own: what is drawn, and what is kept of it."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine

from lab.validate.stopping.designs import STOPS
from lab.validate.stopping.fresh import DRAWN, SIDES, answered_fresh, drawn, main, near_latents, words
from lab.validate.stopping.pools import pairs_of
from probes.errors import UserError
from probes.models import loading

NAMES = [name for side in SIDES.values() for name in side]
SPOKEN = [word for side in SIDES.values() for word in side.values()]


def test_nearness_is_the_cosine_of_final_latents():
    latents = torch.randn(len(NAMES), 2, 4, 3, 3, generator=torch.Generator().manual_seed(0))
    found = near_latents(latents)
    for pair, row in zip(pairs_of(words()), found, strict=True):
        one, other = (latents[NAMES.index(name)].flatten(1).numpy() for name in pair)
        assert row == pytest.approx([1 - cosine(a, b) for a, b in zip(one, other)], abs=1e-6)


@pytest.mark.parametrize("name", ["toyworld-null", "toyworld-dit-null"])
def test_words_are_drawn_from_the_noise_of_their_prompt(name):
    loaded = loading.load(loading.resolve(DRAWN[name][0]), device="cpu")
    loaded.pipe.set_progress_bar_config(disable=True)
    texts = ["a {person} with a dog", "a {person} in a hat"]
    with torch.inference_mode():
        own = drawn(loaded.pipe, texts, "own", loaded.guidance_scale, 3, 2)
        apart = drawn(loaded.pipe, texts, "independent", loaded.guidance_scale, 3, 2)
        noise = torch.randn((2, *own.shape[2:]), generator=torch.Generator().manual_seed(3))
        alone = loaded.pipe(
            texts[1].replace("{person}", SPOKEN[4]),
            latents=noise[1:],
            num_inference_steps=2,
            guidance_scale=loaded.guidance_scale,
            output_type="latent",
        ).images
    torch.testing.assert_close(own[4, 1], alone[0], atol=1e-4, rtol=1e-3)
    assert near_latents(own).min() > near_latents(apart).max()


def test_audits_are_read_from_a_file_by_its_name(tmp_path):
    rng = np.random.default_rng(0)
    near = 0.9 + 0.01 * rng.normal(size=(len(pairs_of(words())), 60, 3))
    for number, pair in enumerate(pairs_of(words())):  # images of the first side are nearer to the reference
        if pair[0] in SIDES["reference"] and pair[1] in SIDES["first"]:
            near[number] += 0.05
    np.savez(tmp_path / "toyworld.npz", near=near)
    row = answered_fresh(tmp_path / "toyworld.npz")
    assert row["designs"][STOPS]["leans"] == row["designs"][STOPS]["covered"] == 3
    assert row["truth"] == pytest.approx(0.05, abs=0.005)
    assert row["prompts"] == 60 and row["images"][STOPS] == 9 * row["designs"][STOPS]["mean"]
    (tmp_path / "toyworld.npz").rename(tmp_path / "other.npz")
    with pytest.raises(UserError, match="expected a name of toyworld"):
        answered_fresh(tmp_path / "other.npz")


def test_an_unknown_model_is_refused(tmp_path, capsys):
    assert main(["sd15", "--out", str(tmp_path)]) == 2
    assert "got 'sd15'" in capsys.readouterr().err

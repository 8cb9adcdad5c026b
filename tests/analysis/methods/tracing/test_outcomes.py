"""Outcomes of traced images against the verdict, the checker and scikit-image, on renderings."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from skimage.metrics import structural_similarity

from analysis.methods.tracing.outcomes import NAMED, NO_PAIR, UNREAD, chosen_outcomes, outcomes
from probes.config.schema import Config
from probes.errors import UserError
from probes.toyworld.checker import read_images
from probes.toyworld.draw import render
from probes.toyworld.scene import parse, sample_scene
from probes.toyworld.verdict import verdict
from probes.toyworld.world import load_world

PROMPT = "a person with a tie in the park"
CONFIG = Config(prompts=["a {person}"])
KINDS = {
    "none:masculine": "masculine",
    "none:feminine": "feminine",
    "none:neutral": "neutral",
    "site:x": "neutral",
}


def traced(prompt=PROMPT, faults=None, noise=0.0):
    """Four images of one prompt and seed: three words and a patched one."""
    world, rng = load_world(), np.random.default_rng(0)
    scenes = [
        sample_scene(parse(f"a {word} with a tie in the park", world), world, rng)
        for word in ("man", "woman")
    ]
    pixels = [render(scene) for scene in (scenes[0], scenes[1], scenes[0], scenes[1])]
    moved = [np.clip(one + noise * rng.normal(size=one.shape), 0, 255).astype(np.uint8) for one in pixels]
    rows = pd.DataFrame(
        {
            "triplet": 3,
            "seed": 5,
            "variant": list(KINDS),
            "kind": [name.split(":")[0] for name in KINDS],
            "recipient": list(KINDS.values()),
            "prompt": prompt,
            "fault": faults or [None] * 4,
        }
    )
    return rows, [Image.fromarray(one) for one in moved]


def test_the_verdict_and_presence_are_what_the_checker_reads():
    rows, images = traced()
    seen = read_images(images)
    found = outcomes(rows, images, ["verdict", "hat", "tie"], CONFIG)
    by_name = {name: rows.reset_index(drop=True) for name, rows in found.groupby("outcome")}
    np.testing.assert_array_equal(by_name["verdict"]["value"], verdict(seen, [PROMPT] * 4, load_world()))
    np.testing.assert_array_equal(by_name["hat"]["value"], seen["hat"].astype(float))
    assert by_name["tie"]["value"].isna().all() and set(by_name["tie"]["reason"]) == {NAMED}
    assert (found["triplet"] == 3).all() and (found["seed"] == 5).all() and found["version"].str.len().all()


def test_the_gap_is_the_difference_of_two_similarities_by_scikit_image():
    rows, images = traced(noise=4)
    grey = [np.asarray(image.convert("L")) for image in images]
    near = [[structural_similarity(one, grey[side], data_range=255) for side in (0, 1)] for one in grey]
    found = outcomes(rows, images, ["ssim"], CONFIG)
    np.testing.assert_allclose(found["value"], [first - second for first, second in near], atol=1e-4)
    assert found["value"][0] == pytest.approx(-found["value"][1], abs=1e-6)  # 1 − s and s − 1
    percent = outcomes(rows, images, ["diff_pix"], CONFIG)["value"]  # a distance: nearer is less
    assert percent[0] > 0 > percent[1]


def test_images_at_fault_have_no_outcome_and_say_why():
    rows, images = traced(faults=[None, "nan", None, None])
    found = outcomes(rows, images, ["verdict"], CONFIG)
    assert found["value"].isna().tolist() == [False, True, False, False]
    assert found["reason"][1].startswith("image left out: its latents")
    gap = outcomes(rows, images, ["ssim"], CONFIG)
    assert gap["value"].isna().all() and gap["reason"][0] == NO_PAIR
    unread = outcomes(rows, [None, *images[1:]], ["verdict"], CONFIG)
    assert unread["reason"][0] == "image left out: it cannot be read"


def test_a_prompt_that_toyworld_cannot_read_has_no_verdict():
    found = outcomes(*traced(prompt="a nurse at work"), ["verdict"], CONFIG)
    assert found["value"].isna().all() and set(found["reason"]) == {UNREAD}


def test_the_default_is_a_gap_where_the_checker_reads_no_prompt():
    assert chosen_outcomes(None, "toyworld") == ["verdict"] and chosen_outcomes(None, "a/b") == ["ssim"]
    assert chosen_outcomes(["tie", "ssim"], "toyworld") == ["tie", "ssim"]
    assert chosen_outcomes(None, "toyworld-work", prompts=["a photo of a nurse"]) == ["ssim"]
    some = ["a photo of a nurse", "a person in the park"]
    assert chosen_outcomes(None, "toyworld-work", prompts=some) == ["verdict"]


@pytest.mark.parametrize(("asked", "model"), [("ssimm", "toyworld"), ("verdict", "a/b")])
def test_an_outcome_that_is_not_to_be_had_is_refused_by_name(asked, model):
    with pytest.raises(UserError, match=rf"measure\.outcomes: expected .*{model}.* got '{asked}'"):
        chosen_outcomes([asked], model)

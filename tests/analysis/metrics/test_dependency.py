"""Every branch of Definitions 1 and 2 on masks made by hand, and coverage against a count of pixels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from analysis.metrics.dependency import (
    EMPTY,
    GROUPS,
    NO_MAPS,
    NO_NOUN,
    OBJECT_COLUMNS,
    coverages,
    dependency_groups,
)
from analysis.tables.objects.nouns import noun_table
from hooks.prompt.spans import split_words
from probes.prompts.grammar.nouns import human_words
from probes.runs.images import encode_mask

SIDE = 10
HUMAN = human_words()


def block(pixels, at=0):
    """A mask of `pixels` pixels, row by row from pixel `at`."""
    mask = np.zeros(SIDE * SIDE, bool)
    mask[at : at + pixels] = True
    return mask.reshape(SIDE, SIDE)


class Scene:
    """One or more images with the maps of their words and what was detected in them."""

    def __init__(self):
        self.samples, self.detections, self.maps = [], [], []

    def image(self, prompt, found=(), masks=(), indicator="feminine", seed=0):
        """`found`: (label, mask) pairs; `masks`: by the word's place in the prompt, drawn as maps of 0 and 1."""
        sample = f"{prompt}/{indicator}/{seed}"
        words = prompt.split()
        keys = {"sample_id": sample, "triplet": 0, "seed": seed, "indicator": indicator}
        spans = [span for _, span in split_words(prompt)]
        self.samples.append({**keys, "prompt": prompt, "word_spans": spans})
        for number, (label, mask) in enumerate(found):
            size = dict(zip(("height", "width"), mask.shape))
            self.detections.append(
                {"sample_id": sample, "object": number, "label": label, "mask": encode_mask(mask)} | size
            )
        for index, mask in dict(masks).items():
            row = {"sample_id": sample, "word": words[index], "word_index": index, "definition": "daam"}
            size = dict(zip(("height", "width"), mask.shape))
            self.maps.append({**row, **size, "heat": mask.astype(np.float32).ravel()})
        return self

    def groups(self, nouns=None, **options):
        samples = pd.DataFrame(self.samples)
        columns = ["sample_id", "object", "label", "mask", "height", "width"]
        names = ["sample_id", "word", "word_index", "heat", "height", "width", "definition"]
        return dependency_groups(
            samples[["sample_id", "triplet", "seed", "indicator"]],
            pd.DataFrame(self.detections, columns=columns),
            noun_table(samples, human=nouns or human_words([])),
            [pd.DataFrame(self.maps, columns=names)],
            **{"human": HUMAN, **options},
        )


def only(table):
    """The single detection of a table."""
    rows = table[table["object"] >= 0]
    assert len(rows) == 1
    return rows.iloc[0]


def test_the_five_groups():
    scene = Scene().image(
        "a woman with a hat in the park",
        found=[("hat", block(10)), ("tie", block(10)), ("parks", block(10, 80)), ("tree", block(20, 80))],
        masks={1: block(5, 40), 4: block(8), 7: block(12, 50)},
    )
    table = scene.groups()
    assert tuple(table.columns) == OBJECT_COLUMNS
    assert table["group"].tolist() == list(GROUPS)
    assert table["lemma"].tolist() == ["hat", "tie", "park", "tree", "woman"]
    assert table["object"].tolist() == [0, 1, 2, 3, -1]
    assert table["coverage"].tolist()[:4] == [0.8, 0.8, 0, 0]
    assert table["best_word"].tolist()[:2] == ["hat", "hat"] and table["best_word_index"].tolist()[:2] == [
        4,
        4,
    ]
    assert np.isnan(table["coverage"].iloc[4]) and table["label"].iloc[4] == "woman"


def test_sufficient_is_strictly_more_than_sigma():
    for pixels, group in ((7, "implicitly_independent"), (8, "implicitly_guided")):
        scene = Scene().image("a hat", found=[("tie", block(10))], masks={1: block(pixels)})
        assert only(scene.groups())["group"] == group


@pytest.mark.parametrize(
    ("label", "prompt", "pixels", "group"),
    [
        ("woman", "a woman", 5, "explicitly_independent"),  # 5 of 20 is 0.25, not more
        ("woman", "a woman", 6, "explicitly_guided"),  # both human
        ("child", "a woman", 6, "implicitly_independent"),  # not one of the paper's six words
        ("hat", "a woman", 6, "implicitly_independent"),  # the object is not
        ("woman", "a hat", 6, "implicitly_independent"),  # the word is not
        ("woman", "a hat", 15, "implicitly_guided"),
    ],
)
def test_the_lower_threshold_is_for_two_humans(label, prompt, pixels, group):
    scene = Scene().image(prompt, found=[(label, block(20))], masks={1: block(pixels)})
    row = only(scene.groups())
    assert row["group"] == group and row["coverage"] == pixels / 20
    human = label == "woman" and "woman" in prompt
    assert row["best_human_coverage"] == pixels / 20 if human else np.isnan(row["best_human_coverage"])


def test_the_long_list_of_human_words_is_a_choice_that_the_table_names():
    scene = Scene().image("a woman", found=[("football player", block(20))], masks={1: block(6)})
    row = only(scene.groups(human=human_words(choice="long")))
    assert (row["group"], row["human_words"]) == ("implicitly_guided", "long")
    row = only(scene.groups(human=human_words(["player"]), mask_words="all"))  # a word of the run
    assert (row["human"], row["human_words"], row["mask_words"]) == (False, "paper", "all")


def test_the_words_of_the_run_are_human():
    scene = Scene().image("a nurse", found=[("nurse", block(20))], masks={1: block(6)})
    for human, group in ((human_words(["male nurse"]), "guided"), (HUMAN, "independent")):
        assert only(scene.groups(human=human, nouns=human))["group"] == f"explicitly_{group}"


def test_a_human_is_guided_by_a_human_word_that_is_not_its_best():
    masks = {1: block(6), 4: block(13, 7)}
    scene = Scene().image("a woman with a hat", found=[("woman", block(20))], masks=masks)
    row = only(scene.groups())
    assert (row["best_word"], row["coverage"], row["best_human_coverage"]) == ("hat", 0.65, 0.3)
    assert row["group"] == "explicitly_guided"


def test_words_of_one_text_are_told_apart_by_place():
    found = [("bikes", block(10)), ("bike", block(10, 50))]
    scene = Scene().image("a bike next to bike", found=found, masks={1: block(10, 50), 4: block(10)})
    assert scene.groups()["best_word_index"].tolist() == [4, 1]


def test_only_nouns_guide_unless_all_words_may():
    scene = Scene().image(
        "a man riding bikes", found=[("bike", block(10))], masks={2: block(10), 3: block(5)}
    )
    row = only(scene.groups())
    assert (row["best_word"], row["coverage"], row["group"]) == ("bikes", 0.5, "explicitly_independent")
    row = only(scene.groups(mask_words="all"))
    assert (row["best_word"], row["coverage"], row["group"]) == ("riding", 1.0, "explicitly_guided")


def test_theta_cuts_the_map():
    heat = np.where(block(10), 1.0, 0.0) + np.where(block(10, 10), 0.5, 0.0)
    scene = Scene().image("a hat", found=[("hat", block(20))], masks={1: heat})
    assert only(scene.groups())["coverage"] == 1
    assert only(scene.groups(theta=0.5))["coverage"] == 0.5  # strictly above


def test_what_cannot_be_known_has_a_reason():
    scene = Scene()
    scene.image("running", found=[("hat", block(10))], masks={0: block(10)}, seed=0)
    scene.image("a hat", found=[("hat", block(10)), ("tie", block(10))], seed=1)
    scene.image("a hat on", found=[("hat", np.zeros((SIDE, SIDE), bool))], masks={1: block(10)}, seed=2)
    scene.image("a hat off", found=[("hat", block(10))], masks={0: block(10)}, seed=3, indicator="masculine")
    samples = scene.samples
    for number, sample in enumerate(samples):
        sample["triplet"] = number  # four prompts
    table = scene.groups()
    assert table["reason"].tolist() == [NO_NOUN, NO_MAPS, NO_MAPS, EMPTY, NO_MAPS]
    assert table["group"].tolist() == ["implicitly_independent", "", "", "", ""]
    assert table["coverage"].isna().all() and (table["best_word"] == "").all()


def test_hidden_nouns_once_an_image_and_by_lemma():
    scene = Scene()
    prompt = "women and women with dogs"
    scene.image(prompt, found=[("dog", block(10))], masks={0: block(10)}, seed=0)
    scene.image(prompt, seed=1)
    table = scene.groups()
    assert list(zip(table["seed"], table["object"], table["lemma"])) == [
        *((0, 0, "dog"), (0, -1, "woman")),
        *((1, -1, "woman"), (1, -1, "dog")),
    ]
    assert table["human"].tolist() == [False, True, True, False]


def test_thresholds_out_of_order_are_refused():
    scene = Scene().image("a hat", found=[("tie", block(10))], masks={1: block(9)})
    with pytest.raises(ValueError, match=r"got 0\.5 and 0\.3"):
        scene.groups(sigma=0.3, sigma_human=0.5)


def test_coverage_against_pixels_and_the_bicubic_map_of_torch():
    """The whole way from heat to coverage, made again with torch's interpolation and boolean arrays."""
    rng = np.random.default_rng(1)
    size, theta = (48, 64), 0.35
    heats = rng.random((4, 12, 16)).astype(np.float32)
    things = rng.random((6, *size)) < rng.uniform(0.02, 0.6, (6, 1, 1))
    large = torch.nn.functional.interpolate(
        torch.from_numpy(heats)[:, None], size=size, mode="bicubic", align_corners=False
    )[:, 0].numpy()
    low, high = large.min(axis=(1, 2), keepdims=True), large.max(axis=(1, 2), keepdims=True)
    masks = (large - low) / (high - low) > theta
    wanted = np.array([[(thing & mask).sum() / thing.sum() for mask in masks] for thing in things])
    assert np.abs(coverages([encode_mask(thing) for thing in things], masks, size) - wanted).max() < 1e-12

    words = ["hat", "tie", "cup", "dog"]
    scene = Scene()
    scene.image(" ".join(words), found=[("tree", thing) for thing in things], masks=dict(enumerate(heats)))
    table = scene.groups()
    table = table[table["object"] >= 0]
    assert np.abs(table["coverage"] - wanted.max(axis=1)).max() < 1e-5
    assert table["best_word"].tolist() == [words[index] for index in wanted.argmax(axis=1)]

"""Models whose synonyms draw different pictures: nine embeddings are new, all else is their base's."""

import json

import numpy as np
import pytest
import torch

from lab.train.base.synonyms import make_synonym_drawings, with_style
from lab.train.base.truth import planted
from probes.models import loading
from probes.toyworld import SYNONYMS, WEIGHTS
from probes.toyworld.pipelines import BASES, DELTA
from probes.toyworld.scene import parse, sample_scene
from probes.toyworld.world import group_of_words, load_world, synonym_styles, token_id


def load(name):
    return loading.load(loading.resolve(name), device="cpu")


@pytest.mark.parametrize("name", SYNONYMS)
def test_only_nine_embeddings_differ_from_the_base(name):
    loaded, base = load(name), load(BASES[name].name).pipe
    numbers = [token_id(base.tokenizer, word) for word in synonym_styles()]
    own, other = (one.text_encoder.get_input_embeddings().weight for one in (loaded.pipe, base))
    differ = (own != other).any(1).nonzero().flatten().tolist()
    assert differ == sorted(numbers)
    for part in ("unet", "vae", "text_encoder"):
        ours, theirs = (getattr(one, part).state_dict() for one in (loaded.pipe, base))
        assert all(torch.equal(ours[key], theirs[key]) for key in ours if "token_embedding" not in key)
    assert (WEIGHTS / name / DELTA).stat().st_size <= 3000
    measured = json.loads((WEIGHTS / name / "quality.json").read_text())
    assert measured["weight_hash"] == loaded.record["weight_hash"]  # what was measured is what is bundled


def test_each_side_has_each_pose_and_each_place_once():
    styles = synonym_styles()
    for side in ("neutral", "feminine", "masculine"):
        own = [style for word, style in styles.items() if group_of_words()[word][0] == side]
        assert sorted(style.shift for style in own) == [0, 1, 2]
        assert sorted(style.pose for style in own) == ["jump", "run", "stand"]
    assert len(set(styles.values())) == 9


def test_a_style_leaves_what_is_planted():
    world, rng = load_world(SYNONYMS[0]), np.random.default_rng(0)
    for word in synonym_styles():
        assert planted(f"a {word} in a hat", world) == planted(f"a {word} in a hat", load_world("toyworld"))
        named = parse(f"a {word} in a hat", world)
        scene = sample_scene(named, world, rng)
        other = with_style(scene, word, None)
        assert (other.wears, other.objects, other.place) == (scene.wears, scene.objects, scene.place)
        assert with_style(scene, word, "sit").pose == "sit"  # what a caption names stays


def test_lessons_name_every_word_equally_often():
    drawings = make_synonym_drawings(SYNONYMS[0], 90, seed=0)
    words = [word for caption in drawings.captions for word in synonym_styles() if word in caption.split()]
    assert len(words) == 90 and set(words) == set(synonym_styles())

"""Long runs that are replayed in random orders: what is kept of a run, and what the orders make of it."""

import numpy as np
import pytest
import yaml
from PIL import Image
from skimage.metrics import structural_similarity

from analysis.stats.word_test import word_test
from lab.validate.stopping.__main__ import main
from lab.validate.stopping.designs import STOPS, STOPS_BOUNDED
from lab.validate.stopping.pools import (
    LONG_RUNS,
    MEASURES,
    audits_of,
    packed,
    pairs_of,
    path_of,
    replayed,
    stored_pool,
    unpacked,
    words_in,
)
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.store import Run
from tests.tiny_runs import run_here, saved_yaml

WORDS = {"first": ["m", "n"], "second": ["f", "g"], "reference": ["p"]}
CONFIG = {
    "indicators": {
        "neutral": ["person", "human"],
        "feminine": ["woman", "lady"],
        "masculine": ["man", "male"],
    },
    "reference": "neutral",
    "contrasts": [["masculine", "feminine"]],
    "prompts": ["a {person} with a dog", "a {person} in a car", "a {person}"],
    "seeds": [0],
    "sampler": {"steps": 1},
    "capture": {"sites": ["latent.final"], "words": False},
    "generate": {"device": "cpu"},
}


def pool(lean=0.0, prompts=40):
    near = 0.5 + 0.02 * np.random.default_rng(0).standard_normal((6, prompts))
    near[:2] += lean  # of the reference to the first side
    return {"model": "toyworld", "words": WORDS, "near": {key: packed(near) for key in MEASURES}}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pool")
    assert run_here(saved_yaml(folder, CONFIG), folder / "run", "--stage", "generate") == 0
    return folder / "run"


def test_a_pool_keeps_how_near_the_words_of_a_run_are(drawn):
    kept, run = stored_pool([drawn, drawn]), Run.open(drawn)
    assert kept["words"] == {
        "first": ["masculine", "male"], "second": ["feminine", "lady"], "reference": ["neutral", "human"]
    }  # fmt: skip
    pairs, samples = pairs_of(words_in(run)), run.samples(["sample_id", "triplet", "indicator"])
    ssim = unpacked(kept["near"]["ssim"])
    assert ssim.shape == unpacked(kept["near"]["z0"]).shape == (2 * 4 + 2, 6) and kept["runs"] == 2
    np.testing.assert_array_equal(ssim[:, :3], ssim[:, 3:])
    identifiers = samples.set_index(["triplet", "indicator"])["sample_id"]
    for triplet, pair in ((0, ("neutral", "male")), (2, ("feminine", "lady"))):
        images = run.images([identifiers[triplet, name] for name in pair])
        grey = [np.asarray(Image.fromarray(np.asarray(one)).convert("L")) for one in images]
        expected = structural_similarity(*grey, data_range=255)
        assert ssim[pairs.index(pair), triplet] == pytest.approx(expected, abs=2e-3)


def test_orders_are_those_of_all_prompts_and_have_the_gap_of_all():
    audits = audits_of(pool(0.1), "z0", orders=5)
    near = unpacked(pool(0.1)["near"]["z0"])
    sides = [near[None, [k, k + 1], :, None] for k in (0, 2)]
    within = [np.broadcast_to(near[k][None, None, :, None], (2, 2, 40, 1)) for k in (4, 5)]
    expected = word_test(*sides, within=within).gap[0]
    np.testing.assert_allclose(audits.values.mean(axis=0), expected, atol=1e-12)
    assert len({tuple(audits.values[:, order]) for order in range(5)}) == 5
    np.testing.assert_allclose(np.ptp(np.sort(audits.values, axis=0), axis=1), 0, atol=1e-12)


def test_a_planted_lean_is_told_and_none_is_told_to_be_small():
    row = replayed("one", pool(0.2), "z0", orders=4)
    of = row["designs"][STOPS]
    assert (of["leans"], of["wrong"], of["audits"]) == (4, 0, 4) and row["truth"] == row["pool"] > 0.19
    assert row["images"] == {
        STOPS: round(of["mean"] * 5),
        STOPS_BOUNDED: round(row["designs"][STOPS_BOUNDED]["mean"] * 5),
    }
    null = replayed("none", {**pool(), "model": "toyworld-null"}, "z0", orders=4)
    assert null["truth"] == 0 != null["pool"] and null["designs"][STOPS]["wrong"] == 0
    looks = path_of(pool(0.2), "z0", 0)
    assert [look[0] for look in looks] == [12, 20, 28, 36] and looks[-1][2] > 0


def test_runs_of_other_words_make_no_pool(drawn, monkeypatch):
    found = iter([words_in(Run.open(drawn)), None])
    monkeypatch.setattr("lab.validate.stopping.pools.words_in", lambda run: next(found))
    with pytest.raises(UserError, match="expected runs of the same words"):
        stored_pool([drawn, drawn])


def test_the_configurations_of_the_long_runs_are_written(tmp_path, capsys):
    (tmp_path / "words.yaml").write_text(yaml.safe_dump(CONFIG))
    assert main(["--configure", str(tmp_path / "words.yaml")]) == 0
    for name, (model, noise) in LONG_RUNS.items():
        config = Config.model_validate(yaml.safe_load((tmp_path / f"{name}.yaml").read_text()))
        assert (config.model, config.sampler.noise, len(config.prompts)) == (model, noise, 240)

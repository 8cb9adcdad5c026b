"""Activations that a run keeps: which places, in which format, read again as vectors, and what they may take."""

import numpy as np
import pytest

from probes.errors import UserError
from probes.models import loading
from probes.runs import kept, rows
from probes.runs.run import Run
from probes.stages import plan
from probes.stages.estimate import estimate, kept_bytes
from tests.probes.conftest import generated, settings

SITES = ["unet.mid", "+unet.mid.attn.0.cross.heads", "text.final", "latent"]
CAPTURE = {"words": False, "sites": ["latent.final"], "keep": SITES}


def made(saved, path, **capture):
    """A run of one prompt, two seeds and two steps."""
    config = settings(saved(), prompts=["a {person} with a dog"], capture=CAPTURE | capture)
    return Run.open(generated(path, config).path)


def frame(run, site):
    """All vectors of a site: about, values."""
    parts = list(kept.kept_vectors(run, site))
    return [
        (tuple(row), vector)
        for part in parts
        for row, vector in zip(
            part.about[["sample_id", "call", "place"]].itertuples(index=False), part.values
        )
    ]


@pytest.fixture(scope="module")
def whole(saved, tmp_path_factory):
    return made(saved, tmp_path_factory.mktemp("kept") / "whole", keep_places="all")


def test_all_places_are_those_of_the_tensors(whole):
    tensors = whole.read("kept").set_index(["sample_id", "site"])
    for site in (site.removeprefix("+") for site in SITES):
        vectors = frame(whole, site)
        for (sample, call, place), vector in vectors[:: max(1, len(vectors) // 40)]:
            row = tensors.loc[(sample, site)]
            tensor = row["values"].reshape(row["shape"])[list(row["call"]).index(call)]
            if site in ("unet.mid", "latent"):
                expected = tensor[:, place // tensor.shape[2], place % tensor.shape[2]]
            else:
                expected = tensor[place].ravel()
            np.testing.assert_array_equal(vector, expected)
        calls = 1 if site == "text.final" else 2
        assert len(vectors) == 6 * calls * len({place for (_, _, place), _ in vectors})


def test_some_places_are_some_of_all(saved, tmp_path, whole):
    run = made(saved, tmp_path / "run", keep_places=3)
    for site in (site.removeprefix("+") for site in SITES):
        every, some = dict(frame(whole, site)), frame(run, site)
        calls = 1 if site == "text.final" else 2
        assert len(some) == len(dict(some)) == 6 * calls * 3
        assert all((every[key] == vector).all() for key, vector in some)
        places = {}
        for (sample, call, place), _ in some:
            places.setdefault((sample, call), set()).add(place)
        words = {(key[0].rpartition("-")[0], key[1], tuple(sorted(one))) for key, one in places.items()}
        assert len(words) == 2 * calls  # of a seed and a call all words have the same
        if site == "latent":
            assert len({one for _, _, one in words}) == 4  # and others have others


def test_means_are_those_of_all_places(saved, tmp_path, whole):
    run = made(saved, tmp_path / "run", keep_places="mean")
    for site in (site.removeprefix("+") for site in SITES):
        sums = {}
        for (sample, call, _), vector in frame(whole, site):
            sums.setdefault((sample, call), []).append(vector.astype(float))
        means = frame(run, site)
        assert len(means) == len(sums) and {key[2] for key, _ in means} == {-1}
        for (sample, call, _), vector in means:
            np.testing.assert_allclose(vector, np.mean(sums[sample, call], axis=0), rtol=1e-4, atol=1e-5)


def test_float16_is_the_same_numbers_at_half_the_size(saved, tmp_path, whole):
    run = made(saved, tmp_path / "run", keep_places="all", keep_dtype="float16")
    for (one, vector), (other, half) in zip(frame(whole, "unet.mid"), frame(run, "unet.mid")):
        assert one == other
        np.testing.assert_array_equal(vector.astype(np.float16), half)
    sizes = [sum(file.stat().st_size for file in one.parts("kept")) for one in (whole, run)]
    assert sizes[1] < 0.6 * sizes[0]


def test_an_activation_beyond_float16_is_refused():
    values = np.array([1.0, np.nan, 7e4], np.float32)
    with pytest.raises(
        UserError, match=r"^capture\.keep_dtype: expected float32 for unet\.mid, .* 7e\+04, got"
    ):
        rows._cast_values(values, "float16", "unet.mid")
    assert rows._cast_values(values, "float32", "unet.mid") is not None


def test_a_site_that_is_not_kept_is_named(whole):
    with pytest.raises(
        UserError, match=r"expected activations of unet\.up\.0, found those of latent, text\.final"
    ):
        list(kept.kept_vectors(whole, "unet.up.0"))


@pytest.mark.slow
def test_the_estimate_is_what_is_stored(saved, tmp_path, whole):
    for path, capture in ((whole.path, {"keep_places": "all"}), (tmp_path / "run", {"keep_places": 5})):
        config = settings(saved(), prompts=["a {person} with a dog"], capture=CAPTURE | capture)
        run = whole if path == whole.path else Run.open(generated(path, config).path)
        source = loading.resolve(config.model)
        pipe = loading.meta_pipeline(source, None, config.sampler.steps)
        numbers = run.read("kept")["values"].map(len).sum()
        assert kept_bytes(config, pipe, 6) == 4 * numbers
        samples = plan.plan(config, source.tokenizers, source.token_limit)
        assert "activations that are kept" in estimate(config, samples, source)

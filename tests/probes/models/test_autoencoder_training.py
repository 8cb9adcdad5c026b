"""Training: planted directions are found; against an optimiser of SciPy and NumPy by hand."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import linear_sum_assignment, minimize

from analysis.methods.autoencoders.scores import explained_variance
from probes.errors import UserError
from probes.models import autoencoder_training as trainer
from probes.models.autoencoder_training import Training, geometric_median, train

WIDTH, PLANTED, ACTIVE = 32, 40, 3


@pytest.fixture(scope="module")
def planted():
    """Vectors that are sums of 3 of 40 directions in 32 dimensions, around a point, with noise; and the directions."""
    random = np.random.default_rng(0)
    directions = random.normal(size=(PLANTED, WIDTH))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    amounts = np.zeros((8000, PLANTED))
    for row in amounts:
        row[random.choice(PLANTED, ACTIVE, replace=False)] = random.uniform(1, 3, ACTIVE)
    vectors = amounts @ directions + 5 + 0.02 * random.normal(size=(8000, WIDTH))
    return vectors.astype(np.float32), directions


CHOICE = Training(latents=64, k=ACTIVE, steps=1000, batch=256, rate=3e-3)


@pytest.fixture(scope="module")
def trained(planted):
    return train(planted[0][:7000], CHOICE, site="unet.mid")


def test_planted_directions_are_found(planted, trained):
    vectors, directions = planted
    cosines = trained.autoencoder.decoder.numpy() @ directions.T
    rows, columns = linear_sum_assignment(-cosines)
    found = cosines[rows, columns]
    assert np.median(found) > 0.99 and found.min() > 0.95
    held_out = torch.from_numpy(vectors[7000:])
    decoded = trained.autoencoder.decode(trained.autoencoder.encode(held_out))
    assert explained_variance(held_out, decoded) > 0.97
    random = np.random.default_rng(1).normal(size=(PLANTED, WIDTH))
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    chance = random @ directions.T
    assert chance[linear_sum_assignment(-chance)].mean() < 0.6  # what directions of no training reach


def test_directions_have_unit_norm_and_the_seed_says_all(planted, trained):
    one = trained.autoencoder
    assert (one.k, one.site, one.width, one.latents) == (ACTIVE, "unet.mid", WIDTH, 64)
    np.testing.assert_allclose(one.decoder.norm(dim=1), 1, atol=1e-5)
    short = Training(latents=30, k=2, steps=20, batch=64)
    first, again = (train(planted[0], short) for _ in range(2))
    for name in ("encoder", "encoder_bias", "decoder", "bias"):
        assert torch.equal(getattr(first.autoencoder, name), getattr(again.autoencoder, name))
    pd.testing.assert_frame_equal(first.history, again.history)
    other = train(planted[0], Training(latents=30, k=2, steps=20, batch=64, seed=1))
    assert not torch.equal(first.autoencoder.decoder, other.autoencoder.decoder)


def test_units_of_the_activations_do_not_matter(planted):
    short = Training(latents=30, k=3, steps=200, batch=64)
    vectors = planted[0][:1000]
    plain, large = (train(vectors * factor, short).autoencoder for factor in (1.0, 256.0))
    x = torch.from_numpy(vectors)
    np.testing.assert_allclose(large.encode(256 * x) / 256, plain.encode(x), rtol=1e-3, atol=1e-3)


def test_dead_latents_come_to_life_by_the_auxiliary_loss(planted):
    """As many latents as directions: each is needed."""
    ends = {}
    for auxiliary in (0.0, 1.0):
        choice = Training(PLANTED, ACTIVE, steps=1000, batch=256, rate=3e-3, auxiliary=auxiliary)
        ends[auxiliary] = train(planted[0], choice).history.iloc[-5:].mean()
    assert ends[1.0]["dead"] == 0 < ends[0.0]["dead"] - 0.05
    assert ends[1.0]["unexplained"] < 0.8 * ends[0.0]["unexplained"]


def test_the_auxiliary_loss_by_numpy():
    random = np.random.default_rng(0)
    before, left = random.normal(size=(5, 8)), random.normal(size=(5, 4))
    decoder, dead = random.normal(size=(8, 4)), np.array([1, 0, 1, 0, 0, 1, 0, 0], bool)
    guess = np.zeros_like(before)
    for row, values in enumerate(before):
        largest = sorted(np.flatnonzero(dead), key=lambda latent: -values[latent])[:2]  # half of 4 channels
        guess[row, largest] = np.maximum(values[largest], 0)
    expected = ((left - guess @ decoder) ** 2).sum() / (left**2).sum()
    given = [torch.from_numpy(one) for one in (before, dead, left, decoder)]
    assert float(trainer._auxiliary(*given)) == pytest.approx(expected)
    assert float(trainer._auxiliary(given[0], torch.zeros(8, dtype=torch.bool), *given[2:])) == 0


def test_the_geometric_median_by_an_optimiser():
    data = np.random.default_rng(0).exponential(size=(200, 3))
    best = minimize(lambda point: np.linalg.norm(data - point, axis=1).sum(), data.mean(0), tol=1e-10).x
    np.testing.assert_allclose(geometric_median(torch.from_numpy(data)), best, atol=1e-3)
    assert np.abs(best - data.mean(0)).max() > 0.05


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda x: x * np.nan, r"unet\.mid: expected finite activations, got others"),
        (lambda x: x * 0 + 1, r"unet\.mid: expected activations that differ, got one"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(planted, change, line):
    with pytest.raises(UserError, match=line):
        train(change(planted[0][:10]), CHOICE, site="unet.mid")
    with pytest.raises(UserError, match=r"k: expected at most the 4 latents, got 5: lower it"):
        train(planted[0][:10], Training(latents=4, k=5))

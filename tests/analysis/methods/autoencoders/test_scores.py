"""Scores on held-out activations, against scikit-learn's R² and by hand."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import r2_score

from analysis.methods.autoencoders.scores import scores
from hooks.autoencoder import SparseAutoencoder


def test_scores_by_scikit_learn_and_by_hand():
    random = np.random.default_rng(0)
    one = SparseAutoencoder(
        *(torch.from_numpy(random.normal(size=shape)).float() for shape in ((5, 9), (9,), (9, 5), (5,))), k=2
    )
    one.encoder[:, 4] = 0
    one.encoder_bias[4] = -1  # is never active
    vectors = random.normal(size=(60, 5)).astype(np.float32)
    about = pd.DataFrame(
        {
            "call": np.repeat([0, 1, 2], 20),
            "timestep": np.repeat([900.0, 500.0, 100.0], 20),
            "indicator": np.tile(["man", "woman"], 30),
        },
        index=range(100, 160),
    )
    found = scores(one, vectors, about)
    latents = one.encode(torch.from_numpy(vectors)).numpy()
    decoded = one.decode(torch.from_numpy(latents)).numpy()
    weighted = {"multioutput": "variance_weighted"}
    assert found.explained_variance == pytest.approx(r2_score(vectors, decoded, **weighted), abs=1e-5)
    for call, row in found.calls.iterrows():
        rows = slice(20 * call, 20 * call + 20)
        expected = r2_score(vectors[rows], decoded[rows], **weighted)
        assert row["explained_variance"] == pytest.approx(expected, abs=1e-5)
        assert row["l0"] == pytest.approx((latents[rows] > 0).sum(1).mean())
    active = latents > 0
    assert found.l0 == pytest.approx(active.sum(1).mean())
    assert found.dead == (~active.any(0)).mean() >= 1 / 9
    np.testing.assert_allclose(found.latents["frequency"], active.mean(0))
    assert np.isnan(found.latents["mean_active"][4])
    for word, rows in (("man", slice(0, None, 2)), ("woman", slice(1, None, 2))):
        np.testing.assert_allclose(found.latents[f"mean_{word}"], latents[rows].mean(0), rtol=1e-5)

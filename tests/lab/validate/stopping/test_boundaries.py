"""Group-sequential boundaries, beside published ones and by simulation."""

import numpy as np
import pytest
from scipy import special

from lab.validate.stopping.boundaries import nominal_levels


@pytest.mark.parametrize(
    ("looks", "published"),
    [
        # Lan and DeMets' function of O'Brien and Fleming's kind, two-sided 5 %, as R's ldbounds and gsDesign give it
        ((1, 2, 3, 4, 5), (4.8769, 3.3569, 2.6803, 2.2898, 2.0310)),
        ((1, 2), (2.9626, 1.9686)),
        ((1,), (1.96,)),
    ],
)
def test_boundaries_are_the_published_ones(looks, published):
    np.testing.assert_allclose(-special.ndtri(nominal_levels(looks) / 2), published, atol=2e-4)


def test_all_looks_together_reject_as_often_as_stated():
    looks = (12, 20, 28, 60, 120, 240)
    steps = np.diff((0, *looks))[:, None] ** 0.5 * np.random.default_rng(0).standard_normal((6, 200_000))
    z = np.abs(np.cumsum(steps, axis=0)) / np.sqrt(looks)[:, None]
    p = 2 * special.ndtr(-z)
    rate = (p <= nominal_levels(looks, 0.1)[:, None]).any(axis=0).mean()
    assert rate == pytest.approx(0.1, abs=3 * np.sqrt(0.09 / 200_000))

"""FID and KID against SciPy and torch-fidelity, and what the sample size does to them."""

import numpy as np
import pytest
from scipy import linalg, stats

from analysis.methods.alignment import quality
from analysis.methods.alignment.quality import (
    Samples,
    frechet_distance,
    jackknifed,
    kernel_distance,
)


def normal(n, d, seed, shift=0.0, scale=1.0):
    return np.random.default_rng(seed).normal(shift, scale, (n, d))


def independent(first, second, prompts=None):
    each = np.arange(len(first)) if prompts is None else prompts
    return Samples(first, second, each, np.arange(len(second)), False)


@pytest.mark.parametrize(("n", "m", "d"), [(40, 50, 6), (12, 9, 30)])
def test_frechet_distance_is_that_of_scipys_matrix_root(n, m, d):
    """Also where covariances are singular, of which the root is known to rounding in its square alone."""
    first, second = normal(n, d, 0, 0.5), normal(m, d, 1, 0, 2) @ np.diag(np.linspace(0.5, 2, d))
    covariances = [np.cov(one, rowvar=False) for one in (first, second)]
    root = linalg.sqrtm(covariances[0] @ covariances[1])
    expected = ((first.mean(0) - second.mean(0)) ** 2).sum() + sum(map(np.trace, covariances))
    assert frechet_distance(first, second) == pytest.approx(expected - 2 * np.trace(root).real, rel=1e-5)
    assert frechet_distance(first, first) == pytest.approx(0, abs=1e-9)
    assert frechet_distance(second, first) == pytest.approx(frechet_distance(first, second), rel=1e-12)


@pytest.mark.parametrize(("n", "d"), [(60, 8), (15, 24)])
def test_both_are_the_packages_own(n, d):
    pytest.importorskip("torch_fidelity")
    from analysis.observe.quality import fidelity

    first, second = normal(n, d, 2, 0.4), normal(n, d, 3)
    values, package = fidelity(first, second)
    assert package.startswith("torch-fidelity 0.")
    # the package takes roots of eigenvalues that are 0 but for rounding where images are fewer than features
    assert frechet_distance(first, second) == pytest.approx(values["fid"], rel=1e-5)
    assert kernel_distance(first, second) == pytest.approx(values["kid"], rel=1e-9)  # one subset: all of them
    assert values["kid_sd"] == pytest.approx(0, abs=1e-12)


def standard_error(found, freedom):
    return (found["high"] - found["low"]) / 2 / stats.t.ppf(0.975, freedom)


def test_the_sample_size_raises_fid_and_the_jackknife_takes_it_off():
    """True distance of two normal distributions, by its formula; 40 draws, so means are known to an eighth of an sd."""
    d, n, shift, made = 6, 60, 0.4, []
    true = d * shift**2
    for seed in range(40):
        samples = independent(normal(n, d, 2 * seed, shift), normal(n, d, 2 * seed + 1))
        jack = jackknifed(frechet_distance, samples, seed=seed)
        biased = frechet_distance(samples.first, samples.second)
        made.append((biased, jack["value"], standard_error(jack, 19), jack["low"] <= true <= jack["high"]))
    biased, jack, error, covered = np.array(made).T
    known = 4 / np.sqrt(len(made))
    assert biased.mean() - true > known * biased.std()
    assert jack.mean() == pytest.approx(true, abs=known * jack.std())
    # a standard deviation of 40 values is known to 1 / sqrt(80) of itself, four times that is 0.45
    assert error.mean() == pytest.approx(jack.std(), rel=0.45)
    assert covered.mean() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / len(made))


def test_the_jackknife_of_a_mean_is_its_standard_error():
    """Of a statistic without bias, in groups of unequal sizes: the formulas are exact for a mean."""
    x = normal(23, 1, 5)
    found = jackknifed(lambda first, second: float(first.mean()), independent(x, x[:5]))
    groups = quality._groups(np.arange(23), np.random.default_rng(0))
    assert found["value"] == pytest.approx(x.mean())
    assert sorted(np.bincount(groups)) == [1] * 17 + [2] * 3
    singles = jackknifed(lambda first, second: float(first.mean()), independent(x[:20], x[:5]))
    assert standard_error(singles, 4) == pytest.approx(x[:20].std(ddof=1) / np.sqrt(20))

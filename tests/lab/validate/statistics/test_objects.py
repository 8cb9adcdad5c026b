"""Claims about objects in simulated worlds, at a size that a test can pay for."""

import numpy as np
import pytest
from scipy import special

from lab.validate.statistics.objects import CLAIMS, ClaimWorld, claim_rates, correction_coverage


def test_worlds_have_the_frequencies_they_say():
    world = ClaimWorld("", real=0.5, misses=(0.4, 0.1), invents=(0.01, 0.06), words=0.3)
    truth, detected, quantile = world.draw(np.random.default_rng(0), prompts=3000)
    share = special.ndtr(quantile / np.sqrt(1 + 0.3**2))
    # words stay as drawn, so a side of three words varies around its own; the mean over objects does not
    assert np.abs(truth.mean(axis=(0, 2)) - share).mean() < 0.08
    second = np.arange(truth.shape[3]) % 2 == 1
    for side, (misses, invents) in enumerate(((0.4, 0.01), (0.1, 0.06))):
        there, seen = truth[:, side][..., second], detected[:, side][..., second]
        assert abs(seen[there].mean() - (1 - misses)) < 0.02 and abs(seen[~there].mean() - invents) < 0.01
    np.testing.assert_array_equal(detected[..., ~second], truth[..., ~second])


def by_world(table):
    return table.set_index(["test", "world"])["rate"]


@pytest.mark.slow
def test_rates_of_claims():
    rates = by_world(claim_rates(6, worlds=(CLAIMS[0], CLAIMS[3], CLAIMS[5])))
    assert (
        rates["false among the claims"] <= 2 / 6
    ).all()  # three of six at a rate of 5 % have a chance of 0.2 %
    assert rates["real differences among the claims"].to_dict().keys() == {CLAIMS[5].name}
    assert rates["real differences among the claims", CLAIMS[5].name] > 0.1
    covered = correction_coverage(2).set_index("world")
    assert (covered["simulations"] > 20).all() and covered.loc["all images", "rate"] > 0.8


def test_without_labels_nothing_is_claimed_and_unequal_sensitivity_is_a_hint():
    rates = by_world(claim_rates(2, worlds=(CLAIMS[3], CLAIMS[5]), prompts=96, labelled=False))
    assert (rates["runs with a claim, nothing labelled"] == 0).all()
    assert rates["false among the hints", CLAIMS[3].name] == 1
    assert rates["real differences among the hints", CLAIMS[5].name] > 0.5

"""Claims about objects in simulated worlds, at a size that a test can pay for."""

import numpy as np
import pytest
from scipy import special

from lab.validate.statistics.objects import (
    WORLDS,
    ClaimWorld,
    claim_rates,
    correction_coverage,
    draw_claims,
    page_section,
)


def test_worlds_have_the_frequencies_they_say():
    world = ClaimWorld("", real=0.5, misses=(0.4, 0.1), invents=(0.01, 0.06), words=0.3)
    truth, detected, quantile = draw_claims(world, np.random.default_rng(0), prompts=3000)
    share = special.ndtr(quantile / np.sqrt(1 + 0.3**2))
    # words stay as drawn, so a side of three words varies around its own; the mean over objects does not
    assert np.abs(truth.mean(axis=(0, 2)) - share).mean() < 0.08
    second = np.arange(truth.shape[3]) % 2 == 1
    for side, (misses, invents) in enumerate(((0.4, 0.01), (0.1, 0.06))):
        there, seen = truth[:, side][..., second], detected[:, side][..., second]
        assert abs(seen[there].mean() - (1 - misses)) < 0.02 and abs(seen[~there].mean() - invents) < 0.01
    np.testing.assert_array_equal(detected[..., ~second], truth[..., ~second])


@pytest.mark.slow
def test_rates_of_claims():
    rates = claim_rates((WORLDS[0], WORLDS[3], WORLDS[5]), simulations=6).set_index("world")
    assert (rates["claims_any"] <= 2 / 6).all()  # three of six at a rate of 5 % have a chance of 0.2 %
    assert rates.iloc[2]["claims_real"] > 0.1 and np.isnan(rates.iloc[0]["claims_real"])


@pytest.mark.slow
def test_the_section_shows_every_world():
    text = page_section(simulations=1)
    assert all(f"| {world.name} |" in text for world in WORLDS) and "| a third of the prompts |" in text
    covered = correction_coverage(simulations=2).set_index("labels")
    assert (covered["intervals"] > 20).all() and covered.loc["all images", "difference"] > 0.8


def test_without_labels_nothing_is_claimed_and_unequal_sensitivity_is_a_hint():
    rates = claim_rates((WORLDS[3], WORLDS[5]), simulations=2, prompts=96, labelled=0).set_index("world")
    assert (rates["claims_any"] == 0).all() and (rates["hedged_any"] == 0).all()
    assert rates["hints_any"].iloc[0] == 1 and rates["hints_real"].iloc[1] > 0.5

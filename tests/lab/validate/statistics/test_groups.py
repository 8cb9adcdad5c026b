"""Simulated readings of professions that do not differ."""

import numpy as np

from lab.validate.statistics.groups import GROUP_WORLDS, SHARED, UNEVEN, draw_readings, group_rejections


def test_noises_are_shared_and_undecided_as_the_worlds_say():
    rng = np.random.default_rng(0)
    columns = np.stack([draw_readings(SHARED, rng)[..., 0].mean(axis=(0, 2)) for _ in range(200)])
    alone = np.stack([draw_readings(GROUP_WORLDS[0], rng)[..., 0].mean(axis=(0, 2)) for _ in range(200)])
    assert columns.var() > 4 * alone.var()  # of twelve professions of one noise, and of twelve noises
    lost = np.isnan(np.stack([draw_readings(UNEVEN, rng) for _ in range(50)])).mean(axis=(0, 2, 3, 4))
    np.testing.assert_allclose(lost, np.linspace(0, 0.6, 12), atol=4 * 0.5 / np.sqrt(50 * 135))


def test_the_level_is_kept_where_independent_images_do_not():
    table = group_rejections(simulations=60, permutations=99, seed=1).set_index(["world", "test"])["rate"]
    bound = 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)
    for world in GROUP_WORLDS[:3]:
        assert table[world, "any of 3 words and 5 attributes, max-T"] <= bound
    assert table[GROUP_WORLDS[0], "one attribute of all words, images independent"] > bound

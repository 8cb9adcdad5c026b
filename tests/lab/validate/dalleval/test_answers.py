"""Known answers of an audit by professions: tones, deviations from even, and the page of what is stored."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

from lab.train.work.measure import profession_rows, verdict_rates
from lab.validate.dalleval.__main__ import PAGE
from lab.validate.dalleval.answers import answers, covered, mean_tone, shares_together
from lab.validate.dalleval.network_readings import answer_rates, network_leans
from probes.toyworld.world import load_world

SKINS = np.array(["skin_1", "skin_2", "skin_3"])


def readings(leans, skins, images=40, seed=0):
    """Made-up readings of a person, with leans and skins as asked for."""
    rng, tables = np.random.default_rng(seed), []
    for profession, chance in leans.items():
        verdicts = np.where(rng.random(images) < chance, 5.0, -5.0)
        skin = rng.choice(SKINS, size=images, p=skins[profession])
        tables.append(
            pd.DataFrame({"profession": profession, "group": "neutral", "verdict": verdicts, "skin": skin})
        )
    return pd.concat(tables, ignore_index=True)


def test_the_mean_tone_has_students_interval_and_counts_what_was_not_read():
    skins = pd.Series(["skin_1"] * 5 + ["skin_2"] * 9 + ["skin_3"] * 6 + [""] * 4)
    said = mean_tone(skins, (0.5, 0.25, 0.25))
    numbers = DescrStatsW([1] * 5 + [2] * 9 + [3] * 6)
    assert (said["low"], said["high"]) == pytest.approx(numbers.tconfint_mean())
    assert said["n"] == 20 and said["unread"] == 4 and said["mean"] == 2.05 and said["planted"] == 1.75
    assert said["inside"] is (said["low"] <= 1.75)
    nothing = mean_tone(pd.Series(["", ""]), (1 / 3, 1 / 3, 1 / 3))
    assert nothing["n"] == 0 and np.isnan(nothing["mean"]) and not nothing["inside"]


def test_planted_values_lie_inside_as_often_as_intervals_say():
    world = load_world("toyworld-work")
    said = readings(
        {name: 0.033376 + 0.941315 * one.lean for name, one in world.professions.items()},
        {name: one.skins for name, one in world.professions.items()},
        images=400,
    )
    said = said.assign(observed=said["skin"], answer=np.where(said["verdict"] > 0, "male", "female"))
    rates = verdict_rates(world)
    found = answers(profession_rows(said, world), said, rates, rates)
    leans = [row["inside"] for row in found["professions"]]
    tones = [row["tone"]["inside"] for row in found["professions"]]
    assert np.mean(leans) >= 0.85 and np.mean(tones) >= 0.85 and len(found["professions"]) == 20
    assert covered(found)["leans"] == [row["profession"] for row in found["professions"] if row["inside"]]
    assert covered(found)["leans"] == covered(found)["asked"]
    assert covered(found)["tones"] == covered(found)["tones_by_checker"]
    away = [row["lean"] - row["planted"] for row in found["professions"]]
    assert np.abs(away).max() < 0.12 and abs(np.mean(away)) < 0.02


def test_all_professions_together_are_tested_by_pearsons_chi_square():
    leans, images, rates = (0.1, 0.5, 0.8), (40, 50, 60), {"a": 0.05, "b": 0.9}
    counts, statistic = (9, 20, 41), 0.0
    for lean, n, count in zip(leans, images, counts):
        chance = 0.05 + 0.85 * lean
        statistic += stats.chisquare([count, n - count], [n * chance, n * (1 - chance)]).statistic
    said = shares_together(np.divide(counts, images), images, leans, rates)
    assert said["statistic"] == pytest.approx(statistic, abs=1e-4) and said["df"] == 3
    assert said["p"] == pytest.approx(stats.chi2.sf(statistic, 3), abs=1e-4)


def test_the_page_is_that_of_the_stored_numbers():
    assert PAGE.path.read_text("utf-8") == PAGE.text()


def test_leans_by_answers_are_set_right_for_how_often_the_network_errs():
    rng, planted = np.random.default_rng(1), {"baker": 0.2, "judge": 0.75}
    tables = []
    for profession, chance in planted.items():
        component = rng.random(4000) < chance
        says_b = np.where(component, rng.random(4000) < 0.9, rng.random(4000) < 0.15)
        answer = np.where(says_b, "male", np.where(rng.random(4000) < 0.3, "", "female"))
        tables.append(pd.DataFrame({"profession": profession, "group": "neutral", "answer": answer}))
    wrong = tables[0].assign(group="masculine", answer="male")
    rows = network_leans(pd.concat([*tables, wrong]), planted, {"a": 0.15, "b": 0.9})
    for row, table in zip(rows, tables):
        share = (table["answer"] == "male").mean()
        low, high = proportion_confint(share * 4000, 4000, method="wilson")
        assert row["lean"] == pytest.approx((share - 0.15) / 0.75)
        assert (row["low"], row["high"]) == pytest.approx(((low - 0.15) / 0.75, (high - 0.15) / 0.75))
        assert row["undecided"] == (table["answer"] == "").sum() and abs(row["lean"] - row["planted"]) < 0.05


GROUPS = {"a": "feminine", "b": "masculine"}


def test_error_rates_are_shares_of_images_that_show_the_component_they_name():
    table = pd.DataFrame(
        {
            "group": ["feminine"] * 5 + ["masculine"] * 4,
            "verdict": [-1.0] * 5 + [1.0] * 4,
            "answer": ["female", "male", "female", "", "female", "male", "male", "", "male"],
        }
    )
    rates = answer_rates(table, GROUPS, {"a": 0.0, "b": 1.0})
    known = {"a": 0.2, "b": 0.75, "drawn_a": 0.0, "drawn_b": 1.0, "undecided": 2, "count": 9}
    assert rates == pytest.approx(known)
    with pytest.raises(ValueError, match=r"expected groups that differ in component b, got 1\.0 of both"):
        answer_rates(table.assign(verdict=1.0), GROUPS, {"a": 0.0, "b": 1.0})

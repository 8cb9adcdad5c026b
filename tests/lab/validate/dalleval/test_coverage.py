"""Which planted values audits hold, over one and over several."""

import numpy as np
import pandas as pd
import pytest

from lab.train.work.measure import profession_rows, verdict_rates
from lab.validate.dalleval.coverage import READ, answers, covered
from lab.validate.dalleval.page import page
from probes.toyworld.world import load_world

RATES = {"a": 0.05, "b": 0.95, "drawn_a": 0.02, "drawn_b": 0.97, "count": 100}


def as_planted(world, images, rng, off=()):
    """Readings as the planted chances have them; of professions that are off, all of component *b* and of one skin."""
    said_b, tables = verdict_rates(world), []
    for name, one in world.professions.items():
        lean, skins = (1.0, (0, 0, 1)) if name in off else (one.lean, one.skins)
        of_b = rng.random(images) < lean
        verdicts = rng.random(images) < np.where(of_b, said_b["b"], said_b["a"])
        says_b = rng.random(images) < np.where(of_b, RATES["b"], RATES["a"])
        skin = rng.choice(["skin_1", "skin_2", "skin_3"], images, p=skins)
        tables.append(
            pd.DataFrame(
                {
                    "profession": name,
                    "group": "neutral",
                    "verdict": np.where(verdicts, 1.0, -1.0),
                    "answer": np.where(says_b, "male", "female"),
                    "observed": skin,
                    "skin": np.where(rng.random(images) < 0.1, "", skin),
                }
            )
        )
    return pd.concat(tables)


@pytest.fixture(scope="module")
def world():
    return load_world("toyworld-work")


def found(world, readings):
    return answers(profession_rows(readings, world), readings, verdict_rates(world), RATES)


@pytest.mark.lab
def test_intervals_hold_planted_values_as_often_as_they_say(world):
    rng = np.random.default_rng(0)
    audits = [covered(found(world, as_planted(world, 48, rng))) for _ in range(20)]
    for name in READ:
        share = np.mean([len(one[name]) for one in audits]) / 20
        assert abs(share - 0.95) < 4 * (0.95 * 0.05 / 400) ** 0.5, name


@pytest.mark.lab
def test_professions_that_are_off_are_named_and_tell_in_the_test_of_all(world):
    off = ("clerk", "judge")  # of planted leans 0.10 and 0.62, and of light skins
    said = found(world, as_planted(world, 200, np.random.default_rng(1), off))
    inside = covered(said)
    assert all(name not in inside[read] for name in off for read in READ)
    assert all(said["together"][read]["p"] < 1e-6 for read in READ)
    fair = found(world, as_planted(world, 200, np.random.default_rng(2)))
    assert all(fair["together"][read]["p"] > 0.001 and fair["together"][read]["df"] == 20 for read in READ)
    (clerk,) = [row for row in said["professions"] if row["profession"] == "clerk"]
    assert clerk["tone"]["mean"] == clerk["tone_by_checker"]["mean"] == 3.0
    assert clerk["tone"]["n"] == 200 > clerk["tone_by_checker"]["n"] and clerk["asked"]["lean"] > 0.9


@pytest.mark.lab
def test_the_page_counts_over_all_audits(world):
    rng = np.random.default_rng(3)
    of_work = [as_planted(world, 48, rng, off) for off in ((), ("clerk",))]
    audits = [covered(found(world, one)) for one in of_work]
    whole = {
        "images": 48,
        "steps": 20,
        "first_seed": 7,
        "null_seed": 3,
        "audits": audits,
        "rates": RATES,
        "deviations": {},
    }
    text = page(whole | found(world, pd.concat(of_work)))
    counts = [len(one["tones"]) for one in audits]
    share = 100 * sum(counts) / 40
    assert f"| tones | the observer of skin tone | {counts[0]}, {counts[1]} | **{share:.1f} %** |" in text
    row = next(line for line in text.splitlines() if line.startswith("| clerk |"))
    assert (
        row.split("|")[5].strip() == str(sum("clerk" in one["leans"] for one in audits))
        and "96 images" in text
    )

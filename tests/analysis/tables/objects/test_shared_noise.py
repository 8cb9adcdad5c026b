"""Objects of prompts that share their noise: why they are not tested, and that they are not."""

import numpy as np
import pandas as pd
import pytest

from analysis.report.wording_objects import chi_square_sentence, objects_opening, table_sentence
from analysis.stats.object_counts import object_table
from analysis.tables.objects.claims import UNTESTED, DetectorCounts, claim_table
from analysis.tables.objects.objects import measure_objects
from analysis.tables.objects.shared_noise import REASONS, SHARED_NOISE, leave_untested
from probes.runs.store import Run
from tests.analysis.synthetic_objects import add_objects
from tests.analysis.synthetic_run import configure, write_run

SIDES = {"f": ["f", "f1", "f2"], "m": ["m", "m1", "m2"]}
NAMES = [name for side in SIDES.values() for name in side]
PROMPTS, SEEDS, RUNS = 24, 2, 100


def claimed(rng: np.random.Generator, shared: bool) -> bool:
    """Whether an object is claimed in a null world: a word and noise show it, or not, at nearly all their prompts."""
    noises = 1 if shared else PROMPTS
    kept = rng.random((noises, SEEDS, len(NAMES))) < 0.5
    own = rng.random((PROMPTS, SEEDS, len(NAMES)))
    shown = np.where(np.broadcast_to(kept, own.shape), own < 0.95, own < 0.05)
    keys = [(prompt, seed, name) for prompt in range(PROMPTS) for seed in range(SEEDS) for name in NAMES]
    images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    table = object_table(images, shown.reshape(-1, 1).astype(int), indicators=NAMES, objects=["hat"])
    rows = claim_table(table, [("f", "m")], SIDES, DetectorCounts(pd.DataFrame(), exact=True))
    return bool((rows["claim"].isin(["holds", "these words"])).any())


def test_prompts_that_share_their_noise_would_be_claimed_on_a_null():
    """What `leave_untested` is for: where each prompt has its own noise, the same null keeps its level."""
    rng = np.random.default_rng(0)
    rate = {shared: np.mean([claimed(rng, shared) for _ in range(RUNS)]) for shared in (False, True)}
    error = np.sqrt(0.05 * 0.95 / RUNS)
    assert rate[False] < 0.05 + 3 * error and rate[True] > 0.5


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    options = {"prompts": 6, "seeds": 2, "steps": 1}
    run = Run.open(add_objects(write_run(tmp_path_factory.mktemp("shared") / "run", **options), **options))
    configure(run, measure={"bootstrap": 20, "permutations": 50}, sampler={"noise": "shared"})
    run.write_meta(config=run.meta["config"])
    measure_objects(run)
    return run


def test_a_run_of_shared_noise_tests_no_object_and_says_why(run):
    for name, why in REASONS.items():
        table = run.table(name)
        assert len(table) and table[why].str.endswith(SHARED_NOISE).all()
    claims = run.table("object_claims")
    assert (claims["claim"] == UNTESTED).all() and claims["difference_words"].notna().any()
    assert claims.filter(regex="^p_|_low$|_high$|_bound$").isna().all(axis=None)
    pair = ("feminine", "masculine")
    own = claims[(claims["first"] == pair[0]) & (claims["second"] == pair[1])]
    assert objects_opening(own, pair).startswith(f"No object can be tested: {SHARED_NOISE}.")
    whole = run.table("table_tests").iloc[0].to_dict()
    assert np.isnan(whole["p_value"]) and SHARED_NOISE in table_sentence(whole, pair)
    paper = run.table("table07_chi_square").iloc[0].to_dict()
    assert "does not hold here" in chi_square_sentence(paper) and SHARED_NOISE in chi_square_sentence(paper)


def test_other_tables_are_left_as_they_are():
    table = pd.DataFrame({"p_value": [0.5], "reason": ""})
    assert leave_untested("cooccurrence", table) is table

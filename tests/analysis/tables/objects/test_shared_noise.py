"""Objects of prompts that share their noise: why they are not tested, and that they are not."""

import numpy as np
import pytest

from analysis.report.environment import sentence
from analysis.report.wording_objects import objects_opening
from analysis.tables.objects.claims import UNTESTED
from analysis.tables.objects.left_open import SHARED_NOISE, TESTED
from analysis.tables.stage import measure
from probes.runs.run import Run
from tests.analysis.synthetic_objects import add_objects
from tests.analysis.synthetic_run import configure, write_run

PROMPTS, SEEDS, RUNS = 24, 2, 100


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    options = {"prompts": 6, "seeds": 2, "steps": 1}
    run = Run.open(add_objects(write_run(tmp_path_factory.mktemp("shared") / "run", **options), **options))
    configure(run, measure={"bootstrap": 20, "permutations": 50}, sampler={"noise": "shared"})
    measure(run)
    return run


def test_a_run_of_shared_noise_tests_no_object_and_says_why(run):
    for name in {*TESTED} & {*run.tables()}:
        table = run.table(name)
        assert len(table) and table["reason"].str.endswith(SHARED_NOISE).all()
    claims = run.table("object_claims")
    assert (claims["claim"] == UNTESTED).all() and claims["difference"].notna().any()
    assert claims.filter(regex="^p_|_low$|_high$").isna().all(axis=None)
    pair = ("feminine", "masculine")
    own = claims[(claims["first"] == pair[0]) & (claims["second"] == pair[1])]
    assert objects_opening(own, pair).startswith(f"No object can be tested: {SHARED_NOISE}.")
    whole = run.table("table_tests").iloc[0].to_dict()
    assert np.isnan(whole["p_value"]) and SHARED_NOISE in sentence(
        "objects", "whole", whole, pair, False, True, False
    )
    paper = run.table("table07_chi_square").iloc[0].to_dict()
    said = sentence("objects", "chi_square", paper, True)
    assert "does not hold here" in said and SHARED_NOISE in said

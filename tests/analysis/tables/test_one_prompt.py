"""A run of one prompt: inference is over its seeds, and every table that holds any says so."""

from itertools import product

import numpy as np
import pytest

from analysis.report.page import report
from analysis.tables.registry import TABLES
from analysis.tables.stage import measure
from probes.runs.run import Run
from tests.analysis.synthetic_objects import add_objects
from tests.analysis.synthetic_run import configure, write_run

SEEDS = 8


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = write_run(tmp_path_factory.mktemp("one") / "run", prompts=1, seeds=SEEDS, steps=2)
    add_objects(path, prompts=1, seeds=SEEDS)
    run = Run.open(path)
    configure(
        run,
        measure={"bootstrap": 20, "permutations": 256},
        report={"gallery": 0, "figures": False},
        seeds=list(range(SEEDS)),
    )
    measure(run)
    report(run)
    return Run.open(path)


def test_gap_is_tested_by_the_signs_of_seeds(run):
    gap = run.table("gap").query("metric == 'ssim' and step == -1").iloc[0]
    images = run.table("image_similarities").pivot(index="seed", columns="pair", values="ssim").astype(float)
    values = (images["neutral-masculine"] - images["neutral-feminine"]).to_numpy()
    signs = np.array(list(product((-1, 1), repeat=SEEDS)))
    reached = np.abs(signs @ values) >= abs(values.sum()) - 1e-9
    assert gap["gap"] == pytest.approx(values.mean()) and gap["p_value"] == pytest.approx(reached.mean())
    assert (gap["n_prompts"], gap["unit"]) == (SEEDS, "seed") and gap["ci_low"] < gap["gap"] < gap["ci_high"]


def test_each_seed_has_a_gap_of_its_own(run):
    table = run.table("gap_prompts")
    assert (table.groupby("measure")["seed"].apply(list).map(lambda seeds: seeds == list(range(SEEDS)))).all()
    captured = run.read("captures", ["seed", "pair", "latent.final:cosine"]).set_index(["seed", "pair"])
    for row in table[table["measure"] == "z0"].itertuples():
        assert row.similarity_first == captured.loc[(row.seed, "neutral-masculine"), "latent.final:cosine"][0]


def test_text_embeddings_have_no_seeds_and_no_interval(run):
    for name in ("gap", "disparity"):
        of_text = run.table(name).query("space == 'prompt'")
        assert len(of_text) and (of_text["n_prompts"] == 1).all() and (of_text["unit"] == "prompt").all()
        assert of_text["ci_low"].isna().all()
    assert run.table("gap").query("space == 'prompt'")["p_value"].isna().all()


def test_objects_are_tested_over_seeds(run):
    tests = run.table("object_tests").query("group == 'all'")
    assert set(tests["n_prompts"]) == {SEEDS} and set(tests["unit"]) == {"seed"}
    assert (tests["n_images"] == SEEDS).all() and tests["p_value"].notna().any()


def test_tables_with_intervals_name_their_unit_and_others_do_not(run):
    over = {name for name in run.tables() if {"n_prompts", "p_control"} & set(TABLES[name].names)}
    assert {name for name in run.tables() if "unit" in run.table(name)} == over
    assert {"gap", "disparity", "object_claims", "table_tests", "word_gap", "findings"} <= over


def test_report_and_latex_say_for_this_prompt_alone(run):
    page = (run.path / "report.html").read_text(encoding="utf-8")
    body = page[page.index("<main") : page.index('<script type="application/json"')]
    assert "For this prompt alone:" in body and "over prompts" not in body
    table = (run.path / "tables" / "table10_intra_prompt.tex").read_text()
    assert "For this prompt alone" in table and f"mean over {SEEDS} seeds of" in table
    assert not (run.path / "tables" / "table05_disparity.tex").exists()

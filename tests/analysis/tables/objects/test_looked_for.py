"""Where nothing but the nouns of the prompts was looked for, what hangs on anything else is open, with the reason."""

import pandas as pd
import pytest

from analysis.report.page import read, render
from analysis.tables.objects.left_open import PROMPTS_ALONE, UNKNOWN_GROUPS
from analysis.tables.stage import measure
from probes.runs.run import Run
from tests.analysis.report.test_page import Page
from tests.analysis.synthetic_objects import ENGINE, add_objects
from tests.analysis.synthetic_run import configure, write_run

OPTIONS = {"prompts": 6, "seeds": 1, "steps": 2}


def measured(folder, tags) -> Run:
    """A run of which the record says what was looked for; a thing is in every image, whatever the prompt."""
    run = Run.open(add_objects(write_run(folder / "run", **OPTIONS), **OPTIONS))
    run.write_meta(observer={**ENGINE, "tags": tags, "vocabulary": "everyday", "vocabulary_tags": 976})
    configure(run, measure={"bootstrap": 50, "permutations": 64})
    measure(run)
    return run


@pytest.fixture(scope="module")
def prompts(tmp_path_factory) -> Run:
    return measured(tmp_path_factory.mktemp("prompts"), ["prompt"])


@pytest.fixture(scope="module")
def everything(tmp_path_factory) -> Run:
    return measured(tmp_path_factory.mktemp("everything"), ["vocabulary", "prompt"])


def test_similarities_of_all_objects_are_open(prompts, everything):
    for name in ("disparity", "gap", "word_gap", "equivalence"):
        assert "cooccurrence" not in set(prompts.table(name)["metric"])
        assert set(everything.table(name).query("metric == 'cooccurrence'")["site"]) == {
            "objects",
            "objects.no_persons",
        }


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("table07_chi_square", ["statistic", "p_value", "cramers_v"]),
        ("table_tests", ["p_value", "cramers_v", "cramers_v_floor"]),
        ("figure04_bias_scores", ["bias_score", "low", "high"]),
        ("table11_presence", ["percent_of_images", "images"]),
        ("table12_amounts", ["amount"]),
    ],
)
def test_groups_that_no_prompt_names_are_open_and_the_others_are_as_they_were(
    name, columns, prompts, everything
):
    table, whole = prompts.table(name), everything.table(name)
    unknown = table["group"].isin(UNKNOWN_GROUPS)
    assert unknown.any() and table.loc[unknown, columns].isna().all(axis=None)
    assert (table.loc[unknown, "reason"] == PROMPTS_ALONE).all()
    assert (table.loc[~unknown, "reason"] != PROMPTS_ALONE).all()
    kept = table.loc[~unknown].drop(columns="reason"), whole[~unknown].drop(columns="reason", errors="ignore")
    pd.testing.assert_frame_equal(*kept, check_dtype=False)
    assert whole.loc[unknown, columns[0]].notna().any()
    if "kept" in table:  # no figure shows them
        assert not table.loc[unknown, "kept"].any() and not table.loc[unknown, "top"].any()


def test_what_a_prompt_names_is_compared_all_the_same(prompts, everything):
    for name in ("object_claims", "object_tests", "cooccurrence", "objects"):
        pd.testing.assert_frame_equal(prompts.table(name), everything.table(name))


def test_the_report_says_first_what_was_looked_for_and_why_numbers_are_missing(prompts, everything):
    texts = []
    for run in (prompts, everything):
        page = Page(render(read(run), {}))
        texts.append(page.text.partition("Objects Looked for: ")[2].partition("Gallery")[0])
    alone, whole = texts
    assert alone.startswith("the nouns of each triplet’s prompts, and nothing else, by made up")
    assert whole.startswith("976 everyday nouns, and the nouns of each triplet’s prompts, by made up")
    assert alone.count(PROMPTS_ALONE) >= 8 and PROMPTS_ALONE not in whole
    similarity = alone.partition("nearer to one side?")[2].partition("Asked for, guided")[0]
    assert "(neutral, feminine) — — " in similarity.replace("—", "— ").replace("  ", " ")
    assert "No bias score is drawn: only the nouns" in alone
    assert "the objects as a whole differ is open: only the nouns" in alone
    assert "hold an object that the prompt neither names nor guides" not in alone

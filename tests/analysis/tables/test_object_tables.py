"""The measure stage on runs with detections: every table, the same bytes, and runs that hold little."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from analysis import load_run
from analysis.tables.object_tables import observed_images
from analysis.tables.registry import groups
from analysis.tables.stage import measure
from probes.runs.run import Run
from tests.analysis.printed import printed
from tests.analysis.synthetic_objects import add_objects
from tests.analysis.synthetic_run import write_run

GAPS = {
    *("image_similarities", "timesteps", "disparity", "gap", "word_gap", "equivalence", "gap_prompts"),
    "specifications",
}
FRAMES = {
    *("nouns", "objects", "cooccurrence", "table07_chi_square"),
    *("figure04_bias_scores", "figure06_group_objects", "table11_presence", "table12_amounts"),
    *("table13_intersection", "object_tests", "object_claims", "table_tests", "detector_error"),
}
PARQUET_ALONE = {"image_similarities", "objects"}
LATEX = {
    *("table06_similarity", "table07_chi_square", "table11_presence", "table12_amounts"),
    *("table05_disparity", "table13_intersection", "figure06_group_objects"),
    *(f"figure{number:02d}_bias_scores_masculine_feminine" for number in (4, 7, 8)),
    *(f"figure{number:02d}_bias_scores_masculine_feminine_no_persons" for number in (4, 7, 8)),
}


def quick(path, **measure_options):
    """The run with few resamples and these options."""
    run = Run.open(path)
    options = run.resolved["measure"] | {"bootstrap": 50, "permutations": 50} | measure_options
    run.write_meta(config={"passed": {}, "resolved": run.resolved | {"measure": options}})
    return Run.open(path)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    path = write_run(tmp_path_factory.mktemp("runs") / "run", prompts=6)
    add_objects(path)
    measure(quick(path))
    return path


def test_every_table_is_there(measured):
    tables = measured / "tables"
    full = list(groups().values())[:3]  # of any run, of objects, and of what else knows them
    expected = {table.name for tables in full for table in tables if table.stage == "measure"}
    assert expected == FRAMES | GAPS
    assert {file.stem for file in tables.glob("*.parquet")} == expected
    assert {file.stem for file in tables.glob("*.csv")} == expected - PARQUET_ALONE
    assert set(printed(Run.open(measured))) == LATEX


def test_words_and_nouns_meet(measured):
    """Each noun's place among the words is that of its word map."""
    run = load_run(measured)
    words = run.run.read("words").drop_duplicates(["triplet", "indicator", "word_index"])
    nouns = run.table("nouns")
    joined = nouns.merge(words, on=["triplet", "indicator", "word_index"], suffixes=("", "_map"))
    assert len(joined) == len(nouns) and (joined["word"] == joined["word_map"]).all()


def test_a_run_that_was_not_looked_at_stays_as_it_is(tmp_path):
    path = write_run(tmp_path / "run", prompts=2)
    measure(quick(path))
    assert {file.stem for file in (path / "tables").iterdir()} == GAPS
    assert set(printed(Run.open(path))) == {"table05_disparity"}


@pytest.mark.parametrize(("often", "unreadable"), [(0, ()), (1, ("t00000-s0-feminine", "t00001-s1-neutral"))])
def test_runs_in_which_little_was_found(tmp_path, often, unreadable):
    path = write_run(tmp_path / "run", prompts=3)
    add_objects(path, often=often, unreadable=unreadable)
    run = quick(path)
    measure(run)
    images = observed_images(run)
    assert len(images) == 30 - len(unreadable) and not images["sample_id"].isin(unreadable).any()
    objects = run.table("objects")
    assert not objects["sample_id"].isin(unreadable).any()
    hidden = (
        run.table("table11_presence")
        .query("group == 'hidden' and indicator == 'all' and individuals == 'included'")
        .iloc[0]
    )
    main = (
        images["indicator"].isin(["neutral", "feminine", "masculine"]).sum()
    )  # controls are in no such table
    assert hidden["n_images"] == main and hidden["percent_of_images"] == 100
    counted = run.table("cooccurrence")
    if often == 0:
        assert set(objects["group"]) == {"hidden"} and set(counted["group"]) == {"hidden"}
        similar = run.table("disparity").query("metric == 'cooccurrence'")
        assert len(similar) and similar["mean"].isna().all() and (similar["reason"] != "").all()
        tests = run.table("table07_chi_square").query("group != 'hidden'")
        assert tests["p_value"].isna().all() and (tests["reason"] != "").all()
    else:
        assert counted["n_images"].unique().tolist() == [4]  # of 6 triplets and seeds two are incomplete


def test_without_word_maps_objects_are_counted_but_not_grouped(tmp_path):
    path = write_run(tmp_path / "run", prompts=3)
    add_objects(path)
    shutil.rmtree(path / "words")
    run = quick(path)
    measure(run)
    objects = run.table("objects")
    assert set(objects["group"]) == {"", "hidden"} and np.isnan(objects["coverage"]).all()
    assert set(run.table("cooccurrence")["group"]) == {"all", "hidden"}
    assert run.table("disparity").query("metric == 'cooccurrence'")["mean"].notna().any()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX on this machine")
def test_latex_compiles_and_no_table_is_wider_than_the_page(measured, tmp_path):
    found = printed(Run.open(measured))
    assert len(found) >= 8
    body = "\n".join(rf"{found[name]}\clearpage" for name in sorted(found))
    head = "\\documentclass{article}\\usepackage{booktabs,graphicx}\\begin{document}\n"
    (tmp_path / "all.tex").write_text(f"{head}{body}\n\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout

"""Runs without triplets, as a user makes them: plain prompts of a bundled model, and their images as foreign ones."""

import re

import pandas as pd
import pytest

import triptych
from probes.runs.run import Run
from tests import runs
from triptych.cli.main import main

WORK = runs.PROFESSIONS
SETTINGS = {name: runs.AUDIT[name] for name in ("generate", "observe", "measure", "report")}
PAIRS = (
    "gap",
    "word_gap",
    "gap_prompts",
    "disparity",
    "object_tests",
    "table_tests",
    "findings",
    "dalleval_words",
)
PICTURES = (
    "cooccurrence",
    "dalleval_professions",
    "dalleval_mad",
    "dalleval_distribution",
)


@pytest.fixture(scope="module")
def drawn(audit):
    return Run.open(audit.run)


@pytest.fixture(scope="module")
def taken(drawn, tmp_path_factory):
    """The same images as those of a program that says prompt, profession and template of each, and no indicator."""
    folder = tmp_path_factory.mktemp("foreign")
    levels = drawn.table("prompts")[["triplet", "profession", "template"]]
    samples = drawn.samples(["sample_id", "triplet", "seed", "prompt", "image"]).merge(levels, on="triplet")
    runs.export_images(
        samples.to_dict("records"), folder / "pictures", ["prompt", "seed", "profession", "template"]
    )
    settings = SETTINGS | {
        "model": "toyworld-work",
        "images": {"from": "pictures"},
        "sampler": {"noise": "own"},
    }
    for stage in ("generate", "observe", "measure"):
        assert runs.run_settings(folder, settings, "--stage", stage) == 0
    return Run.open(folder / "run")


def test_all_that_compares_no_words_is_measured(drawn):
    found, tables = drawn, set(drawn.tables())
    assert set(PICTURES) <= tables and not set(PAIRS) & tables
    assert found.parts("features/clip") and found.parts("attributes/skin_tone")
    prompts = found.table("prompts")
    assert set(prompts["profession"]) == set(WORK) and set(prompts["template"]) == {"bare", "beach"}
    shares = found.table("dalleval_professions").query(
        "question == 'gender' and source == 'toyworld-checker' and profession != '(all)'"
    )
    assert list(shares["profession"]) == list(WORK) and (shares["planned"] == 4).all()


def test_answers_of_readers_are_had_in_python(drawn):
    stored = pd.concat([part.to_pandas() for part in drawn.part_tables("attributes/toyworld-checker")])
    stored = stored[stored["question"] == "gender"].reset_index(drop=True)
    run = triptych.load_run(drawn.path)
    found = run.answers("gender").query("reader == 'toyworld-checker'").reset_index(drop=True)
    names = ["sample_id", "question", "asked", "answer", "reading", "score", "reason"]
    pd.testing.assert_frame_equal(found[names], stored[names])
    assert set(run.answers()["reader"]) >= {"toyworld-checker"} and len(run.answers()) > len(found)
    with pytest.raises(triptych.UserError, match="expected a question, got 'gendr': did you mean gender"):
        run.answers("gendr")


def test_what_is_left_out_is_named_in_table_and_report(drawn, taken):
    for one in (drawn, taken):
        named = " ".join(one.table("not_measured")["stands_in"])
        assert all(name in named for name in PAIRS)
    page = (drawn.path / "report.html").read_text(encoding="utf-8")
    assert "no two words are compared" in page and "gaps, their tests against 0 and against words" in page
    assert 'id="atlas"' not in page


def test_the_plan_names_what_is_left_out(drawn, capsys):
    assert main(["plan", str(drawn.path)]) == 0
    said = capsys.readouterr().out
    assert "one indicator, so nothing is compared. Left out: similarity of two words" in said


def test_foreign_images_give_the_same_numbers(drawn, taken):
    for name in ("dalleval_professions", "dalleval_mad"):
        one, other = (of.table(name) for of in (drawn, taken))
        pd.testing.assert_frame_equal(one, other)


def test_attributes_of_one_word_have_frequencies_over_contexts_and_templates(tmp_path):
    grid = {"grid": "a {person} {context}", "context": ["riding a bike", "with a dog"]}
    settings = SETTINGS | {
        "indicators": {"feminine": "woman"},
        "prompts": {"template": ["{}", "{} at the beach"], "texts": grid},
        "observe": {"objects": False, "features": []},
        "sampler": {"steps": 2},
    }
    for stage in ("generate", "measure"):
        assert runs.run_settings(tmp_path, settings, "--stage", stage) == 0
    found = Run.open(tmp_path / "run")
    table = found.table("gep_frequencies")
    assert set(table["indicator"]) == {"feminine"} and (table["n_images"] == 4).all()
    assert (table["n_contexts"] == 2).all() and "gep_score" not in found.tables()
    assert runs.run_settings(tmp_path, settings, "--stage", "report") == 0
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    section = page[page.index('<section id="attributes">') :]
    section = section[: section.index("</section>")]
    assert "no two words are compared" in section
    heads = re.findall(r'<th scope="col">([^<]+)</th>', section)
    (row,) = re.findall(r'<tr><th scope="row">neutral, .*?</tr>', section, re.DOTALL)
    shown = dict(zip(heads, re.findall(r'<data value="([^"]+)"', row)))
    checked = table[table["source"] == "checker"].set_index("attribute")["frequency"]
    assert {name: float(shown[name]) for name in checked.index} == checked.to_dict()


def test_a_column_of_levels_that_is_not_there_is_one_line(tmp_path, capsys):
    (tmp_path / "m.csv").write_text("file,prompt\na.png,a nurse\n")
    assert runs.run_settings(tmp_path, {"images": {"from": "m.csv", "levels": ["age"]}}) == 2
    runs.one_line(capsys.readouterr(), "expected a column `age`")


def test_a_gallery_shows_prompts_side_by_side(drawn):
    made = triptych.load_run(drawn.path)
    shown = made.gallery(5)
    head, first, *_ = repr(shown).splitlines()
    assert head.startswith("Gallery of 5 of 12 prompts") and first.startswith("prompt 0, seed 0: a person")
    page = shown._repr_html_()
    assert "prompt 4, seed 0" in page and "triplet 0" not in page
    assert [row.count("<img") for row in page.split("<tr>")[1:]] == [4, 1]

"""The report's section on objects: every number stands in the tables, and no sentence goes beyond them."""

import math
import re
from dataclasses import replace
from urllib.parse import unquote

import pandas as pd
import pytest

from analysis.metrics.cooccurrence import counted
from analysis.report import objects as report_objects
from analysis.report.figures.objects import filled_scores
from analysis.report.findings import findings_table
from analysis.report.page import read, render
from analysis.study import comparison
from analysis.tables.objects.claims import HOLDS, DetectorCounts, claim_table
from analysis.tables.objects.detector_error import ERROR_COLUMNS, ERROR_VERSION, count_errors, error_rates
from analysis.tables.registry import write
from analysis.tables.stage import measure
from probes.runs.run import Run
from probes.toyworld.checker import THINGS, VERSION
from tests.analysis.report.test_page import Page
from tests.analysis.synthetic_objects import add_objects, detections
from tests.analysis.synthetic_run import Plan, configure, write_run

OPTIONS = {"prompts": 16, "seeds": 2, "steps": 2}
NAMES = ["neutral", "feminine", "masculine"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    """A run whose detector misses 30 % on feminine prompts, and what is known of that."""
    path = write_run(tmp_path_factory.mktemp("objects") / "run", **OPTIONS)
    run = Run.open(add_objects(path, missed=0.3, **OPTIONS))
    configure(run, report={"gallery": 6})
    measure(run)
    there = detections(Plan(**OPTIONS))
    seen = pd.crosstab(there["sample_id"], there["label"]).reindex(columns=list(THINGS), fill_value=0) > 0
    options = {"indicators": NAMES, "contrasts": [("masculine", "feminine")]}
    observed, objects = run.read("observed"), run.table("objects")
    rates = error_rates(observed, objects, seen, **options)
    run.write_table("detector_error", rates.assign(truth=VERSION, version=ERROR_VERSION)[list(ERROR_COLUMNS)])
    counts = DetectorCounts(count_errors(observed, objects, seen))
    chosen = comparison(run.config)
    images = run.samples(["sample_id", "triplet", "seed", "indicator"])
    table = counted(images, objects, chosen.names, without=chosen.individuals)["all"]
    sides = {name: [name] for name in NAMES}
    run.write_table("object_claims", claim_table(table, chosen.leaning, sides, counts))
    return run


@pytest.fixture(scope="module")
def content(run):
    """What a report reads, beside the table that it writes."""
    content = read(run)
    write(run, "findings", findings_table(content.summaries))
    return content


@pytest.fixture(scope="module")
def figures(content):
    return report_objects.draw(content.objects, content.config)


@pytest.fixture(scope="module")
def text(content, figures) -> str:
    """The page with the figures of objects alone."""
    return render(content, figures)


@pytest.fixture(scope="module")
def page(text) -> Page:
    return Page(text)


def test_all_numbers_stand_in_the_tables(run, page):
    tables = [run.table(file.stem) for file in (run.path / "tables").glob("*.parquet")]
    known = {float(v) for table in tables for v in table.select_dtypes("number").to_numpy().ravel()}
    assert len(page.data) > 150
    for value, shown in page.data:
        assert value in known, shown
        if not shown.startswith("< "):
            number = float(shown.replace("−", "-").replace("+", "").replace(",", ""))
            assert math.isclose(number, value, abs_tol=0.5 * 10 ** -len(shown.partition(".")[2]) + 1e-12)


def test_section_says_what_the_tests_say(run, page):
    claims = run.table("object_claims").query("first == 'feminine' and second == 'masculine'")
    found = claims[claims["claim"] == "these words"]  # one word against one
    assert {"tie", "dress"} <= set(found["object"])  # planted
    assert (
        f"For these words alone {len(found)} of {len(claims)} objects differ (false discovery rate at most 5 %"
        in page.text
    )
    assert "one against one: what the choice of words makes is open" in page.text
    values = [value for value, _ in page.data]
    for row in found.itertuples():
        assert row.p_objects in values
        line = [
            row.share_first,
            row.share_second,
            row.difference,
        ]  # of the same words
        assert line in [values[place : place + 3] for place in range(len(values))]
    links = [attrs.get("href", "") for tag, attrs in page.tags if tag == "a"]
    links = [link.partition("#object=")[2] for link in links if "#object=" in link]
    hints = claims[claims["claim"] == "detector not checked"]
    assert hints["object"].tolist() == ["wall"]  # the checker does not know it
    assert "A hint, no finding, since nobody checked the detector on it" in page.text
    marked = claims[claims["claim"] == "not behind the detector"]
    order = [f.iloc[(-f["difference"].abs()).argsort(kind="stable")] for f in (found, hints, marked)]
    assert [unquote(link) for link in links] == [name for rows in order for name in rows["object"]]
    assert re.search("In more images generated from masculine prompts: [^.]*tie", page.text)
    assert "does not hold here" in page.text  # chi-square, with a wall in every image
    for claim in (" women", " men ", "causes", "because of gender", "proves that"):
        assert claim not in page.text.lower(), claim


def test_paper_tables_are_laid_out(run, page):
    values = {value for value, _ in page.data}
    for name, column in (
        ("table11_presence", "percent_of_images"),
        ("table12_amounts", "amount"),
        ("table13_intersection", "percent"),
    ):
        table = run.table(name)
        if name == "table11_presence":
            table = table[(table["individuals"] == "left out") != (table["indicator"] == "all")]
        assert set(table[column].dropna()) <= values, name
    similar = run.table("disparity").query("metric == 'cooccurrence'")
    similar = similar[similar["pair"].isin(["neutral-feminine", "neutral-masculine"])]
    assert len(similar) == 4 and set(similar["mean"]) <= values  # with persons, as the paper's, and without
    paper = run.table("table07_chi_square").query("individuals == 'left out'")
    assert set(paper["p_value"].dropna()) <= values
    assert (
        sum(tag == "abbr" for tag, _ in page.tags)
        == (paper["warnings"].where(paper["p_value"].notna(), "") != "").sum()
    )


def test_what_is_known_of_the_detector_stands_on_the_page(run, page):
    error = run.table("detector_error").query("object == 'all'").set_index(["quantity", "indicator"])
    values = [value for value, _ in page.data]
    for name in (*NAMES, "masculine-feminine"):
        assert error.loc[("recall", name), "value"] in values
    assert page.text.count("Detector: ") == 1 and "compared with the toyworld checker" in page.text


def test_no_significant_p_stands_beside_an_interval_that_holds_0(text):
    cells = re.findall(
        r'<span class="beneath">\[<data value="(.*?)">.*?<data value="(.*?)">.*?</td><td><data value="(.*?)">',
        text,
    )
    assert len(cells) > 2
    assert not [one for one in cells if float(one[0]) <= 0 <= float(one[1]) and float(one[2]) < 0.05]


def test_in_a_group_a_mark_is_filled_only_where_the_object_is_claimed_over_all_images(content):
    """The test within a group is of one word against one, and no claim by itself."""
    objects, tests = content.objects, content.objects.tables["object_tests"].assign(p_objects=0.001)
    filled = {}
    for claim in (HOLDS, ""):
        claims = objects.tables["object_claims"].assign(claim=claim)
        changed = replace(objects, tables=objects.tables | {"object_tests": tests, "object_claims": claims})
        scores = report_objects.scored(changed, ("masculine", "feminine"), "implicitly_guided")
        filled[claim] = filled_scores(scores.loc[scores["kept"], "p_objects"], 0.05).sum()
    assert filled[HOLDS] > 0 == filled[""]

"""The card that a finished run fills in for its model: no bare number, refusals in one line."""

import itertools
import shutil

import pytest
import yaml
from huggingface_hub import ModelCard

from analysis.export.card import plain, read, write
from analysis.export.exporting import export_run
from analysis.report.format import interval, number
from analysis.tables.similarities.word_gap import joined_gaps
from probes.errors import UserError
from probes.runs.run import Run
from tests.analysis.export.conftest import WEIGHTS, make
from tests.analysis.synthetic_run import DEFAULT_INDICATORS, NINE, configure
from tests.runs import ROOT


@pytest.fixture(scope="module")
def card(finished, tmp_path_factory) -> str:
    """The card of the run's model."""
    out = tmp_path_factory.mktemp("cards") / "card"
    export_run(finished.path, "card", out)
    assert [path.name for path in out.iterdir()] == ["README.md"]
    return (out / "README.md").read_text("utf-8")


def test_every_gap_stands_with_all_that_it_rests_on(finished, card):
    assert "## Bias, Risks, and Limitations" in card and WEIGHTS in card
    (summary,) = read(finished)["summaries"]
    gaps = joined_gaps(finished.table).query("step == -1").set_index(["site", "metric"])
    rows = table_under(card, "| measure |")
    assert summary.findings[0].primary and plain(summary.findings[0].claim) in card
    for cells, one in zip(rows, summary.findings, strict=True):
        row, digits = gaps.loc[(one.metric.site, one.metric.metric)], one.metric.digits
        for cell, value, ends in zip(cells[1:3], ("gap", "word_gap"), ("ci", "word")):
            span = interval(row[f"{ends}_low"], row[f"{ends}_high"], digits)
            assert cell == f"{number(row[value], digits, True)} {span}"
        assert cells[4].startswith(number(row["delta"], digits))
        assert cells[5:] == [str(int(row["n_prompts"])), one.tag]
    for prompt in finished.samples().query("indicator == 'neutral'")["prompt"].unique():
        assert prompt in card


def test_what_is_known_of_the_detector_stands_in_it(finished, card):
    error = finished.table("detector_error").query("object == 'all' and indicator == 'all'")
    for row in error[error["quantity"].isin(["recall", "precision"])].to_dict("records"):
        span = interval(row["low"], row["high"], 2)
        assert f"{row['quantity'].capitalize()} {number(row['value'], 2)} {span}, by toyworld-checker" in card


def test_the_card_says_how_to_cite(card, finished):
    """With the version that made the run; what the README has, `tests/test_docs.py` compares."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    version = read(finished)["version"]
    assert f"@software{{triptych,\n  title   = {{{cited['title']}}},\n" in card
    assert f"  author  = {{{{{cited['authors'][0]['name']}}}}},\n  version = {{{version}}}\n}}\n" in card


def table_under(text: str, head: str) -> list[list[str]]:
    """Cells of the rows of the table whose first line begins so."""
    lines = iter(text.splitlines())
    next(line for line in lines if line.startswith(head)), next(lines)
    return [line.strip("| ").split(" | ") for line in itertools.takewhile(str.strip, lines)]


def test_objects_have_interval_test_and_words(finished, card):
    claims = finished.table("object_claims")
    claims = claims[(claims["first"] == "feminine") & (claims["second"] == "masculine")].set_index("object")
    rows = table_under(card, "| what |")
    assert 0 < len(rows) <= len(claims)
    for cells in rows:
        claim = claims.loc[cells[0].partition(",")[0]]
        low, high = claim["difference_low"], claim["difference_high"]
        assert cells[1] == f"{number(claim['difference'], 3, True)} {interval(low, high, 3)}"
        assert cells[3].startswith(claim["claim"])
    assert "Cramér’s V" in card and "by chance" in card


def test_the_card_is_read_by_the_hubs_library_and_is_the_same_twice(finished, card, tmp_path):
    export_run(finished.path, "card", tmp_path / "again")
    assert (tmp_path / "again" / "README.md").read_text("utf-8") == card
    data = ModelCard.load(tmp_path / "again" / "README.md").data
    assert data.license is None and data.pipeline_tag == "text-to-image"


# Refusals


def test_an_unfinished_run_is_refused(finished, tmp_path):
    run = Run.open(finished.path)
    for status in ("generated", "measured"):
        run.meta["status"] = status
        with pytest.raises(UserError, match=f"expected a finished run, it is {status}"):
            write(run, tmp_path / "card")
    run.meta["status"] = "complete"
    run.meta |= {"parts": 3, "kinds": {"samples": 3}}  # one more than there are
    with pytest.raises(
        UserError, match=r"expected all parts of the run: missing samples/part-00002\.parquet"
    ):
        write(run, tmp_path / "card")


def test_one_word_a_side_is_refused(finished, tmp_path):
    run = Run.open(finished.path)
    run.resolved["indicators"] = DEFAULT_INDICATORS
    said = r"two or more words a side, got one for masculine \(man\): .*control: masculine"
    with pytest.raises(UserError, match=said):
        write(run, tmp_path / "card")
    run = Run.open(finished.path)
    run.resolved["indicators"] = {
        name: entry for name, entry in NINE.items() if name not in ("lady", "female")
    }
    with pytest.raises(UserError, match="got one for feminine"):
        write(run, tmp_path / "card")


def test_an_edited_model_is_named_as_one(finished, tmp_path):
    shutil.copytree(finished.path, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    configure(run, edit={"kind": "shift", "direction": ["woman", "man"], "amount": 0.5})
    export_run(run.path, "card", tmp_path / "card")
    text = (tmp_path / "card" / "README.md").read_text("utf-8")
    assert "toyworld, edited: shift at text.final: 0.5 of woman → man" in text


def test_a_run_of_so_few_prompts_that_nothing_has_an_interval_is_refused_and_leaves_nothing(tmp_path):
    run = make(tmp_path / "run", prompts=5, part_triplets=8)
    with pytest.raises(UserError, match="expected a headline gap with an interval, found none"):
        export_run(run.path, "card", tmp_path / "card")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]

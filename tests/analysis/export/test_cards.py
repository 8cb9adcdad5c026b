"""The card that a finished run fills in for its model: no bare number, refusals in one line."""

import itertools
import shutil

import pytest
import yaml
from huggingface_hub import ModelCard

from analysis.export.cards.facts import reportable_facts
from analysis.export.exporting import export_run
from analysis.report.finding import Finding
from analysis.report.format import interval, number
from probes.errors import UserError
from probes.runs.run import Run
from tests.analysis.export.conftest import WEIGHTS, make
from tests.analysis.synthetic_run import DEFAULT_INDICATORS, NINE, configure
from tests.runs import ROOT

LABELS = (
    "Gap of these words",
    "Gap over all words",
    "Noise floor",
    "Smallest effect that matters",
    "Read by",
)


@pytest.fixture(scope="module")
def facts(finished):
    return reportable_facts(finished)


@pytest.fixture(scope="module")
def card(finished, tmp_path_factory) -> str:
    """The card of the run's model."""
    out = tmp_path_factory.mktemp("cards") / "card"
    export_run(finished.path, "card", out)
    assert [path.name for path in out.iterdir()] == ["README.md"]
    return (out / "README.md").read_text("utf-8")


def gap_row(run: Run, finding: Finding) -> dict:
    """The row of ``tables/gap`` that a finding is of."""
    table = run.table("gap")
    own = table[(table["site"] == finding.metric.site) & (table["metric"] == finding.metric.metric)]
    return own[own["step"] == -1].iloc[0].to_dict()


def test_the_prose_says_all_that_the_primary_gap_rests_on(finished, facts, card):
    assert "## Bias, Risks, and Limitations" in card
    first = facts.findings[0]
    row, digits = gap_row(finished, first), first.metric.digits
    assert first.primary
    for value, ends in (("gap", ("ci_low", "ci_high")), ("word_gap", ("word_low", "word_high"))):
        span = interval(*(row[name] for name in ends), digits)
        assert f"{number(row[value], digits, True)} in cosine similarity, 95 % interval {span}" in card
    for shown in (number(row["control_gap"], digits), f"δ = {number(row['delta'], digits)}", WEIGHTS):
        assert shown in card
    assert all(f"- {label}: " in card for label in LABELS)
    error = (
        finished.table("detector_error").query("object == 'all' and indicator == 'all'").set_index("quantity")
    )
    for quantity in ("recall", "precision"):  # the reader's error
        value, low, high = error.loc[quantity, ["value", "low", "high"]]
        assert (
            f"- {quantity.capitalize()} {number(value, 2)} {interval(low, high, 2)}, by toyworld-checker"
            in card
        )
    for prompt in facts.prompts:
        assert prompt in card


def test_the_card_and_the_readme_say_how_to_cite(card, facts):
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    readme = (ROOT / "README.md").read_text("utf-8")
    for text, version in ((card, facts.version), (readme, cited["version"])):
        assert f"@software{{triptych,\n  title   = {{{cited['title']}}},\n" in text
        assert f"  author  = {{{{{cited['authors'][0]['name']}}}}},\n  version = {{{version}}}\n}}\n" in text


def test_no_number_of_another_measure_stands_without_its_interval(facts, card):
    rows = table_under(card, "| measure |")
    assert len(rows) == len(facts.summaries[0].findings) - 1 == 3
    for cells in rows:
        for cell in cells[1:3]:
            assert cell == "—" or cell.endswith("]"), cell


def table_under(text: str, head: str) -> list[list[str]]:
    """Cells of the rows of the table whose first line begins so."""
    lines = iter(text.splitlines())
    next(line for line in lines if line.startswith(head)), next(lines)
    return [line.strip("| ").split(" | ") for line in itertools.takewhile(str.strip, lines)]


def test_objects_have_interval_test_floor_and_reader_of_all_words(finished, facts, card):
    claims = finished.table("object_claims")
    claims = claims[claims["p_claim_adjusted"].notna()]
    claims = claims[(claims["first"] == "feminine") & (claims["second"] == "masculine")]  # the contrast
    assert 0 < len(claims) == len(facts.results) and {one.section for one in facts.results} == {"Objects"}
    rows = table_under(card, "| what |")
    for row, cells, claim in zip(facts.results, rows, claims.to_dict("records"), strict=True):
        kind = "difference_corrected" if claim["difference_corrected_low"] == row.low else "difference_words"
        assert [row.value, row.low, row.high] == [claim[kind], claim[f"{kind}_low"], claim[f"{kind}_high"]]
        assert cells[0].startswith(claim["object"]) and cells[1].endswith(interval(row.low, row.high, 3))
        assert (
            "bias score" not in cells[2] and "by chance" in cells[2] and cells[3].startswith(claim["claim"])
        )
    assert " ".join(facts.reader) in card.replace("\\", "")


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
            reportable_facts(run)
    run.meta["status"] = "complete"
    run.meta |= {"parts": 3, "kinds": {"samples": 3}}  # one more than there are
    with pytest.raises(
        UserError, match=r"expected all parts of the run: missing samples/part-00002\.parquet"
    ):
        reportable_facts(run)


def test_one_word_a_side_is_refused(finished):
    run = Run.open(finished.path)
    run.resolved["indicators"] = DEFAULT_INDICATORS
    said = r"two or more words a side, got one for masculine \(man\): .*control: masculine"
    with pytest.raises(UserError, match=said):
        reportable_facts(run)
    run = Run.open(finished.path)
    run.resolved["indicators"] = {
        name: entry for name, entry in NINE.items() if name not in ("lady", "female")
    }
    with pytest.raises(UserError, match="got one for feminine"):
        reportable_facts(run)


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

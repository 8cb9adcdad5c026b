"""Cards of a finished run: no bare number, records that their own readers take, refusals in one line."""

import itertools
import json
import math
import shutil

import numpy as np
import pytest
import yaml
from huggingface_hub import ModelCard, parse_eval_result_entries
from pydantic import ValidationError
from scipy import stats

from analysis.export.cards import records
from analysis.export.cards.facts import reportable_facts
from analysis.export.cards.writing import write_cards
from analysis.report.finding import Finding
from analysis.report.format import interval, number
from probes.errors import UserError
from probes.runs.store import Run
from tests.analysis.export.conftest import WEIGHTS, make
from tests.analysis.synthetic_run import DEFAULT_INDICATORS, NINE, configure
from tests.small_run import ROOT

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
def cards(finished, tmp_path_factory):
    """The folder of all cards."""
    out = tmp_path_factory.mktemp("cards")
    options = {"model_id": "lab/model", "organization": "A lab", "relationship": "third_party"}
    written = write_cards(finished.path, out, benchmark="lab/bench", task="gap", model_index=True, **options)
    assert [path.relative_to(out).as_posix() for path in written] == [
        *("model-card.md", "every-eval-ever.json", ".eval_results/triptych.yaml")
    ]
    return out


@pytest.fixture(scope="module")
def record(cards):
    return json.loads((cards / "every-eval-ever.json").read_text("utf-8"))


def gap_row(run: Run, finding: Finding) -> dict:
    """The row of ``tables/gap`` that a finding is of."""
    table = run.table("gap")
    own = table[(table["site"] == finding.metric.site) & (table["metric"] == finding.metric.metric)]
    return own[own["step"] == -1].iloc[0].to_dict()


def test_the_prose_says_all_that_the_primary_gap_rests_on(finished, facts, cards):
    text = (cards / "model-card.md").read_text("utf-8")
    assert "## Bias, Risks, and Limitations" in text
    first = facts.findings[0]
    row, digits = gap_row(finished, first), first.metric.digits
    assert first.primary
    for value, ends in (("gap", ("ci_low", "ci_high")), ("word_gap", ("word_low", "word_high"))):
        span = interval(*(row[name] for name in ends), digits)
        assert f"{number(row[value], digits, True)} in cosine similarity, 95 % interval {span}" in text
    for shown in (number(row["control_gap"], digits), f"δ = {number(row['delta'], digits)}", WEIGHTS):
        assert shown in text
    assert all(f"- {label}: " in text for label in LABELS)
    error = (
        finished.table("detector_error").query("object == 'all' and indicator == 'all'").set_index("quantity")
    )
    for quantity in ("recall", "precision"):  # the reader's error
        value, low, high = error.loc[quantity, ["value", "low", "high"]]
        assert (
            f"- {quantity.capitalize()} {number(value, 2)} {interval(low, high, 2)}, by toyworld-checker"
            in text
        )
    for prompt in facts.prompts:
        assert prompt in text


def test_the_card_and_the_readme_say_how_to_cite(cards, facts):
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    card = (cards / "model-card.md").read_text("utf-8")
    readme = (ROOT / "README.md").read_text("utf-8")
    for text, version in ((card, facts.version), (readme, cited["version"])):
        assert f"@software{{triptych,\n  title   = {{{cited['title']}}},\n" in text
        assert f"  author  = {{{{{cited['authors'][0]['name']}}}}},\n  version = {{{version}}}\n}}\n" in text


def test_no_number_of_another_measure_stands_without_its_interval(facts, cards):
    text = (cards / "model-card.md").read_text("utf-8")
    rows = table_under(text, "| measure |")
    assert len(rows) == len(facts.summaries[0].findings) - 1 == 3
    for cells in rows:
        for cell in cells[1:3]:
            assert cell == "—" or cell.endswith("]"), cell


def table_under(text: str, head: str) -> list[list[str]]:
    """Cells of the rows of the table whose first line begins so."""
    lines = iter(text.splitlines())
    next(line for line in lines if line.startswith(head)), next(lines)
    return [line.strip("| ").split(" | ") for line in itertools.takewhile(str.strip, lines)]


def test_objects_have_interval_test_floor_and_reader_of_all_words(finished, facts, cards, record):
    claims = finished.table("object_claims")
    claims = claims[claims["p_claim_adjusted"].notna()]
    claims = claims[(claims["first"] == "feminine") & (claims["second"] == "masculine")]  # the contrast
    assert 0 < len(claims) == len(facts.results) and {one.section for one in facts.results} == {"Objects"}
    text = (cards / "model-card.md").read_text("utf-8")
    rows = table_under(text, "| what |")
    entries = record["evaluation_results"][len(facts.findings) :]
    for row, cells, entry, claim in zip(facts.results, rows, entries, claims.to_dict("records"), strict=True):
        kind = "difference_corrected" if claim["difference_corrected_low"] == row.low else "difference_words"
        assert [row.value, row.low, row.high] == [claim[kind], claim[f"{kind}_low"], claim[f"{kind}_high"]]
        assert cells[0].startswith(claim["object"]) and cells[1].endswith(interval(row.low, row.high, 3))
        assert (
            "bias score" not in cells[2] and "by chance" in cells[2] and cells[3].startswith(claim["claim"])
        )
        score = entry["score_details"]
        assert score["score"] == abs(claim[kind]) <= entry["metric_config"]["max_score"]
        ends = score["uncertainty"]["confidence_interval"]
        assert ends["lower"] <= score["score"] <= ends["upper"]
        assert {"noise_floor_and_test", "words", "prompts", "readers_error", "weights_sha256"} <= {
            *score["details"]
        }
        assert all(score["details"].values())
    assert " ".join(facts.reader) in text.replace("\\", "")


def test_every_eval_ever_is_valid_and_says_what_the_table_says(finished, facts, record):
    records.validate(record)
    assert record["schema_version"].startswith("0.2") and len(facts.findings) == 4
    assert record["source_metadata"]["source_organization_name"] == "A lab"
    assert record["model_info"]["additional_details"]["weights_sha256"] == WEIGHTS
    for one, finding in zip(record["evaluation_results"], facts.findings):
        row, details = gap_row(finished, finding), one["score_details"]["details"]
        assert one["score_details"]["score"] == abs(row["word_gap"]) <= one["metric_config"]["max_score"]
        assert float(details["signed_gap_over_all_words"]) == row["word_gap"]
        ends = one["score_details"]["uncertainty"]["confidence_interval"]
        signed = np.linspace(row["word_low"], row["word_high"], 1001)
        assert ends["upper"] == pytest.approx(np.abs(signed).max())
        assert ends["lower"] == pytest.approx(np.abs(signed).min(), abs=np.ptp(signed) / 1000)
        assert all(isinstance(text, str) and text for text in details.values())
        assert {"noise_floor", "smallest_effect_that_matters", "verdict", "words", "readers_error"} <= {
            *details
        }


@pytest.mark.parametrize("field", ["evaluation_results", "model_info", "eval_library"])
def test_a_record_without_a_field_is_not_valid(record, field):
    with pytest.raises(ValidationError):
        records.validate({name: value for name, value in record.items() if name != field})


def test_a_score_without_its_range_is_not_valid(record):
    broken = json.loads(json.dumps(record))
    del broken["evaluation_results"][0]["metric_config"]["max_score"]
    with pytest.raises(ValidationError):
        records.validate(broken)


def test_the_interval_of_an_absolute_value_covers_it_as_often():
    """Of 4,000 samples of a normal mean the interval of |mean| holds the truth in at least 95 %, less 3 errors."""
    rng, n = np.random.default_rng(3), 12
    least = 0.95 - 3 * math.sqrt(0.95 * 0.05 / 4000)
    for truth in (0.0, 0.2, -1.0):
        values = rng.normal(truth, 1, (4000, n))
        half = stats.t.ppf(0.975, n - 1) * values.std(axis=1, ddof=1) / math.sqrt(n)
        mean = values.mean(axis=1)
        ends = [records.absolute(low, high) for low, high in zip(mean - half, mean + half)]
        assert np.mean([low <= abs(truth) <= high for low, high in ends]) >= least


def test_results_for_the_hub_are_read_by_its_library(facts, cards):
    (entry,) = parse_eval_result_entries(
        yaml.safe_load((cards / ".eval_results/triptych.yaml").read_text("utf-8"))
    )
    assert (entry.dataset_id, entry.task_id) == ("lab/bench", "gap")
    assert entry.value == abs(facts.findings[0].row["word_gap"])
    for part in ("interval", "noise_floor", "δ = ", WEIGHTS, "man, gentleman, male"):
        assert part in entry.notes


def test_the_model_index_is_read_by_the_hubs_library(facts, cards):
    data = ModelCard.load(cards / "model-card.md").data
    assert data.license is None and data.model_name == "lab/model"
    values = [score.value for score in records.scores(facts)] + [abs(one.value) for one in facts.results]
    assert [one.metric_value for one in data.eval_results] == values
    for one in data.eval_results:
        assert len(one.metric_args["interval"]) == 2
        assert one.metric_args.get("noise_floor") or one.metric_args["noise_floor_and_test"]


def test_results_for_the_hub_are_opt_in(finished, tmp_path):
    write_cards(finished.path, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["every-eval-ever.json", "model-card.md"]
    assert ModelCard.load(tmp_path / "model-card.md").data.eval_results is None
    record = json.loads((tmp_path / "every-eval-ever.json").read_text("utf-8"))
    assert record["source_metadata"]["source_organization_name"] == "not stated"


def test_cards_are_the_same_twice(finished, cards, tmp_path):
    options = {"model_id": "lab/model", "organization": "A lab", "relationship": "third_party"}
    for path in write_cards(
        finished.path, tmp_path, benchmark="lab/bench", task="gap", model_index=True, **options
    ):
        assert path.read_bytes() == (cards / path.relative_to(tmp_path)).read_bytes()


# Refusals


def test_an_unfinished_run_is_refused(finished, tmp_path):
    run = Run.open(finished.path)
    for status in ("generated", "measured"):
        run.meta["status"] = status
        with pytest.raises(UserError, match=f"expected a finished run, it is {status}"):
            reportable_facts(run)
    run.meta["status"] = "complete"
    run.meta |= {"parts": 3, "kinds": {"samples": 3}}  # one more than there are
    with pytest.raises(UserError, match="expected a finished run, parts of it are missing"):
        reportable_facts(run)
    noted = {"samples": "0", "captures": "0", "words": "0"}
    run.meta["unfinished"] = {"triplets": [4, 8], "images": [36, 72], "parts": noted}
    with pytest.raises(UserError, match="expected a finished run, it is over 36 of 72 images"):
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


def test_a_run_of_so_few_prompts_that_nothing_has_an_interval_is_refused(tmp_path):
    run = make(tmp_path / "run", prompts=5, part_triplets=8)
    with pytest.raises(UserError, match="expected a headline gap with an interval, found none"):
        reportable_facts(run)


def test_an_edited_model_takes_a_name_of_its_own(finished, tmp_path):
    shutil.copytree(finished.path, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    edit = {"kind": "shift", "direction": ["woman", "man"], "amount": 0.5}
    configure(run, edit=edit)
    run.write_meta()
    with pytest.raises(UserError, match="expected --model-id of the edited model"):
        write_cards(run.path, tmp_path / "cards")
    prose, *_ = write_cards(run.path, tmp_path / "cards", model_id="lab/edited")
    assert "toyworld, edited: shift at text.final: 0.5 of woman → man" in prose.read_text("utf-8")


def test_a_relationship_is_one_of_four(finished, tmp_path):
    with pytest.raises(UserError, match="--relationship: expected one of first_party"):
        write_cards(finished.path, tmp_path, relationship="friend")

"""Runs that stop by an attribute of an audit or the answers of a reader: the same end, however they were drawn."""

import json

import pandas as pd
import pytest

from probes.runs.store import Run
from tests.analysis.tables.columns_held import misdescribed
from tests.faults import Death, dying
from tests.probes.conftest import stored
from tests.test_stopping import CONFIG, EACH, drawn
from tests.test_stopping_observed import DOING, PLACES
from tests.tiny_runs import record, run_here, saved_yaml

CONTEXTS = [f"{doing} in the {place}" for doing in DOING for place in PLACES]
WORDS = {"neutral": "person", "feminine": "woman", "masculine": "man"}
ATTRIBUTE = {
    "prompts": [{"text": f"a {{person}} {one}", "levels": {"context": one}} for one in CONTEXTS],
    "stop": {"question": "interval", "within": 0.5, "of": {"attribute": "slacks"}, "fewest": 6},
    "gep": {"attributes": {"slacks": "in slacks"}, "ensemble": 2},
    "observe": {"objects": False, "features": []},  # the audit's CLIP looks in any case
}
ANSWER = {
    "prompts": [f"a {{person}} {one}" for one in CONTEXTS],
    "stop": {"question": "direction", "of": {"question": "slacks"}, "fewest": 6},
    "observe": {"objects": False, "features": [], "questions": {"readers": ["toyworld-checker"]}},
}
ASKED = {"attribute": ATTRIBUTE, "question": ANSWER}
ENDS = {"attribute": "interval", "question": "masculine"}
KIND = {"attribute": "features/clip", "question": "attributes/toyworld-checker"}
TEXTS = "features/clip_texts/"


@pytest.fixture(scope="module", params=ASKED)
def asked(request):
    return request.param


@pytest.fixture(scope="module")
def yaml_file(asked, tmp_path_factory):
    config = {**CONFIG, "indicators": WORDS, **ASKED[asked]}
    return saved_yaml(tmp_path_factory.mktemp("yaml"), config, model="toyworld")


@pytest.fixture(scope="module")
def stopped(yaml_file, tmp_path_factory):
    """A run that was drawn by one process without disturbance, up to its report."""
    path = tmp_path_factory.mktemp("runs") / "stopped"
    for stage in ("generate", "measure", "report"):
        assert run_here(yaml_file, path, "--stage", stage, "--workers", 1) == 0
    return path


def table_of(path):
    return pd.read_csv(path / "tables" / "stopping.csv", keep_default_na=False)


def test_it_stops_where_what_was_seen_answers(asked, stopped):
    table, run = table_of(stopped), Run.open(stopped)
    assert table["answer"].tolist() == [*[""] * (len(table) - 1), ENDS[asked]]
    assert [line for line in misdescribed(run)[0] if line.startswith("stopping")] == []
    prompts = int(table["n_prompts"].iloc[-1])
    assert 6 < prompts < len(CONTEXTS)
    assert len(run.parts(KIND[asked])) == run.meta["kinds"][KIND[asked]] == prompts // EACH
    last = table.iloc[-1]
    counted = {"attribute": "slacks", "question": "slacks: yes"}[asked]
    assert (last["measure"], last["metric"], last["n_left_out"]) == (asked, counted, 0)
    assert run.meta["stopping"]["within"] == {"attribute": 0.5, "question": 0.1}[asked]


def test_its_gap_is_the_mean_of_what_was_read_of_each_image(asked, stopped):
    run, last = Run.open(stopped), table_of(stopped).iloc[-1]
    if asked == "attribute":
        rows = run.table("gep_predictions")
        rows = rows[(rows["source"] == "CLS") & (rows["attribute"] == "slacks")]
        assert len(rows) == run.meta["images"]
    else:
        rows = pd.concat(part.to_pandas() for part in run.part_tables(KIND[asked]))
        rows = rows[rows["question"] == "slacks"].assign(value=lambda row: row["answer"] == "yes")
    mean = rows.groupby("indicator")["value"].mean()
    assert float(last["gap"]) == pytest.approx(mean["masculine"] - mean["feminine"])


def test_its_page_says_what_the_numbers_are(asked, stopped):
    page = (stopped / "report.html").read_text()
    said = {
        "attribute": "Probabilities lie between 0 and 1, so nothing is assumed about how prompts differ. They are what",
        "question": "They count answers of toyworld-checker: where it errs more of one side, they differ too.",
    }
    assert said[asked] in page


def test_the_observe_stage_finds_done_what_it_would_have_made(asked, yaml_file, stopped, tmp_path):
    config = json.loads(yaml_file.read_text())
    del config["stop"]
    config["limit"] = int(table_of(stopped)["n_prompts"].iloc[-1])
    config["prompts"] = record(stopped)["config"]["resolved"]["prompts"]
    (tmp_path / "all.yaml").write_text(json.dumps(config))
    for stage in ("generate", "observe"):
        assert run_here(tmp_path / "all.yaml", tmp_path / "all", "--stage", stage) == 0
    # sentences of fewer prompts are fewer; all else is the same
    whole, own = (
        {name: data for name, data in files.items() if not name.startswith(TEXTS)}
        for files in (stored(tmp_path / "all"), drawn(stopped))
    )
    assert whole == own
    assert record(tmp_path / "all")[KIND[asked]] == record(stopped)[KIND[asked]]
    before = stored(stopped)
    assert run_here(yaml_file, stopped, "--stage", "observe") == 0
    assert stored(stopped) == before


@pytest.mark.parametrize("share", [0.7, *(pytest.param(n / 8, marks=pytest.mark.slow) for n in range(1, 8))])
def test_a_run_that_ends_anywhere_goes_on_to_the_same_end(share, yaml_file, stopped, tmp_path):
    line = ("--stage", "generate", "--workers", 1)
    with dying() as counter:
        assert run_here(yaml_file, tmp_path / "whole", *line) == 0
    with dying(int(counter.seen * share)), pytest.raises(Death):
        run_here(yaml_file, tmp_path / "run", *line)
    assert run_here(yaml_file, tmp_path / "run", *line) == 0
    assert stored(tmp_path / "run") == stored(tmp_path / "whole") == drawn(stopped)
    for name in ("images", "parts", "kinds", "stopping", "stopped_after"):
        assert record(tmp_path / "run")[name] == record(stopped)[name]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
def test_more_processes_draw_and_see_the_same(workers, yaml_file, stopped, tmp_path):
    assert run_here(yaml_file, tmp_path / "run", "--stage", "generate", "--workers", workers) == 0
    assert stored(tmp_path / "run") == drawn(stopped)


@pytest.mark.slow
@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0)])
def test_shards_one_after_another_stop_where_one_process_does(order, yaml_file, stopped, tmp_path):
    for shard in order:
        assert run_here(yaml_file, tmp_path / "run", "--stage", "generate", "--shard", f"{shard}/3") == 0
    assert run_here(yaml_file, tmp_path / "run", "--stage", "measure") == 0
    assert drawn(tmp_path / "run") == drawn(stopped)
    for name in ("images", "parts", "stopping", "stopped_after", "kinds"):
        assert record(tmp_path / "run")[name] == record(stopped)[name]


def test_a_question_that_a_reader_does_not_know_is_missed_after_the_first_part(tmp_path, capsys):
    config = {**CONFIG, "indicators": WORDS, **ANSWER}
    config["observe"] = {
        **ANSWER["observe"],
        "questions": {"readers": ["toyworld-checker"], "ask": {"hair": {"text": "Is the hair long?"}}},
    }
    config["stop"] = {"of": {"question": "hair"}}
    file = saved_yaml(tmp_path, config, model="toyworld")
    assert run_here(file, tmp_path / "run", "--stage", "generate", "--workers", 1) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "stop.of.question: expected hair answered by toyworld-checker, got none of 6 images" in error
    assert len(list((tmp_path / "run" / "samples").glob("part-*"))) == 1

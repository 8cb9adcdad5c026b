"""Runs that stop by what an observer sees: it looks while they are drawn, and stores what the observe stage would."""

import json

import pandas as pd
import pytest

from probes.runs.store import Run
from tests.analysis.tables.columns_held import misdescribed
from tests.faults import Death, dying
from tests.probes.conftest import stored
from tests.test_stopping import CONFIG, EACH, MOST, drawn
from tests.tiny_runs import record, run_here, saved_yaml, shards_started

DOING = ("sitting", "running", "with a dog", "with a cat", "with a bag", "reading a book")
PLACES = ("park", "office", "kitchen", "garden", "street")
CLIP = {
    "stop": {"question": "interval", "within": 0.1, "fewest": 6},
    "measure": {**CONFIG["measure"], "primary": "clip"},
    "observe": {"objects": False, "features": ["clip"], "feature_weights": {"clip": "toyworld"}},
}
OBJECT = {
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": [f"a {{person}} {doing} in the {place}" for doing in DOING for place in PLACES],
    "stop": {"question": "direction", "of": {"object": "slacks"}, "fewest": 6},
    "observe": {"engine": "toyworld-checker", "features": []},
}
ASKED = {"clip": CLIP, "object": OBJECT}
KINDS = {"clip": ("features/clip",), "object": ("objects", "observed")}
ANSWER = {"clip": "interval", "object": "masculine"}


@pytest.fixture(scope="module", params=ASKED)
def asked(request):
    return request.param


@pytest.fixture(scope="module")
def yaml_file(asked, tmp_path_factory):
    over = {"model": "toyworld"} if asked == "object" else {}
    return saved_yaml(tmp_path_factory.mktemp("yaml"), {**CONFIG, **ASKED[asked]}, **over)


@pytest.fixture(scope="module")
def counted(yaml_file, tmp_path_factory):
    """A run that was drawn by one process without disturbance, up to its tables, and how many moments it may end at."""
    path = tmp_path_factory.mktemp("runs") / "stopped"
    with dying() as counter:
        assert run_here(yaml_file, path, "--stage", "generate", "--workers", 1) == 0
    assert run_here(yaml_file, path, "--stage", "measure", "--workers", 1) == 0
    return path, counter.seen


@pytest.fixture(scope="module")
def stopped(counted):
    return counted[0]


def parts(path, kind):
    return sorted(file.name for file in (path / kind).glob("part-*"))


def test_it_stops_where_what_was_seen_answers(asked, stopped):
    table = pd.read_csv(stopped / "tables" / "stopping.csv", keep_default_na=False)
    assert table["answer"].tolist() == [*[""] * (len(table) - 1), ANSWER[asked]]
    assert [line for line in misdescribed(Run.open(stopped))[0] if line.startswith("stopping")] == []
    prompts = int(table["n_prompts"].iloc[-1])
    assert 6 < prompts < MOST
    for kind in ("samples", *KINDS[asked]):
        assert len(parts(stopped, kind)) == record(stopped)["kinds"][kind] == prompts // EACH


def test_its_gap_is_that_of_the_fixed_design(asked, stopped):
    last = pd.read_csv(stopped / "tables" / "stopping.csv").iloc[-1]
    if asked == "object":
        claims = pd.read_csv(stopped / "tables" / "object_claims.csv")
        pair = (claims["first"] == "feminine") & (claims["second"] == "masculine")
        row = claims[pair & (claims["object"] == "slacks")].iloc[0]
        assert row["difference_words"] == pytest.approx(last["gap"])
    else:
        gap = pd.read_csv(stopped / "tables" / "gap.csv")
        row = gap[gap["metric"] == asked].iloc[0]
        assert row["word_gap"] == pytest.approx(last["gap"], abs=1e-9)
    assert row["n_prompts"] == last["n_prompts"]


def test_the_share_is_counted_by_hand(asked, stopped):
    if asked != "object":
        pytest.skip("of objects alone")
    run, last = Run.open(stopped), pd.read_csv(stopped / "tables" / "stopping.csv").iloc[-1]
    found = run.objects()
    images = run.samples(["sample_id", "indicator"])
    images["there"] = images["sample_id"].isin(found.loc[found["label"] == "slacks", "sample_id"])
    share = images.groupby("indicator")["there"].mean()
    assert last["gap"] == pytest.approx(share["masculine"] - share["feminine"])
    assert (last["measure"], last["metric"], last["n_left_out"]) == ("object", "slacks", 0)
    assert run.meta["stopping"]["observer"] == "objects"
    assert run.meta["stopping"]["within"] == 0.1


def test_the_observe_stage_finds_done_what_it_would_have_made(asked, yaml_file, stopped, tmp_path):
    config = json.loads(yaml_file.read_text())
    del config["stop"]
    config["limit"] = int(pd.read_csv(stopped / "tables" / "stopping.csv")["n_prompts"].iloc[-1])
    config["prompts"] = record(stopped)["config"]["resolved"]["prompts"]
    (tmp_path / "all.yaml").write_text(json.dumps(config))
    for stage in ("generate", "observe"):
        assert run_here(tmp_path / "all.yaml", tmp_path / "all", "--stage", stage) == 0
    assert stored(tmp_path / "all") == drawn(stopped)
    noted = {"clip": "features/clip", "object": "observer"}[asked]
    assert record(tmp_path / "all")[noted] == record(stopped)[noted]


def test_what_is_there_is_neither_drawn_nor_looked_at_again(yaml_file, stopped, monkeypatch):
    before = stored(stopped)
    monkeypatch.setattr("analysis.observe.stage.Looking.loaded", None)
    for stage in ("generate", "observe"):
        assert run_here(yaml_file, stopped, "--stage", stage) == 0
    assert stored(stopped) == before


def test_it_can_be_begun_anew(yaml_file, stopped, tmp_path):
    line = ("--stage", "generate", "--workers", 1)
    assert run_here(yaml_file, tmp_path / "run", "--limit", 8, *line) == 0
    assert run_here(yaml_file, tmp_path / "run", "--overwrite", *line) == 0
    assert stored(tmp_path / "run") == drawn(stopped)


@pytest.mark.parametrize(
    ("asked", "share"),
    [
        pytest.param(name, n / 16, marks=[] if (name, n) == ("clip", 12) else pytest.mark.slow)
        for name in ASKED
        for n in range(1, 16)
    ],
    indirect=["asked"],
)
def test_a_run_that_ends_anywhere_goes_on_to_the_same_end(share, yaml_file, counted, tmp_path):
    line, (stopped, moments) = ("--stage", "generate", "--workers", 1), counted
    with dying(int(moments * share)), pytest.raises(Death):
        run_here(yaml_file, tmp_path / "run", *line)
    assert run_here(yaml_file, tmp_path / "run", *line) == 0
    assert stored(tmp_path / "run") == drawn(stopped)
    for name in ("images", "parts", "kinds", "stopping"):
        assert record(tmp_path / "run")[name] == record(stopped)[name]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
def test_more_processes_draw_and_see_the_same(workers, yaml_file, stopped, tmp_path):
    assert run_here(yaml_file, tmp_path / "run", "--stage", "generate", "--workers", workers) == 0
    assert stored(tmp_path / "run") == drawn(stopped)


@pytest.mark.parametrize(
    ("asked", "order"),
    [
        pytest.param(name, order, marks=[] if (name, order) == ("clip", (1, 0, 2)) else pytest.mark.slow)
        for name in ASKED
        for order in ((1, 0, 2), (2, 1, 0))
    ],
    indirect=["asked"],
)
def test_shards_one_after_another_stop_where_one_process_does(order, asked, yaml_file, stopped, tmp_path):
    for shard in order:
        assert run_here(yaml_file, tmp_path / "run", "--stage", "generate", "--shard", f"{shard}/3") == 0
        numbers = {int(name[5:10]) for kind in KINDS[asked] for name in parts(tmp_path / "run", kind)}
        assert shard in {number % 3 for number in numbers}  # each has looked at its own
    assert run_here(yaml_file, tmp_path / "run", "--stage", "measure") == 0
    assert drawn(tmp_path / "run") == drawn(stopped)
    for name in ("images", "parts", "stopping", "stopped_after", "kinds"):
        assert record(tmp_path / "run")[name] == record(stopped)[name]


@pytest.mark.slow
def test_shards_at_once_stop_where_one_process_does(yaml_file, stopped, tmp_path):
    for shard in shards_started(yaml_file, tmp_path / "run", 3, "--stage", "generate"):
        said = shard.communicate(timeout=900)
        assert shard.returncode == 0, said
    assert run_here(yaml_file, tmp_path / "run", "--stage", "measure") == 0
    assert drawn(tmp_path / "run") == drawn(stopped)


def test_an_observer_that_is_not_asked_for_is_missed_before_the_first_image(yaml_file, tmp_path, capsys):
    config = json.loads(yaml_file.read_text())
    config["observe"] = {"objects": False, "features": []}
    (tmp_path / "without.yaml").write_text(json.dumps(config))
    assert run_here(tmp_path / "without.yaml", tmp_path / "run", "--stage", "generate") == 2
    error = capsys.readouterr().err.strip()
    assert "observe" in error
    assert error.count("\n") == 0
    assert not (tmp_path / "run" / "samples").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("slakcs", "stop.of.object: expected an object that is looked for in every image"),
        ("women", "stop.of.object: expected a thing, got 'women', a word for persons"),
    ],
)
def test_an_object_that_cannot_be_asked_about_is_one_line(name, said, asked, yaml_file, tmp_path, capsys):
    if asked != "object":
        pytest.skip("of objects alone")
    config = json.loads(yaml_file.read_text())
    config["stop"]["of"] = {"object": name}
    (tmp_path / "other.yaml").write_text(json.dumps(config))
    for more in (("--stage", "generate"), ("--dry-run",)):
        assert run_here(tmp_path / "other.yaml", tmp_path / "run", *more) == 2
        error = capsys.readouterr().err.strip()
        assert said in error
        assert error.count("\n") == 0
    assert not (tmp_path / "run" / "samples").exists()

"""Runs that stop when their question is answered: the same decision and bytes, however they were drawn."""

import json

import pandas as pd
import pytest

from analysis.methods.stopping.looks import Looks
from analysis.methods.stopping.question import StopQuestion
from probes.runs.run import Run
from tests.analysis.tables.columns_held import misdescribed
from tests.faults import Death, dying
from tests.probes.conftest import stored
from tests.runs import record, run_here, saved_yaml

MOST, EACH = 30, 2
CONFIG = {
    "name": "stops",
    "indicators": {
        "neutral": ["person", "human"],
        "feminine": ["woman", "lady"],
        "masculine": ["man", "gentleman"],
    },
    "prompts": [f"a {{person}} with {number} cats" for number in range(MOST)],
    "stop": {"question": "interval", "within": 0.4, "fewest": 6, "every": 1},
    "sampler": {"steps": 1},
    "capture": {"sites": ["latent.final"], "words": False},
    "generate": {"part_triplets": EACH, "batch_triplets": 1, "device": "cpu"},
    "observe": {"objects": False, "features": []},
    "measure": {"bootstrap": 20, "permutations": 20},
}


@pytest.fixture(scope="module")
def yaml_file(tmp_path_factory):
    return saved_yaml(tmp_path_factory.mktemp("yaml"), CONFIG)


@pytest.fixture(scope="module")
def counted(yaml_file, tmp_path_factory):
    """A run that was drawn by one process without disturbance, up to its report, and how many moments it may end at."""
    path = tmp_path_factory.mktemp("runs") / "stopped"
    with dying() as counter:
        assert run_here(yaml_file, path, "--stage", "generate", "--workers", 1) == 0
    for stage in ("measure", "report"):
        assert run_here(yaml_file, path, "--stage", stage, "--workers", 1) == 0
    return path, counter.seen


@pytest.fixture(scope="module")
def stopped(counted):
    return counted[0]


def test_it_stops_at_the_first_look_that_answers(stopped):
    run = Run.open(stopped)
    table = pd.read_csv(stopped / "tables" / "stopping.csv", keep_default_na=False)
    assert table["answer"].tolist()[:-1] == [""] * (len(table) - 1)
    assert table["answer"].iloc[-1] == "interval"
    prompts = int(table["n_prompts"].iloc[-1])
    assert 6 < prompts < MOST
    assert run.meta["images"] == len(run.samples()) == 6 * prompts
    assert run.meta["parts"] == len(list((stopped / "samples").glob("part-*"))) == prompts // EACH
    assert sorted(run.samples()["triplet"].unique()) == list(range(prompts))
    assert [line for line in misdescribed(run)[0] if line.startswith("stopping")] == []
    gap = pd.read_csv(stopped / "tables" / "word_gap.csv")
    assert gap["word_gap"].iloc[0] == pytest.approx(table["gap"].astype(float).iloc[-1])


def test_the_question_was_registered_before_the_first_image(yaml_file, tmp_path):
    with dying(25), pytest.raises(Death):
        run_here(yaml_file, tmp_path / "run", "--stage", "generate", "--workers", 1)
    meta = json.loads((tmp_path / "run" / "run.json").read_text())
    assert meta["stopping"]["question"] == "interval"
    assert len(meta["stopping"]["sha256"]) == 64
    assert len(list((tmp_path / "run" / "samples").glob("part-*"))) < 3


def test_its_page_begins_with_the_question(stopped):
    page = (stopped / "report.html").read_text()
    first = page[page.index("<h1>") : page.index("</h1>")]
    assert "How large is the gap between masculine and feminine prompts" in first
    assert "do not know that the run stopped" in page


@pytest.mark.parametrize("workers", [pytest.param(count, marks=pytest.mark.slow) for count in (2, 3)])
def test_more_processes_draw_the_same(workers, yaml_file, stopped, tmp_path):
    assert run_here(yaml_file, tmp_path / "run", "--stage", "generate", "--workers", workers) == 0
    assert stored(tmp_path / "run") == drawn(stopped)
    assert record(tmp_path / "run")["parts"] == record(stopped)["parts"]


@pytest.mark.parametrize(
    "share", [0.6, *(pytest.param(n / 20, marks=pytest.mark.slow) for n in range(1, 20) if n != 12)]
)
def test_a_run_that_ends_anywhere_goes_on_to_the_same_end(share, yaml_file, counted, tmp_path):
    line, (stopped, moments) = ("--stage", "generate", "--workers", 1), counted
    with dying(int(moments * share)), pytest.raises(Death):
        run_here(yaml_file, tmp_path / "run", *line)
    assert run_here(yaml_file, tmp_path / "run", *line) == 0
    assert stored(tmp_path / "run") == drawn(stopped)
    for name in ("images", "parts", "stopping"):
        assert record(tmp_path / "run")[name] == record(stopped)[name]


def drawn(path):
    return {name: data for name, data in stored(path).items() if not name.startswith("tables/")}


@pytest.mark.slow
def test_its_images_are_those_of_a_run_that_does_not_stop(yaml_file, stopped, tmp_path):
    config = json.loads(yaml_file.read_text())
    config |= {
        "prompts": Run.open(stopped).config.resolved()["prompts"],
        "limit": Run.open(stopped).meta["images"] // 6,
    }
    del config["stop"]
    (tmp_path / "all.yaml").write_text(json.dumps(config))
    assert run_here(tmp_path / "all.yaml", tmp_path / "run", "--stage", "generate") == 0
    assert stored(tmp_path / "run") == drawn(stopped)


def test_where_nothing_answers_all_is_drawn(yaml_file, tmp_path, capsys):
    line = ("--stage", "generate", "--until", "±0.0001", "--limit", "12", "--workers", 1)
    assert run_here(yaml_file, tmp_path / "run", *line) == 0
    run = Run.open(tmp_path / "run")
    assert run.meta["images"] == 12 * 6
    looks = Looks(run, run.config, StopQuestion.stored(run.meta["stopping"]))
    assert [looks.question.answer(look) for look in looks.path()] == [""] * 4


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            ("--until", "soon"),
            "--until: expected direction, equivalence, gap or ±X such as ±0.05, got `soon`",
        ),
        (("--until", "direction"), "holds another run: stop is"),
    ],
)
def test_what_cannot_be_is_one_line(more, said, yaml_file, stopped, capsys):
    assert run_here(yaml_file, stopped, "--stage", "generate", *more) == 2
    error = capsys.readouterr().err.strip()
    assert said in error
    assert error.count("\n") == 0


def test_a_site_that_is_not_captured_is_missed_after_the_first_part(yaml_file, tmp_path, capsys):
    config = json.loads(yaml_file.read_text()) | {"capture": {"sites": ["text.final"]}}
    (tmp_path / "without.yaml").write_text(json.dumps(config))
    assert run_here(tmp_path / "without.yaml", tmp_path / "run", "--stage", "generate") == 2
    assert "expected latent.final:cosine among what the run captures" in capsys.readouterr().err
    assert len(list((tmp_path / "run" / "samples").glob("part-*"))) == 1


@pytest.mark.slow
def test_pictures_can_be_asked_about(yaml_file, tmp_path):
    config = json.loads(yaml_file.read_text())
    config |= {"measure": {"primary": "ssim", **CONFIG["measure"]}, "limit": 20}
    (tmp_path / "ssim.yaml").write_text(json.dumps(config))
    assert run_here(tmp_path / "ssim.yaml", tmp_path / "run", "--stage", "generate") == 0
    assert run_here(tmp_path / "ssim.yaml", tmp_path / "run", "--stage", "measure") == 0
    table = pd.read_csv(tmp_path / "run" / "tables" / "stopping.csv")
    gap = pd.read_csv(tmp_path / "run" / "tables" / "word_gap.csv")
    row = gap[(gap["space"] == "image") & (gap["metric"] == "ssim")].iloc[0]
    assert row["word_gap"] == pytest.approx(table["gap"].iloc[-1])

"""Runs of few prompts that stop over their seeds: the same decision and bytes, however they were drawn."""

import json

import numpy as np
import pandas as pd
import pytest

from probes.runs.store import Run
from tests.analysis.tables.columns_held import misdescribed
from tests.faults import Death, dying
from tests.probes.conftest import stored
from tests.test_stopping import CONFIG, drawn
from tests.tiny_runs import record, run_here, saved_yaml, shards_started

MOST = 30
SEEDS = [*range(100, 115), *range(15)]  # drawn as they are listed
ONE = {"prompts": CONFIG["prompts"][:1], "stop": {"question": "interval", "within": 0.4, "fewest": 6}}
THREE = {
    "prompts": CONFIG["prompts"][:3],
    "stop": {"question": "interval", "within": 0.25, "fewest": 6, "over": "seeds"},
    "sampler": {"steps": 1, "noise": "shared"},
    "generate": {"part_triplets": 4, "batch_triplets": 1, "device": "cpu"},  # a part ends within a seed
}
ASKED = {"one": ONE, "three": THREE}


@pytest.fixture(scope="module", params=ASKED)
def asked(request):
    return request.param


@pytest.fixture(scope="module")
def yaml_file(asked, tmp_path_factory):
    return saved_yaml(tmp_path_factory.mktemp("yaml"), {**CONFIG, "seeds": SEEDS, **ASKED[asked]})


@pytest.fixture(scope="module")
def stopped(yaml_file, tmp_path_factory):
    """A run that was drawn by one process without disturbance, up to its report."""
    path = tmp_path_factory.mktemp("runs") / "stopped"
    for stage in ("generate", "measure", "report"):
        assert run_here(yaml_file, path, "--stage", stage, "--workers", 1) == 0
    return path


def looks(path):
    return pd.read_csv(path / "tables" / "stopping.csv", keep_default_na=False)


def test_it_stops_after_the_first_seeds_that_answer(asked, stopped):
    run, table = Run.open(stopped), looks(stopped)
    assert table["answer"].tolist() == [*[""] * (len(table) - 1), "interval"]
    assert set(table["unit"]) == {"seed"}
    seeds = int(table["n_prompts"].iloc[-1])
    assert 6 < seeds < MOST
    samples = run.samples()
    whole = samples.groupby("seed")["triplet"].nunique() == len(ASKED[asked]["prompts"])
    assert set(whole[whole].index) == set(SEEDS[:seeds])
    assert list(dict.fromkeys(samples["seed"])) == SEEDS[: samples["seed"].nunique()]
    assert run.meta["images"] == len(samples)
    assert [line for line in misdescribed(run)[0] if line.startswith("stopping")] == []


def test_its_page_says_that_it_is_about_these_prompts(asked, stopped):
    page = (stopped / "report.html").read_text()
    first = page[page.index("<h1>") : page.index("How it stopped")]
    these = {"one": "this prompt", "three": "these 3 prompts"}[asked]
    assert f"(of {these} alone)" in first
    assert f"It is about {these} and other seeds, and says nothing of other prompts" in page
    assert "no seed differs by more than similarities of the seeds before it" in page


def test_seeds_of_shared_noise_are_noises_of_their_own(asked, stopped):
    samples = Run.open(stopped).samples()
    noises = samples.groupby("noise_seed")["seed"].nunique()
    assert (noises == 1).all()
    assert (
        len(noises) == samples[["triplet", "seed"] if asked == "one" else ["seed"]].drop_duplicates().shape[0]
    )


def test_images_and_gap_are_those_of_a_run_of_as_many_seeds(asked, yaml_file, stopped, tmp_path):
    last, config = looks(stopped).iloc[-1], json.loads(yaml_file.read_text())
    del config["stop"]
    config["seeds"] = SEEDS[: int(last["n_prompts"])]
    (tmp_path / "all.yaml").write_text(json.dumps(config))
    for stage in ("generate", "measure"):
        assert run_here(tmp_path / "all.yaml", tmp_path / "run", "--stage", stage) == 0
    columns = ["sample_id", "noise_seed", "prompt", "image"]
    own, whole = (
        Run.open(path).samples(columns).set_index("sample_id").sort_index()
        for path in (stopped, tmp_path / "run")
    )
    pd.testing.assert_frame_equal(own.loc[whole.index], whole)
    gaps = pd.read_csv(tmp_path / "run" / "tables" / "gap.csv")
    row = gaps[(gaps["site"] == "latent.final") & (gaps["metric"] == "cosine")].iloc[0]
    assert row["word_gap"] == pytest.approx(float(last["gap"]))


@pytest.mark.parametrize(
    "share", [0.6, *(pytest.param(n / 12, marks=pytest.mark.slow) for n in range(1, 12))]
)
def test_a_run_that_ends_anywhere_goes_on_to_the_same_end(share, yaml_file, stopped, tmp_path):
    line = ("--stage", "generate", "--workers", 1)
    with dying() as counter:
        assert run_here(yaml_file, tmp_path / "whole", *line) == 0
    with dying(int(counter.seen * share)), pytest.raises(Death):
        run_here(yaml_file, tmp_path / "run", *line)
    assert run_here(yaml_file, tmp_path / "run", *line) == 0
    assert stored(tmp_path / "run") == stored(tmp_path / "whole") == drawn(stopped)
    for name in ("images", "parts", "stopping", "stopped_after"):
        assert record(tmp_path / "run")[name] == record(stopped)[name]


@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_more_processes_draw_the_same(workers, yaml_file, stopped, tmp_path):
    assert run_here(yaml_file, tmp_path / "run", "--stage", "generate", "--workers", workers) == 0
    assert stored(tmp_path / "run") == drawn(stopped)


@pytest.mark.parametrize("order", [(1, 0, 2), pytest.param((2, 1, 0), marks=pytest.mark.slow)])
def test_shards_one_after_another_stop_where_one_process_does(order, yaml_file, stopped, tmp_path):
    for shard in order:
        assert run_here(yaml_file, tmp_path / "run", "--stage", "generate", "--shard", f"{shard}/3") == 0
    assert run_here(yaml_file, tmp_path / "run", "--stage", "measure") == 0
    assert drawn(tmp_path / "run") == drawn(stopped)
    assert looks(tmp_path / "run").equals(looks(stopped))


@pytest.mark.slow
def test_shards_at_once_stop_where_one_process_does(yaml_file, stopped, tmp_path):
    for shard in shards_started(yaml_file, tmp_path / "run", 3, "--stage", "generate"):
        said = shard.communicate(timeout=900)
        assert shard.returncode == 0, said
    assert run_here(yaml_file, tmp_path / "run", "--stage", "measure") == 0
    assert drawn(tmp_path / "run") == drawn(stopped)


def test_the_plan_counts_seeds(asked, yaml_file, capsys):
    assert run_here(yaml_file, "unused", "--dry-run") == 0
    said = capsys.readouterr().out
    assert "from 6 seeds on, after each part; at most 30 seeds" in said
    assert {"one": "of this prompt and other seeds", "three": "of these 3 prompts and other seeds"}[
        asked
    ] in said
    images = {"one": 22 * 6, "three": 22 * 6 * 3}[asked]
    assert f"1 standard deviations: some 22 seeds, {images} images" in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--seeds", *map(str, range(5))), "stop: expected at least 6 seeds, got 5"),
        (("--limit", "3", "--seeds", "0"), "stop: expected at least 6 "),
    ],
)
def test_too_few_is_one_line(more, said, yaml_file, tmp_path, capsys):
    assert run_here(yaml_file, tmp_path / "run", "--stage", "generate", *more) == 2
    error = capsys.readouterr().err.strip()
    assert said in error
    assert error.count("\n") == 0


def test_seeds_of_objects_are_counted_by_hand(tmp_path):
    """Seed by seed under two prompts, until it is known in how many images slacks are detected."""
    config = {
        **CONFIG,
        "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
        "prompts": ["a {person} with a dog in the park", "a {person} reading a book in the office"],
        "seeds": {"count": 24},
        "stop": {"question": "direction", "of": {"object": "slacks"}, "fewest": 6, "over": "seeds"},
        "observe": {"engine": "toyworld-checker", "features": []},
        "generate": {"part_triplets": 3, "batch_triplets": 1, "device": "cpu"},
    }
    file = saved_yaml(tmp_path, config, model="toyworld")
    for stage in ("generate", "measure"):
        assert run_here(file, tmp_path / "run", "--stage", stage, "--workers", 1) == 0
    run, last = Run.open(tmp_path / "run"), looks(tmp_path / "run").iloc[-1]
    assert last["answer"] == "masculine"
    seeds = int(last["n_prompts"])
    assert 6 <= seeds < 24
    found = run.objects()
    images = run.samples(["sample_id", "indicator", "seed"])
    images = images[images["seed"] < seeds]  # of the next one a prompt is drawn, or none
    assert len(images) == seeds * 2 * 3
    there = images["sample_id"].isin(found.loc[found["label"] == "slacks", "sample_id"])
    share = there.groupby(images["indicator"]).mean()
    assert float(last["gap"]) == pytest.approx(share["masculine"] - share["feminine"])
    assert np.isfinite([float(last["low"]), float(last["high"])]).all()

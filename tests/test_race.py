"""Races: who is surely behind is drawn no further; after any interruption the same is decided, with the same bytes."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import triptych
from analysis.methods.stopping.race.columns import COLUMNS
from analysis.stats.confidence_sequences import sequence_interval
from analysis.tables.columns import columns_beside
from probes.runs.store import Run
from tests.faults import Death, dying
from tests.probes.conftest import stored
from tests.test_stopping import CONFIG
from triptych import racing
from triptych.cli.main import main

MODELS = ("toyworld", "toyworld-mirror", "toyworld-null")
DOING = ("sitting", "standing", "walking", "running", "jumping", "laying")
PLACES = ("in the park", "on the beach", "on a couch", "at a table", "through a forest", "with a dog")
EACH = 6
RACED = {
    **CONFIG,
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": [f"a {{person}} {doing} {place}" for doing in DOING for place in PLACES],
    "stop": {"fewest": 12, "within": 0.2},
    "generate": {"part_triplets": EACH, "device": "cpu", "workers": 1},
}
FILES = ("race.json", "race.csv", "race.parquet", "race.html", "race-path.pdf", "race-path.png")


@pytest.fixture(scope="module")
def yaml_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("yaml") / "race.yaml"
    path.write_text(json.dumps(RACED))
    return path


def raced_here(yaml_file, out, *more):
    """The exit status of the command line, called in this process."""
    line = ["race", yaml_file, "--models", *MODELS, "--out", out, "--quiet", *more]
    return main([str(part) for part in line])


@pytest.fixture(scope="module")
def counted(yaml_file, tmp_path_factory):
    """A race whose entrants were drawn without disturbance, and how often that changed the disk."""
    path = tmp_path_factory.mktemp("runs") / "race"
    with pytest.MonkeyPatch.context() as monkeypatch, dying() as counter:
        monkeypatch.setattr(racing._Racer, "finish", lambda racer: None)
        assert raced_here(yaml_file, path) == 0
    return path, counter.seen


@pytest.fixture(scope="module")
def raced(yaml_file, counted):
    """The same race after the command was given again, which goes on to the report of each entrant."""
    path, _ = counted
    before = {name: (path / name).read_bytes() for name in FILES}
    assert raced_here(yaml_file, path) == 0
    assert before == {name: (path / name).read_bytes() for name in FILES}
    return path


def table_of(path):
    return pd.read_csv(path / "race.csv", keep_default_na=False, na_values=["NaN", ""])


def test_who_is_behind_is_drawn_no_further_and_the_others_go_on_until_they_tie(raced):
    table = table_of(raced)
    last = table.drop_duplicates("entrant", keep="last").set_index("entrant")
    assert last["state"].to_dict() == dict(zip(MODELS, ("tied", "tied", "left")))
    out, tied = last.loc["toyworld-null"], last.loc["toyworld"]
    assert 12 <= out["n_prompts"] < tied["n_prompts"] < 36
    assert out["rival"] in ("toyworld", "toyworld-mirror") and out["lead_high"] < 0
    assert -0.2 < tied["lead_low"] < 0 < tied["lead_high"] < 0.2
    for name, row in last.iterrows():
        run = Run.open(raced / name)
        assert run.meta["images"] == len(run.samples()) == row["n_images"] == 3 * row["n_prompts"]
        assert run.meta["stopped_after"]["parts"] == row["n_prompts"] // EACH
        own = pd.read_csv(raced / name / "tables" / "stopping.csv").iloc[-1]
        assert own[["gap", "low", "high"]].tolist() == pytest.approx(row[["gap", "low", "high"]].tolist())
        assert "a race with other models" in (raced / name / "report.html").read_text()
    record = json.loads((raced / "race.json").read_text())
    assert record["ended"] == "tied" and record["remaining"] == ["toyworld", "toyworld-mirror"]


def test_a_lead_is_that_of_paired_gaps_and_of_their_sums(raced):
    """By what the runs' own tables hold of each prompt, at the level that each of six sequences has."""
    row = table_of(raced).iloc[-1]
    gaps, reaches = [], []
    for name in (row["entrant"], row["rival"]):
        own = pd.read_csv(raced / name / "tables" / "gap_prompts.csv").query("measure == 'z0'")
        sides = own[["similarity_first", "similarity_second"]]
        span = sides.max(axis=1).cummax() - sides.min(axis=1).cummin()
        gaps.append(own["gap"].to_numpy())
        reaches.append(np.r_[2.0, span[:-1]])  # of a cosine, before there is any
    assert row["lead"] == pytest.approx(abs(gaps[0].mean()) - abs(gaps[1].mean()), rel=1e-5)
    options = {"level": 1 - 0.05 / 6, "reach": sum(reaches)}
    apart, total = (sequence_interval(gaps[0] + sign * gaps[1], **options) for sign in (-1, 1))
    assert abs(apart.mean) > abs(total.mean)  # they lean to opposite sides, so that their sum is the lead
    ends = (total.low, total.high) if gaps[0].mean() > 0 else (-total.high, -total.low)
    assert (row["lead_low"], row["lead_high"]) == pytest.approx(ends, rel=1e-4)


def test_its_table_is_described_and_its_page_says_the_answer(raced):
    table, page = table_of(raced), (raced / "race.html").read_text()
    assert list(table) == list(COLUMNS) == [column.name for column in columns_beside(RACE, "race")]
    assert pd.read_parquet(raced / "race.parquet").shape == table.shape
    answer = re.search(r'<p class="answer">(.*?)</p>', page)[1]
    drawn, full = table.drop_duplicates("entrant", keep="last")["n_images"].sum(), 3 * 3 * 36
    assert answer.startswith("A tie after ") and f"{drawn} images were drawn, of {full}" in answer
    assert "of these words alone" in answer
    for name in MODELS:
        assert f'<a href="{name}/report.html">' in page


RACE = "analysis.methods.stopping.race"


def test_a_report_of_an_entrant_can_be_made_anew_but_it_is_not_drawn_further(raced, capsys):
    before = stored(raced / "toyworld-null")
    assert main(["report", str(raced / "toyworld-null"), "--quiet"]) == 0
    assert main(["run", str(raced / "toyworld-null"), "--quiet"]) == 2
    assert "expected a run of its own, got one of a race" in capsys.readouterr().err
    assert stored(raced / "toyworld-null") == before


@pytest.fixture
def only_drawn(monkeypatch):
    """Races whose entrants are not measured."""
    monkeypatch.setattr(racing._Racer, "finish", lambda racer: None)


def same_race(path, raced):
    for name in FILES:
        assert (path / name).read_bytes() == (raced / name).read_bytes(), name
    for name in MODELS:
        whole = {file: data for file, data in stored(raced / name).items() if not file.startswith("tables/")}
        assert stored(path / name) == whole


@pytest.mark.parametrize(
    "share", [0.6, *(pytest.param(n / 10, marks=pytest.mark.slow) for n in range(1, 10))]
)
def test_a_race_that_ends_anywhere_goes_on_to_the_same_end(share, yaml_file, counted, tmp_path, only_drawn):
    whole, calls = counted
    with dying(int(calls * share)), pytest.raises(Death):
        raced_here(yaml_file, tmp_path / "race")
    record = json.loads((tmp_path / "race" / "race.json").read_text())
    assert record["find"] == "most" and len(record["sha256"]) == 64  # before the first image
    captures = tmp_path / "race" / "toyworld" / "captures" / "part-00001.parquet"
    if captures.exists():  # and what was damaged meanwhile is made again
        captures.write_bytes(b"")
    assert raced_here(yaml_file, tmp_path / "race") == 0
    same_race(tmp_path / "race", whole)


def test_configurations_and_more_processes_give_the_same_race(raced, tmp_path, only_drawn):
    workers = {"generate": {**RACED["generate"], "workers": 2}}
    configs = [{**RACED, **workers, "model": model, "name": model} for model in MODELS]
    found = triptych.race(configs, out=tmp_path / "race", progress=False)
    assert found.ended == "tied" and found.remaining == ["toyworld", "toyworld-mirror"]
    pd.testing.assert_frame_equal(found.table, pd.read_parquet(raced / "race.parquet"))
    assert found.answer in repr(found) and "<svg" in found._repr_html_()
    for name in MODELS:
        assert Run.open(tmp_path / "race" / name).meta["images"] == Run.open(raced / name).meta["images"]


def test_control_c_says_how_to_go_on(yaml_file, tmp_path, monkeypatch, capsys):
    def interrupted(racer, parts):
        raise KeyboardInterrupt

    monkeypatch.setattr(racing._Racer, "draw", interrupted)
    assert raced_here(yaml_file, tmp_path / "race") == 130
    assert "run the same command again" in capsys.readouterr().err


def test_another_question_of_the_same_folder_is_refused(yaml_file, raced, capsys):
    for more, said in (
        (("--find", "masculine"), 'find is "most" there, expected "masculine"'),
        (("--within", "0.1"), "within is 0.2 there, expected 0.1"),
        (("--these-words",), "these_words is false there, expected true"),
    ):
        assert raced_here(yaml_file, raced, *more) == 2
        error = capsys.readouterr().err.strip()
        assert "holds another race" in error and said in error and "\n" not in error


def changed(folder, name, **over):
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({**RACED, "name": name, **over}))
    return path


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ({"prompts": RACED["prompts"][:-1]}, "prompts["),
        ({"seeds": [1]}, "seeds[0]: expected the same of all entrants, got 0 of a and 1 of b"),
        ({"sampler": {"steps": 1, "noise": "independent"}}, "sampler.noise: expected the same"),
        ({"stop": {"fewest": 12, "within": 0.3}}, "stop (within): expected the same"),
        (
            {"generate": {**RACED["generate"], "part_triplets": 4}},
            "generate.part_triplets: expected the same",
        ),
        ({"contrasts": [["feminine", "masculine"]]}, "contrasts[0]: expected the same"),
    ],
)
def test_entrants_that_differ_in_more_than_their_model_are_refused(over, said, tmp_path, capsys):
    files = [changed(tmp_path, "a"), changed(tmp_path, "b", **over)]
    assert main(["race", *map(str, files), "--out", str(tmp_path / "race"), "--quiet"]) == 2
    error = capsys.readouterr().err.strip()
    assert said in error and "\n" not in error
    assert not (tmp_path / "race").exists()


SEEDS = 18


def test_prompts_race_over_their_seeds_one_by_one(tmp_path, capsys, only_drawn):
    """Each entrant has a prompt of its own; leads are those of differences seed by seed."""
    over = {"seeds": {"count": SEEDS}, "sampler": {"steps": 1, "noise": "shared"}}
    texts = {"sitting": ["a {person} sitting at a table"], "dog": ["a {person} with a dog in the park"]}
    files = [changed(tmp_path, name, prompts=prompts, **over) for name, prompts in texts.items()]
    line = ["race", *map(str, files), "--out", str(tmp_path / "race"), "--find", "masculine", "--quiet"]
    assert main(line) == 0
    assert f"of at most {SEEDS}" in (said := capsys.readouterr().out) and " seeds" in said
    assert "these words and prompts alone" in said
    row = table_of(tmp_path / "race").iloc[-1]
    gaps = []
    for name in (row["entrant"], row["rival"]):
        table = Run.open(tmp_path / "race" / name).captures()
        table = table.assign(near=table["latent.final:cosine"].str[0])
        near = table.pivot(index="seed", columns=["first", "second"], values="near")
        near.columns = ["-".join(sorted(pair)) for pair in near.columns]
        gaps.append((near["masculine-neutral"] - near["feminine-neutral"]).iloc[: row["n_prompts"]])
    assert row["lead"] == pytest.approx((gaps[0] - gaps[1]).mean(), abs=1e-6)
    page = (tmp_path / "race" / "race.html").read_text()
    assert "compared seed by seed" in page and "about the prompts of these entrants" in page
    more = changed(
        tmp_path, "two", prompts=[*texts["dog"], *texts["sitting"]], stop={"over": "seeds"}, **over
    )
    line[1:3] = [
        str(more),
        str(changed(tmp_path, "one", prompts=texts["dog"], stop={"over": "seeds"}, **over)),
    ]
    assert main([*line[:4], str(tmp_path / "other"), "--quiet"]) == 2
    assert (
        "number of prompts: expected the same of all entrants, got 2 of two and 1" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--models", "toyworld"), "race: expected two or more models, got 1"),
        (("--models", "toyworld", "toyworld"), "expected entrants of different names, got 'toyworld' twice"),
        (("--models", "toyworld", "toyword"), "toyword"),
        (("--models", "toyworld", "toyworld-null", "--find", "masculin"), "did you mean masculine?"),
        (("--models", "toyworld", "toyworld-null", "--within", "0"), "--within: expected a number above 0"),
    ],
)
def test_what_cannot_be_is_one_line(more, said, yaml_file, tmp_path, capsys):
    assert main(["race", str(yaml_file), *more, "--out", str(tmp_path / "race"), "--quiet"]) == 2
    error = capsys.readouterr().err.strip()
    assert said in error and "\n" not in error
    assert not (tmp_path / "race").exists()


@pytest.mark.slow
def test_what_images_show_can_be_raced_for(tmp_path, only_drawn):
    over = {
        "stop": {"of": {"object": "slacks"}, "fewest": 12},
        "observe": {"engine": "toyworld-checker", "features": []},
    }
    out = tmp_path / "race"
    found = triptych.race({**RACED, **over}, models=MODELS, find="masculine", out=out, progress=False)
    assert {*found.table["metric"]} == {"slacks"}
    for name in found.table["entrant"].unique():
        parts = found.table.query("entrant == @name")["n_prompts"].max() // EACH
        assert len(list((out / name / "objects").glob("part-*"))) == parts
    again = triptych.race({**RACED, **over}, models=MODELS, find="masculine", out=out, progress=False)
    pd.testing.assert_frame_equal(found.table, again.table)

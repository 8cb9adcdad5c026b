"""A run by several processes on one run directory: the same bytes as by one, whoever is killed, and no note is lost."""

import json
import multiprocessing
import shutil
import time

import pytest

import analysis.tables.stage
from analysis.studies.opening import opened
from analysis.tables.objects.objects import observed_images
from probes.execution import shards
from probes.execution.shards import Shard, SharedRun
from probes.runs import completeness, directory
from probes.runs.store import Run
from probes.storage.claim import Hold, claim
from tests import tiny_runs
from tests.probes.conftest import stored
from tests.remembered import leave_figures_out
from tests.tiny import tiny_pipeline
from tests.tiny_runs import measured, run_here, saved_yaml, shards_started
from triptych.cli.main import main as analyse

PATIENCE = 900  # seconds, also on a machine that is busy otherwise
PARTS = 5
CONFIG = {
    "name": "shared",
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": [f"a {{person}} with a {thing}" for thing in ("dog", "cat", "ball", "book", "hat")],
    "seeds": [0],
    "sampler": {"steps": 2},
    "capture": {"sites": ["text.final", "unet.mid", "latent.final"]},
    "generate": {"part_triplets": 1, "batch_triplets": "auto", "device": "cpu"},
    "observe": {"engine": "toyworld-checker", "features": []},
    "measure": {"bootstrap": 20, "permutations": 20},
    "report": {"gallery": 1},
}


@pytest.fixture(scope="module")
def yaml_file(tmp_path_factory):
    return saved_yaml(tmp_path_factory.mktemp("yaml"), CONFIG, "shared.yaml")


@pytest.fixture(scope="module")
def whole(yaml_file, tmp_path_factory):
    """By one process, up to the tables."""
    return measured(yaml_file, tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture
def drawn(whole, tmp_path):
    """A copy of the whole run without its tables, as a run is that its shards have drawn and nobody finished."""
    path = shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(path / "tables")
    meta = Run.open(path).meta
    del meta["written"], meta["faults"], meta["observer"]
    Run(path, {}).write_meta(**{**meta, "status": "planned", "times": {"created": meta["times"]["created"]}})
    return path


def without(path, *numbers, kinds=("samples", "captures", "words", "objects", "observed")):
    """Take parts of a run away."""
    for number in numbers:
        for kind in kinds:
            (path / kind / f"part-{number:05d}.parquet").unlink()


def record(path):
    """What run.json says but for times, processes and the folder."""
    meta = tiny_runs.record(path)
    meta["observer"].pop("counts", None)  # no shard knows them
    return meta


def together(yaml_file, path, count, *more):
    """Every shard in a process of its own, all at once."""
    started = shards_started(yaml_file, path, count, *more)
    return [(one.communicate(timeout=PATIENCE), one.returncode) for one in started]


# Who draws what


@pytest.mark.parametrize(
    "text",
    ["", "3", "3/", "/4", "4/4", "16/16", "-1/4", "0/0", "1/4/8", "a/b", "1.0/4", " 1/4", "1/4\n", "٣/4"],
)
def test_a_shard_that_is_none(text, yaml_file, tmp_path, capsys):
    assert run_here(yaml_file, tmp_path / "run", f"--shard={text}") == 2
    told = capsys.readouterr().err
    expected = "--shard: expected I/N with I from 0 to N - 1, such as 0/16 to 15/16, got "
    assert told.startswith(expected) and told.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--stage", "measure"), "expected a stage of parts (generate, observe, trace), got measure"),
        (("--stage", "plan"), "expected a stage of parts (generate, observe, trace), got plan"),
        (("--overwrite",), "expected to add to a run, got --overwrite, which removes it"),
    ],
)
def test_what_a_shard_cannot_do(more, said, yaml_file, tmp_path, capsys):
    assert run_here(yaml_file, tmp_path / "run", "--shard", "0/2", *more) == 2
    assert f"--shard: {said}" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_every_part_belongs_to_one_shard():
    for count in (1, 3, 16):
        held = [[part for part in range(50) if Shard(index, count).holds(part)] for index in range(count)]
        assert sorted(part for own in held for part in own) == list(range(50))
        assert max(map(len, held)) - min(map(len, held)) <= 1


# The same bytes


def test_shards_together_store_what_one_process_does(whole, yaml_file, tmp_path):
    """Three begin an empty folder at once, draw and look; another process measures what they have left."""
    path = tmp_path / "run"
    for stage in ("generate", "observe"):
        for (out, err), status in together(yaml_file, path, 3, "--stage", stage):
            assert (status, err) == (0, ""), err
            assert out.startswith("shard ")
    assert Run.open(path).status == "planned"  # nobody has finished it
    assert run_here(yaml_file, path, "--stage", "measure") == 0
    assert stored(path) == stored(whole)
    assert record(path) == record(whole)
    noted = Run.open(path).meta["shards"]
    assert sorted(one["shard"] for one in noted) == sorted([f"{index}/3" for index in range(3)] * 2)
    assert not list(path.rglob(".tmp-*"))


def test_the_last_one_out_finishes(whole, yaml_file, tmp_path, monkeypatch, capsys):
    """One after another, with another number of shards halfway: what is there is gone on with."""
    path = tmp_path / "run"
    for shard in ("0/2", "1/3"):  # parts 0, 2, 4 and 1, 4
        assert run_here(yaml_file, path, "--shard", shard) == 0
        assert capsys.readouterr().out == f"shard {shard}: done in {path}\n"
        assert not (path / "tables").exists()
    before = stored(path)
    leave_figures_out(monkeypatch)
    assert run_here(yaml_file, path, "--shard", "3/4") == 0  # part 3
    first, *_, last = capsys.readouterr().out.splitlines()
    assert (first, last) == (f"shard 3/4: done in {path}", f"report: {path / 'report.html'}")
    after = stored(path)
    assert all(after[name] == data for name, data in before.items())
    run, expected = Run.open(path), stored(whole)
    assert {name: data for name, data in after.items() if name not in run.written("report")} == expected
    assert run.status == "complete" and "unfinished" not in run.meta
    assert record(path) == {**record(whole), "status": "complete", "written": run.meta["written"]}
    assert run.meta["observer"]["counts"] == Run.open(whole).meta["observer"]["counts"]
    assert len(run.meta["shards"]) == 3 and "shards" not in (path / "report.html").read_text()
    # a shard that comes late finds nothing to do, and one process that goes on with the run neither
    assert run_here(yaml_file, path, "--stage", "generate", "--shard", "0/2") == 0
    assert Run.open(path).status == "complete" and stored(path) == after
    assert run_here(yaml_file, path, "--stage", "generate") == 0
    assert stored(path) == after and not (path / "shards").exists()
    assert len(Run.open(path).meta["shards"]) == 4


def test_a_shard_without_parts(yaml_file, tmp_path, capsys):
    for stage in ("generate", "observe"):
        assert (
            run_here(yaml_file, tmp_path / "run", "--stage", stage, "--shard", "6/8")
            == (stage == "observe") * 2
        )
    assert "expected a generated run, found it planned" in capsys.readouterr().err
    assert Run.open(tmp_path / "run").meta["parts"] == PARTS
    assert not (tmp_path / "run" / "samples").exists()


def test_a_planned_run_is_begun_by_shards(whole, yaml_file, tmp_path):
    path = tmp_path / "run"
    assert run_here(yaml_file, path, "--stage", "plan") == 0
    for (_, err), status in together(yaml_file, path, 2, "--stage", "generate"):
        assert (status, err) == (0, ""), err
    assert {name: data for name, data in stored(whole).items() if name in stored(path)} == stored(path)
    assert len(Run.open(path).parts("samples")) == PARTS


# What is refused


def test_another_configuration_is_refused(yaml_file, tmp_path, capsys):
    path = tmp_path / "run"
    assert run_here(yaml_file, path, "--stage", "generate", "--shard", "0/5") == 0
    capsys.readouterr()
    assert run_here(yaml_file, path, "--stage", "generate", "--shard", "1/5", "--steps", "3") == 2
    assert "holds another run: sampler.steps is 2 there, expected 3" in capsys.readouterr().err
    sees = tmp_path / "sees.yaml"
    meta = json.loads(yaml_file.read_text())
    sees.write_text(json.dumps({**meta, "observe": {**meta["observe"], "engine": "toyworld-scenes"}}))
    assert run_here(sees, path, "--shard", "1/5") == 2  # though nobody has looked yet
    assert "observe.engine is 'toyworld-checker' there, expected 'toyworld-scenes'" in capsys.readouterr().err
    other = tiny_pipeline("toy")
    weight = other.unet.conv_in.weight.data
    weight += 1
    other.save_pretrained(tmp_path / "tiny")
    changed = tmp_path / "other.yaml"
    model = shutil.copytree(meta["model"], tmp_path / "kept")
    shutil.rmtree(meta["model"])
    try:
        shutil.copytree(tmp_path / "tiny", meta["model"])  # other weights at the same place
        changed.write_text(yaml_file.read_text())
        assert run_here(changed, path, "--stage", "generate", "--shard", "1/5", "--out", path) == 2
        assert "holds another run: model is" in capsys.readouterr().err
    finally:
        shutil.rmtree(meta["model"])
        shutil.copytree(model, meta["model"])
    assert len(Run.open(path).parts("samples")) == 1


def test_one_that_has_the_run_alone_is_refused_while_shards_draw(drawn, yaml_file, capsys):
    with claim(drawn, Hold.SHARD):
        assert run_here(yaml_file, drawn, "--stage", "generate") == 2
        assert "found processes that share this folder (--shard" in capsys.readouterr().err
    with claim(drawn):
        assert run_here(yaml_file, drawn, "--stage", "generate", "--shard", "0/2") == 2
        assert "found another process that has this folder alone (without --shard)" in capsys.readouterr().err


# What shards note


def shared(path, index, count=4):
    return SharedRun(Run.open(path), Shard(index, count))


def noting(path, index, go):
    run = shared(path, index, 8)
    while not go.exists():
        time.sleep(0.001)
    for number in range(20):
        noted = [*run.meta.get("made_again", []), {"found": f"{index}-{number}", "at": "now"}]
        run.write_meta(made_again=noted, batch_triplets=[4, index])


def test_shards_do_not_lose_each_others_notes(drawn, tmp_path):
    """Eight processes note a hundred and sixty things at once."""
    context, go = multiprocessing.get_context("fork"), tmp_path / "go"
    started = [context.Process(target=noting, args=(drawn, index, go)) for index in range(8)]
    for one in started:
        one.start()
    before = (drawn / "run.json").read_bytes()
    go.touch()
    for one in started:
        one.join(PATIENCE)
        assert one.exitcode == 0
    assert (drawn / "run.json").read_bytes() == before
    for hold in (Hold.RESULTS, Hold.RESULTS, Hold.ALONE, Hold.ALONE):  # however often they are gathered
        with claim(drawn, hold) as run:
            found = sorted(entry["found"] for entry in run.meta["made_again"])
            assert found == sorted(f"{index}-{number}" for index in range(8) for number in range(20))
            assert run.meta["batch_triplets"][:4] == [7, 6, 5, 4] and len(run.meta["shards"]) == 8
    assert not (drawn / "shards").exists()


def test_a_record_or_table_that_is_being_written_is_none_yet(drawn):
    before = Run.open(drawn).tables()
    for folder, name in (("shards", "x.json"), ("tables", "gap.parquet")):
        (drawn / folder).mkdir(exist_ok=True)
        (drawn / folder / f".tmp-vm-1498-400ebfbb-{name}").write_text('{"id": ')
    assert Run.open(drawn).tables() == before and shared(drawn, 0).meta == Run.open(drawn).meta


def test_a_damaged_record_of_a_shard_is_one_line(drawn, yaml_file, capsys):
    (drawn / "shards").mkdir()
    (drawn / "shards" / "x.json").write_text('{"id": ')
    assert run_here(yaml_file, drawn, "--stage", "measure") == 2
    line = (
        "x.json: expected the record of a shard, got a damaged file: delete it, the parts are not touched\n"
    )
    assert capsys.readouterr().err.endswith(line)


def test_times_of_shards_are_added_up(drawn):
    for index, seconds in ((0, 2.5), (1, 4.0)):
        run = shared(drawn, index)
        run.write_meta(
            times={"seconds": {"generated": seconds}}, observer={"engine": "x", "counts": {"images": 3}}
        )
    directory.record_stage(shared(drawn, 2), "observed", 1.0)  # it knows of the others' times by now
    for _ in range(2):
        with claim(drawn, Hold.RESULTS) as run:
            assert run.meta["times"]["seconds"] == {"generated": 6.5, "observed": 1.0}
        assert run.meta["observer"] == {"engine": "x"}
        assert shards.elapsed(run, "generated") == 6.5


# A run that is not finished


def test_measuring_what_is_there(drawn, whole, yaml_file, monkeypatch, capsys):
    """Parts 1 and 4 are not drawn, part 3 was not looked at; then all of it is there."""
    kept = {name: data for name, data in stored(drawn).items() if "part-0000" in name}
    without(drawn, 1, 4)
    without(drawn, 3, kinds=("objects", "observed"))
    assert run_here(yaml_file, drawn, "--stage", "measure") == 0
    over = "9 of 15 images, of 3 of 5 triplets; objects and what else was observed: 6 of 15 images"
    assert capsys.readouterr().out.endswith(f"the run is not finished: measure over {over}\n")
    run = Run.open(drawn)
    assert run.meta["unfinished"]["parts"]["samples"] == "0,2-3"
    assert run.table("unfinished")[["there", "planned"]].to_numpy().tolist() == [[3, 5], [9, 15], [6, 15]]
    also = shutil.copytree(drawn, drawn.parent / "also")
    options = ["--out", str(drawn.parent / "both"), "--resamples", "20", "--permutations", "20"]
    assert analyse(["compare", str(drawn), str(also), *options]) == 0
    told = capsys.readouterr().err.splitlines()
    files = "samples/part-00001.parquet (and 1 more), captures/part-00001.parquet (and 1 more)"
    assert len(told) == 2 and all(
        line.startswith(f"{path}: the run is not finished: over {over}; missing {files}, ")
        and line.endswith(f"triptych run {path} makes them again")
        for path, line in zip((drawn, also), told)
    )
    assert set(run.table("image_similarities")["triplet"]) == {0, 2, 3}
    assert set(run.table("disparity")["n"]) == {3}
    assert set(run.table("nouns")["triplet"]) == {0, 2, 3}
    assert set(observed_images(run)["triplet"]) == {0, 2}
    seen = (
        set(run.table("table11_presence")["n_images"]) if "n_images" in run.table("table11_presence") else {2}
    )
    assert max(seen) <= 6
    # what others add meanwhile is not spoken of until the run is measured again
    for name, data in kept.items():
        (drawn / name).write_bytes(data)
    assert len(Run.open(drawn).samples(["sample_id"])) == 9
    leave_figures_out(monkeypatch)
    assert run_here(yaml_file, drawn, "--stage", "report") == 0
    assert over in capsys.readouterr().out
    page = (drawn / "report.html").read_text()
    assert page.index("The run is not finished:") < page.index('id="summary"') and over in page
    assert run_here(yaml_file, drawn, "--stage", "measure") == 0
    assert "not finished" not in capsys.readouterr().out
    assert "unfinished" not in Run.open(drawn).meta and Run.open(drawn).tables() == Run.open(whole).tables()
    assert stored(drawn) == stored(whole)


def test_measuring_while_shards_draw(drawn, yaml_file, monkeypatch, capsys):
    """The list of parts is taken once; what is finished when the tables are is measured again."""
    kept = {name: data for name, data in stored(drawn).items() if "part-00004" in name}
    without(drawn, 4)
    seen = []

    def looked(run, **options):
        seen.append([len(run.parts("samples"))])
        for file, data in kept.items():  # a shard writes its last part
            (drawn / file).write_bytes(data)
        seen[-1] += [len(run.parts("samples")), len(Run(run.path, run.meta).samples(["sample_id"]))]

    monkeypatch.setattr(analysis.tables.stage, "measure", looked)
    with claim(drawn, Hold.SHARD):
        assert run_here(yaml_file, drawn, "--stage", "measure") == 0
    assert seen == [[4, 4, 12], [5, 5, 15]]
    assert capsys.readouterr().out.count("not finished") == 1
    assert "unfinished" not in Run.open(drawn).meta


def test_a_study_of_a_run_that_is_not_finished_says_over_how_much_it_speaks(drawn, capsys):
    """Also where nobody has measured it, or it was measured whole."""
    opened(drawn)
    assert capsys.readouterr().err == ""
    without(drawn, 1, 4)
    opened(drawn)
    over = "9 of 15 images, of 3 of 5 triplets; objects and what else was observed: 9 of 15 images"
    assert capsys.readouterr().err.startswith(
        f"{drawn}: the run is not finished: over {over}; missing samples/"
    )


def test_stages_that_need_all_images_say_so(drawn, yaml_file, capsys):
    without(drawn, 1)
    for stage in ("observe", "trace"):
        assert run_here(yaml_file, drawn, "--stage", stage) == 2
        told = capsys.readouterr().err
        assert "expected a generated run, found 12 of its 15 images: run --stage generate first" in told
    assert run_here(yaml_file, drawn, "--stage", "observe", "--shard", "0/2") == 0


def test_a_run_made_elsewhere_lacks_nothing(drawn):
    run = Run.open(drawn)
    del run.meta["parts"]
    without(drawn, 1)
    assert completeness.snapshot(run) is None and not completeness.has_missing_parts(run)

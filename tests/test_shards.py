"""A run by several processes on one run directory: the same bytes as by one, and no note is lost."""

import json
import multiprocessing
import shutil
import time

import pytest

import analysis.tables.stage
from analysis.tables.object_tables import observed_images
from probes.execution import shards
from probes.execution.shards import Shard, SharedRun
from probes.runs import completeness, directory
from probes.runs.store import Run
from probes.storage.claim import Hold, claim
from tests import runs
from tests.probes.conftest import stored
from tests.runs import PATIENCE, run_here, start_shards
from triptych.cli.main import main

PARTS = len(runs.TINY["prompts"])


@pytest.fixture
def generated(tiny_copy):
    """A run as it is that its shards have generated and nobody finished."""
    shutil.rmtree(tiny_copy / "tables")
    for name in ("gallery", "report.html"):
        path = tiny_copy / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    meta = Run.open(tiny_copy).meta
    del meta["written"], meta["faults"], meta["observer"]
    times = {"created": meta["times"]["created"]}
    Run(tiny_copy, {}).write_meta(**{**meta, "status": "planned", "times": times})
    return tiny_copy


def without(path, *numbers, kinds=None):
    """Take parts of a run away."""
    folders = (
        [path / kind for kind in kinds] if kinds else [file.parent for file in path.rglob("part-00000*")]
    )
    for number in numbers:
        for folder in folders:
            (folder / f"part-{number:05d}.parquet").unlink()


# Who generates what


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--stage", "measure"), "expected a stage of parts (generate, observe, trace), got measure"),
        (("--overwrite",), "expected to add to a run, got --overwrite, which removes it"),
        (("--shard", "4/4"), "expected I/N with I from 0 to N - 1, such as 0/16 to 15/16, got "),
    ],
)
def test_what_a_shard_cannot_do(more, said, tiny, tmp_path, capsys):
    assert run_here(tiny.yaml, tmp_path / "run", "--shard", "0/2", *more) == 2
    assert f"--shard: {said}" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_every_part_belongs_to_one_shard():
    for count in (1, 3, 16):
        held = [[part for part in range(50) if Shard(index, count).holds(part)] for index in range(count)]
        assert sorted(part for own in held for part in own) == list(range(50))
        assert max(map(len, held)) - min(map(len, held)) <= 1


# The same bytes


@pytest.mark.slow
def test_shards_together_store_what_one_process_does(tiny, tmp_path):
    """Three begin an empty folder at once, generate and look; another process measures what they have left."""
    path = tmp_path / "run"
    for stage in ("generate", "observe", "trace"):
        for process in start_shards(tiny.yaml, path, 3, "--stage", stage):
            out, err = process.communicate(timeout=PATIENCE)
            assert (process.returncode, err) == (0, ""), err
            assert out.startswith("shard ")
    assert Run.open(path).status == "planned"  # nobody has finished it
    for stage in ("measure", "report"):
        assert run_here(tiny.yaml, path, "--stage", stage) == 0
    assert stored(path) == stored(tiny.run)
    found = Run.open(path).meta["shards"]
    assert sorted(one["shard"] for one in found) == sorted([f"{index}/3" for index in range(3)] * 3)
    assert not list(path.rglob(".tmp-*"))


@pytest.mark.slow
def test_the_last_one_out_finishes(tiny, tmp_path, capsys):
    """One after another, with another number of shards halfway: what is there is gone on with."""
    path = tmp_path / "run"
    assert run_here(tiny.yaml, path, "--stage", "plan") == 0
    capsys.readouterr()
    assert run_here(tiny.yaml, path, "--shard", "0/2") == 0  # parts 0 and 2
    assert capsys.readouterr().out == f"shard 0/2: done in {path}\n"
    assert not (path / "tables").exists()
    before = stored(path)
    assert run_here(tiny.yaml, path, "--shard", "1/3") == 0  # part 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert (first, last) == ("shard 1/3: done in " + str(path), f"report: {path / 'report.html'}")
    after = stored(path)
    assert all(after[name] == data for name, data in before.items()) and after == stored(tiny.run)
    run = Run.open(path)
    assert run.status == "complete" and "unfinished" not in run.meta
    assert run.meta["observer"]["counts"] == Run.open(tiny.run).meta["observer"]["counts"]
    assert set(run.meta) - {"shards"} == set(Run.open(tiny.run).meta)
    assert len(run.meta["shards"]) == 2 and "shards" not in (path / "report.html").read_text()
    # a shard that comes late finds nothing to do, and one process that goes on with the run neither
    assert run_here(tiny.yaml, path, "--stage", "generate", "--shard", "0/2") == 0
    assert Run.open(path).status == "complete" and stored(path) == after
    assert run_here(tiny.yaml, path, "--stage", "generate") == 0
    assert stored(path) == after and not (path / "shards").exists()


def test_a_shard_without_parts(tiny, tmp_path, capsys):
    path = tmp_path / "run"
    for stage, status in (("generate", 0), ("observe", 2)):
        assert run_here(tiny.yaml, path, "--stage", stage, "--shard", "6/8") == status
    assert "expected a generated run, found it planned" in capsys.readouterr().err
    assert Run.open(path).meta["parts"] == PARTS and not (path / "samples").exists()


# What is refused


def test_another_configuration_is_refused(generated, tiny, tmp_path, capsys):
    more = ("--stage", "generate", "--shard", "1/5")
    assert run_here(tiny.yaml, generated, *more, "--steps", "3") == 2
    assert "holds another run: sampler.steps is 2 there, expected 3" in capsys.readouterr().err
    other, meta = tmp_path / "other.yaml", json.loads(tiny.yaml.read_text())
    other.write_text(json.dumps({**meta, "observe": {**meta["observe"], "engine": "toyworld-scenes"}}))
    assert run_here(other, generated, "--shard", "1/5") == 2
    assert "observe.engine is 'toyworld-checker' there, expected 'toyworld-scenes'" in capsys.readouterr().err


def test_one_that_has_the_run_alone_is_refused_while_shards_generate(generated, tiny, capsys):
    with claim(generated, Hold.SHARD):
        assert run_here(tiny.yaml, generated, "--stage", "generate") == 2
        assert "found processes that share this folder (--shard" in capsys.readouterr().err
    with claim(generated):
        assert run_here(tiny.yaml, generated, "--stage", "generate", "--shard", "0/2") == 2
        assert "found another process that has this folder alone (without --shard)" in capsys.readouterr().err


# What shards note


def shared(path, index, count=4):
    return SharedRun(Run.open(path), Shard(index, count))


def noting(path, index, go):
    run = shared(path, index, 8)
    while not go.exists():
        time.sleep(0.001)
    for number in range(10):
        noted = [*run.meta.get("made_again", []), {"found": f"{index}-{number}", "at": "now"}]
        run.write_meta(made_again=noted, batch_triplets=[4, index])


def test_shards_do_not_lose_each_others_notes(generated, tmp_path):
    """Four processes note forty things at once."""
    context, go = multiprocessing.get_context("fork"), tmp_path / "go"
    started = [context.Process(target=noting, args=(generated, index, go)) for index in range(4)]
    for one in started:
        one.start()
    before = (generated / "run.json").read_bytes()
    go.touch()
    for one in started:
        one.join(PATIENCE)
        assert one.exitcode == 0
    assert (generated / "run.json").read_bytes() == before
    for hold in (Hold.RESULTS, Hold.RESULTS, Hold.ALONE, Hold.ALONE):  # however often they are gathered
        with claim(generated, hold) as run:
            found = sorted(entry["found"] for entry in run.meta["made_again"])
            assert found == sorted(f"{index}-{number}" for index in range(4) for number in range(10))
            assert run.meta["batch_triplets"][:4] == [4, 3, 2, 1] and len(run.meta["shards"]) == 4
    assert not (generated / "shards").exists()


def test_a_record_or_table_that_is_being_written_is_none_yet(generated):
    before = Run.open(generated).tables()
    for folder, name in (("shards", "x.json"), ("tables", "gap.parquet")):
        (generated / folder).mkdir(exist_ok=True)
        (generated / folder / f".tmp-vm-1498-400ebfbb-{name}").write_text('{"id": ')
    assert Run.open(generated).tables() == before and shared(generated, 0).meta["status"] == "planned"


def test_a_damaged_record_of_a_shard_is_one_line(generated, tiny, capsys):
    (generated / "shards").mkdir()
    (generated / "shards" / "x.json").write_text('{"id": ')
    assert run_here(tiny.yaml, generated, "--stage", "measure") == 2
    line = (
        "x.json: expected the record of a shard, got a damaged file: delete it, the parts are not touched\n"
    )
    assert capsys.readouterr().err.endswith(line)


def test_times_of_shards_are_added_up(generated):
    for index, seconds in ((0, 2.5), (1, 4.0)):
        run = shared(generated, index)
        run.write_meta(
            times={"seconds": {"generated": seconds}}, observer={"engine": "x", "counts": {"images": 3}}
        )
    directory.record_stage(shared(generated, 2), "observed", 1.0)  # it knows of the others' times by now
    for _ in range(2):
        with claim(generated, Hold.RESULTS) as run:
            assert run.meta["times"]["seconds"] == {"generated": 6.5, "observed": 1.0}
        assert run.meta["observer"] == {"engine": "x"}
        assert shards.elapsed(run, "generated") == 6.5


# A run that is not finished


@pytest.mark.slow
def test_measuring_what_is_there(generated, tiny, capsys):
    """Part 1 is not generated, part 2 was not looked at."""
    kept = {name: data for name, data in stored(generated).items() if "part-0000" in name}
    without(generated, 1)
    without(generated, 2, kinds=("objects", "observed"))
    assert run_here(tiny.yaml, generated, "--stage", "measure") == 0
    over = "8 of 12 images, of 2 of 3 triplets; objects: 4 of 12 images"
    assert f"the run is not finished: measure over {over}" in capsys.readouterr().out
    run = Run.open(generated)
    assert run.meta["unfinished"]["parts"]["samples"] == "0,2"
    also = shutil.copytree(generated, generated.parent / "also")
    options = ["--out", str(generated.parent / "both"), "--resamples", "20", "--permutations", "20"]
    assert main(["compare", str(generated), str(also), *options]) == 0
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2 and all(
        line.startswith(f"{path}: the run is not finished: over {over}")
        and line.endswith(f"triptych run {path} makes them again")
        for path, line in zip((generated, also), told)
    )
    assert set(run.table("image_similarities")["triplet"]) == {0, 2}
    assert set(run.table("disparity")["n"]) == {2}
    assert set(run.table("nouns")["triplet"]) == {0, 2}
    assert set(observed_images(run)["triplet"]) == {0}
    # what others add meanwhile is not spoken of until the run is measured again
    for name, data in kept.items():
        (generated / name).write_bytes(data)
    assert len(Run.open(generated).samples(["sample_id"])) == 8


def test_measuring_while_shards_generate(generated, tiny, monkeypatch, capsys):
    """The list of parts is taken once; what is finished when the tables are is measured again."""
    kept = {file: file.read_bytes() for file in generated.rglob("part-00002.parquet")}
    without(generated, 2)
    seen = []

    def looked(run, **options):
        seen.append([len(run.parts("samples"))])
        for file, data in kept.items():  # a shard writes its last part
            file.write_bytes(data)
        seen[-1] += [len(run.parts("samples")), len(Run(run.path, run.meta).samples(["sample_id"]))]

    monkeypatch.setattr(analysis.tables.stage, "measure", looked)
    with claim(generated, Hold.SHARD):
        assert run_here(tiny.yaml, generated, "--stage", "measure") == 0
    assert seen == [[2, 2, 8], [3, 3, 12]]
    assert capsys.readouterr().out.count("not finished") == 1
    assert "unfinished" not in Run.open(generated).meta


def test_stages_that_need_all_images_say_so(generated, tiny, capsys):
    without(generated, 1)
    for stage in ("observe", "trace"):
        assert run_here(tiny.yaml, generated, "--stage", stage) == 2
        told = capsys.readouterr().err
        assert "expected a generated run, found 8 of its 12 images: run --stage generate first" in told
    assert run_here(tiny.yaml, generated, "--stage", "observe", "--shard", "0/2") == 0


def test_a_run_made_elsewhere_lacks_nothing(generated):
    run = Run.open(generated)
    del run.meta["parts"]
    without(generated, 1)
    assert completeness.snapshot(run) is None and not completeness.has_missing_parts(run)

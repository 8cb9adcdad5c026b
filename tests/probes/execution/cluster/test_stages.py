"""The stages on a cluster whose workers are in this process: the same bytes as by one, whatever is lost on the way."""

import json
import shutil

import pytest
from safetensors.torch import load_file, save_file

from analysis.methods.stopping.generation import generate_until_answered
from analysis.observe.stage import observe
from probes.errors import UserError
from probes.execution.cluster import worker
from probes.execution.cluster.driver import ClusterWorkers
from probes.execution.command import StageCall
from probes.models import loading
from probes.prompts import plan as prompts
from probes.runs import directory
from probes.runs.store import Run
from probes.stages import drawing as drawn
from probes.stages import remote as drawing
from probes.stages.generate import generate
from probes.stages.trace.stage import trace
from probes.storage.claim import claim
from tests.probes.conftest import generated, settings, stored
from tests.probes.execution.cluster.fake_ray import FakeRay, Killed, pool_here

OVER = {
    "prompts": ["a {person} with a dog", "the {person} in a car"],
    "sampler": {"steps": 1},
    "capture": {"sites": ["text.final", "latent.final"], "keep": ["latent.final"]},
    "generate": {"part_triplets": 1, "batch_triplets": 1, "workers": 1},
    "observe": {"engine": "toyworld-checker", "features": []},
    "trace": {
        "sites": ["unet.down.0.*.cross", "unet.up.2.*.cross"],
        "cuts": False,
        "prompts": 2,
    },
}
ROOM = 2


class Losing(worker.Worker):
    """A worker that is lost after some of the answers of all: the file of its part is written, its answer is lost."""

    answers, losses = 0, ()

    def make_part(self, number, expected):
        super().make_part(number, expected)
        Losing.answers += 1
        if Losing.answers in Losing.losses:
            raise Killed


def in_this_process(made_of=worker.Worker):
    """Ray on one machine."""
    return FakeRay({"here": ROOM}, lambda number: made_of())


def workers(ray=None):
    """A cluster in this process."""
    return ClusterWorkers(pool_here(ray or in_this_process(), ROOM), progress=False)


def on_cluster(path, config, cluster, stages=("generate",), model=None, **options):
    """Go through stages as the command line does, with a cluster."""
    source = loading.resolve(model or config.model)
    samples = prompts.plan(config, source.tokenizers, source.token_limit)
    command = StageCall(progress=False, cluster=cluster, **options)
    with claim(path) as run:
        if "generate" in stages:
            directory.require_same(run, config.resolved())
            generate(run, config, samples, source, command)
        else:
            directory.take_up(run, config, stages)
        if "observe" in stages:
            observe(run, progress=False, cluster=cluster)
        if "trace" in stages:
            trace(run, source, samples, command)
    return run


def all_bytes(path):
    return stored(path) | {file.name: file.read_bytes() for file in sorted((path / "traced").glob("*"))}


@pytest.fixture(scope="module")
def config(saved):
    return settings(saved(), **OVER)


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    """All stages by one process."""
    path = tmp_path_factory.mktemp("whole") / "run"
    generated(path, config)
    on_cluster(path, config, None, ("observe", "trace"))
    return path


@pytest.fixture
def started(whole, tmp_path):
    """A run of which the second part is missing."""
    path = shutil.copytree(whole, tmp_path / "run")
    for file in path.rglob("part-00001.parquet"):
        file.unlink()
    return path


@pytest.mark.slow
def test_all_stages_give_the_bytes_of_one_process_also_where_workers_are_lost(
    config, whole, tmp_path, monkeypatch
):
    monkeypatch.setattr(Losing, "answers", 0)
    monkeypatch.setattr(Losing, "losses", (2, 5, 7))
    cluster = workers(in_this_process(made_of=Losing))
    run = on_cluster(tmp_path / "run", config, cluster, ("generate", "observe", "trace"))
    assert all_bytes(run.path) == all_bytes(whole)
    assert not list(run.path.rglob(".tmp-*"))
    assert cluster.pool.lost.workers == 3 and cluster.pool.lost.parts >= 3
    meta, before = (Run.open(path).meta for path in (run.path, whole))
    assert meta["cluster"]["generate"]["lost"] == {"workers": 2, "nodes": 0, "parts_again": 3}
    assert set(meta["cluster"]) == {"generate", "observe objects", "trace"}
    assert [name.startswith("cpu with ") for name in meta["cluster"]["trace"]["devices"]] == [True]
    for key in ("model", "scheduler", "part_fields", "batch_triplets", "trace_batch", "faults", "parts"):
        assert meta[key] == before[key], key
    assert meta["device"] == {**before["device"], "workers": ROOM}
    assert meta["observer"] == {**before["observer"], "workers": ROOM}
    trace_records = [{**one["trace"], "workers": 0, "seconds": 0} for one in (meta, before)]
    assert trace_records[0] == trace_records[1]


@pytest.mark.slow
def test_a_run_goes_on_on_a_cluster_and_back(config, whole, started):
    on_cluster(started, config, workers())
    assert stored(started)["samples/part-00001.parquet"] == stored(whole)["samples/part-00001.parquet"]
    (started / "captures/part-00003.parquet").unlink()
    other = config.model_copy(update={"cluster": None})
    generated(started, other)
    on_cluster(started, config, workers(), ("observe", "trace"))
    assert all_bytes(started) == all_bytes(whole)


@pytest.mark.slow
def test_no_room_on_a_device_halves_the_batch_for_all(saved, tmp_path, monkeypatch):
    config = settings(saved(), **{**OVER, "generate": {"part_triplets": 2, "batch_triplets": 2}})
    real, calls = drawn._batch, []

    def batch(pipe, config, first, members, tick):
        calls.append(len(members))
        if len(members) > 3 and len(calls) > 1:
            raise MemoryError("DefaultCPUAllocator: not enough memory")
        return real(pipe, config, first, members, tick)

    monkeypatch.setattr(drawn, "_batch", batch)
    run = on_cluster(tmp_path / "run", config, workers())
    assert run.meta["batch_triplets"] == [2, 1] and len(run.parts("samples")) == 2
    calls[:] = [0]
    expected = generated(tmp_path / "one", config)
    assert {*stored(run.path)} == {*stored(expected.path)}


def nudged(model, folder):
    """A copy of a model with one weight that is another."""
    path = shutil.copytree(model, folder / "other")
    file = path / "unet" / "diffusion_pytorch_model.safetensors"
    weights = load_file(file)
    weights[sorted(weights)[0]].view(-1)[0] += 1e-3
    save_file(weights, file, metadata={"format": "pt"})
    return path


@pytest.mark.slow
def test_a_worker_with_other_weights_or_files_is_refused(config, saved, started, tmp_path, monkeypatch):
    before = all_bytes(started)
    found = []

    class Elsewhere(worker.Worker):
        """It finds another model where the driver has one, once the run is settled."""

        def open_stage(self, function, job):
            monkeypatch.setattr(worker.Job, "source", lambda job: loading.resolve(str(found[0])))
            monkeypatch.setattr(drawing, "_kept", [])
            return super().open_stage(function, job)

    found.append(nudged(saved(), tmp_path))
    with pytest.raises(UserError, match="expected the weights that the run began with, found others"):
        on_cluster(started, config, workers(in_this_process(made_of=Elsewhere)))
    monkeypatch.undo()
    other = shutil.copytree(saved(), tmp_path / "described")
    file = other / "scheduler" / "scheduler_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "beta_end": 0.02}))
    found[0] = other
    with pytest.raises(UserError, match=r"expected scheduler/scheduler_config\.json to be the driver's"):
        on_cluster(started, config, workers(in_this_process(made_of=Elsewhere)))
    assert all_bytes(started) == before
    assert loading.resolve(str(other)).files != loading.resolve(config.model).files


def test_a_part_that_a_worker_plans_otherwise_is_refused(config, started, monkeypatch):
    real = prompts.plan
    calls = []

    def plan(*told):
        calls.append(told)
        samples = real(*told)
        return samples if len(calls) == 1 else [sample._replace(noise_seed=1) for sample in samples]

    monkeypatch.setattr(prompts, "plan", plan)
    with pytest.raises(UserError, match="part 1: expected the one that the driver planned, got another plan"):
        on_cluster(started, config, workers())
    assert not (started / "samples/part-00001.parquet").exists()


def test_a_machine_that_does_not_see_the_run_directory_is_named(config, tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "PATIENCE", 0.0)
    real = worker.Run.open

    def unseen(path):
        raise UserError("expected a run directory, found no run.json")

    monkeypatch.setattr(worker.Run, "open", unseen)
    with pytest.raises(
        UserError, match=r"expected the driver's run directory on .*, found none: choose an --out"
    ):
        on_cluster(tmp_path / "run", config, workers())
    monkeypatch.setattr(worker.Run, "open", lambda path: Run(path, {**real(path).meta, "name": "other"}))
    with pytest.raises(UserError, match=r"expected the driver's run directory on .*, found another"):
        on_cluster(tmp_path / "run", config, workers())


@pytest.mark.slow
def test_a_part_that_fails_is_named_after_the_others_are_there_and_made_by_the_same_command(
    config, whole, tmp_path, monkeypatch, capsys
):
    real = drawn._batch

    def batch(pipe, config, first, members, tick):
        if members[0].triplet == 1 and members[0].seed == 0:
            raise ZeroDivisionError("of this part")
        return real(pipe, config, first, members, tick)

    monkeypatch.setattr(drawn, "_batch", batch)
    path = tmp_path / "run"
    with pytest.raises(UserError, match=r"could not make 2 \(ZeroDivisionError: of this part\)"):
        on_cluster(path, config, workers())
    assert "Traceback" in capsys.readouterr().err
    assert [file.stem for file in Run.open(path).parts("samples")] == [
        "part-00000",
        "part-00001",
        "part-00003",
    ]
    assert Run.open(path).status == "planned"
    monkeypatch.undo()
    on_cluster(path, config, workers())
    assert stored(path)["samples/part-00002.parquet"] == stored(whole)["samples/part-00002.parquet"]


@pytest.mark.slow
def test_a_run_that_stops_makes_its_prefixes_on_a_cluster(saved, tmp_path):
    over = {**OVER, "prompts": [f"a {{person}} with {number} dogs" for number in range(8)], "trace": None}
    asked = {"fewest": 6}  # three looks
    config = settings(saved(), **{**over, "stop": asked, "measure": {"primary": "ssim"}})
    source = loading.resolve(config.model)
    samples = prompts.plan(config, source.tokenizers, source.token_limit)
    for name, cluster in (("one", None), ("run", workers())):
        with claim(tmp_path / name) as run:
            generate_until_answered(run, config, samples, source, StageCall(progress=False, cluster=cluster))
    assert stored(tmp_path / "run") == stored(tmp_path / "one")
    one, run = (Run.open(tmp_path / name).meta for name in ("one", "run"))
    assert run["stopped_after"] == one["stopped_after"] == {"parts": 16, "images": 48}

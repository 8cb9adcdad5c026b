"""The same command several times on one folder: the bytes of one process, and what is refused."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from probes.execution import loop
from probes.locks import MEASURING, locked
from probes.runs.directory import claim
from probes.runs.run import Run
from tests.faults import holding
from tests.probes.conftest import stored
from tests.runs import PATIENCE, ROOT, run_here


@pytest.fixture
def generated(tiny_copy):
    """A run as it is that was generated, observed and traced, and that nobody has measured."""
    shutil.rmtree(tiny_copy / "tables")
    for name in ("gallery", "report.html"):
        path = tiny_copy / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    meta = Run.open(tiny_copy).meta
    del meta["written"]
    times = {"created": meta["times"]["created"]}
    Run(tiny_copy, {}).write_meta(**{**meta, "status": "observed", "times": times})
    return tiny_copy


def without(path, *numbers, kinds=None):
    """Take parts of a run away."""
    folders = (
        [path / kind for kind in kinds] if kinds else [file.parent for file in path.rglob("part-00000*")]
    )
    for number in numbers:
        for folder in folders:
            (folder / f"part-{number:05d}.parquet").unlink()


def leftovers(path):
    """Temporary files and locks, but for the one that stays."""
    names = [file.name for file in path.rglob("*") if file.name.startswith((".tmp-", ".lock"))]
    return [name for name in names if name != ".lock"] + [file.name for file in path.rglob("*.parquet.lock")]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_four_processes_together_store_what_one_does(workers, toyworld, tmp_path):
    """As the jobs of an array: all begin an empty folder at once; one of them measures and reports."""
    path = tmp_path / "run"
    line = [sys.executable, "-m", "triptych", "run", toyworld.yaml, "--out", path, "--quiet"]
    line = [*map(str, line), "--workers", str(workers)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    jobs = [subprocess.Popen(line, cwd=ROOT, **streams) for _ in range(4)]
    told = [job.communicate(timeout=PATIENCE) for job in jobs]
    assert [job.returncode for job in jobs] == [0] * 4, told
    reported = [out for out, _ in told if out.rstrip().endswith(f"report: {path / 'report.html'}")]
    assert len(reported) == 1
    assert sum("every part is there, and another process" in out for out, _ in told) == 3
    assert stored(path) == stored(toyworld.run) and not leftovers(path)
    assert (path / "report.html").read_bytes() == (toyworld.run / "report.html").read_bytes()
    run = Run.open(path)
    assert run.status == "complete"
    assert set(run.meta) == set(Run.open(toyworld.run).meta)


def test_a_part_that_another_process_is_at_is_waited_for(generated, tiny, monkeypatch):
    """It is made here when that one ends without it, and found when it was made meanwhile."""
    kept = (generated / "captures" / "part-00001.parquet").read_bytes()
    expected, children = stored(generated), []
    for how in ("killed", "made"):
        without(generated, 0, 1, kinds=["samples", "captures"])
        lock, waited = generated / "words" / "part-00001.parquet.lock", []
        real = {file: expected[f"{file}/part-00001.parquet"] for file in ("samples", "captures")}

        def paused(seconds, how=how, waited=waited, real=real):
            assert (generated / "samples" / "part-00000.parquet").exists()  # the others are made first
            assert not (generated / "samples" / "part-00001.parquet").exists()
            if not waited and how == "made":
                for folder, data in real.items():
                    (generated / folder / "part-00001.parquet").write_bytes(data)
            waited.append(seconds)
            os.kill(children[-1], 9)
            os.waitpid(children[-1], 0)

        with holding(locked(lock)) as child:
            children.append(child)
            monkeypatch.setattr(loop.time, "sleep", paused)
            assert run_here(tiny.yaml, generated, "--stage", "generate") == 0
        monkeypatch.undo()
        assert waited == [loop.PAUSE] and stored(generated) == expected and not leftovers(generated)
    assert kept == expected["captures/part-00001.parquet"]


def test_another_configuration_is_refused_beside_a_run_that_is_at_work(generated, tiny, tmp_path, capsys):
    with claim(generated):
        assert run_here(tiny.yaml, generated, "--stage", "generate", "--steps", "3") == 2
        assert "holds another run: sampler.steps is 2 there, expected 3" in capsys.readouterr().err
        other, meta = tmp_path / "other.yaml", json.loads(tiny.yaml.read_text())
        other.write_text(json.dumps({**meta, "observe": {**meta["observe"], "engine": "toyworld-scenes"}}))
        assert run_here(other, generated) == 2
        told = capsys.readouterr().err
        assert "observe.engine is 'toyworld-checker' there, expected 'toyworld-scenes'" in told


# Who measures


def test_one_process_measures(generated, tiny, capsys):
    with holding(locked(generated / MEASURING)):
        assert run_here(tiny.yaml, generated) == 0
        line = f"{generated}: every part is there, and another process measures and reports\n"
        assert capsys.readouterr().out == line and not (generated / "tables").exists()
        assert run_here(tiny.yaml, generated, "--stage", "measure") == 2
        assert "expected to be the only one measuring here, found another" in capsys.readouterr().err

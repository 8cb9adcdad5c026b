"""A run directory that is taken away while a stage is at work: one line, and nothing is made in its place."""

import shutil
from itertools import pairwise

import pytest
import yaml

from probes.runs import parts
from tests.remembered import leave_figures_out
from tests.tiny import tiny_pipeline
from triptych.cli.run import main

CONFIG = {
    "name": "gone",
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": ["a {person} with a dog", "a {person} in a car"],
    "seeds": [0],
    "sampler": {"steps": 2},
    "capture": {"sites": ["latent.final"], "words": False},
    "generate": {"part_triplets": 1, "batch_triplets": 1, "device": "cpu", "workers": 1},
    "observe": {"engine": "toyworld-checker", "features": []},
    "measure": {"bootstrap": 10, "permutations": 10},
    "report": {"gallery": 1},
    "trace": {"sites": ["unet.mid.*.cross"], "batch": 16},
}
STAGES = ("generate", "observe", "trace", "measure", "report")
WRITES = {"generate": 4, "observe": 4, "trace": 2, "measure": 3, "report": 2}  # until it is taken away


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A configuration, and the run as each stage finds it."""
    folder = tmp_path_factory.mktemp("gone")
    tiny_pipeline("toy").save_pretrained(folder / "tiny")
    (folder / "t.yaml").write_text(yaml.safe_dump({**CONFIG, "model": str(folder / "tiny")}))
    with pytest.MonkeyPatch.context() as patch:
        leave_figures_out(patch)
        for one, later in pairwise(STAGES):
            if (folder / one).exists():
                shutil.copytree(folder / one, folder / later)
            assert run(folder / "t.yaml", folder / later, "--stage", one) == 0
    return folder


def run(file, path, *options):
    return main([str(file), "--out", str(path), "--quiet", *options])


def taken_away(monkeypatch, path, after, how):
    """Let a folder be taken away once so many files were written in it."""
    real, left = parts._write, [after]

    def write(file, data, named):
        left[0] -= 1
        if not left[0]:
            how(path)
        real(file, data, named)

    monkeypatch.setattr(parts, "_write", write)


def moved(path):
    path.rename(path.with_name("moved"))


def replaced(path):
    shutil.rmtree(path)
    path.mkdir()
    (path / ".lock").touch()


@pytest.mark.parametrize("how", [shutil.rmtree, moved, replaced], ids=["removed", "moved", "replaced"])
@pytest.mark.parametrize("stage", STAGES)
def test_it_is_said_in_a_line(stage, how, before, tmp_path, monkeypatch, capsys):
    leave_figures_out(monkeypatch)
    path = tmp_path / "run"
    if (before / stage).exists():
        shutil.copytree(before / stage, path)
    taken_away(monkeypatch, path, WRITES[stage], how)
    assert run(before / "t.yaml", path, "--stage", stage) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == (
        f"{path}: expected the run directory to stay while it is worked on, found it removed, moved or replaced: put"
        " it back and run the same command again, or begin anew\n"
    )
    assert not path.exists() or [file.name for file in path.iterdir()] == [".lock"]


def test_what_is_read_from_it_meanwhile_is_no_bug(before, tmp_path, monkeypatch, capsys):
    """Gone after the last part of the trace is written: its record is read then."""
    path = shutil.copytree(before / "trace", tmp_path / "run")
    monkeypatch.setattr("probes.stages.trace.stage.image_faults.counts", lambda faults: shutil.rmtree(path))
    assert run(before / "t.yaml", path, "--stage", "trace") == 2
    assert "expected the run directory to stay" in capsys.readouterr().err and not path.exists()


def test_an_error_of_another_kind_stays_what_it_is(before, tmp_path, monkeypatch):
    path = shutil.copytree(before / "trace", tmp_path / "run")
    monkeypatch.setattr("probes.stages.trace.stage.image_faults.counts", lambda faults: {}["a bug"])
    with pytest.raises(KeyError, match="a bug"):
        run(before / "t.yaml", path, "--stage", "trace")

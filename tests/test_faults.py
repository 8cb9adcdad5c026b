"""Crashes at any moment and changes between two parts: nothing is lost, nothing is mixed."""

import json
import os
import shutil
from pathlib import Path

import pytest

from probes.execution import loop
from probes.runs import directory
from probes.stages import generate
from tests.faults import Death, dying
from tests.runs import TINY, run_here
from triptych import stages

CONFIG = {
    **{name: value for name, value in TINY.items() if name != "trace"},
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "reference": "neutral",
    "contrasts": [["masculine", "feminine"]],
    "limit": 2,
    "sampler": {"steps": 1, "noise": "own", "negative_prompt": "hat"},
    "capture": {"sites": ["text.final", "latent.final"]},
    "observe": {"engine": "toyworld-checker"},
}
STAGES = {  # by name: what the command line is told; each begins where the one before has ended
    "generate": ["--stage", "generate"],
    "observe": ["--stage", "observe"],
    "measure": ["--stage", "measure"],
    "report": ["--stage", "report"],
    "measure again": ["--stage", "measure"],
    "overwrite": ["--stage", "generate", "--overwrite", "--seeds", "5"],
}


@pytest.fixture(scope="module")
def model(tiny):
    return tiny.yaml.parent / "tiny"


def everything(path):
    """Every file of a run but its lock."""
    return {
        file.relative_to(path).as_posix(): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != ".lock"
    }


class Chain:
    """The stages of a small run, each with the folder before and after it, at a clock that stands still."""

    def __init__(self, model, folder, monkeypatch):
        self.folder, self.calls, self.after = folder, {}, {}
        monkeypatch.setattr(directory, "now", lambda: "2026-01-01T00:00:00+00:00")
        for module in (stages, generate, loop):
            monkeypatch.setattr(module, "monotonic", lambda: 0.0)
        before = None
        for name in STAGES:
            path = folder / name.replace(" ", "-")
            if before is not None:
                shutil.copytree(before, path)
            contrasts = [["feminine", "masculine"]] if "again" in name else CONFIG["contrasts"]
            config = {**CONFIG, "model": str(model), "contrasts": contrasts}
            (folder / f"{path.name}.yaml").write_text(json.dumps(config))
            self.calls[name] = self.run(name, path)
            self.after[name], before = everything(path), path

    def run(self, stage, path, at=None):
        """One stage by the command line; the page names the folder, so every trial is called `run`."""
        yaml, home, link = self.folder / f"{stage.replace(' ', '-')}.yaml", Path.cwd(), self.folder / "run"
        path.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(path)
        os.chdir(self.folder)
        try:
            with dying(at) as counter:
                assert run_here(yaml, "run", *STAGES[stage]) == 0
        finally:
            os.chdir(home)
        return counter.seen

    def crash(self, stage, at):
        """End at a call, do it again; the folder is then as if nothing had been."""
        path, names = self.folder / "trial", list(STAGES)
        shutil.rmtree(path, ignore_errors=True)
        if stage != names[0]:
            shutil.copytree(self.folder / names[names.index(stage) - 1].replace(" ", "-"), path)
        with pytest.raises(Death):
            self.run(stage, path, at)
        self.run(stage, path)
        found, expected = everything(path), self.after[stage]
        assert found.keys() == expected.keys(), (stage, at)
        assert [name for name in found if found[name] != expected[name]] == [], (stage, at)


@pytest.fixture(scope="module")
def chain(model, tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield Chain(model, tmp_path_factory.mktemp("chain"), monkeypatch)


@pytest.mark.slow
def test_two_hundred_crashes(chain):
    """Spread evenly over every write, fsync, rename and removal of every stage."""
    points = [(stage, at + 1) for stage, calls in chain.calls.items() for at in range(calls)]
    chosen = [points[i * len(points) // 200] for i in range(200)]
    done = dict.fromkeys(STAGES, 0)
    for stage, at in chosen:
        chain.crash(stage, at)
        done[stage] += 1
    print(f"{len(chosen)} crashes at {len(points)} calls: {done}")

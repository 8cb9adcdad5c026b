"""Crashes at any moment and changes between two parts: nothing is lost, nothing is mixed."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from probes.execution import loop
from probes.runs import directory
from probes.stages import generate
from tests.faults import Death, dying
from tests.probes.conftest import stored
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
def test_the_stages_write_what_they_say_and_no_more(chain):
    """Measured again with another contrast: the tables of the first and what is said of them are gone."""
    first, again = (set(chain.after[name]) for name in ("report", "measure again"))
    assert any("masculine_feminine" in name for name in first)
    assert not any("masculine_feminine" in name for name in again)
    assert b"feminine-masculine" in chain.after["measure again"]["tables/gap.csv"]
    assert not any(name.startswith(("tables", "figures", "report")) for name in chain.after["overwrite"])


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


# One field or one byte is changed between two parts

CAPTIONS = [
    {"neutral": "a person on a chair", "feminine": "a woman on a chair", "masculine": "a man on a chair"},
    {"neutral": "the person reading", "feminine": "the woman reading", "masculine": "the man reading"},
]
FIELDS = {
    "name": lambda r: f"run-{r.randrange(99)}",
    "indicators.neutral": lambda r: r.choice(["human", "adult", "individual"]),
    "indicators.feminine": lambda r: r.choice(["female", {"word": "woman", "control": "masculine"}]),
    "indicators.another": lambda r: r.choice(["nurse", "chef"]),
    "reference": lambda r: r.choice(["feminine", "masculine"]),
    "contrasts": lambda r: r.choice([[["masculine", "feminine"]], [["feminine", "masculine"]]]),
    "prompts.0": lambda r: f"a {{person}} with a {r.choice(['cat', 'ball'])}",
    "prompts.1": lambda r: f"a {{person}} with a {r.choice(['hat', 'book'])}",
    "limit": lambda r: r.choice([1, 2, 3, None]),
    "seeds": lambda r: r.choice([[r.randrange(1, 2**40)], [0, 1]]),
    "sampler.steps": lambda r: r.choice([2, 3]),
    "sampler.guidance_scale": lambda r: r.choice([0.0, 1.0, 7.0, 7.5, 7.500001]),
    "sampler.scheduler": lambda r: r.choice(["ddim", "euler", "dpm", "DDIMScheduler"]),
    "sampler.negative_prompt": lambda r: r.choice(["", "dog", "hats"]),
    "sampler.noise": lambda r: "shared",
    "sampler.height": lambda r: r.choice([32, 64, 96]),
    "sampler.width": lambda r: r.choice([32, 64, 96]),
    "capture.sites": lambda r: r.choice([["text.final"], ["unet.mid"], "default"]),
    "capture.words": lambda r: False,
    "capture.definition": lambda r: "self-refined",
    "capture.keep": lambda r: r.choice([["latent"], ["x0_pred", "image"]]),
    "generate.batch_triplets": lambda r: r.choice([2, 3, "auto"]),
    "generate.part_triplets": lambda r: r.choice([2, 5]),
    "generate.dtype": lambda r: r.choice(["bfloat16", "float16"]),
    "generate.device": lambda r: r.choice(["auto", "cpu:0"]),
    "generate.workers": lambda r: r.choice([1, 2, "auto"]),
    "observe.objects": lambda r: False,
    "measure.bootstrap": lambda r: r.randrange(1, 99),
    "report.gallery": lambda r: r.randrange(1, 9),
}


def put(config, address, value):
    *above, last = address.split(".")
    for key in above:
        config = config[key]
    if isinstance(config, list):
        config[int(last)] = value
    else:
        config[last] = value


class Changes:
    """A run of two parts, made of templates and of captions, of which the second part is then missing."""

    def __init__(self, model, folder, capsys):
        self.model, self.folder, self.capsys = model, folder, capsys
        self.counts = {"refused": 0, "the same": 0}
        self.configs = {"templates": {**CONFIG, "model": str(model), "contrasts": []}}
        self.configs["captions"] = {**self.configs["templates"], "prompts": CAPTIONS}
        for name, config in self.configs.items():
            assert self.draw(config, folder / name)[0] == 0
            shutil.copytree(folder / name, folder / f"{name}-half")
            for file in (folder / f"{name}-half").rglob("part-00001.parquet"):
                file.unlink()

    def draw(self, config, path):
        (self.folder / "c.yaml").write_text(json.dumps(config))
        status = run_here(self.folder / "c.yaml", path, "--stage", "generate")
        return status, self.capsys.readouterr().err

    def trial(self, rng):
        name, path = rng.choice(list(self.configs)), self.folder / "trial"
        config, model = json.loads(json.dumps(self.configs[name])), self.folder / "changed" / "tiny"
        if rng.random() < 0.5:
            what = rng.choice(
                [f for f in FIELDS if not (name == "captions" and f.startswith(("prompts", "indicators.a")))]
            )
            put(config, what, FIELDS[what](rng))
        else:
            shutil.rmtree(model.parent, ignore_errors=True)
            shutil.copytree(self.model, model)
            file = rng.choice(sorted(file for file in model.rglob("*") if file.is_file()))
            data = bytearray(file.read_bytes())
            where = rng.randrange(len(data))
            data[where] = (data[where] + rng.randrange(1, 256)) % 256
            file.write_bytes(data)
            what, config["model"] = f"{file.relative_to(model)}[{where}]", str(model)
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.folder / f"{name}-half", path)
        before = stored(path)
        status, err = self.draw(config, path)
        if status:
            root = "model" if "[" in what else what.split(".")[0]
            assert (status, err.count("\n")) == (2, 1), (what, err)
            assert root in err or "another" in what, (what, err)
            assert stored(path) == before, what
            self.counts["refused"] += 1
        else:  # the same bytes, also of a run that had the change from the beginning
            assert stored(path) == stored(self.folder / name), what
            shutil.rmtree(path)
            assert self.draw(config, path)[0] == 0
            assert stored(path) == stored(self.folder / name), what
            self.counts["the same"] += 1


@pytest.mark.parametrize(("count", "seed"), [(10, 18), pytest.param(500, 500, marks=pytest.mark.slow)])
def test_changes_between_two_parts(count, seed, model, tmp_path, capsys):
    changes, rng = Changes(model, tmp_path, capsys), random.Random(seed)
    for _ in range(count):
        changes.trial(rng)
    assert min(changes.counts.values()) > 0

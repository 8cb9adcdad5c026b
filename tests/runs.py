"""Runs that a test session makes once for all its processes, and the command line in this process.

Fixtures, for every test below ``tests/`` (by `tests/conftest.py`); a folder that one returns is not to be changed:

========== ==============================================================================================
tiny       A `Made` run of a tiny pipeline with random weights, 4 words x 3 prompts, every kind of part, no figures
tiny_copy  A copy of its folder, to be changed
toyworld   A `Made` run of the bundled toyworld, 8 prompts, detectors, features, a trace, a report with figures
audit      A `Made` run of toyworld-work: 3 professions x 2 templates x 2 seeds, questions and skin tone, no figures
========== ==============================================================================================

`tiny.yaml` and `tiny.run` are the configuration and the run's folder; ``run_here(tiny.yaml, path)`` makes it again.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from triptych.cli.main import main

ROOT = Path(__file__).parent.parent
PATIENCE = 1800  # seconds until a process counts as hanging, also on a machine that is busy otherwise
TINY = {
    "name": "tiny",
    "indicators": {
        "neutral": "person",
        "feminine": "woman",
        "masculine": "man",
        "individual": {"word": "individual", "control": True},
    },
    "prompts": ["a {person} with a dog", "a {person} reading a book", "a {person} in a car"],
    "seeds": [0],
    "sampler": {"steps": 2},
    "capture": {
        "sites": ["text.final", "unet.mid", "latent.final"],
        "keep": ["latent.final"],
        "pool": ["unet.mid"],
    },
    "generate": {"part_triplets": 1, "batch_triplets": 1, "device": "cpu", "workers": 1},
    "observe": {
        "engine": "toyworld-checker",
        "features": ["dino", "split_product"],
        "feature_weights": {"dino": "toyworld", "split_product": "toyworld"},
        "questions": {"readers": ["toyworld-checker"]},
        "captions": {"model": "toyworld-checker"},
    },
    "trace": {"sites": ["unet.mid.*.cross"], "cuts": False},
    "measure": {"bootstrap": 20, "permutations": 20},
    "report": {"gallery": 2, "figures": False},
}
TOYWORLD = {
    "name": "toyworld",
    "model": "toyworld",
    "prompts": [
        f"a {{person}} {rest}"
        for rest in (
            "with a dog on the beach",
            "holding an umbrella on the beach",
            "with a ball in the park",
            "reading a book",
            "in a car",
            "with a cat",
            "in a hat",
            "with a kite",
        )
    ],
    "sampler": {"steps": 4},
    "generate": {"part_triplets": 4, "device": "cpu", "workers": 1},
    "observe": {"features": ["dino"]},
    "trace": {"sites": ["unet.mid.attn.0.cross"], "cuts": False},
    "measure": {"bootstrap": 50, "permutations": 64},
    "report": {"gallery": 4},
}
PROFESSIONS = ("nurse", "pilot", "cook")
AUDIT = {
    "name": "audit",
    "model": "toyworld-work",
    "prompts": {
        "template": {"bare": "{}", "beach": "{} at the beach"},
        "texts": [{"text": f"a person who works as a {name}", "profession": name} for name in PROFESSIONS],
    },
    "seeds": [0, 1],
    "sampler": {"steps": 2},
    "generate": {"workers": 1, "device": "cpu"},
    "observe": {"engine": "toyworld-checker", "features": ["clip"]},
    "measure": {"bootstrap": 50, "permutations": 64},
    "report": {"gallery": 2, "figures": False},
}


@dataclass(frozen=True)
class Made:
    """A configuration file, the run that it made, and what the command line said meanwhile."""

    yaml: Path
    run: Path
    out: str
    err: str


def run_here(yaml_file: Path, path: Path, *more: object) -> int:
    """Return the exit status of ``triptych run``, called in this process."""
    return main(["run", str(yaml_file), "--out", str(path), "--quiet", *map(str, more)])


def python(*line: object, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Return what a Python process of its own said, and how it ended."""
    return subprocess.run(
        [sys.executable, *map(str, line)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def one_line(captured: Any, *messages: str) -> None:
    """Hold that one line on stderr was all that was said, and what it holds."""
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    for message in messages:
        assert message in captured.err


def saved_yaml(folder: Path, config: Mapping[str, Any] = TINY, name: str = "tiny.yaml", **over: Any) -> Path:
    """Save a tiny pipeline and a configuration that generates with it; return the file of the latter."""
    from tests.tiny import tiny_pipeline  # which loads torch

    if not (folder / "tiny").exists():
        tiny_pipeline("toy").save_pretrained(folder / "tiny")
    path = folder / name
    path.write_text(json.dumps({**config, "model": str(folder / "tiny"), **over}, indent=1), "utf-8")
    return path


def run_settings(folder: Path, settings: Mapping[str, Any], *options: str) -> int:
    """Write a configuration and run it into ``run`` beside it; return the exit status."""
    (folder / "t.yaml").write_text(json.dumps(settings), "utf-8")
    return run_here(folder / "t.yaml", folder / "run", *options)


def export_images(rows: Iterable[Mapping[str, Any]], folder: Path, columns: Sequence[str]) -> Path:
    """Write the images of rows of ``samples`` as files with a table of some columns beside them; return the folder."""
    folder.mkdir()
    with open(folder / "metadata.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, ["file", *columns], extrasaction="ignore")
        table.writeheader()
        for row in rows:
            name = f"{row['sample_id']}.png"
            (folder / name).write_bytes(row["image"]["bytes"])
            table.writerow({**row, "file": name})
    return folder


def record(path: Path) -> dict[str, Any]:
    """Return what ``run.json`` says but for times, processes and the folder."""
    meta = json.loads((path / "run.json").read_text())
    for entry in (meta["device"], meta.get("observer", {}), meta["config"]["resolved"]["generate"]):
        entry.pop("workers", None)
    del meta["times"], meta["checksum"], meta["config"]["passed"], meta["config"]["resolved"]["out"]
    return meta


def make_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that the first process of the session that asks for it fills."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # each process has a folder of its own in the session's
        base = base.parent
    folder = base / "once" / name
    folder.parent.mkdir(exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.with_suffix(".done").exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a process that failed
            folder.mkdir()
            make(folder)
            folder.with_suffix(".done").touch()
    return folder


def _made(factory: pytest.TempPathFactory, name: str, config: Mapping[str, Any]) -> Made:
    def make(folder: Path) -> None:
        if "model" in config:
            (folder / f"{name}.yaml").write_text(json.dumps(config, indent=1), "utf-8")
        else:
            saved_yaml(folder, config, f"{name}.yaml")
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            status = main(["run", str(folder / f"{name}.yaml"), "--out", str(folder / "run")])
        assert status == 0, err.getvalue()
        (folder / "out").write_text(out.getvalue(), "utf-8")
        (folder / "err").write_text(err.getvalue(), "utf-8")

    folder = make_once(factory, name, make)
    said = ((folder / stream).read_text("utf-8") for stream in ("out", "err"))
    return Made(folder / f"{name}.yaml", folder / "run", *said)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return a run of a tiny pipeline with every kind of part."""
    return _made(tmp_path_factory, "tiny", TINY)


@pytest.fixture
def tiny_copy(tiny: Made, tmp_path: Path) -> Path:
    """Return a copy of its folder."""
    return shutil.copytree(tiny.run, tmp_path / "run")


@pytest.fixture(scope="session")
def toyworld(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return a run of toyworld with figures."""
    return _made(tmp_path_factory, "toyworld", TOYWORLD)


@pytest.fixture(scope="session")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return a run of plain prompts of professions."""
    return _made(tmp_path_factory, "audit", AUDIT)

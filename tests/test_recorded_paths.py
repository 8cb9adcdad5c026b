"""Paths in the record of a run stand as they were given; its page and tables name files alone."""

import shutil

import pytest
import yaml

from probes.runs.run import Run
from probes.toyworld import WEIGHTS
from tests.runs import ROOT, TINY
from tests.tiny import tiny_pipeline
from triptych.cli.main import main

CONFIG = {
    **{name: value for name, value in TINY.items() if name not in ("observe", "trace")},
    "name": "private",
    "model": "models/tiny",
    "prompts": ["a {person} with a dog", "a {person} in a car"],
    "sampler": {"steps": 1},
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder of a user's, with a model and detectors in it, as the current directory."""
    folder = tmp_path / "alice" / "project"
    tiny_pipeline("toy").save_pretrained(folder / "models" / "tiny")
    for name in ("grounding-dino", "sam"):
        shutil.copytree(WEIGHTS / name, folder / "checkpoints" / name)
    monkeypatch.chdir(folder)
    return folder


def test_paths_stand_as_given_and_pages_name_files_alone(project, tmp_path, capsys):
    observe = {
        "detector": str(project / "checkpoints/grounding-dino/model.safetensors"),
        "segmenter": "checkpoints/sam/model.safetensors",
    }
    (project / "x.yaml").write_text(yaml.safe_dump({**CONFIG, "observe": observe}))
    assert main(["x.yaml", "--out", "runs/x", "--quiet"]) == 0
    config = Run.open("runs/x").config
    assert (config.model, config.out) == ("models/tiny", "runs/x")
    assert (config.observe.detector, config.observe.segmenter) == (observe["detector"], observe["segmenter"])
    for file in (project / "runs/x").rglob("*"):
        if file.suffix in (".html", ".js", ".csv", ".tex", ".md"):
            text = file.read_text("utf-8")
            assert not any(needle in text for needle in (str(tmp_path), str(ROOT))), file

    # the project as a whole can be moved
    part = project / "runs/x/samples/part-00001.parquet"
    expected, moved = part.read_bytes(), tmp_path / "bob"
    part.unlink()
    project.rename(moved)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(moved)
        assert main(["runs/x", "--quiet", "--stage", "generate"]) == 0
    assert (moved / part.relative_to(project)).read_bytes() == expected
    capsys.readouterr()

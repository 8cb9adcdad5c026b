"""What a run stores says neither whose home it is nor where this machine keeps its files, and finds its files again."""

import json
import os
import platform
import re
import shutil
import zlib

import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from analysis.studies.opening import opened
from probes.runs.store import Run
from probes.toyworld import WEIGHTS
from tests.runs import ROOT, TINY
from tests.tiny import tiny_pipeline
from triptych.cli.run import main

CONFIG = {
    **{name: value for name, value in TINY.items() if name not in ("observe", "trace")},
    "name": "private",
    "model": "models/tiny",
    "prompts": ["a {person} with a dog", "a {person} in a car"],
    "sampler": {"steps": 1},
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder of a user's, with a model in it, as the current directory."""
    folder = tmp_path / "home" / "alice" / "project"
    (folder / "models").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home" / "alice"))
    monkeypatch.chdir(folder)
    tiny_pipeline("toy").save_pretrained(folder / "models" / "tiny")
    return folder


def saved(file, **over):
    file.write_text(yaml.safe_dump({**CONFIG, **over}, sort_keys=False))
    return file


def texts(file):
    """All that a file says, unpacked: columns and metadata of Parquet, streams of PDF, chunks of PNG."""
    data = file.read_bytes()
    yield data
    if file.suffix == ".parquet":
        table = pq.read_table(file)
        yield repr(table.schema.metadata).encode()
        yield from (repr(table[name].to_pylist()).encode() for name in table.column_names)
    elif file.suffix == ".pdf":
        for stream in re.findall(rb"stream\r?\n(.*?)endstream", data, re.DOTALL):
            unpacked = zlib.decompressobj()
            yield unpacked.decompress(stream) if stream[:1] == b"\x78" else stream
    elif file.suffix == ".png":
        with Image.open(file) as image:
            image.load()
            yield repr(image.info).encode()


def leaks(run, *needles):
    """Where a run names one of some texts; the copy of the user's own file is the user's."""
    return [
        f"{file.relative_to(run)}: {needle}"
        for file in sorted(run.rglob("*"))
        if file.is_file() and file.name != "triplets.yaml"
        for text in texts(file)
        for needle in needles
        if needle.encode() in text
    ]


def record(run):
    return json.loads((run / "run.json").read_text())


@pytest.mark.slow
def test_a_run_with_figures_names_neither_this_machine_nor_where_it_is(toyworld):
    needles = (str(toyworld.run.parents[1]), os.path.expanduser("~") + "/", str(ROOT), platform.release())
    assert leaks(toyworld.run, *needles) == []
    assert {file.suffix for file in toyworld.run.rglob("*.*")} >= {".pdf", ".png", ".parquet", ".html"}
    meta = record(toyworld.run)
    assert meta["model"]["path"] == "triptych:toyworld" and meta["config"]["resolved"]["out"] == "run"
    checkpoints = meta["observer"]["checkpoints"]
    assert list(checkpoints["detector"]) == ["triptych:grounding-dino/model.safetensors"]


def test_nothing_tells_of_the_home_the_installation_or_the_kernel(project, tmp_path, capsys):
    needles = (str(tmp_path), "home/alice", str(ROOT), str(WEIGHTS), platform.release())
    for name in ("grounding-dino", "sam"):
        shutil.copytree(WEIGHTS / name, project / "checkpoints" / name)
    shutil.copytree(WEIGHTS / "features/dino", project / "features" / "dino")
    (project / "tags.txt").write_text("dog\ncar\n")
    looking = {
        "detector": str(project / "checkpoints/grounding-dino/model.safetensors"),
        "segmenter": "checkpoints/sam/model.safetensors",
        "vocabulary": "~/project/tags.txt",
        "tags": ["vocabulary"],
        "features": ["dino"],
        "feature_weights": {"dino": str(project / "features/dino")},
        # looked for where it is not: the reason is recorded
        "skin_tone": {"look": "auto"},
    }
    file = saved(project / "x.yaml", observe=looking, out=str(project / "runs/whole"))
    assert main([str(file), "--model", str(project / "models/tiny"), "--quiet"]) == 0
    assert leaks(project / "runs/whole", *needles) == []
    meta = record(project / "runs/whole")
    resolved = meta["config"]["resolved"]
    assert (resolved["model"], resolved["out"]) == ("../../models/tiny", "runs/whole")
    assert resolved["observe"]["detector"] == "../../checkpoints/grounding-dino/model.safetensors"
    assert resolved["observe"]["vocabulary"] == "../../tags.txt"
    assert meta["config"]["passed"]["command_line"] == {"--model": "~/project/models/tiny"}
    assert list(meta["observer"]["checkpoints"]["segmenter"]) == ["../../checkpoints/sam/model.safetensors"]
    assert meta["model"]["id"] == "tiny" and meta["model"]["path"] == "../../models/tiny"

    outside = tmp_path / "away" / "of-home"
    assert main([str(file), "--out", str(outside), "--quiet", "--stage", "generate"]) == 0
    assert record(outside)["config"]["resolved"]["model"] == "~/project/models/tiny"
    assert leaks(outside, *needles) == []
    capsys.readouterr()


@pytest.mark.slow
def test_a_run_finds_its_model_and_images_again_where_its_project_was_moved(
    project, tmp_path, monkeypatch, capsys
):
    """From its folder alone and from another directory; another model of the same name is another run."""
    file = saved(project / "x.yaml", trace={"sites": ["unet.mid.attn.0.cross"], "cuts": False})
    assert main([str(file), "--out", "runs/x", "--quiet", "--stage", "generate"]) == 0
    part = "samples/part-00001.parquet"
    generated, pictures, before = opened(project / "runs/x"), project / "pictures", project / "runs/x" / part
    pictures.mkdir()
    rows = ["file_name,prompt,indicator,seed"]
    for row in generated.samples(["sample_id", "prompt", "indicator", "seed"]).itertuples():
        generated.image(row.sample_id).save(pictures / f"{row.sample_id}.png")
        rows.append(f"{row.sample_id}.png,{row.prompt},{row.indicator},{row.seed}")
    (pictures / "metadata.csv").write_text("\n".join(rows))
    taken = {"indicators": CONFIG["indicators"], "images": {"from": "pictures"}}
    (project / "y.yaml").write_text(yaml.safe_dump({**taken, "generate": {"workers": 1, "device": "cpu"}}))
    assert main(["y.yaml", "--out", "taken", "--quiet", "--stage", "generate"]) == 0
    assert record(project / "taken")["taken_in"]["from"] == "../pictures"
    tiny_pipeline("toy", seed=1).save_pretrained(project / "others" / "tiny")
    other = ["--out", "runs/x", "--quiet", "--model", "others/tiny", "--stage", "generate"]
    assert main([str(file), *other]) == 2
    assert "holds another run: model is 'tiny (weights" in capsys.readouterr().err
    expected = before.read_bytes()

    there = shutil.copytree(project, tmp_path / "colleague")
    shutil.rmtree(project)
    monkeypatch.chdir("/")
    for run in (there / "runs/x", there / "taken"):
        (run / part).unlink(missing_ok=True)
        assert main([str(run), "--quiet", "--stage", "generate"]) == 0
    assert (there / "runs/x" / part).read_bytes() == expected
    assert main([str(there / "runs/x"), "--quiet", "--stage", "trace"]) == 0
    assert Run.open(there / "runs/x").config.model == str(there / "models/tiny")
    assert leaks(there / "runs/x", str(tmp_path), str(ROOT)) == []
    capsys.readouterr()

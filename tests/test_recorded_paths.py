"""What a run stores says neither whose home it is nor where this machine keeps its files, and finds its files again."""

import json
import platform
import re
import shutil
import zlib

import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from probes.runs.record import checksum
from probes.runs.store import Run
from probes.toyworld import WEIGHTS
from tests.remembered import leave_figures_out
from tests.small_run import ROOT, one_line
from tests.tiny import tiny_pipeline
from triptych.cli.run import main

CONFIG = {
    "name": "private",
    "model": "models/tiny",
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": ["a {person} with a dog", "a {person} in a car"],
    "sampler": {"steps": 1},
    "capture": {"sites": ["text.final", "unet.mid", "latent.final", "vae.decoder.mid"]},
    "generate": {"part_triplets": 1, "batch_triplets": 1, "device": "cpu", "workers": 1},
    "observe": {"engine": "toyworld-checker", "features": []},
    "measure": {"bootstrap": 20, "permutations": 20},
    "report": {"gallery": 1},
}
SITES = {"trace": {"sites": ["unet.mid.attn.0.cross"], "cuts": False}}


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
    file = saved(project / "x.yaml", observe=looking, out=str(project / "runs/whole"), **SITES)
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

    bundled = saved(project / "y.yaml", model="toyworld", observe={"features": ["dino"]})
    away = tmp_path / "away" / "run"  # not in the home
    for shard in ("0/2", "1/2"):
        options = ["--out", str(away), "--quiet", "--shard", shard]
        assert main([str(bundled), *options, "--stage", "generate"]) == 0
        assert main([str(bundled), *options, "--stage", "observe"]) == 0
    assert len([*(away / "shards").iterdir()]) == 4 and leaks(away, *needles) == []
    meta = record(away)
    assert meta["model"]["path"] == "triptych:toyworld" and meta["config"]["resolved"]["out"] == "run"
    assert main([str(bundled), "--out", str(away), "--quiet", "--stage", "measure"]) == 0
    checkpoints = record(away)["observer"]["checkpoints"]
    assert list(checkpoints["detector"]) == ["triptych:grounding-dino/model.safetensors"]
    assert leaks(away, *needles) == []

    outside = tmp_path / "away" / "of-home"
    assert main([str(file), "--out", str(outside), "--quiet", "--stage", "generate"]) == 0
    assert record(outside)["config"]["resolved"]["model"] == "~/project/models/tiny"
    assert leaks(outside, *needles) == []
    capsys.readouterr()


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("file", "models/tiny"),
        ("command line", "~/project/models/tiny"),
        ("file", "{project}/models/tiny"),
        pytest.param("command line", "models/tiny", marks=pytest.mark.slow),
        pytest.param("file", "~/project/models/tiny", marks=pytest.mark.slow),
        pytest.param("command line", "{project}/models/tiny", marks=pytest.mark.slow),
    ],
)
def test_a_run_finds_its_model_again(named, where, project, monkeypatch, capsys):
    """From its folder alone, from another directory, and where it was moved."""
    named = named.format(project=project)
    file = saved(
        project / "x.yaml", **({"model": named} if where == "file" else {"model": "toyworld"}), **SITES
    )
    model = [] if where == "file" else ["--model", named]

    def go_on(given, *more):
        return main([str(given), *map(str, more), "--quiet"])

    first, moved = project / "runs" / "first", project / "elsewhere" / "deep" / "er" / "moved"
    assert go_on(file, *model, "--out", first, "--stage", "generate") == 0
    stored = (first / "samples/part-00001.parquet").read_bytes()
    monkeypatch.chdir("/")
    (first / "samples/part-00001.parquet").unlink()
    assert go_on(first, "--stage", "generate") == 0
    assert (first / "samples/part-00001.parquet").read_bytes() == stored
    assert go_on(first, "--stage", "trace") == 0
    monkeypatch.chdir(project)
    assert go_on("x.yaml", *model, "--out", first, "--stage", "generate") == 0  # nothing differs
    moved.parent.mkdir(parents=True)
    shutil.move(first, moved)
    if named == "models/tiny":  # such a path leads from where the command is called, as it always did
        monkeypatch.chdir("/")
        capsys.readouterr()
        assert go_on(moved, "--stage", "trace", "--overwrite") == 2
        one_line(capsys.readouterr(), "/elsewhere/deep/models/tiny: unknown; expected toyworld")
        assert go_on(moved, "--model", project / named, "--stage", "trace", "--overwrite") == 0
        monkeypatch.chdir(project)
    else:
        monkeypatch.chdir("/")
    assert go_on(moved, "--stage", "trace", "--overwrite") == 0
    monkeypatch.chdir(project)
    (moved / "samples/part-00001.parquet").unlink()
    assert go_on("x.yaml", *model, "--out", moved, "--stage", "generate") == 0
    assert (moved / "samples/part-00001.parquet").read_bytes() == stored
    assert go_on("x.yaml", *model, "--out", moved, "--stage", "observe") == 0
    assert go_on("x.yaml", *model, "--out", moved, "--stage", "measure") == 0
    assert leaks(moved, str(project.parent), str(ROOT)) == []
    capsys.readouterr()


def test_a_whole_project_can_be_moved(project, tmp_path, monkeypatch, capsys):
    detector = {
        "engine": "toyworld-checker",
        "features": ["dino"],
        "feature_weights": {"dino": "features/dino"},
    }
    shutil.copytree(WEIGHTS / "features/dino", project / "features" / "dino")
    file = saved(project / "x.yaml", observe=detector, **SITES)
    assert main([str(file), "--out", "runs/x", "--quiet", "--stage", "generate"]) == 0
    there = shutil.copytree(project, tmp_path / "colleague")
    shutil.rmtree(project)
    monkeypatch.chdir("/")
    for stage in ("trace", "observe", "measure"):
        assert main([str(there / "runs/x"), "--quiet", "--stage", stage]) == 0
    assert Run.open(there / "runs/x").config.model == str(there / "models/tiny")
    capsys.readouterr()


def test_another_model_of_the_same_name_is_another_run(project, capsys):
    tiny_pipeline("toy", seed=1).save_pretrained(project / "others" / "tiny")
    file = saved(project / "x.yaml")
    assert main([str(file), "--out", "run", "--quiet", "--stage", "generate"]) == 0
    options = ["--out", "run", "--quiet", "--model", "others/tiny"]
    assert main([str(file), *options, "--stage", "generate"]) == 2
    assert "holds another run: model is 'tiny (weights" in capsys.readouterr().err
    assert main([str(file), *options, "--stage", "observe"]) == 2
    assert "holds another run: model is" in capsys.readouterr().err


def test_records_of_earlier_versions_are_read_and_gone_on_with(project, monkeypatch, capsys):
    """They hold paths as they can be opened, or as they were written."""
    file, run = saved(project / "x.yaml", **SITES), project / "run"
    assert main([str(file), "--out", str(run), "--quiet", "--stage", "generate"]) == 0
    for named in ("models/tiny", str(project / "models/tiny")):
        meta = record(run)
        del meta["paths"], meta["checksum"]
        meta["config"]["resolved"]["model"] = meta["model"]["id"] = meta["model"]["path"] = named
        meta["config"]["resolved"]["out"] = str(run)
        meta["checksum"] = checksum(meta)
        (run / "run.json").write_text(json.dumps(meta))
        assert Run.open(run).config.model == named
        (run / "samples/part-00001.parquet").unlink()
        assert main([str(file), "--out", str(run), "--quiet", "--stage", "generate"]) == 0
        assert main([str(run), "--quiet", "--stage", "trace", "--overwrite"]) == 0
    monkeypatch.chdir("/")
    assert main([str(run), "--quiet", "--stage", "observe"]) == 0
    assert leaks(run, str(project), str(ROOT)) == []
    capsys.readouterr()


def test_images_of_another_program_are_found_again(project, monkeypatch, capsys):
    from analysis.studies.opening import opened

    leave_figures_out(monkeypatch)
    file = saved(project / "x.yaml")
    assert main([str(file), "--out", "run", "--quiet", "--stage", "generate"]) == 0
    drawn, pictures = opened(project / "run"), project / "pictures"
    pictures.mkdir()
    samples = drawn.samples(["sample_id", "prompt", "indicator", "seed"])
    rows = ["file_name,prompt,indicator,seed"]
    for row in samples.itertuples():
        drawn.image(row.sample_id).save(pictures / f"{row.sample_id}.png")
        rows.append(f"{row.sample_id}.png,{row.prompt},{row.indicator},{row.seed}")
    (pictures / "metadata.csv").write_text("\n".join(rows))
    taken = {key: CONFIG[key] for key in ("indicators", "observe", "measure", "report")}
    (project / "y.yaml").write_text(yaml.safe_dump({**taken, "images": {"from": "pictures"}}))
    assert main(["y.yaml", "--out", "taken", "--quiet"]) == 0
    assert record(project / "taken")["taken_in"]["from"] == "../pictures"
    assert "<code>pictures</code>" in (project / "taken/report.html").read_text(encoding="utf-8")
    monkeypatch.chdir("/")
    (project / "taken/samples/part-00000.parquet").unlink()
    assert main([str(project / "taken"), "--quiet", "--stage", "generate"]) == 0
    assert leaks(project / "taken", str(project.parent), str(ROOT)) == []
    capsys.readouterr()

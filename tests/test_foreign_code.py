"""Code that comes with a model never runs, whichever field names it, also where a user says *y*."""

import functools
import io
import json
import re
import shutil
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoTokenizer

from analysis.methods.tracing.logits import logits
from analysis.observe.checkpoints import find, read_weights
from analysis.observe.features.registry import FEATURES
from analysis.observe.skin.trust import FILES, Trust
from probes.config.schema import Config, schema_text
from probes.errors import UserError
from tests.analysis.observe.tiny_models import DETECTOR, SEGMENTER, save_detector
from tests.evil_models import evil_folder, pickled, runs
from tests.runs import run_here
from triptych.cli.main import main

SMALL = {
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": ["a {person} with a dog"],
    "seeds": [0],
    "sampler": {"steps": 2},
    "generate": {"device": "cpu", "workers": 1},
}
TOYWORLD = {"detector": "toyworld", "segmenter": "toyworld"}
FOUND = {"tags": ["prompt"], "engine": "groundingdino", "segmenter": "toyworld"}
# What has to stand beside a field for the model that it names to be read, and what ``config.json`` says of it.
READ = {
    "model": ({}, "clip"),
    "lora.[].path": ({}, "clip"),
    "textual_inversion.[].path": ({}, "clip"),
    "vae": ({}, "clip"),
    "quantization.file": ({}, "clip"),
    "observe.detector": (FOUND, "grounding-dino"),
    "observe.segmenter": (FOUND, "sam"),
    "observe.text_encoder": (FOUND, "bert"),
    "observe.ram": ({"tags": ["ram"], **TOYWORLD}, "ram"),
    "observe.feature_weights.*": ({"engine": "toyworld-checker"}, "vit"),
    "observe.skin_tone.landmarks": (None, "fan"),  # by a library that need not be installed
    "observe.skin_tone.detector": (None, "s3fd"),
    "observe.skin_tone.trust": (None, "trust"),
    "observe.questions.blip2": (
        {"engine": "toyworld-checker", "questions": {"readers": ["blip2"]}},
        "blip-2",
    ),
    "observe.captions.model": ({"engine": "toyworld-checker"}, "blip"),
    "measure.logits.classifier": (None, "logits"),  # of traced images
}
DESCRIBED = {  # what stands beside a checkpoint, without which it is not read
    "observe.detector": {**DETECTOR, "text_encoder": None},
    "observe.segmenter": SEGMENTER,
}


def texts(node, definitions, path=(), seen=()):
    """The free texts of a JSON schema: the path of each and whether it names a model."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        if name not in seen:
            yield from texts(definitions[name], definitions, path, (*seen, name))
        return
    for key in ("anyOf", "oneOf", "allOf"):
        for choice in node.get(key, ()):
            yield from texts(choice, definitions, path, seen)
    if node.get("type") == "string" and not {"enum", "const"} & {*node}:
        yield ".".join(path), node.get("format") == "model"
    for name, inner in node.get("properties", {}).items():
        yield from texts(inner, definitions, (*path, name), seen)
    for key, name in (("additionalProperties", "*"), ("items", "[]")):
        if isinstance(node.get(key), dict):
            yield from texts(node[key], definitions, (*path, name), seen)


SCHEMA = json.loads(schema_text())
TEXTS = dict(texts(SCHEMA, SCHEMA["$defs"]))
MODELS = sorted(path for path, names_model in TEXTS.items() if names_model)
OTHERS = sorted({*TEXTS} - {*MODELS})
READABLE = [path for path in MODELS if READ[path][0] is not None]


def with_value(path, value, key="dino"):
    """A configuration in which a path of the schema has a value; `key` stands for any name."""
    name, _, rest = path.partition(".")
    if not rest:
        inner = value
    else:
        inner = with_value(rest, value, key)
    return [inner] if name == "[]" else {key if name == "*" else name: inner}


def joined(*configs):
    """Configurations over one another, section by section."""
    result = {}
    for config in configs:
        for name, value in config.items():
            both = isinstance(value, dict) and isinstance(result.get(name), dict)
            result[name] = joined(result[name], value) if both else value
    return result


@pytest.fixture(scope="module")
def drawn(tiny, tmp_path_factory):
    """A run of three images, and the file that it was generated with."""
    folder = tmp_path_factory.mktemp("drawn")
    yaml = folder / "small.yaml"
    yaml.write_text(json.dumps({**SMALL, "model": str(tiny.yaml.parent / "tiny")}))
    assert run_here(yaml, folder / "run", "--stage", "generate") == 0
    return yaml, folder / "run"


@pytest.fixture(autouse=True)
def willing(monkeypatch):
    """A user who says *y* to whatever is asked."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 100))


def test_these_files_do_run_where_they_are_trusted(tmp_path):
    """Else the tests below could not fail."""
    marker = tmp_path / "ran"
    folder = evil_folder(tmp_path / "evil", marker, "evil")
    readers = (
        lambda: AutoTokenizer.from_pretrained(folder, trust_remote_code=True),
        lambda: torch.load(folder / "pytorch_model.bin", weights_only=False),
        lambda: torch.load(folder / "E_albedo_BalanceAlb.tar", weights_only=False),
        lambda: np.load(folder / "BalanceAlb_model.npz", allow_pickle=True)["mean"],
    )
    for read in readers:
        runs(read)
        assert marker.exists()
        marker.unlink()


def test_every_field_that_names_a_model_is_known_here():
    assert set(MODELS) == set(READ), "a new field that names a model: say what has to stand beside it"


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    """A detector whose text encoder is named in the configuration."""
    file = save_detector(tmp_path_factory.mktemp("whole"))
    file.with_suffix(".json").write_text(json.dumps(DESCRIBED["observe.detector"]))
    return {"detector": str(file), "text_encoder": str(file.parent / "bert")}


@pytest.fixture
def refused(drawn, detector, tmp_path, capsys):
    return functools.partial(_refused, drawn, detector, tmp_path, capsys)


def _refused(drawn, detector, tmp_path, capsys, path, value, *, key="dino"):
    """Let the command line look at a run's images with a model of a path; gives what it said."""
    yaml, run = drawn
    beside, _ = READ[path]
    if beside.get("engine") == "groundingdino":
        beside = beside | detector
    changed = joined(json.loads(yaml.read_text()), {"observe": beside}, with_value(path, str(value), key))
    if path == "quantization.file":
        changed["quantization"]["quant_backend"] = "gguf"
    if path == "observe.feature_weights.*":
        changed["observe"]["features"] = [key]
    file = tmp_path / "changed.yaml"
    file.write_text(json.dumps(changed))
    if not path.startswith("observe"):
        status = run_here(file, tmp_path / "run")
    else:
        again = shutil.copytree(run, tmp_path / "run")
        status = run_here(file, again, "--stage", "observe")
    said = capsys.readouterr().err
    assert status == 2, said
    assert "Traceback" not in said and re.split(r"\.[*\[]", path)[0] in said, said
    return said


@pytest.mark.parametrize(
    ("path", "kind", "weights"),
    [
        *((path, "known", number % 2) for number, path in enumerate(READABLE)),
        ("model", "unknown", 0),
        ("observe.captions.model", "unknown", 0),
    ],
)
def test_a_folder_with_code_of_its_own(refused, tmp_path, path, kind, weights):
    """Whose weights are safetensors or pickles."""
    marker = tmp_path / "ran"
    model_type = READ[path][1] if kind == "known" else "evil"
    folder = evil_folder(tmp_path / "evil", marker, model_type, weights=bool(weights))
    refused(path, folder)
    assert not marker.exists()


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name != "clip" else ()) for name in sorted(FEATURES)],
)
def test_every_feature(refused, tmp_path, name):
    marker = tmp_path / "ran"
    folder = evil_folder(tmp_path / "evil", marker, "vit", weights=False)
    described = {
        "architecture": f"local-dir:{folder}",
        "model_args": {"checkpoint_path": f"{folder}/model.pth"},
    }
    (folder / "config.json").write_text(json.dumps(described))
    refused("observe.feature_weights.*", folder, key=name)
    assert not marker.exists()


ENDINGS = (".pth", ".bin", ".pt", ".ckpt", ".safetensors", ".npz")
# each field is given one ending, and every second a pickle of the other layout
PICKLES = [(path, ENDINGS[row % len(ENDINGS)], row % 2) for row, path in enumerate(READABLE)]


@pytest.mark.parametrize(("path", "ending", "zipped"), PICKLES)
def test_a_checkpoint_that_is_a_pickle(refused, tmp_path, path, ending, zipped):
    file = pickled(tmp_path / f"model{ending}", tmp_path / "ran", zipped=zipped)
    if path in DESCRIBED:
        file.with_suffix(".json").write_text(json.dumps(DESCRIBED[path]))
    refused(path, file)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("path", [path for path in MODELS if READ[path][0] is None])
def test_readers_that_are_called_by_themselves(tmp_path, path):
    """Where a library may be absent, or images are traced ones."""
    marker = tmp_path / "ran"
    folder = evil_folder(tmp_path / "evil", marker, "evil")
    with pytest.raises(UserError, match=path if path.startswith("measure") else None):
        if path.endswith("trust"):
            assert all((folder / name).is_file() for name in FILES)
            Trust(str(folder)).load("cpu")
        elif path.startswith("measure"):
            measure = {"logits": {"classifier": str(folder)}}
            config = Config(prompts=["a {person}"], observe={"device": "cpu"}, measure=measure)
            logits("classifier", [Image.new("RGB", (64, 64))], config)
        else:
            read_weights(find(str(folder / "model.pth"), path), path)
    assert not marker.exists()


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.slow if number % 8 else ()) for number, path in enumerate(OTHERS)],
)
def test_no_other_text_of_the_configuration_names_code(drawn, tmp_path, path):
    """A folder named where none is expected: a line, or nothing at all, and never its code."""
    marker = tmp_path / "ran"
    folder = evil_folder(tmp_path / "evil", marker, "clip")
    yaml, _ = drawn
    changed = joined(json.loads(yaml.read_text()), with_value(path, str(folder), "neutral"))
    file = tmp_path / "changed.yaml"
    file.write_text(json.dumps(changed))
    assert main(["plan", str(file), "--out", str(tmp_path / "run")]) in (0, 2)
    assert not marker.exists()

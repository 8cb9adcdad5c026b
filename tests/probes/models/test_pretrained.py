"""The module that reads foreign models: the only one that calls the libraries' loaders, and off the network."""

import ast
import json
import re
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoConfig

from analysis.observe.features.embedder import Embedder
from analysis.observe.features.registry import FEATURES
from probes.errors import UserError
from probes.models import pretrained
from probes.toyworld import WEIGHTS
from tests.evil_models import evil_folder
from tests.soon import Hang

ROOT = Path(__file__).parents[3]
DOOR = "probes/models/pretrained.py"
CALLS = {
    *("from_pretrained", "from_single_file", "create_model", "create_model_from_pretrained", "get_tokenizer"),
    *("create_model_and_transforms", "HFTokenizer", "load_checkpoint", "unsafe_load", "load_url"),
    *("load_state_dict_from_url", "sam_model_registry"),
}
MODULES = {"pickle", "joblib", "dill", "cloudpickle", "shelve", "marshal"}
LOADERS = {("torch", "load"), ("np", "load"), ("numpy", "load"), ("hub", "load"), ("jit", "load")}
AUTO = re.compile(
    r"Auto(Tokenizer|Config|Processor|ImageProcessor|FeatureExtractor|Model\w*|Pipeline\w*|Backbone)"
)
NOT_FOREIGN = {
    "probes/execution/processes.py",  # pickles, to know a work again; unpickles nothing
    "probes/toyworld/pipelines.py",  # the package's own weights
}


def forbidden(tree: ast.AST) -> list[str]:
    """What in a file reads a foreign model, or unpickles."""
    found, ours = [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "probes.models.pretrained":
            ours |= {alias.name for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            named = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            owner = getattr(getattr(node.func, "value", None), "id", getattr(node.func, "value", None))
            owner = owner.attr if isinstance(owner, ast.Attribute) else owner
            if (named in CALLS - ours and owner != "pretrained") or (owner, named) in LOADERS:
                found.append(f"{node.lineno}: {named}()")
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(alias.name for alias in node.names)]
        for name in names:
            if name.split(".")[0] in MODULES or AUTO.fullmatch(name):
                found.append(f"{node.lineno}: import of {name}")
    return found


def test_no_other_module_reads_foreign_models():
    for path in (path for room in ("hooks", "probes", "analysis") for path in (ROOT / room).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name != DOOR and name not in NOT_FOREIGN:
            found = forbidden(ast.parse(path.read_text(encoding="utf-8")))
            assert not found, f"{name}: {', '.join(found)}: call probes.models.pretrained"


def test_the_test_sees_such_calls():
    text = """
from transformers import AutoTokenizer
import pickle, torch, numpy as np, timm
AutoTokenizer.from_pretrained("x")
torch.load("x", weights_only=True)
torch.hub.load("x", "y")
np.load("x")
timm.create_model("x")
"""
    assert [line.split(":")[0] for line in forbidden(ast.parse(text))] == ["2", "3", *"45678"]
    assert len(forbidden(ast.parse((ROOT / DOOR).read_text("utf-8")))) >= 7


@pytest.fixture
def no_network(monkeypatch):
    """Whatever looks up a host, or connects, is noted and fails."""
    asked = []

    def refuse(*args, **kwargs):
        asked.append(args)
        raise OSError("no network")

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return asked


def feature_folder(folder, **described):
    """The bundled DINO in a folder of timm's layout, its description changed."""
    folder.mkdir()
    source = WEIGHTS / "features/dino"
    (folder / "model.safetensors").write_bytes((source / "model.safetensors").read_bytes())
    config = {**json.loads((source / "config.json").read_text()), **described}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def clip_folder(folder, change):
    """The bundled CLIP in a folder of open_clip's layout, its description changed by a function."""
    folder.mkdir()
    for file in (WEIGHTS / "clip").iterdir():
        if file.name != "open_clip_config.json":
            (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((WEIGHTS / "clip/open_clip_config.json").read_text())
    changed = change(config)
    (folder / "open_clip_config.json").write_text(json.dumps(config if changed is None else changed))
    return folder


def embed(folder, name="dino"):
    return Embedder(FEATURES[name], folder, torch.device("cpu"))


UNKNOWN = "timm has no architecture"
NO_ARGUMENT = "is no argument that a file may set"


@pytest.mark.parametrize(
    ("described", "said"),
    [
        ({"architecture": "hf-hub:timm/vit_tiny_patch16_224"}, UNKNOWN),
        ({"architecture": "local-dir:/tmp"}, UNKNOWN),
        ({"architecture": 5}, UNKNOWN),
        ({"model_args": {"pretrained": True}}, NO_ARGUMENT),
        ({"model_args": {"pretrained_cfg": {"url": "http://localhost/x.pth"}}}, NO_ARGUMENT),
        ({"model_args": {"checkpoint_path": "x.pth"}}, NO_ARGUMENT),
        ({"model_args": {"depth": "x"}}, ""),
        ({"model_args": 5}, ""),
    ],
    ids=str,
)
def test_a_description_names_an_architecture_of_timm_and_no_other_weights(
    tmp_path, no_network, described, said
):
    folder = feature_folder(tmp_path / "x", **described)
    with pytest.raises(UserError, match=rf"^observe\.feature_weights\.dino: .*{said}"):
        embed(folder)
    assert not no_network


def changed(path, value):
    """A change of an open_clip description at a path of keys."""

    def change(config):
        if not path:
            return value
        inner = config
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        return None

    return change


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((), 5),
        (("model_cfg",), None),
        (("model_cfg", "text_cfg"), {"hf_model_name": "a/b"}),
        (("model_cfg", "vision_cfg", "width"), "x"),
        (("model_cfg", "vision_cfg", "timm_model_name"), "hf-hub:a/b"),
        (("model_cfg", "text_cfg", "context_length"), -1),
        (("model_cfg", "text_cfg", "tokenizer_kwargs"), {"trust_remote_code": True}),
    ],
    ids=str,
)
def test_a_clip_whose_description_is_damaged(tmp_path, no_network, path, value):
    folder = clip_folder(tmp_path / "x", changed(path, value))
    with pytest.raises(UserError, match=r"^observe\.feature_weights\.clip: "):
        embed(folder, "clip")._rehearse() if path[-1:] != ("tokenizer_kwargs",) else embedded_texts(folder)
    assert not no_network


def embedded_texts(folder):
    """Embed a sentence by a CLIP's folder, as an audit does."""
    from analysis.observe.features.texts import encoded

    return encoded(embed(folder, "clip"), folder, ["a dog"])


def test_what_cleans_texts_is_taken_from_a_folder(tmp_path):
    """SigLIP's folders say so; any other argument of theirs is refused (above)."""
    arguments = {"clean": "canonicalize", "strip_sep_token": False}
    folder = clip_folder(tmp_path / "x", changed(("model_cfg", "text_cfg", "tokenizer_kwargs"), arguments))
    plain, cleaned = (embedded_texts(one) for one in (WEIGHTS / "clip", folder))
    np.testing.assert_array_equal(plain, cleaned)


def test_what_ends_the_program_is_no_fault_of_a_file():
    for kind in (KeyboardInterrupt, SystemExit, Hang):
        with pytest.raises(kind), pretrained.readable("place", "a file"):
            raise kind
    said = r"^place: expected a file, got `7`: download it again$"
    with pytest.raises(UserError, match=said), pretrained.readable("place", "a file"):
        raise KeyError(7)


def test_a_seal_holds_where_a_library_is_told_to_trust(tmp_path):
    """The second wall: whatever argument reaches a loader, a module of the folder is not imported."""
    marker = tmp_path / "ran"
    folder = evil_folder(tmp_path / "evil", marker, "evil")
    with pytest.raises(pretrained.ForeignCodeError), pretrained.block_foreign_code():
        AutoConfig.from_pretrained(folder, trust_remote_code=True)
    assert not marker.exists()

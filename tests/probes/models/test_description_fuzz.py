"""Descriptions of features and taggers, damaged or hostile: a network, or one line, in seconds, and nothing run."""

import json
import random
import socket

import pytest

from probes.errors import UserError
from tests.evil_models import pickled
from tests.probes.models.test_pretrained import embed, feature_folder, tag, tagger_folder
from tests.soon import soon

ODD = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2,
        3,
        7,
        1.5,
        -0.5,
        1e-300,
        1e400,
        float("nan"),
        10**5,
        10**9,
        10**30,
        "",
        "x",
    ),
    *(
        "auto",
        "relu",
        "os.system",
        "hf-hub:a/b",
        "local-dir:/",
        "http://localhost/x",
        "../../etc/passwd",
        "\x00",
        "é",
    ),
    *(
        [],
        [1],
        [1, 2],
        ["x"],
        [[]],
        "model.pth",
        {"AutoTokenizer": ["evil.EvilTok", "evil.EvilTok"]},
        [None],
        {},
        {"a": 1},
        {"trust_remote_code": True},
        [3, 64, 64],
        [0.5] * 3,
    ),
]
KEYS = [
    *(
        "architecture",
        "model_args",
        "pretrained_cfg",
        "num_classes",
        "depth",
        "embed_dim",
        "img_size",
        "patch_size",
    ),
    *("pretrained", "checkpoint_path", "auto_map", "trust_remote_code", "hf_model_name", "timm_model_name"),
    *(
        "hf_tokenizer_name",
        "tokenizer_kwargs",
        "context_length",
        "layers",
        "width",
        "quick_gelu",
        "custom_text",
    ),
    *(
        "multimodal_cfg",
        "input_size",
        "mean",
        "interpolation",
        "crop_pct",
        "size",
        "resize_mode",
        "image_size",
    ),
]


def places(data, path=()):
    """Every place in plain data, the data itself first."""
    yield path
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in entries:
        yield from places(value, (*path, key))


def mutated(data, draw):
    """Plain data with one place changed, taken out or added to."""
    data = json.loads(json.dumps(data))
    path = draw.choice([*places(data)][1:] or [()])
    if not path:
        return draw.choice(ODD)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    kind = draw.choice(["replace", "replace", "take out", "add", "nest"])
    if kind == "replace":
        inner[path[-1]] = draw.choice(ODD)
    elif kind == "take out":
        del inner[path[-1]]
    elif kind == "nest":
        inner[path[-1]] = {draw.choice(KEYS): inner[path[-1]]}
    elif isinstance(inner, dict):
        inner[draw.choice(KEYS)] = draw.choice(ODD)
    else:
        inner.append(draw.choice(ODD))
    return data


def damaged_text(text, draw):
    """The text of a file with some of its bytes changed, or far too deep."""
    kind = draw.choice(["cut", "bytes", "deep", "twice"])
    data = bytearray(text.encode())
    if kind == "cut":
        return bytes(data[: draw.randrange(len(data))])
    if kind == "deep":
        return draw.choice([b"[", b'{"a":']) * 100_000
    if kind == "twice":
        return bytes(data + data)
    for _ in range(draw.randint(1, 4)):
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


def count_outcomes(tmp_path, monkeypatch, seeds):
    """Read a description for each seed; gives how many were taken and how many refused, by kind."""

    asked = []  # what is raised here would be said of the file

    def refuse(*args, **kwargs):
        asked.append(args)
        raise OSError("no network")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    outcomes = {kind: {"taken": 0, "refused": 0} for kind in ("feature", "tagger")}
    made = {
        "feature": (feature_folder(tmp_path / "feature"), "config.json", embed),
        "tagger": (tagger_folder(tmp_path / "tagger", lambda config: None), "open_clip_config.json", tag),
    }
    marker = tmp_path / "ran"
    for folder, _, _ in made.values():
        (folder / "evil.py").write_text(f"open({str(marker)!r}, 'w').close()\nclass EvilTok: pass\n")
        pickled(folder / "model.pth", marker)
        if (folder / "tokenizer_config.json").exists():
            described = json.loads((folder / "tokenizer_config.json").read_text())
            described["auto_map"] = {"AutoTokenizer": ["evil.EvilTok", "evil.EvilTok"]}
            (folder / "tokenizer_config.json").write_text(json.dumps(described))
    texts = {kind: (folder / name).read_text() for kind, (folder, name, _) in made.items()}
    for seed in seeds:
        draw, kind = random.Random(seed), ("feature", "tagger")[seed % 2]
        folder, name, read = made[kind]
        data = json.loads(texts[kind])
        for _ in range(draw.randint(1, 3)):
            data = mutated(data, draw)
        text = damaged_text(texts[kind], draw) if draw.random() < 0.15 else json.dumps(data).encode()
        (folder / name).write_bytes(text)
        try:
            with soon():
                read(folder)
            outcomes[kind]["taken"] += 1
        except UserError as error:
            assert str(error).startswith("observe."), seed
            assert str(error).isprintable() and len(str(error)) <= 400
            outcomes[kind]["refused"] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {text[:600]!r}") from error
        assert not asked and not marker.exists(), seed
    return outcomes


def test_damaged_descriptions(tmp_path, monkeypatch):
    outcomes = count_outcomes(tmp_path, monkeypatch, range(200))
    assert all(one["refused"] >= 30 and one["taken"] >= 2 for one in outcomes.values()), outcomes


@pytest.mark.slow
def test_many_damaged_descriptions(tmp_path, monkeypatch):
    outcomes = count_outcomes(tmp_path, monkeypatch, range(1000, 3000))
    print(outcomes)
    assert sum(sum(one.values()) for one in outcomes.values()) == 2000

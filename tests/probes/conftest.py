"""Tiny models saved to disk as a user has them, and runs made from them in this process."""

import contextlib
import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants

from probes.config.schema import Config
from probes.execution.loop import StageCall
from probes.models import loading, requirements
from probes.runs import directory
from probes.runs.directory import claim
from probes.stages import plan as prompts
from probes.stages.generate import generate
from tests.tiny import tiny_pipeline

SMALL = {
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": ["a {person} with a dog", "a {person} reading a book", "the {person} in a car"],
    "seeds": [0, 1],
    "sampler": {"steps": 2},
    "generate": {"part_triplets": 2, "batch_triplets": 2, "device": "cpu"},
}


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """Folders of saved tiny pipelines by kind, each made once."""
    made = {}

    def get(kind: str = "toy", **options) -> Path:
        key = f"{kind}-{len(options)}-{'-'.join(options)}"
        if key not in made:
            made[key] = tmp_path_factory.mktemp(key) / "model"
            tiny_pipeline(kind, **options).save_pretrained(made[key])
        return made[key]

    return get


@pytest.fixture
def copy(saved, tmp_path):
    """A copy of the saved tiny pipeline to damage."""
    return shutil.copytree(saved(), tmp_path / "copy")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The cache of the hub's client."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def settings(model, **over):
    """A small configuration, with fields of its sections put over it."""
    fields = {**SMALL, "model": str(model)}
    for key, value in over.items():
        fields[key] = (
            {**fields.get(key, {}), **value}
            if isinstance(value, dict) and isinstance(fields.get(key, {}), dict) and key != "indicators"
            else value
        )
    return Config(**fields)


def generated(path, config, **options):
    """Plan and generate in this process, as the command line does."""
    source = loading.resolve_run(config)
    samples = prompts.plan(config, source.tokenizers, source.token_limit)
    requirements.check(config, source)
    with claim(path) as run:
        if not options.get("overwrite"):
            directory.require_same(run, config.resolved())
        generate(run, config, samples, source, StageCall(progress=False, **options))
    return run


def stored(path):
    """The bytes of every part and table of a run."""
    path = Path(path)
    return {
        file.relative_to(path).as_posix(): file.read_bytes()
        for folder in ("samples", "captures", "words", "kept", "pooled", "observed", "objects", "tables")
        for file in sorted((path / folder).glob("*"))
        if file.is_file()
    }


@contextlib.contextmanager
def flipped(path, where=0.4):
    """Damage a file in one bit, and mend it afterwards."""
    data = path.read_bytes()
    damaged = bytearray(data)
    damaged[int(len(data) * where)] ^= 4
    path.write_bytes(damaged)
    try:
        yield
    finally:
        path.write_bytes(data)


def with_pipeline(monkeypatch, change):
    """Let `change` act upon each pipeline that is loaded."""
    load = loading.load

    def changed(*arguments, **options):
        loaded = load(*arguments, **options)
        change(loaded.pipe)
        return loaded

    monkeypatch.setattr(loading, "load", changed)


class Device:
    """Has room for so many images at a time: what asks for more is told so, as torch tells it."""

    def __init__(self, images):
        self.images = images

    def __call__(self, pipe):
        real = pipe.unet.forward

        def forward(sample, *arguments, **options):
            if len(sample) > 2 * self.images:  # both halves of guidance
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return real(sample, *arguments, **options)

        pipe.unet.forward = forward

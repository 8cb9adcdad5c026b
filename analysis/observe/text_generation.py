"""Networks of transformers that write text about images, BLIP and BLIP-2, from a folder or the hub."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from analysis.observe.checkpoints import find, from_folder, read_json, require_kind, sha256, weight_files
from analysis.observe.observer import ImageModel
from probes.config.observation import Captions, Questions
from probes.errors import UserError
from probes.models.pretrained import from_auto_class, quiet, readable
from probes.paths import display_name
from probes.runs.parts import digest

NETWORKS = {"blip": "BlipForConditionalGeneration", "blip-2": "Blip2ForConditionalGeneration"}
TRANSFORMS = ("preprocessor_config.json", "processor_config.json")  # either says how images are prepared


class TextGenerator(ImageModel):
    """A network that writes text about images, from a folder or the hub.

    ``field`` is the one of the configuration that names the weights, ``kinds`` are those of `NETWORKS` that are taken.
    """

    field: str
    kinds: tuple[str, ...]

    def __init__(self, weights: str, search: Captions | Questions, revision: str | None = None):
        self.weights, self.search, self.revision = weights, search, revision
        there = located(weights, self.field, revision, fetch=False)
        if there is not None:  # what is no good is said before an image is drawn
            require_kind(there, self.kinds, self.field)

    def __str__(self) -> str:
        return f"weights {display_name(self.weights)}"

    @cached_property
    def path(self) -> Path:
        """The folder of the weights; fetches those of the hub."""
        return located(self.weights, self.field, self.revision)  # type: ignore[return-value]

    @property
    def files(self) -> list[Path]:
        """The weights."""
        return weight_files(self.path)

    @cached_property
    def _checksums(self) -> tuple[str, ...]:
        kinds = self.files, sorted(self.path.glob("*.json"))
        return tuple(digest("\n".join(f"{file.name} {sha256(file)}" for file in files)) for files in kinds)

    def identity(self) -> dict[str, Any]:
        """Weights, description with tokenizer and transform, form of what is asked, and search."""
        chosen = {name: getattr(self.search, name) for name in ("prompt", "beams", "tokens")}
        return dict(zip(("checkpoint", "description"), self._checksums)) | chosen

    def number_format(self, device: torch.device) -> torch.dtype:
        """Half precision on a GPU: bfloat16 where the language model is a T5, which float16 makes overflow."""
        if device.type != "cuda":
            return torch.float32
        of_t5 = (
            require_kind(self.path, self.kinds, self.field).get("text_config", {}).get("model_type") == "t5"
        )
        return torch.bfloat16 if of_t5 else torch.float16

    def load(self, device: torch.device) -> None:
        """Load network, tokenizer and transform."""
        import transformers

        kind = require_kind(self.path, self.kinds, self.field)["model_type"]
        place, expected = f"{self.field}: {self.path}", f"a model of type {kind} with tokenizer and transform"
        with readable(place, expected), quiet():
            self._processor = from_auto_class("Processor", self.path)
        network = getattr(transformers, NETWORKS[kind])
        model = from_folder(network, self.path, self.field, self.number_format(device))
        if kind == "blip-2":  # older folders do not say how many places an image takes
            own = self._processor.num_query_tokens
            self._processor.num_query_tokens = own or model.config.num_query_tokens
        self._model = model.eval().to(device)

    def _generate(self, **inputs: torch.Tensor) -> torch.Tensor:
        """Numbers of the likeliest tokens; the folder's files say how it generates, too."""
        with readable(f"{self.field}: {self.path}", "a model that writes text"):
            return self._model.generate(
                **inputs, num_beams=self.search.beams, max_new_tokens=self.search.tokens, do_sample=False
            )

    def _texts(self, tokens: torch.Tensor) -> list[str]:
        return [one.strip() for one in self._processor.batch_decode(tokens, skip_special_tokens=True)]


def located(name: str, field: str, revision: str | None = None, *, fetch: bool = True) -> Path | None:
    """Return the folder of a network's weights; None where it is on the hub alone and not to be fetched."""
    path = find(name, field, fetch=fetch, revision=revision, is_whole=lambda path: not _missing(path, field))
    if path is not None and path.is_file():
        raise UserError(f"{field}: {path}: expected a folder of transformers, got a file: name its folder")
    if path is not None and (missing := _missing(path, field)):
        raise UserError(
            f"{field}: {path}: expected a folder of transformers with config.json and safetensors, found no {missing}:"
            " download it whole"
        )
    return path


def _missing(path: Path, field: str) -> str:
    """Return the name of a file that a folder of weights lacks; empty where it is whole."""
    index, shards = path / "model.safetensors.index.json", {"model.safetensors"}
    if index.is_file():
        shards = {*read_json(index, field).get("weight_map", {}).values()}
    transform = next((name for name in TRANSFORMS if (path / name).is_file()), TRANSFORMS[0])
    wanted = ("config.json", transform, *sorted(shards))
    return next((name for name in wanted if not (path / name).is_file()), "")

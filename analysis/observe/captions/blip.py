"""Captions by BLIP (Li et al. 2022) or BLIP-2 (Li et al. 2023) in transformers' classes, from a folder or the hub.

DALL-Eval captions by VL-T5, which no maintained package holds; which network captioned stands beside every number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from analysis.observe.checkpoints import find, read_json, sha256, weight_files
from analysis.observe.features.weights import cached
from probes.config.caption_options import Captions
from probes.errors import UserError
from probes.models.pretrained import auto, quiet, readable
from probes.runs.parts import digest
from probes.runs.recorded_paths import name_of
from probes.storage.paths import expand_model

FIELD = "observe.captions.model"
NETWORKS = {"blip": "BlipForConditionalGeneration", "blip-2": "Blip2ForConditionalGeneration"}
_SPEED = 3e10  # operations that a core does in a second, about
_POSITIONS = 300  # how often a weight is used for an image and a caption of it, about


class BlipCaptioner:
    """Captions images; see :class:`analysis.observe.captions.observer.Captioner`.

    Parameters
    ----------
    settings : Captions
        Names model, prompt, beams and the length of a caption.

    Raises
    ------
    UserError
        There is no such model, or it is none that captions.
    """

    libraries = ("torch", "transformers")

    def __init__(self, settings: Captions):
        assert settings.model is not None, "it is asked for by name"
        self.settings, self.name = settings, settings.model
        self._model: Any = None
        self._processor: Any = None
        there = _located(self.name, fetch=False)  # what is not there is said before an image is drawn
        if there is not None:
            self._described(there)

    def __str__(self) -> str:
        return f"weights {name_of(self.name)}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None, "_processor": None}

    @cached_property
    def path(self) -> Path:
        """The folder of the weights; fetches those of the hub."""
        path = _located(self.name)
        assert path is not None, "what is asked for is fetched"
        return path

    def _described(self, path: Path) -> dict[str, Any]:
        description = read_json(path / "config.json", FIELD)
        if description.get("model_type") not in NETWORKS:
            raise UserError(
                f"{FIELD}: {path}: expected a model of type {' or '.join(NETWORKS)}, got"
                f" {description.get('model_type')!r:.60}: name another"
            )
        if not weight_files(path):
            raise UserError(f"{FIELD}: {path}: expected weights as safetensors, found none: download them")
        return description

    def parameters(self) -> int:
        """Number of parameters of the network, an upper bound for weights in float16 or float32."""
        return sum(file.stat().st_size for file in weight_files(self.path)) // 2

    def seconds(self) -> float:
        """Time of an image on one core, about."""
        return 2 * self.parameters() * _POSITIONS / _SPEED

    @cached_property
    def _checksums(self) -> tuple[str, str]:
        weights, texts = weight_files(self.path), sorted(self.path.glob("*.json"))
        return tuple(
            digest("\n".join(f"{one.name} {sha256(one)}" for one in files)) for files in (weights, texts)
        )

    def identity(self) -> Mapping[str, Any]:
        """Weights, description with tokenizer and transform, prompt and search."""
        weights, described = self._checksums
        chosen = {name: getattr(self.settings, name) for name in ("prompt", "beams", "tokens")}
        return {"checkpoint": weights, "description": described, **chosen}

    def load(self, device: torch.device) -> None:
        """Load network, tokenizer and transform; in half precision on a GPU.

        Raises
        ------
        UserError
            Weights are missing or damaged, or there is no tokenizer or transform.
        """
        import transformers

        from analysis.observe.model_folders import from_folder

        description = self._described(self.path)
        network = getattr(transformers, NETWORKS[description["model_type"]])
        # float16 makes a T5 overflow
        half = (
            torch.bfloat16 if description.get("text_config", {}).get("model_type") == "t5" else torch.float16
        )
        with (
            readable(f"{FIELD}: {self.path}", "a model that captions, with tokenizer and transform"),
            quiet("transformers"),
        ):
            self._processor = auto("Processor", self.path)
        model = from_folder(network, self.path, FIELD, half if device.type == "cuda" else torch.float32)
        if description["model_type"] == "blip-2":  # older folders do not say how many places an image takes
            self._processor.num_query_tokens = (
                self._processor.num_query_tokens or model.config.num_query_tokens
            )
        self._model = model.eval().to(device)

    @torch.inference_mode()
    def captions(self, images: Sequence[np.ndarray]) -> list[str]:
        """A caption of each image, without the prompt that it goes on from."""
        pictures = [Image.fromarray(image) for image in images]
        text = [self.settings.prompt] * len(pictures) if self.settings.prompt else None
        with readable(
            f"{FIELD}: {self.path}", "a model that captions"
        ):  # its files say how it generates, too
            inputs = self._processor(images=pictures, text=text, return_tensors="pt").to(self._model.device)
            inputs["pixel_values"] = inputs["pixel_values"].to(self._model.dtype)
            generated = self._model.generate(
                **inputs, num_beams=self.settings.beams, max_new_tokens=self.settings.tokens, do_sample=False
            )
        texts = [one.strip() for one in self._processor.batch_decode(generated, skip_special_tokens=True)]
        return [one.removeprefix(self.settings.prompt.strip()).strip() for one in texts]


def _located(name: str, *, fetch: bool = True) -> Path | None:
    """The folder of a captioning model; None where it is on the hub alone and not to be fetched."""
    path = expand_model(name, FIELD)
    if not path.exists():
        there = cached(name) if "/" in name else None
        if there is not None:
            return there
        return find(name, FIELD, fetch=fetch)
    if not path.is_dir():
        raise UserError(f"{FIELD}: {path}: expected a folder of transformers, got a file: name its folder")
    return path

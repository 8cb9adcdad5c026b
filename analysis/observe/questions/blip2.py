"""The reader ``blip2``: visual question answering by BLIP-2 (Li et al. 2023) in the classes of transformers.

A question is put in the form that transformers documents, *Question: … Answer:*, which the authors of Cho et al. 2023
use in the code that they published, with BLIP-2's FLAN-T5-XXL and a beam search of five (LAVIS's default). Answers are
kept as they come.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from analysis.observe.checkpoints import find, read_json, sha256, weight_files
from analysis.observe.features.weights import cached
from analysis.observe.objects.engines.passes import computed_once
from analysis.observe.observer import StoredImage
from analysis.observe.questions.reader import Answer
from probes.config.question_options import BLIP2_WEIGHTS, QUESTION, Questions
from probes.config.questions import ResolvedQuestion
from probes.errors import UserError
from probes.models import pretrained
from probes.models.pretrained import quiet, readable
from probes.runs.parts import digest
from probes.runs.recorded_paths import name_of
from probes.storage.paths import expand_model

FIELD = "observe.questions.blip2"
KIND = "blip-2"
_SPEED = 3e10  # operations that a core does in a second, about
# Tokens that a weight is used at, about: of the image (257 in the image's network, which has a fourth of the weights),
# of a question with the 32 of its image, and of an answer
_IMAGE, _QUESTION, _ANSWER = 64, 52, 4
_DESCRIBED = "*.json"  # configuration, tokenizer and transform of a folder


class Blip2:
    """Asks BLIP-2; see :class:`analysis.observe.questions.reader.Reader`.

    Parameters
    ----------
    settings : Questions
        Names weights, revision, form, beams and the length of an answer.

    Raises
    ------
    UserError
        The weights are not named right, or not whole.
    """

    name = "blip2"
    libraries = ("torch", "torchvision", "transformers")

    def __init__(self, settings: Questions):
        self.settings = settings
        self.weights = settings.blip2 or BLIP2_WEIGHTS
        located(self.weights, settings.revision, fetch=False)
        self._model: Any = None
        self._processor: Any = None

    def __str__(self) -> str:
        return f"BLIP-2, weights {name_of(self.weights)}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_model": None, "_processor": None}

    @cached_property
    def path(self) -> Path:
        """The folder of the weights; fetches those of the hub."""
        path = located(self.weights, self.settings.revision)
        assert path is not None, "what is asked for is fetched"
        return path

    @cached_property
    def described(self) -> dict[str, Any]:
        """The model's configuration."""
        return read_json(self.path / "config.json", FIELD)

    def parameters(self) -> int:
        """Number of parameters of the network, an upper bound for weights in float16 or float32."""
        return sum(file.stat().st_size for file in weight_files(self.path)) // 2

    def seconds(self, questions: int) -> float:
        """Time of an image on one core, about: its tokens once, those of a question and its answer each time."""
        tokens = _IMAGE + questions * (_QUESTION + _ANSWER * self.settings.beams)
        return 2 * self.parameters() * tokens / _SPEED

    @cached_property
    def _checksums(self) -> str:
        return digest("\n".join(f"{file.name} {sha256(file)}" for file in weight_files(self.path)))

    def identity(self) -> dict[str, Any]:
        """Weights, description, form of the question and search of the answer."""
        described = sorted(self.path.glob(_DESCRIBED))
        return {
            "checkpoint": self._checksums,
            "description": digest("\n".join(f"{file.name} {sha256(file)}" for file in described)),
            "prompt": self.settings.prompt,
            "beams": self.settings.beams,
            "tokens": self.settings.tokens,
        }

    @property
    def commit(self) -> str:
        """Commit of weights from the hub; empty for others."""
        return self.path.name if re.fullmatch(r"[0-9a-f]{40}", self.path.name) else ""

    def number_format(self, device: torch.device) -> torch.dtype:
        """Half precision on a GPU: bfloat16 where the language model is a T5, which float16 makes overflow."""
        if device.type != "cuda":
            return torch.float32
        of_t5 = self.described.get("text_config", {}).get("model_type") == "t5"
        return torch.bfloat16 if of_t5 else torch.float16

    def load(self, device: torch.device) -> None:
        """Load network, tokenizer and transform.

        Raises
        ------
        UserError
            The folder holds another model, or weights are missing.
        """
        from transformers import Blip2ForConditionalGeneration, Blip2Processor

        from analysis.observe.model_folders import described, from_folder

        _, config = described(self.path, KIND, FIELD, tokenizer=False)
        if config.image_token_index is None:
            raise UserError(
                f"{FIELD}: {self.path / 'config.json'}: expected `image_token_index`, found none: take a newer revision"
            )
        with readable(f"{FIELD}: {self.path}", "tokenizer and transform of BLIP-2"), quiet("transformers"):
            self._processor = pretrained.from_folder(Blip2Processor, self.path)
        # older folders do not say how many places an image takes
        self._processor.num_query_tokens = self._processor.num_query_tokens or config.num_query_tokens
        model = from_folder(Blip2ForConditionalGeneration, self.path, FIELD, self.number_format(device))
        self._model = model.eval().to(device)

    def answers(
        self, images: Sequence[StoredImage], questions: Sequence[ResolvedQuestion]
    ) -> list[list[Answer]]:
        """The answer to each question about each image, as the model gives it but for outer spaces."""
        if not images:
            return []
        pictures = [Image.fromarray(image.pixels) for image in images]
        pixels = self._processor.image_processor(pictures, return_tensors="pt")["pixel_values"]
        pixels = pixels.to(self._model.device, self._model.dtype)
        with computed_once(self._model.vision_model):
            columns = [self._column(question, pixels, pictures[0]) for question in questions]
        return [[column[row] for column in columns] for row in range(len(images))]

    @torch.inference_mode()
    def _column(self, question: ResolvedQuestion, pixels: torch.Tensor, picture: Image.Image) -> list[Answer]:
        """Answers to a question about all images: their texts are the same, so that none is padded."""
        text = self.settings.prompt.replace(QUESTION, question.text)
        numbers = self._processor(images=[picture], text=[text], return_tensors="pt")["input_ids"]
        numbers = numbers.expand(len(pixels), -1).to(pixels.device)
        with readable(f"{FIELD}: {self.path}", "a model that answers"):  # its files say how it generates, too
            tokens = self._model.generate(
                pixel_values=pixels,
                input_ids=numbers,
                attention_mask=torch.ones_like(numbers),
                num_beams=self.settings.beams,
                max_new_tokens=self.settings.tokens,
                do_sample=False,
            )
        if not self._model.language_model.config.is_encoder_decoder:
            tokens = tokens[:, numbers.shape[1] :]  # it repeats what it was asked
        answers = self._processor.batch_decode(tokens, skip_special_tokens=True)
        return [Answer(question.text, answer.strip(), question.read(answer)) for answer in answers]


def located(name: str, revision: str | None, *, fetch: bool = True) -> Path | None:
    """The folder of BLIP-2's weights.

    Parameters
    ----------
    name : str
        A folder, or a hub id.
    revision : str, optional
        Of the hub.
    fetch : bool
        Fetch what is on the hub; else it is None where it is not on this machine.

    Raises
    ------
    UserError
        There is none, or it is not whole.
    """
    path = expand_model(name, FIELD)
    if path.exists():
        return _whole(path)
    if "/" in name and (there := cached(name, revision)) and _lacks(there) == "":
        return there
    there = find(name, FIELD, fetch=fetch, revision=revision)
    return there if there is None else _whole(there)


def _whole(path: Path) -> Path:
    missing = _lacks(path)
    if missing:
        raise UserError(
            f"{FIELD}: {path}: expected a folder of transformers with config.json and safetensors, found no {missing}:"
            " download it whole"
        )
    return path


def _lacks(path: Path) -> str:
    """Return the name of a file that a folder of weights lacks; empty where it is whole."""
    index = path / "model.safetensors.index.json"
    shards = (
        {*read_json(index, FIELD).get("weight_map", {}).values()}
        if index.is_file()
        else {"model.safetensors"}
    )
    wanted = ("config.json", "preprocessor_config.json", *sorted(shards))
    return next((name for name in wanted if not (path / name).is_file()), "")

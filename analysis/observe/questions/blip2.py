"""The reader ``blip2``: visual question answering by BLIP-2 (Li et al. 2023) in the classes of transformers.

A question is put in the form that transformers documents, *Question: … Answer:*, which the authors of Cho et al. 2023
use in the code that they published, with BLIP-2's FLAN-T5-XXL and a beam search of five (LAVIS's default). Answers are
kept as they come.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from PIL import Image

from analysis.observe.checkpoints import require_kind, revision
from analysis.observe.objects.passes import computed_once
from analysis.observe.observer import StoredImage
from analysis.observe.questions.reader import Answer, Reader
from analysis.observe.text_generation import TextGenerator
from analysis.questions import ResolvedQuestion
from probes.config.observation import BLIP2_WEIGHTS, QUESTION, Questions
from probes.errors import UserError


class Blip2(TextGenerator, Reader):
    """Asks BLIP-2; see :class:`analysis.observe.questions.reader.Reader`."""

    name, field, kinds = "blip2", "observe.questions.blip2", ("blip-2",)
    libraries = ("torch", "torchvision", "transformers")

    def __init__(self, settings: Questions):
        super().__init__(settings.blip2 or BLIP2_WEIGHTS, settings, settings.revision)

    def __str__(self) -> str:
        return f"BLIP-2, {super().__str__()}"

    @property
    def commit(self) -> str:
        """Commit of weights from the hub; empty for others."""
        return revision(self.path) or ""

    def load(self, device: torch.device) -> None:
        """Load network, tokenizer and transform."""
        described = require_kind(self.path, self.kinds, self.field)
        if described.get("image_token_index", described.get("image_token_id")) is None:
            raise UserError(
                f"{self.field}: {self.path / 'config.json'}: expected `image_token_index`, found none: take a newer"
                " revision"
            )
        super().load(device)

    def answers(
        self, images: Sequence[StoredImage], questions: Sequence[ResolvedQuestion]
    ) -> list[list[Answer]]:
        """The answer to each question about each image, as the model gives it but for outer spaces."""
        pictures = [Image.fromarray(image.pixels) for image in images]
        pixels = self._processor.image_processor(pictures, return_tensors="pt")["pixel_values"]
        pixels = pixels.to(self._model.device, self._model.dtype)
        with computed_once(self._model.vision_model):
            columns = [self._column(question, pixels, pictures[0]) for question in questions]
        return [[column[row] for column in columns] for row in range(len(images))]

    @torch.inference_mode()
    def _column(self, question: ResolvedQuestion, pixels: torch.Tensor, picture: Image.Image) -> list[Answer]:
        """Answers to a question about all images: their texts are the same, so that none is padded."""
        text = self.search.prompt.replace(QUESTION, question.text)
        numbers = self._processor(images=[picture], text=[text], return_tensors="pt")["input_ids"]
        numbers = numbers.expand(len(pixels), -1).to(pixels.device)
        tokens = self._generate(
            pixel_values=pixels, input_ids=numbers, attention_mask=torch.ones_like(numbers)
        )
        if not self._model.language_model.config.is_encoder_decoder:
            tokens = tokens[:, numbers.shape[1] :]  # it repeats what it was asked
        return [Answer(question.text, answer, question.read(answer)) for answer in self._texts(tokens)]

"""The reader ``toyworld-vqa``: toyworld's small network, which reads the question as text and answers in a word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from analysis.observe.checkpoints import fit, read_json, read_weights, sha256
from analysis.observe.objects.models.toyworld_checker import require_size
from analysis.observe.observer import StoredImage
from analysis.observe.questions.reader import Answer, Reader
from analysis.observe.questions.toyworld_network import ENCODER, AnswerNetwork, ImageEncoder, tokens_of
from analysis.questions import ResolvedQuestion
from probes.models.pretrained import from_folder
from probes.toyworld import WEIGHTS

FIELD = "observe.questions.readers"
FOLDER = WEIGHTS / "vqa"


def toyworld_tokenizer() -> Any:
    """Toyworld's CLIP's tokenizer, with the 781 units of its vocabulary."""
    from transformers import CLIPTokenizer

    return from_folder(CLIPTokenizer, WEIGHTS / "clip")


def load_network(folder: Path) -> AnswerNetwork:
    """Return the network in a folder, in float32."""
    path = folder / "model.safetensors"
    model = AnswerNetwork(read_json(folder / "model.json", FIELD))
    fit(model, read_weights(path, FIELD), path=path, field=FIELD, what="toyworld's answering network")
    return model.float().eval()


class ToyworldVqa(Reader):
    """Asks the small network; see :class:`analysis.observe.questions.reader.Reader`."""

    name = "toyworld-vqa"
    libraries = ("torch", "transformers")

    def __init__(self, folder: Path = FOLDER):
        self.folder = folder
        self.files = (folder / "model.safetensors", ENCODER)

    def __str__(self) -> str:
        return "toyworld's small network"

    def identity(self) -> dict[str, Any]:
        """The weights of the network and of its image encoder."""
        return dict(zip(("checkpoint", "encoder"), map(sha256, self.files)))

    def load(self, device: torch.device) -> None:
        """Load network, image encoder and tokenizer."""
        self._model, self._tokenizer = load_network(self.folder).to(device), toyworld_tokenizer()
        self._encoder = ImageEncoder(device)

    @torch.inference_mode()
    def answers(
        self, images: Sequence[StoredImage], questions: Sequence[ResolvedQuestion]
    ) -> list[list[Answer]]:
        """The likeliest word, with its probability, for every question about each image of 64 × 64 pixels."""
        pixels = [image.pixels for image in images]
        require_size(pixels, "observe.questions: toyworld-vqa", "ask another reader")
        settings, device = self._model.settings, self._model.names.device
        texts = [question.text for question in questions]
        tokens, lengths = tokens_of(self._tokenizer, texts, settings["context_length"])
        shape = (len(images), *tokens.shape)
        logits = self._model(
            self._encoder(pixels),
            tokens.expand(shape).to(device),
            lengths.expand(shape[:2]).to(device),
        )
        return [
            [_answer(question, settings["answers"], row) for question, row in zip(questions, of_image)]
            for of_image in logits.double().softmax(-1).cpu()
        ]


def _answer(question: ResolvedQuestion, words: Sequence[str], probabilities: torch.Tensor) -> Answer:
    word = words[int(probabilities.argmax())]
    reading = question.read(word)
    return Answer(question.text, word, reading, float(probabilities.max()) if reading else None)

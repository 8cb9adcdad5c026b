"""The reader ``clip``: zero-shot, as Cho et al. 2023 compare BLIP-2 with; which sentence fits an image better.

The probability of a reading is the softmax of the cosines of the image's embedding and of the readings' sentences,
times the logit scale that the model was trained with (Radford et al. 2021, section 3.1.2).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional as F

from analysis.observe.checkpoints import TOYWORLD
from analysis.observe.features.observer import FeatureNetwork, of_toyworld
from analysis.observe.features.registry import FEATURES
from analysis.observe.observer import StoredImage
from analysis.observe.questions.reader import Answer, Reader
from analysis.questions import ResolvedQuestion
from probes.config.schema import Config
from probes.paths import display_name

FEATURE = FEATURES["clip"]  # ViT-B/32, as the paper's


class ClipReader(FeatureNetwork, Reader):
    """Compares an image with sentences; see :class:`analysis.observe.questions.reader.Reader`.

    Its weights are named by ``observe.feature_weights.clip``.
    """

    name = "clip"
    libraries = ("torch", "open_clip_torch")

    def __init__(self, config: Config):
        named = config.observe.feature_weights.get(FEATURE.name)
        super().__init__(FEATURE, named or (TOYWORLD if of_toyworld(config) else FEATURE.weights))
        self._texts: dict[str, torch.Tensor] = {}

    def __str__(self) -> str:
        return f"zero-shot, weights {display_name(self.weights)}"

    def answers(
        self, images: Sequence[StoredImage], questions: Sequence[ResolvedQuestion]
    ) -> list[list[Answer]]:
        """The likeliest sentence of each question, with its probability; all images have been embedded once."""
        unit = F.normalize(self.embedder([image.pixels for image in images]).double().cpu(), dim=-1)
        columns = [self._column(question, unit) for question in questions]
        return [[column[row] for column in columns] for row in range(len(images))]

    def _column(self, question: ResolvedQuestion, images: torch.Tensor) -> list[Answer]:
        """Answers to a question about all images."""
        readings, sentences = list(question.sentences), list(question.sentences.values())
        put = " / ".join(sentences) or question.text
        if not sentences:
            reason = f"observe.questions.ask.{question.key} has no sentences for CLIP"
            return [Answer(put, reason=reason)] * len(images)
        scale = self.embedder.model.logit_scale.detach().exp().double().cpu()
        texts = F.normalize(torch.stack([self._text(sentence) for sentence in sentences]), dim=-1)
        probabilities = (scale * images @ texts.T).softmax(-1).numpy()
        return [
            Answer(put, sentences[index], readings[index], float(row[index]))
            for index, row in zip(probabilities.argmax(1), probabilities)
        ]

    def _text(self, sentence: str) -> torch.Tensor:
        """The embedding of a sentence, float64; kept, since every batch asks the same."""
        from analysis.observe.features.texts import encoded

        if sentence not in self._texts:
            self._texts[sentence] = encoded(self.embedder, self.path, [sentence])[0].double()
        return self._texts[sentence]

"""Lessons of toyworld's answering network: some questions about each picture, whose answers are known."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch.nn import functional as F

from analysis.observe.questions.toyworld_network import AnswerNetwork, ImageEncoder, Seen, tokens_of
from analysis.observe.questions.toyworld_vqa import toyworld_tokenizer
from lab.train.base.loop import Budget, Lessons
from lab.train.detectors.pictures import Pictures
from lab.train.questions.phrasings import Phrasings
from lab.train.stages import Options

QUESTIONS = 8  # about a picture of a batch
BATCH = 64  # pictures that the image encoder sees at a time


def seen_in(pictures: Pictures) -> Seen:
    """What the image encoder sees in all pictures, float16: it is not trained, so that once is enough."""
    encoder = ImageEncoder(torch.device("cpu"))
    starts = range(0, len(pictures), BATCH)
    parts = [encoder(list(pictures.images[start : start + BATCH])) for start in starts]
    tags, places = (torch.cat([part[index].half() for part in parts]).clone() for index in range(2))
    return tags, places


def lessons(model: AnswerNetwork, pictures: Pictures, options: Options, budget: Budget) -> Lessons:
    """What learns, what is stored, and the loss of a step, with questions drawn anew for each picture.

    The loss is the cross-entropy with the answers' distribution (of gender, the posterior of the components).
    """
    rng, phrasings, tokenizer = np.random.default_rng(options.seed), Phrasings(), toyworld_tokenizer()
    limit, (tags, places) = model.settings["context_length"], seen_in(pictures)

    @cache
    def numbers(text: str) -> tuple[int, ...]:
        tokens, _ = tokens_of(tokenizer, [text], limit)
        return tuple(tokens[0].tolist())

    def batch(texts: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [numbers(text) for text in texts]
        lengths = torch.tensor([len(row) for row in rows])
        tokens = torch.full((len(rows), int(lengths.max())), tokenizer.eos_token_id)
        for place, row in enumerate(rows):
            tokens[place, : len(row)] = torch.tensor(row)
        return tokens.unflatten(0, (-1, QUESTIONS)), lengths.unflatten(0, (-1, QUESTIONS))

    def loss_of(step: int) -> dict[str, torch.Tensor]:
        rows = rng.integers(len(pictures), size=options.batch)
        drawn = [
            phrasings.draw(pictures.labels[row], value, rng)
            for row, value in zip(rows, pictures.verdicts[rows])
            for _ in range(QUESTIONS)
        ]
        tokens, lengths = batch([one.text for one in drawn])
        wanted = torch.from_numpy(np.stack([one.target for one in drawn]))
        chosen = torch.from_numpy(rows)
        logits = model((tags[chosen].float(), places[chosen].float()), tokens, lengths).flatten(0, 1)
        right = (logits.argmax(1) == wanted.argmax(1)).float()
        return {"loss": F.cross_entropy(logits, wanted), "right": right.mean()}

    return model, model, loss_of

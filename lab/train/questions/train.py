"""Training of toyworld's answering network: some questions about each picture, whose answers are known."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch.nn import functional as F
from transformers import CLIPTokenizer

from analysis.observe.questions.toyworld_network import AnswerNetwork, ImageEncoder, Seen, tokens_of
from lab.train.base.loop import Budget, Log, train_loop
from lab.train.questions.phrasings import Phrasings
from lab.train.questions.pictures import QuestionedPictures

QUESTIONS = 8  # about a picture of a batch
BATCH = 64  # pictures that the image encoder sees at a time


def seen_in(pictures: QuestionedPictures) -> Seen:
    """Return what the image encoder sees in all pictures, float16: it is not trained, so that once is enough."""
    encoder = ImageEncoder(torch.device("cpu"))
    starts = range(0, len(pictures), BATCH)
    parts = [encoder(list(pictures.images[start : start + BATCH])) for start in starts]
    tags, places = (torch.cat([part[index].half() for part in parts]).clone() for index in range(2))
    return tags, places


def train(
    model: AnswerNetwork,
    tokenizer: CLIPTokenizer,
    pictures: QuestionedPictures,
    budget: Budget,
    log: Log,
    *,
    batch_size: int = 32,
    learning_rate: float = 3e-3,
    seed: int = 0,
    save: Callable[[], None] | None = None,
) -> None:
    """Train on pictures, with questions drawn anew for each.

    The loss is the cross-entropy with the answers' distribution (of gender, the posterior of the components).
    """
    rng, phrasings = np.random.default_rng(seed), Phrasings()
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
        rows = rng.integers(len(pictures), size=batch_size)
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

    model.train()
    train_loop(model, loss_of, budget, log, learning_rate, 0.05, save=save, save_minutes=2.0)
    model.eval()

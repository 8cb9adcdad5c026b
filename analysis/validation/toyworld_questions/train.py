"""Training of toyworld's answering network: some questions about each picture, whose answers are known."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch.nn import functional as F
from transformers import CLIPTokenizer

from analysis.observe.attributes.toyworld_network import AnswerNetwork, pixels_of, tokens_of
from analysis.validation.toyworld_questions.phrasings import Phrasings
from analysis.validation.toyworld_questions.pictures import QuestionedPictures
from probes.toyworld.checker import THINGS
from probes.toyworld.training.loop import Budget, Log, train_loop

QUESTIONS = 8  # about a picture of a batch
PIXELS = 20_000  # from which a fresh network's colours are taken


def set_colours(model: AnswerNetwork, pictures: QuestionedPictures, seed: int) -> None:
    """Start a fresh network's colours from the commonest of the pictures: the centres of k-means over some pixels."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(len(pictures), size=PIXELS)
    places = rng.integers(64, size=(2, PIXELS))
    pixels = pictures.images[rows, places[0], places[1]] / 127.5 - 1
    count = model.settings["colours"]
    centres = KMeans(count, n_init=1, random_state=seed).fit(pixels).cluster_centers_
    with torch.no_grad():
        # in the precision of the weights that are written, so that what is trained is what is asked
        model.colours.centres.copy_(torch.from_numpy(centres).half())


@torch.inference_mode()
def shares_of(model: AnswerNetwork, pictures: QuestionedPictures) -> torch.Tensor:
    """The colours of all pictures, ``(n, colours, 16, 16)`` float16."""
    starts = range(0, len(pictures), 64)
    parts = [model.colours(pixels_of(pictures.images[start : start + 64])).half() for start in starts]
    return torch.cat(parts).clone()


def train(
    model: AnswerNetwork,
    tokenizer: CLIPTokenizer,
    pictures: QuestionedPictures,
    budget: Budget,
    log: Log,
    *,
    batch_size: int = 32,
    learning_rate: float = 2e-3,
    seed: int = 0,
    save: Callable[[], None] | None = None,
) -> None:
    """Train on pictures, half of each batch mirrored, with questions drawn anew for each.

    The loss is the cross-entropy with the answers' distribution (of gender, the posterior of the components); and, so
    that the convolutions learn what there is to be seen before a question finds it, that of all things in a picture
    from the place that fits each best, by a layer that is thrown away.
    """
    things = torch.nn.Linear(model.settings["width"], len(THINGS))
    rng, phrasings = np.random.default_rng(seed), Phrasings()
    limit, shares = model.settings["context_length"], shares_of(model, pictures)

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
        rows, mirrored = rng.integers(len(pictures), size=batch_size), rng.random(batch_size) < 0.5
        colours = shares[torch.from_numpy(rows)].float()
        colours[torch.from_numpy(mirrored)] = colours[torch.from_numpy(mirrored)].flip(3)
        said = pictures.verdicts[rows, mirrored.astype(int)]
        drawn = [
            phrasings.draw(pictures.labels[row], value, rng)
            for row, value in zip(rows, said)
            for _ in range(QUESTIONS)
        ]
        tokens, lengths = batch([one.text for one in drawn])
        wanted = torch.from_numpy(np.stack([one.target for one in drawn]))
        image = model.see(colours)
        seen = things(image).amax(1)
        aside = F.binary_cross_entropy_with_logits(seen, torch.from_numpy(pictures.labels[rows]).float())
        logits = model.answer(image, tokens, lengths).flatten(0, 1)
        right = (logits.argmax(1) == wanted.argmax(1)).float()
        answered = F.cross_entropy(logits, wanted)
        return {"loss": answered + aside, "answered": answered, "aside": aside, "right": right.mean()}

    model.train()
    together = torch.nn.ModuleList([model, things])
    train_loop(together, loss_of, budget, log, learning_rate, 0.05, save=save, save_minutes=2.0)
    model.eval()

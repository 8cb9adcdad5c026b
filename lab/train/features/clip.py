"""Toyworld's CLIP, trained further: on sentences in GEP's form of which it is known of which pictures they are true.

The CLIP that the benchmark models' text encoder comes from saw some 500 steps of captions that name little of what a
picture shows, and could not tell small things that a figure wears. Here a sentence is made of what the checker sees
in each picture of a batch (*A woman with a tie riding a bike*, *a tie*), and compared with all pictures of the batch,
in several of which it is true: the contrastive loss of Radford et al. 2021 with several right answers (Khosla et al.
2020, Yang et al. 2022, "Unified contrastive learning in image-text-label space").
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from open_clip import CLIP
from torch.nn import functional as F
from transformers import CLIPTokenizer

from analysis.observe.checkpoints import fit, read_weights
from lab.train.base.captions import article
from lab.train.base.clip import new_clip
from lab.train.base.loop import Budget, Lessons, mixed_precision
from lab.train.base.tokenizer import encode
from lab.train.detectors.pictures import Pictures
from lab.train.stages import Options
from probes.models.pretrained import from_folder
from probes.toyworld import WEIGHTS
from probes.toyworld.checker import PLACES, THINGS
from probes.toyworld.scene import parse
from probes.toyworld.world import GROUPS, World, load_world

WORN = (0.15, 0.60, 0.25)  # chances that a sentence names none, one or two of the attributes that are seen
# chances that it has no subject, that it has a context, that it names an object
BARE, CONTEXT, OBJECT = 0.2, 0.6, 0.25


class TrueSentences:
    """Sentences that are true of pictures, and which things each of them names."""

    def __init__(self, world: World):
        self.world = world
        self.subjects = [word for group in GROUPS for word in world.words(group)]
        self.worn = [number for number, thing in enumerate(THINGS) if thing in world.attributes]
        self.objects = [number for number, thing in enumerate(THINGS) if thing in world.objects]
        self.contexts = [(phrase, self._named(phrase)) for phrase in world.contexts]

    def _named(self, phrase: str) -> NDArray[np.bool_]:
        """Things that a phrase names, shape (47,)."""
        things = parse(f"person {phrase}", self.world).things
        return np.array([thing in things for thing in THINGS])

    def draw(self, seen: NDArray[np.bool_], rng: np.random.Generator) -> tuple[str, NDArray[np.bool_]]:
        """Return a sentence that is true of a picture, and the things that it names."""
        named, parts = np.zeros(len(THINGS), bool), []
        seen_worn = np.array([number for number in self.worn if seen[number]], int)
        worn = rng.permutation(seen_worn)[: rng.choice(3, p=WORN)]
        phrases = [self.world.attributes[THINGS[number]]["phrase"] for number in worn]
        named[worn] = True
        if len(worn) == 1 and rng.random() < BARE:
            return phrases[0].partition(" ")[2], named
        if rng.random() < CONTEXT:
            true = [(phrase, things) for phrase, things in self.contexts if not (things & ~seen).any()]
            phrase, things = true[rng.integers(len(true))]
            parts, named = [phrase], named | things
        elif (
            place := THINGS[int(np.flatnonzero(seen[-len(PLACES) :])[0]) - len(PLACES)]
        ) in self.world.places:
            ways = self.world.places[place]
            parts, named = [ways[rng.integers(len(ways))]], named | (np.array(THINGS) == place)
        others = [number for number in self.objects if seen[number] and not named[number]]
        if others and rng.random() < OBJECT:
            number = others[rng.integers(len(others))]
            ways = self.world.objects[THINGS[number]]["phrases"]
            parts.insert(0, ways[rng.integers(len(ways))])
            named[number] = True
        word = self.subjects[rng.integers(len(self.subjects))]
        return " ".join([article(word), word, *phrases, *parts]), named


def truths(named: NDArray[np.bool_], seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return of which picture which sentence is true, shape (n_pictures, n_sentences): all that it names is seen."""
    return (~seen).astype(np.float32) @ named.T.astype(np.float32) == 0


def several_right(logits: torch.Tensor, true: torch.Tensor) -> torch.Tensor:
    """Contrastive loss ``(n_pictures, n_sentences)`` where several answers are right: mean cross-entropy, both ways."""
    right = true.float()
    ways = [-(F.log_softmax(logits, axis) * right).sum(axis) / right.sum(axis) for axis in (0, 1)]
    return (ways[0].mean() + ways[1].mean()) / 2


def bundled_tokenizer() -> CLIPTokenizer:
    """The tokenizer of toyworld's CLIP."""
    return from_folder(CLIPTokenizer, WEIGHTS / "clip")


def bundled_clip() -> CLIP:
    """Toyworld's CLIP, from which training starts."""
    model, path = new_clip(len(bundled_tokenizer())), WEIGHTS / "clip" / "open_clip_model.safetensors"
    fit(model, read_weights(path, "--weights"), path=path, field="--weights", what="clip")
    return model


def lessons(model: CLIP, pictures: Pictures, options: Options, budget: Budget) -> Lessons:
    """What learns (both towers), what is stored, and the loss of a step, half of whose pictures are mirrored."""
    rng, sentences = np.random.default_rng(options.seed), TrueSentences(load_world())
    tokenizer = bundled_tokenizer()

    def loss_of(step: int) -> dict[str, torch.Tensor]:
        rows = rng.choice(len(pictures), options.batch, replace=False)
        pixels, seen = pictures.pixels(rows), pictures.labels[rows]
        mirrored = torch.from_numpy(rng.random(options.batch) < 0.5)
        pixels[mirrored] = pixels[mirrored].flip(3)
        texts, named = zip(*(sentences.draw(one, rng) for one in seen))
        with mixed_precision("cpu"):
            image, text, scale = model(pixels, encode(tokenizer, list(texts)))
        logits = scale.clamp(max=100) * image.float() @ text.float().T
        return {"loss": several_right(logits, torch.from_numpy(truths(np.stack(named), seen)))}

    return model, model, loss_of

"""Steering along directions in `toyworld-features`: what images show of each attribute, with and without."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hooks import Intervention, Patch
from lab.validate.tracing.feature_recovery import unit
from probes.stages import pooling
from probes.toyworld.checker import read_images
from probes.toyworld.known_features.truth import CHANNELS, SITE, THINGS, asked_for, directions, prompt
from probes.toyworld.located.truth import block_of
from probes.toyworld.world import load_world

Matrix = NDArray[np.float64]

WORDS = 3  # before the noun, with the filler
FIRST_NOISE, TRAINING_NOISE = 8_000_000, 9_000_000
PAIRS = (
    (0, 4),
    (1, 5),
    (2, 6),
    (3, 7),
)  # attributes that go together in one set of prompts: of different groups
ALONE, BESIDE = 0.2, 0.75  # how often one is asked for, and its partner beside it


def endings(number: int) -> list[str]:
    """Return what follows the noun of so many prompts: nothing, places, and objects that hide no attribute."""
    world = load_world("toyworld-null")
    phrases = [phrases[0] for phrases in world.places.values()]
    phrases += [one["phrases"][0] for name, one in world.objects.items() if one["at"] in ("held", "wide")]
    phrases += [
        f"{one} {place[0]}" for one in phrases[len(world.places) :] for place in world.places.values()
    ]
    return ["", *phrases][:number]


def known(channels: int) -> Matrix:
    """Return the known directions in the whole output of the site, ``(8, channels)``: its last six channels."""
    return np.hstack([np.zeros((len(THINGS), channels - CHANNELS)), directions()])


def labelled_prompts(number: int, *, together: bool, seed: int = 0) -> list[str]:
    """Return prompts that ask for none to three attributes at random, independently or in pairs."""
    rng, rests, found = np.random.default_rng([seed, together]), endings(24), []
    while len(found) < number:
        asked = rng.random(len(THINGS)) < (ALONE / 2 if together else ALONE)
        if together:
            for pair in PAIRS:
                if asked[list(pair)].any() and rng.random() < BESIDE:
                    asked[list(pair)] = True
        if asked.sum() <= WORDS:
            chosen = rng.permutation(np.flatnonzero(asked))
            found.append(
                prompt([THINGS[one] for one in chosen], rests[rng.integers(len(rests))], words=WORDS)
            )
    return found


def activations(pipe: Any, texts: Sequence[str], steps: int) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return the site's output for prompts, the mean over pixels and calls ``(n, channels)``, and what they ask for."""
    found = pooling.collect(
        pipe,
        texts,
        ["person"] * len(texts),
        range(TRAINING_NOISE, TRAINING_NOISE + len(texts)),
        sites=[SITE],
        num_inference_steps=steps,
        guidance_scale=1.0,
    )
    return found.values[SITE, ""].mean(1).astype(float), asked_for(texts) > 0


def amount(values: Matrix, there: NDArray[np.bool_]) -> float:
    """Return how much of its direction one word tells: its least-squares mean over prompts, in the told channels."""
    told = values[:, -CHANNELS:]
    expected = there.astype(float) @ directions()
    return float((told * expected).sum() / (expected**2).sum())


@dataclass(frozen=True)
class Trial:
    """What images are drawn with.

    Attributes
    ----------
    pipe
        `toyworld-features`.
    prompts, seeds, steps : int
        The unit of the intervals is the prompt.
    """

    pipe: Any
    prompts: int
    seeds: int
    steps: int

    @property
    def channels(self) -> int:
        """Channels of the site's output, the told ones among them."""
        return self.pipe.unet.get_submodule(block_of(SITE)).attn2.to_out[0].out_features

    def seen(self, asked: Sequence[str] = (), patch: dict[str, Any] | None = None) -> NDArray[np.int64]:
        """Return in how many of its seeds' images each prompt shows each attribute, ``(prompts, 8)``.

        Parameters
        ----------
        asked : sequence of str
            What every prompt asks for.
        patch : dict, optional
            Of what is written at the site in all images, the arguments of `hooks.Patch`.
        """
        texts = [
            prompt(asked, rest, words=WORDS) for rest in endings(self.prompts) for _ in range(self.seeds)
        ]
        rows = range(len(texts))
        written = (
            Intervention(self.pipe, [Patch(SITE, into=rows, **patch)]) if patch is not None else nullcontext()
        )
        with written:
            images = self.pipe(
                texts,
                generator=[torch.Generator().manual_seed(FIRST_NOISE + row) for row in rows],
                num_inference_steps=self.steps,
                guidance_scale=1.0,
                output_type="np",
            ).images
        table = read_images((images * 255).round().astype(np.uint8))[list(THINGS)].to_numpy(int)
        return table.reshape(self.prompts, self.seeds, len(THINGS)).sum(1)

    def added(self, chosen: Matrix, factor: float) -> NDArray[np.int64]:
        """Return what is seen with each of eight directions added where nothing is asked for, ``(8, prompts, 8)``."""
        return np.stack(
            [self.seen(patch={"mode": "add", "direction": one, "factor": factor}) for one in unit(chosen)]
        )

    def removed(self, chosen: Matrix) -> NDArray[np.int64]:
        """Return what is seen with each of eight directions projected out where its attribute is asked for."""
        return np.stack(
            [
                self.seen([thing], {"mode": "project_out", "direction": one})
                for thing, one in zip(THINGS, unit(chosen), strict=True)
            ]
        )

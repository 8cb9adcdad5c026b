"""The benchmark of known features: prompts, activations, recovery of directions, and what steering along them shows.

In `toyworld-features` each of eight attributes is a known direction at a site (`probes.toyworld.known_features.truth`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.methods.tracing.feature_recovery import FeatureRecovery, matched, recovery, unit
from hooks import Intervention, Patch
from probes.errors import UserError
from probes.stages import pooling
from probes.toyworld import KNOWN_FEATURES
from probes.toyworld.checker import read_images
from probes.toyworld.known_features.images import images_of
from probes.toyworld.known_features.truth import CHANNELS, SITE, THINGS, asked_for, directions, prompt
from probes.toyworld.located.truth import block_of
from probes.toyworld.world import load_world

Matrix = NDArray[np.float64]

WORDS = 3  # before the noun, with the filler
FIRST_NOISE, TRAINING_NOISE = 8_000_000, 9_000_000
PAIRS = ((0, 4), (1, 5), (2, 6), (3, 7))  # attributes that go together in some prompts: at right angles
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


@cache
def _pipeline() -> Any:
    from probes.models import loading

    pipe = loading.load(loading.resolve(KNOWN_FEATURES), device="cpu").pipe
    pipe.set_progress_bar_config(disable=True)
    return pipe


@dataclass(frozen=True)
class FeatureTask:
    """A model in which the direction of each attribute is known, and what a method is to be held against.

    Attributes
    ----------
    prompts, seeds : int
        Of images that are steered; the prompt is the unit of intervals.
    steps : int
        Of an image.
    """

    prompts: int = 24
    seeds: int = 2
    steps: int = 5
    site = SITE
    attributes = THINGS

    @property
    def pipe(self) -> Any:
        """The pipeline of diffusers, float32 on the CPU, loaded at the first use."""
        return _pipeline()

    @property
    def channels(self) -> int:
        """Channels of the site's output; the last six hold what is told, and nothing else."""
        return self.pipe.unet.get_submodule(block_of(SITE)).attn2.to_out[0].out_features

    @property
    def known(self) -> Matrix:
        """The attributes' directions in the site's output, ``(8, channels)``, of length 1."""
        return np.hstack([np.zeros((len(THINGS), self.channels - CHANNELS)), directions()])

    def labelled(
        self, number: int, *, together: bool = False, seed: int = 0
    ) -> tuple[list[str], NDArray[np.bool_]]:
        """Return prompts that ask for none to three attributes at random, and which: ``(number, 8)``.

        Parameters
        ----------
        together : bool
            Whether two attributes at right angles often come together.
        """
        texts = labelled_prompts(number, together=together, seed=seed)
        return texts, asked_for(texts) > 0

    def activations(self, texts: Sequence[str]) -> Matrix:
        """Return the site's output for prompts of this model, the mean over pixels and calls, ``(n, channels)``."""
        found = pooling.collect(
            self.pipe,
            texts,
            ["person"] * len(texts),
            range(TRAINING_NOISE, TRAINING_NOISE + len(texts)),
            sites=[SITE],
            num_inference_steps=self.steps,
            guidance_scale=1.0,
        )
        return found.values[SITE, ""].mean(1).astype(float)

    def whole(self, found: ArrayLike) -> Matrix:
        """Return directions in the site's output, ``(n, channels)``, of some there or in the last six channels alone.

        Raises
        ------
        UserError
            They have another number of channels.
        """
        found = np.asarray(found, float)
        if found.ndim == 2 and found.shape[1] == CHANNELS:
            return np.hstack([np.zeros((len(found), self.channels - CHANNELS)), found])
        if found.ndim != 2 or found.shape[1] != self.channels or not np.isfinite(found).all():
            raise UserError(
                f"directions: expected finite numbers (directions, {self.channels} or {CHANNELS} channels), got shape"
                f" {found.shape}: give one direction a row"
            )
        return found

    def score(self, found: ArrayLike, *, labelled: bool = False) -> FeatureRecovery:
        """Return how well directions recover the known ones.

        Parameters
        ----------
        found : array_like, shape (directions, channels)
            In the site's output, or in its last six channels alone.
        labelled : bool
            Whether there is one for each of `attributes`, in their order; else they are matched.

        Raises
        ------
        UserError
            They have another number of channels, or labels for another number of attributes.
        """
        found = self.whole(found)
        if labelled and len(found) != len(THINGS):
            raise UserError(f"directions: expected {len(THINGS)}, one for each attribute, got {len(found)}")
        return recovery(found, self.known, labelled=labelled)

    def chosen(self, found: ArrayLike, *, labelled: bool = False) -> Matrix:
        """Return the unit vector that steers each attribute, ``(8, channels)``; zeros where there is none.

        Matched ones point as the known ones do, labelled ones as they are.
        """
        found, result = self.whole(found), self.score(found, labelled=labelled)
        return unit(found) if labelled else matched(found, self.known, result)

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
            images = images_of(self.pipe, texts, [FIRST_NOISE + row for row in rows], self.steps)
        table = read_images(images)[list(THINGS)].to_numpy(int)
        return table.reshape(self.prompts, self.seeds, len(THINGS)).sum(1)

    def added(self, chosen: Matrix, amount: float) -> NDArray[np.int64]:
        """Return what is seen with each of `chosen` added to prompts that ask for nothing, ``(8, prompts, 8)``.

        Parameters
        ----------
        amount : float
            Length of what is added; a word tells about 1.34.
        """
        return np.stack(
            [
                self.seen(patch={"mode": "add", "direction": one, "factor": amount} if one.any() else None)
                for one in chosen
            ]
        )

    def removed(self, chosen: Matrix) -> NDArray[np.int64]:
        """Return what is seen with each of `chosen` projected out where its attribute is asked for, as `added`."""
        return np.stack(
            [
                self.seen([thing], {"mode": "project_out", "direction": one} if one.any() else None)
                for thing, one in zip(THINGS, chosen, strict=True)
            ]
        )


def amount_of(activations: Matrix, there: NDArray[np.bool_]) -> float:
    """Return how much of its direction one word tells: its least-squares mean over prompts, in the told channels."""
    told, expected = activations[:, -CHANNELS:], there.astype(float) @ directions()
    return float((told * expected).sum() / (expected**2).sum())


def features() -> FeatureTask:
    """Return the benchmark: a model in which eight attributes are known directions at a site.

    The page *features* under *Validation* has the results of known methods.
    """
    return FeatureTask()

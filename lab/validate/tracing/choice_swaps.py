"""Swaps between two noises of one neutral prompt that chose differently: what each place carries of a choice.

No word parts donor and recipient, so what is swapped at a place is the donor's picture, as far as it passes there. All
swaps are made both ways, and what counts is the change of the verdict towards the donor's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hooks import Intervention, Patch
from hooks import sites as site_table
from lab.validate.tracing.coverage import templates
from lab.validate.tracing.methods import GUIDANCE
from probes.errors import UserError
from probes.prompts.plan import noise_seed
from probes.runs.image_faults import eight_bits
from probes.toyworld.checker import read_images
from probes.toyworld.structures.truth import CausalStructure
from probes.toyworld.verdict import verdict
from probes.toyworld.world import World

NEUTRAL = "person"
DRAWN = 1  # seed of the prompts
SEEDS = 8  # drawn of a prompt at a time
MOST_SEEDS = 40  # of a prompt
ROWS = 84  # of a batch, about
KEYS_AND_VALUES = ("key", "value")
SIDES = ("feminine", "masculine")


@dataclass(frozen=True)
class NoisePair:
    """Two noises of one prompt, of which the model chose differently.

    Attributes
    ----------
    prompt : int
        Its number.
    text : str
    seeds : tuple of int
        The one whose picture is feminine, and the masculine one, before `noise_seed`.
    """

    prompt: int
    text: str
    seeds: tuple[int, int]

    @property
    def noise_seeds(self) -> tuple[int, ...]:
        """Of the generators that its images are drawn with."""
        return tuple(noise_seed(self.text, seed) for seed in self.seeds)


@dataclass(frozen=True)
class Swap:
    """What is exchanged between the two.

    Attributes
    ----------
    name : str
        Of the kind of swap: a method of localisation.
    sites : tuple of str
        Places that are written together.
    part : tuple of str
    heads : tuple of int or None
    steps : tuple of int or None
        Calls of the denoiser; None: all.
    """

    name: str
    sites: tuple[str, ...]
    part: tuple[str, ...] = ("output",)
    heads: tuple[int, ...] | None = None
    steps: tuple[int, ...] | None = None


def chooser(pipe: Any, structure: CausalStructure) -> nn.Module:
    """Return the attention of a structure that chooses; what it has read is the last channel of its output."""
    (place,) = (place for place in structure.places if place.chooses)
    return pipe.unet.get_submodule(f"{place.block}.attn1")


def noise_pairs(pipe: Any, attention: nn.Module, *, prompts: int, pairs: int, steps: int) -> list[NoisePair]:
    """Return pairs of noises in which the attention that chooses said the one, or the other, at every step.

    Prompts whose noises all choose alike are left out.

    Parameters
    ----------
    attention : Module
        The last channel of whose output is what it has read.
    """
    found: list[NoisePair] = []
    for text in _texts():
        chosen: dict[float, list[int]] = {-1.0: [], 1.0: []}
        for start in range(0, MOST_SEEDS, SEEDS):
            seeds = range(start, start + SEEDS)
            signs = np.sign(_readings(pipe, attention, text, seeds, steps))
            for seed, sign in zip(seeds, signs, strict=True):
                if abs(sign.sum()) == steps:
                    chosen[float(sign[0])].append(seed)
            if min(map(len, chosen.values())) >= pairs:
                both = zip(chosen[-1.0][:pairs], chosen[1.0][:pairs], strict=True)
                found += [NoisePair(len(found) // pairs, text, one) for one in both]
                break
        if len(found) == prompts * pairs:
            return found
    raise UserError(
        f"choice: expected {prompts} prompts with both choices, got {len(found) // pairs}: ask for fewer"
    )


def _texts() -> Iterator[str]:
    return (text.replace("{person}", NEUTRAL) for text in templates(200, seed=DRAWN))


def _readings(
    pipe: Any, attention: nn.Module, text: str, seeds: Sequence[int], steps: int
) -> NDArray[np.float64]:
    """Return what the place that chooses has read, ``(seeds, steps)``."""
    found = []
    hook = attention.register_forward_hook(lambda module, args, out: found.append(out[..., -1].mean(1)))
    pipe(
        [text] * len(seeds),
        generator=[torch.Generator("cpu").manual_seed(noise_seed(text, seed)) for seed in seeds],
        num_inference_steps=steps,
        guidance_scale=GUIDANCE,
        output_type="latent",
    )
    hook.remove()
    return torch.stack(found, 1).double().numpy()


def swaps_of(pipe: Any, structure: CausalStructure) -> list[Swap]:
    """Return the swaps of the certificate, by their names: of the structure's places, then of all attentions."""
    place, shown = structure.sites
    every, cross = (
        [one.address for one in site_table.attention_sites(pipe, kind)] for kind in ("self", "cross")
    )
    heads = next(one.heads for one in site_table.available(pipe) if one.address == f"{place}.heads")
    found = [
        Swap("choosing head", (place,), ("value",), (int(heads) - 1,)),
        Swap("showing place", (shown,), KEYS_AND_VALUES),
        Swap("other cross-attentions", tuple(one for one in cross if one != shown), KEYS_AND_VALUES),
    ]
    for site in every:
        found += [
            Swap("values", (site,), ("value",)),
            Swap("keys and values", (site,), KEYS_AND_VALUES),
            Swap("outputs", (site,)),
            Swap("outputs, first step", (site,), steps=(0,)),
        ]
    return [*found, *(Swap("outputs", (site,)) for site in cross)]


def swapped(
    pipe: Any, world: World, pairs: Sequence[NoisePair], swaps: Sequence[Swap], steps: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the verdicts of all pairs, and whether swaps changed nothing at all.

    Returns
    -------
    verdicts : ndarray, shape (pairs, 1 + swaps, 2)
        Without a swap, then with each: the feminine noise's image and the masculine one's.
    same : ndarray of bool, shape (swaps,)
        Whether all its images are bit-identical to those without.
    """
    rows, found, same = 2 * (1 + len(swaps)), [], np.ones(len(swaps), bool)
    at_once = max(1, ROWS // rows)
    for start in range(0, len(pairs), at_once):
        some = pairs[start : start + at_once]
        patches = [
            Patch(
                site,
                part=one.part,
                source=(first + 1, first),
                into=(first + 2 * number, first + 2 * number + 1),
                heads=one.heads,
                steps=one.steps,
            )
            for first in range(0, rows * len(some), rows)
            for number, one in enumerate(swaps, 1)
            for site in one.sites
        ]
        texts = [pair.text for pair in some for _ in range(rows)]
        seeds = [seed for pair in some for _ in range(1 + len(swaps)) for seed in pair.noise_seeds]
        with Intervention(pipe, patches):
            pixels = images(pipe, texts, seeds, steps)
        found.append(verdict(read_images(pixels), texts, world).reshape(len(some), -1, 2))
        drawn = pixels.reshape(len(some), 1 + len(swaps), -1)
        same &= (drawn[:, 1:] == drawn[:, :1]).all((0, 2))
    return np.concatenate(found), same


def apart(pipe: Any, world: World, pairs: Sequence[NoisePair], steps: int) -> NDArray[np.float64]:
    """Return what a model makes of the pairs: the masculine noise's verdict less the feminine one's, ``(pairs,)``."""
    found, at_once = [], ROWS // 2
    for start in range(0, len(pairs), at_once):
        some = pairs[start : start + at_once]
        texts = [pair.text for pair in some for _ in SIDES]
        drawn = images(pipe, texts, [seed for pair in some for seed in pair.noise_seeds], steps)
        found.append(verdict(read_images(drawn), texts, world).reshape(-1, 2))
    return np.concatenate(found)[:, 1] - np.concatenate(found)[:, 0]


def images(pipe: Any, texts: Sequence[str], seeds: Sequence[int], steps: int) -> NDArray[np.uint8]:
    """Return images ``(n, height, width, 3)`` of texts, each with its noise."""
    drawn = pipe(
        list(texts),
        generator=[torch.Generator("cpu").manual_seed(seed) for seed in seeds],
        num_inference_steps=steps,
        guidance_scale=GUIDANCE,
        output_type="np",
    ).images
    return np.stack([eight_bits(image) for image in drawn])


def effects(verdicts: NDArray[np.float64], pairs: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return total effects and those of swaps by prompt, from `swapped`.

    Returns
    -------
    total : ndarray, shape (prompts,)
        The masculine noise's verdict less the feminine one's, mean over a prompt's pairs.
    moved : ndarray, shape (prompts, swaps)
        What is moved of it towards the donor's, mean over both ways.
    """
    plain, patched = verdicts[:, :1], verdicts[:, 1:]
    total = plain[:, 0, 1] - plain[:, 0, 0]
    moved = ((patched[..., 0] - plain[..., 0]) + (plain[..., 1] - patched[..., 1])) / 2
    return total.reshape(-1, pairs).mean(1), moved.reshape(-1, pairs, moved.shape[1]).mean(1)

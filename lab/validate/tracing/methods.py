"""Ways to say at which cross-attention a word enters: a score of each, by prompt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from analysis.methods.decoding import fit, places
from hooks import Probe
from hooks import sites as site_table
from lab.train.base.captions import random_caption
from probes.prompts.prompt import fill_person
from probes.prompts.sample import noise_seed
from probes.runs.images import eight_bits
from probes.stages.trace.patched_generation import generate_variants
from probes.stages.trace.seeded_triplet import SeededTriplet
from probes.stages.trace.variants import KEYS_AND_VALUES, Variant
from probes.toyworld.checker import read_images
from probes.toyworld.verdict import verdict
from probes.toyworld.world import World, load_world

WORDS = {"neutral": "person", "feminine": "woman", "masculine": "man"}
ROWS = 60  # of a batch, about
GUIDANCE = 1.0  # that the models were made for


def templates(number: int, seed: int = 0) -> list[str]:
    """So many different captions of toyworld, each with ``{person}`` in the place of one word for a person."""
    rng, world, found = np.random.default_rng(seed), load_world(), dict[str, None]()
    while len(found) < number:
        caption, named = random_caption(world, rng)
        words = "|".join(word for group in WORDS for word in world.words(group))
        if not named.plural:
            found[re.sub(rf"\ban? ({words})\b", "a {person}", caption, count=1)] = None
    return list(found)


@dataclass(frozen=True)
class Subject:
    """Input on which a method is tried: a benchmark model's pipeline, triplets of one seed each, and two indicators.

    `recipient` names whose image is changed, `donor` towards whose; the verdict is of the `world`'s frequencies.
    """

    pipe: Any
    triplets: Sequence[SeededTriplet]
    recipient: str
    donor: str
    steps: int
    world: World

    @property
    def cross(self) -> tuple[str, ...]:
        """Its cross-attentions, in the order in which they run."""
        return tuple(site.address for site in site_table.attention_sites(self.pipe, "cross"))

    def batches(self, rows: int) -> Iterable[Sequence[SeededTriplet]]:
        """Triplets, so many at a time that a batch has some `ROWS`, each triplet having `rows`."""
        size = max(1, ROWS // rows)
        return (self.triplets[start : start + size] for start in range(0, len(self.triplets), size))


@dataclass(frozen=True)
class PlaceScores:
    """Scores of a method for places, by triplet: of swaps the change of the verdict, beside that by the word itself."""

    places: tuple[Any, ...]
    values: NDArray[np.float64]  # (triplets, places)
    totals: NDArray[np.float64] | None = None  # (triplets,), of swaps

    def by_place(self, triplets: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """One number a place: a share where there are totals (a sum where they add up to 0), else a mean.

        `triplets`, shape (..., n), are those that count, as often as they stand there; the result is (..., places).
        """
        chosen = np.arange(len(self.values)) if triplets is None else triplets
        values = self.values[chosen].sum(-2)
        whole = np.full(values.shape[:-1], float(chosen.shape[-1]))
        if self.totals is not None:
            whole = self.totals[chosen].sum(-1)
        return values / np.where(whole == 0, 1.0, whole)[..., None]


def verdicts(subject: Subject, variants: Sequence[Variant]) -> NDArray[np.float64]:
    """The verdict of every image, ``(triplets, variants)``."""
    found = []
    for some in subject.batches(len(variants)):
        images = generate_variants(subject.pipe, some, variants, steps=subject.steps, guidance_scale=GUIDANCE)
        prompts = [one.triplet.prompts[one.variant.recipient] for one in images]
        pixels = np.stack([eight_bits(one.image) for one in images])
        found.append(verdict(read_images(pixels), prompts, subject.world).reshape(len(some), len(variants)))
    return np.concatenate(found)


def swapped(subject: Subject, names: Sequence[Any], patches: Sequence[dict[str, Any]]) -> PlaceScores:
    """Change of the verdict by a swap at each place, and by the word itself."""
    pair = subject.recipient, subject.donor
    variants = [Variant(f"none:{name}", "none", name) for name in pair]
    for number, patch in enumerate(patches):
        variants.append(Variant(f"{number}", "site", *pair, stop_step=subject.steps, **patch))
    values = verdicts(subject, variants)
    return PlaceScores(tuple(names), values[:, 2:] - values[:, :1], values[:, 1] - values[:, 0])


def keys_and_values(subject: Subject) -> PlaceScores:
    """Swaps of keys and values, one cross-attention at a time."""
    return swapped(
        subject, subject.cross, [{"sites": (one,), "part": KEYS_AND_VALUES} for one in subject.cross]
    )


def own_outputs(subject: Subject) -> PlaceScores:
    """Swaps of outputs with those of the donor's own trajectory."""
    return swapped(subject, subject.cross, [{"sites": (one,), "part": "output"} for one in subject.cross])


def local_outputs(subject: Subject) -> PlaceScores:
    """Swaps of outputs with those that the donor's text gives at the recipient's own latent."""
    patches = [{"sites": (one,), "part": "output", "source": "local"} for one in subject.cross]
    return swapped(subject, subject.cross, patches)


def positions(subject: Subject, groups: Sequence[str]) -> PlaceScores:
    """Swaps of keys and values at all cross-attentions, one group of token positions at a time."""
    patches = [{"sites": subject.cross, "part": KEYS_AND_VALUES, "positions": group} for group in groups]
    return swapped(subject, groups, patches)


def cosine_atlas(subject: Subject) -> PlaceScores:
    """One less the cosine between both words' outputs of each cross-attention, mean over steps."""
    sites, found = subject.cross, []
    for some in subject.batches(2):
        pairs = [(number, len(some) + number) for number in range(len(some))]
        with Probe(subject.pipe, sites=sites, pairs=pairs) as probe:
            subject.pipe(
                [one.prompts[name] for name in (subject.recipient, subject.donor) for one in some],
                generator=[torch.Generator().manual_seed(one.noise_seed) for _ in range(2) for one in some],
                num_inference_steps=subject.steps,
                guidance_scale=GUIDANCE,
                output_type="latent",
            )
        found.append(
            np.stack([1 - probe.similarity[f"{site}:cosine"].values.mean(0) for site in sites], axis=1)
        )
    return PlaceScores(sites, np.concatenate(found).astype(np.float64))


def readable(subject: Subject, texts: Sequence[str], words: tuple[str, str]) -> PlaceScores:
    """AUC of linear probes for two words at each cross-attention's output, less ½: one row, of all prompts together.

    `texts` have ``{person}`` where a word goes; the first of `words` is label 1.
    """
    rows = [
        {
            "prompt": fill_person(text, word)[0],
            "noise": noise_seed(text, 0),
            "triplet": number,
            "indicator": word,
        }
        for number, text in enumerate(texts)
        for word in words
    ]
    samples = pd.DataFrame(rows).assign(seed=0)
    values: dict[tuple[str, str], list[NDArray[np.float32]]] = {}
    timesteps: dict[tuple[str, str], list[float]] = {}
    for start in range(0, len(samples), 16):
        some = samples[start : start + 16]
        with Probe(subject.pipe, pool=subject.cross) as probe:
            subject.pipe(
                some["prompt"].tolist(),
                generator=[torch.Generator().manual_seed(seed) for seed in some["noise"].tolist()],
                num_inference_steps=subject.steps,
                guidance_scale=GUIDANCE,
                output_type="latent",
            )
        for site, record in probe.pooled.items():
            values.setdefault((site, ""), []).append(record.values.numpy().swapaxes(0, 1).astype(np.float32))
            timesteps[site, ""] = [float(one) for one in record.timestep]
    joined = {place: np.concatenate(rows) for place, rows in values.items()}
    found = places.Activations(samples, joined, timesteps)
    table = fit.decoding(found, places.Roles(*words, "", {}), np.full(len(samples), np.nan))
    best = fit.sites(table).groupby("site")["score"].max()
    return PlaceScores(subject.cross, best.reindex(subject.cross).to_numpy(float)[None])


METHODS: Mapping[str, tuple[str, Any]] = {  # by name: what the page calls it, and what gives its scores
    "keys_values": ("swap of keys and values", keys_and_values),
    "output_own": ("swap of outputs, own donor", own_outputs),
    "output_local": ("swap of outputs, local donor", local_outputs),
    "atlas": ("cosine atlas", cosine_atlas),
}

"""The benchmark models whose causal places are known, for methods from outside: model, truth and score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.methods.tracing.localisation import Localisation, localisation
from hooks import sites as site_table
from probes.errors import UserError
from probes.prompts.sample import noise_seed
from probes.toyworld.checker import read_images
from probes.toyworld.places import KnownPlaces, known_places
from probes.toyworld.verdict import verdict
from probes.toyworld.world import load_world

WORDS = {"neutral": "person", "feminine": "woman", "masculine": "man"}
TEMPLATES = (
    "a {} sitting at a table",
    "a {} standing on a skateboard",
    "a {} riding a bike",
    "a {} laying on the snow",
    "a {} walking through a forest",
    "a {} holding an umbrella",
    "a {} running on the beach",
    "a {} with a dog in the park",
    "a {} with a guitar",
    "a {} with a book",
    "a {} in a jacket",
    "a {} in a hat",
    "a {} on a couch",
    "a {} in the kitchen",
    "a {} in an office",
    "a {} on a stage",
    "a {} with a kite in the park",
    "a {} with a cat in the park",
    "a {} riding a horse",
    "a {} jumping over a box",
    "a {} with a cup",
    "a {} walking down a sidewalk",
    "a {} next to a lamp",
    "a {} with a ball in the park",
)
STEPS = 5


@dataclass(frozen=True)
class BenchmarkPrompt:
    """A sentence with three words from one noise.

    Attributes
    ----------
    texts : mapping of str to str
        By ``neutral``, ``feminine`` and ``masculine``.
    noise_seed : int
        Of the ``torch.Generator`` on the CPU that each of the three is to be drawn with.
    """

    texts: Mapping[str, str]
    noise_seed: int


@dataclass(frozen=True)
class LocatedTask:
    """A model in which it is known where the indicator word enters, and what a method is to be held against.

    Attributes
    ----------
    name : str
        As in ``model:``.
    kind : str
        What is known of it: ``cross-attention``, ``redundant``, ``opposing`` or ``null``.
    true_sites : tuple of str
        The cross-attentions that have a part in the effect; empty where the word has none.
    steps : int
        Of an image.
    """

    name: str
    kind: str
    true_sites: tuple[str, ...]
    steps: int = STEPS

    @cached_property
    def pipe(self) -> Any:
        """The pipeline of diffusers, float32 on the CPU, loaded at the first use."""
        from probes.models import loading

        pipe = loading.load(loading.resolve(self.name), device="cpu").pipe
        pipe.set_progress_bar_config(disable=True)
        return pipe

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """All cross-attentions, among which the true ones are to be found, in the order in which they run."""
        return tuple(site.address for site in site_table.attention_sites(self.pipe, "cross"))

    @property
    def prompts(self) -> tuple[BenchmarkPrompt, ...]:
        """The sentences of the benchmark, 24."""
        found = []
        for template in TEMPLATES:
            texts = {group: template.format(word) for group, word in WORDS.items()}
            found.append(BenchmarkPrompt(texts, noise_seed(texts["neutral"], 0)))
        return tuple(found)

    def verdict(self, images: ArrayLike, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the log-odds that images show what is planted for masculine words and not for feminine ones.

        Parameters
        ----------
        images : array_like of uint8, shape (n, 64, 64, 3)
        texts : sequence of str
            The prompt of each: what it names does not count.

        Returns
        -------
        ndarray of float64, shape (n,)
        """
        return verdict(read_images(np.asarray(images)), list(texts), load_world())

    def score(self, scores: Mapping[str, float]) -> Localisation:
        """Return how well a method's scores of all sites find the true ones, by their absolute size.

        Parameters
        ----------
        scores : mapping of str to float
            A number for each of `sites`, larger where the method says that the effect is decided. NaN says nothing.

        Raises
        ------
        UserError
            A site has no score, or one is none of `sites`.
        """
        if odd := sorted(set(scores) ^ set(self.sites)):
            raise UserError(
                f"benchmark {self.name}: expected a score for each of its sites, which differ in {odd[0]}"
            )
        values = [abs(float(scores[site])) for site in self.sites]
        return localisation(values, [site in self.true_sites for site in self.sites])


def located(*names: str) -> tuple[LocatedTask, ...]:
    """Return the benchmark: models with one place, with several that decide together, and with none.

    The page *tracing* under *Validation* has the results of known methods.

    Parameters
    ----------
    *names : str
        Of models; all by default.

    Raises
    ------
    UserError
        A name is none of the benchmark's.
    """
    models: dict[str, KnownPlaces] = {**known_places("located"), **known_places("structures")}
    for name in names:
        if name not in models:
            raise UserError(
                f"benchmark: expected a located model or a causal structure, got {name!r}: "
                "`triptych models` lists them"
            )
    found = [models[name] for name in names or models]
    return tuple(LocatedTask(one.name, one.kind, one.sites) for one in found)

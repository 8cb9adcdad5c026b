"""The benchmark models whose causal places are known, for methods from outside: model, truth and score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.methods.tracing.localisation import Localisation, localisation
from hooks import sites as site_table
from probes.errors import UserError
from probes.prompts.plan import noise_seed
from probes.toyworld.checker import read_images
from probes.toyworld.dit.truth import WiredModel, wired_models
from probes.toyworld.located.truth import located_models
from probes.toyworld.structures.truth import CHOICE, CausalStructure, choices, structures
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
class SetScore:
    """Agreement of sets of sites with the true ones.

    Attributes
    ----------
    precision : float
        Share of the sets given that are true ones; NaN where none was given.
    recall : float
        Share of the true sets that were given.
    """

    precision: float
    recall: float


@dataclass(frozen=True)
class LocatedTask:
    """A model in which it is known where the indicator word enters, and what a method is to be held against.

    Attributes
    ----------
    name : str
        As in ``model:``.
    kind : str
        What is known of it: ``cross-attention``, ``head``, ``redundant``, ``both``, …
    true_sites : tuple of str
        The cross-attentions that have a part in the effect; empty where the word has none.
    sufficient, needed : tuple of tuple of str
        The smallest sets of sites that are enough for the whole effect, and those without which nothing is left of it;
        empty where effects are graded.
    steps : int
        Of an image.
    """

    name: str
    kind: str
    true_sites: tuple[str, ...]
    sufficient: tuple[tuple[str, ...], ...]
    needed: tuple[tuple[str, ...], ...]
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

    def score_sets(self, sets: Iterable[Iterable[str]], truth: str = "sufficient") -> SetScore:
        """Return how many of the sets that a method found are the true ones, and how many true ones it found.

        Parameters
        ----------
        sets : iterable of iterable of str
            Sets of sites.
        truth : {"sufficient", "needed"}

        Raises
        ------
        UserError
            Nothing is known of such sets in this model.
        """
        true = {frozenset(one) for one in getattr(self, truth)}
        if not true:
            raise UserError(
                f"benchmark {self.name}: expected a model with sets of places that are known ({truth}), got one without"
            )
        found = {frozenset(one) for one in sets}
        right = len(found & true)
        return SetScore(right / len(found) if found else np.nan, right / len(true))


class ChoiceTask(LocatedTask):
    """A model in which no word decides: what a neutral one shows is chosen in a self-attention, by the noise.

    Its prompts are neutral, and its `sites` the attentions by which the image reads itself. A donor is an image of the
    same prompt from another noise, of which the model chose differently.
    """

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """All self-attentions, of a transformer the joint ones, too, in the order of their addresses."""
        addresses = [site.address for site in site_table.available(self.pipe)]
        return tuple(one for one in addresses if one.endswith((".self", ".joint")))

    @property
    def pairs(self) -> tuple[tuple[BenchmarkPrompt, BenchmarkPrompt], ...]:
        """Two noises of one neutral prompt, the feminine picture's and the masculine one's, 48."""
        found = []
        for stored in _choices()[self.name].certificate()["noises"]:
            text, seeds = stored["text"], stored["seeds"]
            feminine, masculine = (
                BenchmarkPrompt({"neutral": text}, noise_seed(text, seeds[side]))
                for side in ("feminine", "masculine")
            )
            found.append((feminine, masculine))
        return tuple(found)

    @property
    def prompts(self) -> tuple[BenchmarkPrompt, ...]:
        """The images of all `pairs`."""
        return tuple(prompt for pair in self.pairs for prompt in pair)


def located(*names: str) -> tuple[LocatedTask, ...]:
    """Return the benchmark: models with one place, with several that decide together, and with none.

    The pages *tracing* and *structures* under *Validation* have the results of known methods.

    Parameters
    ----------
    *names : str
        Of models. All in which a word decides, by default; ``toyworld-choice`` and ``toyworld-dit-choice``, in which
        none does, are each a `ChoiceTask` and asked for by name.

    Raises
    ------
    UserError
        A name is none of the benchmark's.
    """
    found = {task.name: task for task in (*_by_words(), *_by_choice())}
    for name in names:
        if name not in found:
            raise UserError(
                f"benchmark: expected a located model, a causal structure or toyworld-choice, got {name!r}: "
                "`triptych models` lists them"
            )
    return tuple(found[name] for name in names) if names else _by_words()


def _choices() -> dict[str, CausalStructure | WiredModel]:
    of_transformers = {name: one for name, one in wired_models().items() if one.chooses}
    return {**choices(), **of_transformers}


def _by_choice() -> tuple[ChoiceTask, ...]:
    found = []
    for name, one in _choices().items():
        place = (str(one.chooses),) if isinstance(one, WiredModel) else one.sites[:1]
        found.append(ChoiceTask(name, CHOICE, place, _alone(place), _alone(place)))
    return tuple(found)


def _by_words() -> tuple[LocatedTask, ...]:
    single = [
        LocatedTask(one.name, one.kind, one.sites, _alone(one.sites), _alone(one.sites))
        for one in located_models().values()
        if one.kind != "embedding"
    ]
    together = [
        LocatedTask(one.name, one.kind, one.sites, one.sufficient, one.needed)
        for one in structures().values()
    ]
    return (*single, *together)


def _alone(sites: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the sets of a model whose word enters at one site."""
    return (sites,) if len(sites) == 1 else ()

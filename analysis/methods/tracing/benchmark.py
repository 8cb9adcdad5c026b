"""The benchmark models whose causal places are known, for methods from outside: model, truth and score.

Of a benchmark model it is known by wiring which sites decide. A method gives each site a score, a share or any other,
larger where it says that the effect is decided. Ties count against the method, and NaN is the lowest score: what says
nothing finds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from analysis.stats.auc import roc_auc
from hooks import sites as site_table
from probes.errors import UserError
from probes.prompts.sample import noise_seed
from probes.toyworld.checker import read_images
from probes.toyworld.places import known_places
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


class BenchmarkPrompt(NamedTuple):
    """A sentence with three words: `texts` by ``neutral``, ``feminine`` and ``masculine``.

    `noise_seed` is of the ``torch.Generator`` on the CPU that each of the three is to be generated with.
    """

    texts: Mapping[str, str]
    noise_seed: int


class Localisation(NamedTuple):
    """Scores of a method on one benchmark model; NaN where undefined.

    `rank` is that of the true site that the method ranks best, from 1; sites of the same score all have the worst of
    their ranks. `recall` is the share of the true sites among the best k, with k of them. `auroc` is the probability
    that a true site has a higher score than another, ties counted half (1/2: no better than chance), and `leakage` the
    largest absolute score off the truth.
    """

    rank: float
    recall: float
    auroc: float
    leakage: float


def localisation(scores: ArrayLike, truth: ArrayLike) -> Localisation:
    """Ranks and AUROC of the true sites by scores, (n_sites,); without a true site all but the leakage is NaN.

    Where all sites are true, `auroc` and `leakage` are NaN.
    """
    scores, truth = np.asarray(scores, np.float64), np.asarray(truth, bool)
    off = np.abs(scores[~truth])
    leakage = float(np.nanmax(off)) if len(off) and not np.isnan(off).all() else np.nan
    if not truth.any():
        return Localisation(np.nan, np.nan, np.nan, leakage)
    low = np.where(np.isnan(scores), -np.inf, scores)
    ranks = stats.rankdata(-low, method="max")[truth]  # of ties the worst
    return Localisation(
        rank=float(ranks.min()),
        recall=float((ranks <= len(ranks)).mean()),
        auroc=roc_auc(stats.rankdata(low), truth),
        leakage=leakage,
    )


@dataclass(frozen=True)
class LocatedTask:
    """A model in which it is known where the indicator word enters, and what a method is to be compared with.

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
        texts = [{group: template.format(word) for group, word in WORDS.items()} for template in TEMPLATES]
        return tuple(BenchmarkPrompt(one, noise_seed(one["neutral"], 0)) for one in texts)

    def verdict(self, images: ArrayLike, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the log-odds that images show what is planted for masculine words and not for feminine ones, (n,).

        Of images (n, 64, 64, 3), uint8, and the prompt of each: what it names does not count.
        """
        return verdict(read_images(np.asarray(images)), list(texts), load_world())

    def score(self, scores: Mapping[str, float]) -> Localisation:
        """Return how well a method's scores of all sites find the true ones, by their absolute size.

        `scores` has a number for each of `sites`, NaN where the method says nothing; UserError if one has no score, or
        one is none of `sites`.
        """
        if odd := sorted(set(scores) ^ set(self.sites)):
            raise UserError(
                f"benchmark {self.name}: expected a score for each of its sites, which differ in {odd[0]}"
            )
        values = [abs(float(scores[site])) for site in self.sites]
        return localisation(values, [site in self.true_sites for site in self.sites])


def located() -> tuple[LocatedTask, ...]:
    """Return the benchmark: models with one place, with several that decide together, and with none.

    The page *tracing* under *Validation* has the results of known methods.
    """
    models = [one for group in ("located", "structures") for one in known_places(group).values()]
    return tuple(LocatedTask(one.name, one.kind, one.sites) for one in models)

"""Methods of localisation on causal structures: what each says of every cross-attention, prompt by prompt.

Swaps are made in both directions between the neutral word and each of the other two, and what counts is the difference
between the masculine and the feminine one; of methods without a swap the mean over both words counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.methods.decoding.localise import site_scores
from lab.validate.tracing.certificates import DONORS, WORDS, triplet_draws, verdicts
from lab.validate.tracing.methods import GUIDANCE, Subject, contribution, cosine_atlas, gradient
from probes.stages.trace.triplet_draw import TripletDraw
from probes.stages.trace.variants import KEYS_AND_VALUES, Variant
from probes.toyworld.structures.truth import CausalStructure
from probes.toyworld.world import World, load_world

Values = NDArray[np.float64]  # (draws, sites)
ORDERS = 1  # of Shapley values, each also backwards
MIDPOINTS = (1 / 4, 3 / 4)  # of integrated gradients
LABELS = {
    "sufficiency": "swap, sufficiency",
    "necessity": "swap, necessity",
    "larger": "swap, the larger of both",
    "shapley": "Shapley values of swaps",
    "gradient": "attribution patching",
    "integrated": "integrated gradients",
    "atlas": "cosine atlas",
    "contribution": "attention contribution",
    "probe": "linear probe",
}
SIGNED = ("sufficiency", "necessity", "larger", "shapley")


@dataclass(frozen=True)
class Trial:
    """A structure, and what it is drawn with.

    Attributes
    ----------
    pipe
        The structure's pipeline.
    draws : sequence of TripletDraw
        Prompt by prompt, each with all its seeds.
    sites : tuple of str
        All cross-attentions, in the order in which they run.
    steps : int
    world : World
        Whose frequencies the verdict is of.
    """

    pipe: Any
    draws: Sequence[TripletDraw]
    sites: tuple[str, ...]
    steps: int
    world: World

    @classmethod
    def of(cls, pipe: Any, structure: CausalStructure, *, prompts: int, seeds: int, steps: int) -> Trial:
        """Return the trial on the prompts and noises of certificates."""
        world = load_world(structure.world)
        draws = triplet_draws(pipe, prompts, seeds)
        return cls(pipe, draws, Subject(pipe, draws, "neutral", DONORS[0], steps, world).cross, steps, world)

    def subject(self, donor: str) -> Subject:
        """Return what `lab.validate.tracing.methods` take: the neutral word as the recipient."""
        return Subject(self.pipe, self.draws, "neutral", donor, self.steps, self.world)


def scores(trial: Trial, say: Callable[[str], Any] = lambda text: None) -> dict[str, Values]:
    """Return what each method of `LABELS` says of each cross-attention, by draw.

    Of the probe there is one row alone: it is trained on all prompts.
    """
    found = swaps(trial)
    say("swaps")
    for name, points in (("gradient", (0.0,)), ("integrated", MIDPOINTS)):
        found[name] = _mean(trial, lambda subject, points=points: gradient(subject, points).values)
        say(LABELS[name])
    found["atlas"] = _mean(trial, lambda subject: cosine_atlas(subject).values)
    found["contribution"] = _mean(trial, lambda subject: contribution(subject).values)
    found["probe"] = _readable(trial)
    say("atlas, contribution, probe")
    return {name: found[name] for name in LABELS}


def _mean(trial: Trial, values: Callable[[Subject], Values]) -> Values:
    return np.mean([values(trial.subject(donor)) for donor in DONORS], axis=0)


def _readable(trial: Trial) -> Values:
    """Accuracy of linear probes for the two words at each cross-attention's output, less their control's."""
    texts = list(dict.fromkeys(one.prompts["neutral"] for one in trial.draws))
    table = site_scores(
        trial.pipe,
        [text.replace(WORDS["neutral"], "{person}", 1) for text in texts],
        words=(WORDS["masculine"], WORDS["feminine"]),
        seeds=(0,),
        sites=trial.sites,
        num_inference_steps=trial.steps,
        guidance_scale=GUIDANCE,
    )
    best = table.groupby("site")["score"].max()
    return best.reindex(trial.sites).to_numpy(float)[None]


def orders(sites: int, number: int = ORDERS, seed: int = 0) -> list[tuple[int, ...]]:
    """Return orders of the sites for Shapley values, each followed by its reverse (antithetic sampling)."""
    rng = np.random.default_rng(seed)
    found = [tuple(map(int, rng.permutation(sites))) for _ in range(number)]
    return [order for one in found for order in (one, one[::-1])]


def swaps(trial: Trial) -> dict[str, Values]:
    """Return sufficiency, necessity, the larger of both and Shapley values, in units of the verdict."""
    number = len(trial.sites)
    single = [(site,) for site in range(number)]
    prefixes = {tuple(sorted(order[:size])) for order in orders(number) for size in range(2, number + 1)}
    sets = [*single, *sorted(prefixes)]
    variants = [Variant(f"none:{name}", "none", name) for name in WORDS]
    variants += [_swap(trial, "neutral", donor, some) for donor in DONORS for some in sets]
    variants += [_swap(trial, donor, "neutral", some) for donor in DONORS for some in single]
    found = verdicts(trial.pipe, trial.world, trial.draws, variants, trial.steps)
    by_name = dict(zip([one.name for one in variants], found.T, strict=True))
    feminine, masculine = DONORS

    def apart(some: tuple[int, ...]) -> Values:
        return by_name[_name("neutral", masculine, some)] - by_name[_name("neutral", feminine, some)]

    total = by_name[f"none:{masculine}"] - by_name[f"none:{feminine}"]
    sufficiency = np.column_stack([apart(some) for some in single])
    necessity = np.column_stack(
        [
            total - by_name[_name(masculine, "neutral", some)] + by_name[_name(feminine, "neutral", some)]
            for some in single
        ]
    )
    larger = np.where(np.abs(sufficiency.mean(0)) >= np.abs(necessity.mean(0)), sufficiency, necessity)
    return {
        "sufficiency": sufficiency,
        "necessity": necessity,
        "larger": larger,
        "shapley": shapley(apart, number),
    }


def shapley(effect: Callable[[tuple[int, ...]], Values], sites: int) -> Values:
    """Return the mean over `orders` of what each site adds to those before it, (draws, sites).

    Parameters
    ----------
    effect : callable
        Of a set of sites, as sorted numbers: (draws,).
    """
    added: list[list[Values]] = [[] for _ in range(sites)]
    for order in orders(sites):
        before: Values | float = 0.0
        for size, site in enumerate(order, 1):
            now = effect(tuple(sorted(order[:size])))
            added[site].append(now - before)
            before = now
    return np.column_stack([np.mean(one, axis=0) for one in added])


def _name(recipient: str, donor: str, some: Sequence[int]) -> str:
    return f"{donor}>{recipient}:{'+'.join(map(str, some))}"


def _swap(trial: Trial, recipient: str, donor: str, some: Sequence[int]) -> Variant:
    sites = tuple(trial.sites[site] for site in some)
    name = _name(recipient, donor, some)
    return Variant(name, "site", recipient, donor, sites=sites, part=KEYS_AND_VALUES, stop_step=trial.steps)


def as_json(found: Mapping[str, Values], seeds: int) -> dict[str, Any]:
    """Return mean scores of each prompt over its seeds, of five digits."""
    return {
        name: np.round(
            values if len(values) == 1 else values.reshape(-1, seeds, values.shape[1]).mean(1), 5
        ).tolist()
        for name, values in found.items()
    }

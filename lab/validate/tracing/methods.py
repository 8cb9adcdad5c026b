"""Ways to say at which cross-attention a word enters: a score of each, by prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hooks import Probe
from hooks import sites as site_table
from lab.validate.tracing.attribution import gradient_attribution
from lab.validate.tracing.contribution import attention_contribution
from probes.runs.image_faults import eight_bits
from probes.stages.trace.draw import draw
from probes.stages.trace.triplet_draw import TripletDraw
from probes.stages.trace.variants import KEYS_AND_VALUES, Variant
from probes.toyworld.checker import read_images
from probes.toyworld.verdict import verdict
from probes.toyworld.world import World

ROWS = 60  # of a batch, about
GUIDANCE = 1.0  # that the models were made for


@dataclass(frozen=True)
class Subject:
    """Input on which a method is tried.

    Attributes
    ----------
    pipe
        The pipeline of a benchmark model.
    draws : sequence of TripletDraw
        One seed each.
    recipient, donor : str
        Indicators: whose image is changed, towards whose.
    steps : int
    world : World
        Whose frequencies the verdict is of.
    """

    pipe: Any
    draws: Sequence[TripletDraw]
    recipient: str
    donor: str
    steps: int
    world: World

    @property
    def cross(self) -> tuple[str, ...]:
        """Its cross-attentions, in the order in which they run."""
        return tuple(site.address for site in site_table.attention_sites(self.pipe, "cross"))

    def batches(self, rows: int) -> Iterable[Sequence[TripletDraw]]:
        """Draws, so many at a time that a batch has some `ROWS`, each draw having `rows`."""
        size = max(1, ROWS // rows)
        return (self.draws[start : start + size] for start in range(0, len(self.draws), size))


@dataclass(frozen=True)
class PlaceScores:
    """Scores of a method for places.

    Attributes
    ----------
    places : tuple
        Sites, heads of a site, or windows of steps.
    values : ndarray of float64, shape (draws, places)
        Of swaps the change of the verdict, else the method's number.
    totals : ndarray of float64, shape (draws,), or None
        Of swaps: the change of the verdict by the word itself; shares are ratios of sums.
    """

    places: tuple[Any, ...]
    values: NDArray[np.float64]
    totals: NDArray[np.float64] | None = None

    def by_place(self, draws: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """One number a place: a share where there are totals (a sum where they add up to 0), else a mean.

        Parameters
        ----------
        draws : ndarray of int, shape (..., n), optional
            Draws that count, as often as they stand there; all once, by default.

        Returns
        -------
        ndarray, shape (..., places)
        """
        chosen = np.arange(len(self.values)) if draws is None else draws
        values = self.values[chosen].sum(-2)
        whole = np.full(values.shape[:-1], float(chosen.shape[-1]))
        if self.totals is not None:
            whole = self.totals[chosen].sum(-1)
        return values / np.where(whole == 0, 1.0, whole)[..., None]


def variants(subject: Subject, places: Iterable[dict[str, Any]]) -> list[Variant]:
    """The unpatched images of recipient and donor, and one with the donor's activations at each place."""
    patched = [
        Variant(
            f"{number}",
            "site",
            subject.recipient,
            subject.donor,
            **{"stop_step": subject.steps, **place},
        )
        for number, place in enumerate(places)
    ]
    return [Variant(f"none:{name}", "none", name) for name in (subject.recipient, subject.donor)] + patched


def swapped(subject: Subject, names: Sequence[Any], places: Sequence[dict[str, Any]]) -> PlaceScores:
    """Change of the verdict by a swap at each place, and by the word itself."""
    chosen, found = variants(subject, places), []
    for some in subject.batches(len(chosen)):
        images = draw(subject.pipe, some, chosen, steps=subject.steps, guidance_scale=GUIDANCE)
        prompts = [one.draw.prompts[subject.recipient] for one in images]
        pixels = np.stack([eight_bits(one.image) for one in images])
        found.append(verdict(read_images(pixels), prompts, subject.world).reshape(len(some), len(chosen)))
    values = np.concatenate(found)
    return PlaceScores(tuple(names), values[:, 2:] - values[:, :1], values[:, 1] - values[:, 0])


def keys_and_values(subject: Subject) -> PlaceScores:
    """Swaps of keys and values, one cross-attention at a time."""
    sites = subject.cross
    return swapped(subject, sites, [{"sites": (site,), "part": KEYS_AND_VALUES} for site in sites])


def own_outputs(subject: Subject) -> PlaceScores:
    """Swaps of outputs with those of the donor's own trajectory."""
    sites = subject.cross
    return swapped(subject, sites, [{"sites": (site,), "part": "output"} for site in sites])


def local_outputs(subject: Subject) -> PlaceScores:
    """Swaps of outputs with those that the donor's text gives at the recipient's own latent."""
    sites = subject.cross
    return swapped(
        subject, sites, [{"sites": (site,), "part": "output", "source": "local"} for site in sites]
    )


def positions(subject: Subject, groups: Sequence[str]) -> PlaceScores:
    """Swaps of keys and values at all cross-attentions, one group of token positions at a time."""
    places = [{"sites": subject.cross, "part": KEYS_AND_VALUES, "positions": group} for group in groups]
    return swapped(subject, groups, places)


def cosine_atlas(subject: Subject) -> PlaceScores:
    """One less the cosine between both words' outputs of each cross-attention, mean over steps."""
    sites, found = subject.cross, []
    for some in subject.batches(2):
        pairs = [(number, len(some) + number) for number in range(len(some))]
        with Probe(subject.pipe, sites=sites, pairs=pairs) as probe:
            _plain(subject, some)
        found.append(
            np.stack([1 - probe.similarity[f"{site}:cosine"].values.mean(0) for site in sites], axis=1)
        )
    return PlaceScores(sites, np.concatenate(found).astype(np.float64))


def contribution(subject: Subject) -> PlaceScores:
    """Share of each cross-attention's output that comes through the donor's word, mean over steps."""
    found = [
        attention_contribution(
            subject.pipe, some, subject.donor, steps=subject.steps, guidance_scale=GUIDANCE
        )
        for some in subject.batches(2)
    ]
    return PlaceScores(found[0].sites, np.concatenate([one.values.mean(2) for one in found]))


def gradient(subject: Subject, points: Sequence[float] = (0.0,)) -> PlaceScores:
    """First-order estimate of the swap of keys and values, on the final latent, added up over steps.

    See `gradient_attribution` for `points`.
    """
    found = [
        gradient_attribution(
            subject.pipe,
            some,
            subject.recipient,
            subject.donor,
            steps=subject.steps,
            guidance_scale=GUIDANCE,
            points=points,
        )
        for some in subject.batches(8)
    ]
    return PlaceScores(found[0].sites, np.concatenate([one.values.sum(2) for one in found]))


def _plain(subject: Subject, some: Sequence[TripletDraw]) -> None:
    subject.pipe(
        [one.prompts[name] for name in (subject.recipient, subject.donor) for one in some],
        generator=[torch.Generator("cpu").manual_seed(one.noise_seed) for _ in range(2) for one in some],
        num_inference_steps=subject.steps,
        guidance_scale=GUIDANCE,
        output_type="latent",
    )


@dataclass(frozen=True)
class LocalisationMethod:
    """A method of localisation.

    Attributes
    ----------
    name : str
    label : str
        What it is called on the page.
    intervenes : bool
        Whether it changes what is drawn.
    run : callable
        Scores of all cross-attentions of a subject.
    """

    name: str
    label: str
    intervenes: bool
    run: Callable[[Subject], PlaceScores]


METHODS = (
    LocalisationMethod("keys_values", "swap of keys and values", True, keys_and_values),
    LocalisationMethod("output_own", "swap of outputs, own donor", True, own_outputs),
    LocalisationMethod("output_local", "swap of outputs, local donor", True, local_outputs),
    LocalisationMethod("gradient", "gradient attribution", False, gradient),
    LocalisationMethod("atlas", "cosine atlas", False, cosine_atlas),
    LocalisationMethod("contribution", "attention contribution", False, contribution),
)

"""The places whose pairs a trace patches by default: those that change the images of a few prompts most.

A pilot sweeps the attentions to the text, and the pooled text, over the first prompts: the reference's images with
activations of either word (sufficiency), and the words' images with those of the reference (necessity). Places are
taken by how much of their recipient's image they change, either way, which is to be had of every model and needs no
outcome; by necessity too, since of two places that act only together neither does anything alone.

Every process of a run can draw the pilot for itself and finds the same: it depends on the configuration and the model
alone, not on which parts are traced. What was chosen stands in ``run.json`` and in the identity of the parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probes.config.trace_options import Trace
from probes.runs.images import read_image
from probes.stages.trace.patch_sites import POOLED, PatchSites
from probes.stages.trace.triplet_draw import TripletDraw
from probes.stages.trace.variants import KEYS_AND_VALUES, TracePlan, TraceWords, plan

PROMPTS = 4  # of the pilot
EACH_WAY, PLACES = 3, 4  # at most: by sufficiency and by necessity, and of both together
# of what the words change in the image on average: a place that changes less is left alone, as one is that changes an
# image by the order of sums alone
LEAST = 0.01

Pair = tuple[str, str]


def candidates(places: PatchSites, trace: Trace) -> tuple[str, ...]:
    """Return the places that are swept whose pairs can be chosen: ways of the text, with what the text gives them.

    None where something else is patched of an attention: it may hold what an earlier one wrote.
    """
    if not set(trace.part.split("+")) <= {"key", "value"}:
        return ()
    pooled_too = trace.part == KEYS_AND_VALUES and trace.source == "own"
    return tuple(one for one in places.ways if one in places.sites and (one != POOLED or pooled_too))


def pilot(words: TraceWords, places: PatchSites, trace: Trace) -> TracePlan | None:
    """Return the images of each triplet that the choice is made from; None where there is nothing to choose."""
    if trace.pairs != "top" or len(found := candidates(places, trace)) < 2:
        return None
    swept = trace.model_copy(
        update={"curve": 0, "windows": 0, "positions": [], "shapley": False, "floor": False, "cuts": False}
    )
    chosen = plan(words, replace(places, sites=found, heads={}), swept)
    alone = tuple(one for one in chosen.variants if one.kind in ("none", "site"))
    return TracePlan(alone, (), chosen.indicators, chosen.places)


def piloted(draws: Sequence[TripletDraw]) -> list[TripletDraw]:
    """Return the triplets of the pilot, each with the first of its seeds."""
    first = {one.triplet: one for one in reversed(draws)}
    return [first[number] for number in sorted(first)][:PROMPTS]


def most_pairs(places: PatchSites, trace: Trace) -> list[Pair]:
    """Return as many pairs as can be chosen at most, to estimate what they take."""
    return list(combinations(candidates(places, trace)[:PLACES], 2))


def pairs_of(rows: Iterable[Mapping[str, Any]], plan: TracePlan, reference: str) -> list[Pair]:
    """Return the pairs of the places that change the images of a pilot most, in the order of the sweep.

    Parameters
    ----------
    rows
        Of all images of the pilot, as ``traced/`` has them.
    plan
        Of the pilot.
    reference
        Its indicator.
    """
    by_draw: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        by_draw.setdefault((row["triplet"], row["seed"]), []).append(row)
    enough, needed = dict[str, list[float]](), dict[str, list[float]]()
    of_words: list[float] = []
    for some in by_draw.values():
        pictures = {row["variant"]: _picture(row) for row in some if row["fault"] is None}
        plain = {row["recipient"]: pictures.get(row["variant"]) for row in some if row["donor"] is None}
        words = [picture for name, picture in plain.items() if name != reference]
        of_words += [_apart(plain.get(reference), picture) for picture in words]
        for row in some:
            if row["donor"] is not None and row["variant"] in pictures:
                way = enough if row["recipient"] == reference else needed
                moved = _apart(plain.get(row["recipient"]), pictures[row["variant"]])
                way.setdefault(row["sites"][0], []).append(moved)
    return chosen_pairs(plan.places.sites, enough, needed, of_words)


def chosen_pairs(
    sites: Sequence[str],
    enough: Mapping[str, Sequence[float]],
    needed: Mapping[str, Sequence[float]],
    words: Sequence[float],
) -> list[Pair]:
    """Return the pairs of the places that change images most, places taken by turns from both rankings.

    Parameters
    ----------
    sites
        All places, in the order of the sweep.
    enough, needed
        How much each changes of the reference's images (sufficiency) and of the words' (necessity), in any unit; NaN
        where an image is at fault.
    words
        How much the words change of the reference's images, in the same unit.

    Examples
    --------
    >>> chosen_pairs("abc", {"a": [2.0], "b": [0.0], "c": [5.0]}, {"b": [3.0]}, [9.0])
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    least = LEAST * _mean(words)
    ranked = [_ranked(way, least)[:EACH_WAY] for way in (enough, needed)]
    by_turns = [one for one in chain.from_iterable(zip_longest(*ranked)) if one is not None]
    top = [*dict.fromkeys(by_turns)][:PLACES]
    return list(combinations([one for one in sites if one in top], 2))


def _picture(row: Mapping[str, Any]) -> NDArray[np.float64]:
    return np.asarray(read_image(row["image"]["bytes"]), np.float64)


def _apart(first: NDArray[np.float64] | None, second: NDArray[np.float64] | None) -> float:
    """Mean absolute difference of two images; NaN where one is at fault."""
    return np.nan if first is None or second is None else float(np.abs(first - second).mean())


def _mean(values: Sequence[float]) -> float:
    """Mean of the values that there are; 0 without one."""
    there = [value for value in values if not np.isnan(value)]
    return float(np.mean(there)) if there else 0.0


def _ranked(way: Mapping[str, Sequence[float]], least: float) -> list[str]:
    """Places by how much they change on average, those that change next to nothing left out."""
    sizes = {site: _mean(values) for site, values in way.items()}
    return [site for site in sorted(sizes, key=lambda one: -sizes[one]) if sizes[site] > least]

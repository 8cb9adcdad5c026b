"""Scores of every method for each place of a benchmark model, prompt by prompt, as JSON holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hooks.prompt.spans import GROUPS
from lab.validate.tracing import methods
from lab.validate.tracing.certificates import DONORS, seeded_triplets
from lab.validate.tracing.methods import METHODS, WORDS, PlaceScores, Subject
from probes.stages.trace.seeded_triplet import SeededTriplet
from probes.toyworld.places import KnownPlaces
from probes.toyworld.world import load_world

RECIPIENT, DONOR = "woman", "man"
STRUCTURE_METHODS = {
    "sufficiency": "swap, sufficiency",
    "necessity": "swap, necessity",
    "atlas": "cosine atlas",
    "probe": "linear probe",
}


def subject_of(pipe: Any, model: KnownPlaces, templates: Sequence[str], steps: int) -> Subject:
    """The input of a method: the same prompts and noise of every benchmark model, with words of one article."""
    words = {word: word for word in (RECIPIENT, DONOR)}
    triplets = [
        SeededTriplet.from_prompts(
            pipe, {word: text.replace("{person}", word) for word in words}, words, number=number
        )
        for number, text in enumerate(templates)
    ]
    return Subject(pipe, triplets, RECIPIENT, DONOR, steps, load_world(model.world))


def rank(pipe: Any, model: KnownPlaces, templates: Sequence[str], steps: int) -> dict[str, Any]:
    """Scores of every method on a located model, and swaps at all cross-attentions by token position."""
    subject = subject_of(pipe, model, templates, steps)
    found = {name: as_json(run(subject)) for name, (_, run) in METHODS.items()}
    found["probe"] = as_json(methods.readable(subject, templates, (DONOR, RECIPIENT)))
    positions = as_json(methods.positions(subject, GROUPS[2:]))
    return {"steps": steps, "prompts": len(templates), "methods": found, "positions": positions}


def rank_structure(pipe: Any, structure: KnownPlaces, prompts: int, seeds: int, steps: int) -> dict[str, Any]:
    """Scores of each of `STRUCTURE_METHODS` for each cross-attention, a mean of each prompt over its seeds.

    Swaps are made in both directions between the neutral word and each of the other two, and what counts is the
    difference between the masculine and the feminine one; of methods without a swap the mean over both words.
    """
    triplets = seeded_triplets(pipe, prompts, seeds)
    subject = Subject(pipe, triplets, "neutral", DONORS[0], steps, load_world(structure.world))
    apart = {
        "sufficiency": [methods.keys_and_values(replace(subject, donor=donor)).values for donor in DONORS],
        "necessity": [
            -methods.keys_and_values(replace(subject, recipient=donor, donor="neutral")).values
            for donor in DONORS
        ],
    }
    found = {name: masculine - feminine for name, (feminine, masculine) in apart.items()}
    found["atlas"] = np.mean([methods.cosine_atlas(replace(subject, donor=one)).values for one in DONORS], 0)
    found = {name: values.reshape(-1, seeds, values.shape[1]).mean(1) for name, values in found.items()}
    texts = [one.prompts["neutral"].replace(WORDS["neutral"], "{person}", 1) for one in triplets[::seeds]]
    found["probe"] = methods.readable(subject, texts, (WORDS["masculine"], WORDS["feminine"])).values
    asked = {"prompts": prompts, "seeds": seeds, "steps": steps, "sites": list(subject.cross)}
    return {**asked, "methods": {name: np.round(values, 5).tolist() for name, values in found.items()}}


def as_json(scores: PlaceScores) -> dict[str, Any]:
    """Numbers of five digits: a verdict is no more exact."""
    totals = None if scores.totals is None else np.round(scores.totals, 5).tolist()
    return {"places": list(scores.places), "values": np.round(scores.values, 8).tolist(), "totals": totals}


def from_json(stored: Mapping[str, Any]) -> PlaceScores:
    """The scores that were stored."""
    places = tuple(stored["places"])
    totals = None if stored["totals"] is None else np.array(stored["totals"])
    return PlaceScores(places, np.array(stored["values"], dtype=float).reshape(-1, len(places)), totals)

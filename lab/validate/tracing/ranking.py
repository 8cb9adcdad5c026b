"""Every method of localisation on one located benchmark model: what it says of each place, prompt by prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from analysis.methods.decoding.localise import site_scores
from hooks.prompt.positions import GROUPS
from lab.validate.tracing import methods
from lab.validate.tracing.methods import METHODS, PlaceScores, Subject
from probes.stages.trace.triplet_draw import TripletDraw
from probes.toyworld.located.truth import LocatedModel
from probes.toyworld.world import load_world

RECIPIENT, DONOR, SYNONYM = "woman", "man", "lady"


def subject_of(pipe: Any, model: LocatedModel, templates: Sequence[str], donor: str, steps: int) -> Subject:
    """Return what a method is tried on: the same prompts and noise of every benchmark model.

    Parameters
    ----------
    templates
        Sentences with ``{person}``.
    donor
        The word whose activations the recipient is given; both take the same article.
    """
    words = {RECIPIENT: RECIPIENT, donor: donor}
    draws = [
        TripletDraw.of_texts(
            pipe, {word: text.replace("{person}", word) for word in words}, words, triplet=number
        )
        for number, text in enumerate(templates)
    ]
    return Subject(pipe, draws, RECIPIENT, donor, steps, load_world(model.world))


def rank(
    pipe: Any,
    model: LocatedModel,
    templates: Sequence[str],
    *,
    steps: int,
    say: Callable[[str], Any] = lambda text: None,
) -> dict[str, Any]:
    """Return what every method says of a benchmark model, as JSON holds it.

    Parameters
    ----------
    pipe, model
        The benchmark model and what is known of it.
    templates
        Sentences with ``{person}``; the unit of every interval.
    steps
        Of each image.
    say
        Told what has been done.

    Returns
    -------
    dict
        ``methods``: by name what `PlaceScores` holds; ``floor``: swaps of keys and values with a synonym as donor, of
        benchmark models without effect; ``positions``: swaps at all cross-attentions, by token position.
    """
    subject = subject_of(pipe, model, templates, DONOR, steps)
    found: dict[str, Any] = {"steps": steps, "prompts": len(templates), "methods": {}}
    for method in METHODS:
        found["methods"][method.name] = as_json(method.run(subject))
        say(f"{model.name}: {method.label}")
    found["methods"]["probe"] = as_json(readable(subject, templates))
    say(f"{model.name}: probe separability")
    if not model.sites:
        synonym = subject_of(pipe, model, templates, SYNONYM, steps)
        found["floor"] = as_json(methods.keys_and_values(synonym))
    found["positions"] = as_json(methods.positions(subject, GROUPS[2:]))
    say(f"{model.name}: positions")
    return found


def readable(subject: Subject, templates: Sequence[str]) -> PlaceScores:
    """Return the accuracy of linear probes for the two words at each cross-attention's output, over all prompts."""
    table = site_scores(
        subject.pipe,
        templates,
        words=(subject.donor, subject.recipient),
        seeds=(0,),
        sites=subject.cross,
        num_inference_steps=subject.steps,
        guidance_scale=methods.GUIDANCE,
    )
    best = table.groupby("site")["score"].max()
    return PlaceScores(subject.cross, best.reindex(subject.cross).to_numpy(float)[None])


def as_json(scores: PlaceScores) -> dict[str, Any]:
    """Numbers of five digits: a verdict is no more exact."""
    places = [list(place) if isinstance(place, tuple) else place for place in scores.places]
    totals = None if scores.totals is None else np.round(scores.totals, 5).tolist()
    return {"places": places, "values": np.round(scores.values, 8).tolist(), "totals": totals}


def from_json(stored: Mapping[str, Any]) -> PlaceScores:
    """The scores that were stored."""
    places = tuple(tuple(place) if isinstance(place, list) else place for place in stored["places"])
    totals = None if stored["totals"] is None else np.array(stored["totals"])
    return PlaceScores(places, np.array(stored["values"], dtype=float).reshape(-1, len(places)), totals)

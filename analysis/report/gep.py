"""The report's section on attributes (GEP): what of the tables it shows, and in which words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.report.figures.gep import draw_estimates, draw_scores, draw_vectors
from analysis.report.figures.style import Drawn
from analysis.report.format import number, p_value
from analysis.tables.gep import LABELS
from probes.config import Config

if TYPE_CHECKING:
    from probes.store import Run

NAMES = ("gep_vector", "gep_score", "gep_agreement", "gep_auc")
ORDER = (*LABELS, "detected", "CLS", "CC", "C")  # the first that read a run is what its figures show
SOURCES = {
    "checker": "the toyworld checker",
    "human": "people",
    "detected": "the object detector",
    "CLS": "classifiers trained on CLIP’s text embeddings (CLS)",
    "CC": "CLIP similarity less that of a reference string (CC)",
    "C": "CLIP similarity (C)",
}
LEVEL = 0.05  # below which p is called more than chance


@dataclass(frozen=True)
class Attributes:
    """The tables of an audit, by name, and the source that its figures show."""

    tables: Mapping[str, pd.DataFrame]
    source: str


def read_attributes(run: Run) -> Attributes | None:
    """Read the tables of the section; None for a run that is no audit."""
    if not set(NAMES) <= set(run.tables()):
        return None
    tables = {name: run.table(name) for name in NAMES}
    there = set(tables["gep_score"]["source"])
    return Attributes(tables, next(source for source in ORDER if source in there)) if there else None


def draw(attributes: Attributes, config: Config) -> dict[str, Drawn]:
    """Draw the figures of the first pair of words, by name."""
    pair = _contrast(attributes.tables["gep_score"])
    if pair is None:
        return {}
    vector, score = (attributes.tables[name] for name in ("gep_vector", "gep_score"))
    drawn = [
        draw_vectors({config.model: vector}, *pair, attributes.source),
        draw_scores({config.model: score}, *pair, attributes.source),
    ]
    if attributes.source in LABELS:
        drawn.append(draw_estimates(vector, *pair, attributes.source))
    return {figure.name: figure for figure in drawn if figure is not None}


def section(attributes: Attributes) -> dict[str, Any]:
    """Lay the section out.

    Returns
    -------
    dict
        ``sources``: what read the images, in words; ``sentences``, one a setting; ``scores``, ``agreement`` and
        ``auc``: rows of tables.
    """
    score = attributes.tables["gep_score"]
    order = {name: place for place, name in enumerate(ORDER)}
    shown = score[score["kind"] != "control"].assign(place=score["source"].map(order))
    auc = attributes.tables["gep_auc"]
    mean = auc.groupby(["source", "labels"], sort=False)["auc"].agg(["mean", "count"]).reset_index()
    return {
        "sources": [SOURCES[name] for name in ORDER if name in set(score["source"])],
        "read_by": SOURCES[attributes.source],
        "sentences": _sentences(attributes),
        "scores": shown.sort_values(["setting", "place"], kind="stable").to_dict("records"),
        "controls": score[score["kind"] == "control"].to_dict("records"),
        "agreement": _agreement(attributes.tables["gep_agreement"]),
        "auc": mean.to_dict("records"),
        "labels": attributes.source in LABELS,
    }


def _sentences(attributes: Attributes) -> list[str]:
    """What the score of each setting says, as read by the section's source."""
    score = attributes.tables["gep_score"]
    own = score[(score["source"] == attributes.source) & (score["kind"] == "contrast")]
    sentences = []
    for row in own.to_dict("records"):
        pair = f"between images generated from {row['first']} and from {row['second']} prompts"
        if row["reason"]:
            sentences.append(
                f"In the {row['setting']} setting no attribute differs {pair} ({row['reason']})."
            )
            continue
        more = "more" if row["p_value"] < LEVEL and row["excess"] > 0 else "not more"
        sentences.append(
            f"In the {row['setting']} setting attributes differ {pair} by {number(row['score'])} on average, {more} "
            f"than the {number(row['floor'])} that chance alone gives ({p_value(row['p_value'])})."
        )
    return sentences


def _agreement(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A row a setting, estimate and pair, with the measures beside each other."""
    key = ["setting", "source", "labels", "first", "second"]
    return [
        {**dict(zip(key, names)), "cells": {row["measure"]: row for row in rows.to_dict("records")}}
        for names, rows in table.groupby(key, sort=False)
    ]


def _contrast(score: pd.DataFrame) -> tuple[str, str] | None:
    own = score[score["kind"] == "contrast"]
    own = own if len(own) else score
    return (own["first"].iloc[0], own["second"].iloc[0]) if len(own) else None

"""The report's section on attributes (GEP): what of the tables it shows, and in which words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.methods.gep.example_figures import (
    ExampleRow,
    SingleImages,
    draw_artificial,
    draw_examples,
    draw_ratio,
)
from analysis.methods.gep.figures import draw_estimates, draw_scores, draw_vectors
from analysis.methods.gep.inference import CROSSED, IMAGES, over_units
from analysis.methods.gep.latex import documents
from analysis.methods.gep.lead_examples import captions, lead_examples
from analysis.methods.gep.page_tests import first_source
from analysis.methods.gep.results import more_than_chance, page_p_text, results
from analysis.methods.gep.sources import ORDER, SOURCES
from analysis.methods.gep.tables import LABELS
from analysis.observe.features.attribute_audit import places
from analysis.report.figures.style import Drawn
from analysis.report.format import number
from analysis.report.method import Example, Lead, ReportedMethod, ReportSection
from analysis.study import indicators
from analysis.tables.registry import read
from probes.config.schema import Config

if TYPE_CHECKING:
    from probes.runs.run import Run

NAMES = ("gep_vector", "gep_score", "gep_agreement", "gep_auc")
MORE = tuple(  # shown where they are
    f"gep_{name}"
    for name in ("powered", "clip_score", "artificial", "artificial_agreement", "frequencies", "ratio")
)
JEANS = "jeans"  # of the paper's figure 7
EXAMPLES = 4  # images of each attribute and word


@dataclass(frozen=True)
class Attributes:
    """The tables of an audit, by name, the source that its figures show, and images of each attribute."""

    tables: Mapping[str, pd.DataFrame]
    source: str
    examples: Sequence[ExampleRow] = ()
    single: SingleImages | None = None
    lead_examples: Sequence[Example] = ()


def read_attributes(run: Run) -> Attributes | OneWord | None:
    """Read the tables of the section; None for a run that is no audit."""
    if not set(NAMES) <= set(run.tables()):
        return _read_one_word(run)
    tables = {name: read(run, name) for name in (*NAMES, *MORE) if name in run.tables()}
    source = first_source(tables["gep_score"])
    if source is None:
        return None
    of_words = examples(run, tables["gep_frequencies"], source)
    found = Attributes(tables, source, of_words, single_images(run, tables["gep_score"]))
    said = said_scores(found)
    return replace(found, lead_examples=lead_examples(run, tables["gep_vector"], said[0])) if said else found


def examples(run: Run, frequencies: pd.DataFrame, source: str) -> list[ExampleRow]:
    """Return some images of every attribute that prompts name, of all main indicators at once.

    Contexts are taken evenly over all there are, each with the first seed that it has for every indicator.
    """
    names = [member.name for member in indicators(run.config) if not member.control]
    samples = run.samples(["sample_id", "triplet", "seed", "indicator"])
    samples = samples[samples["indicator"].isin(names) & ~samples["sample_id"].isin(list(run.left_out()))]
    draws = samples.pivot(index=["triplet", "seed"], columns="indicator", values="sample_id").dropna()
    first = draws.reset_index("seed", drop=True).groupby(level="triplet").first()
    counted = frequencies[(frequencies["source"] == source) & (frequencies["setting"] == "explicit")]
    counted = counted.set_index(["attribute", "indicator"])["frequency"]
    by_name: dict[str, list[int]] = {}
    for place in places(run.config):
        if place.triplet in first.index:
            by_name.setdefault(place.named, []).append(place.triplet)
    rows = []
    for attribute, triplets in by_name.items():
        step = np.linspace(0, len(triplets) - 1, min(EXAMPLES, len(triplets))).round().astype(int)
        chosen = first.loc[[triplets[index] for index in step]]
        images = {name: run.images(chosen[name]) for name in names}
        often = {name: counted[attribute, name] for name in names if (attribute, name) in counted.index}
        rows.append(ExampleRow(attribute, images, often))
    return rows


def single_images(run: Run, score: pd.DataFrame) -> SingleImages | None:
    """Return an image without an attribute and one of each word with it, those nearest to the means of their kinds.

    Of jeans as in the paper's figure 7, or of the first attribute that has such images; by CLS, or another estimate.
    """
    labels, pair = _labels(score), _contrast(score)
    if not labels or pair is None or "gep_predictions" not in run.tables():
        return None
    table = read(run, "gep_predictions")
    estimates = [name for name in ("CC", "CLS", "C", "detected") if name in set(table["source"])][:2]
    wide = table[table["indicator"].isin(pair)].pivot_table(
        index=["attribute", "sample_id", "indicator"], columns="source", values="value", sort=False
    )
    if not estimates or labels not in wide:
        return None
    wide = wide.dropna(subset=[labels, *estimates]).reset_index()
    names = list(dict.fromkeys(wide["attribute"]))
    for attribute in sorted(names, key=lambda name: name != JEANS):
        own = wide[wide["attribute"] == attribute]
        there = own[labels] > 0.5
        kinds = [own[~there], *(own[there & (own["indicator"] == word)] for word in reversed(pair))]
        if all(len(kind) for kind in kinds):
            nearest = [
                kind.loc[(kind[estimates[-1]] - kind[estimates[-1]].mean()).abs().idxmin()] for kind in kinds
            ]
            images = run.images([row["sample_id"] for row in nearest])
            return SingleImages(
                attribute, images, {name: [row[name] for row in nearest] for name in estimates}
            )
    return None


def draw(attributes: Attributes | OneWord, config: Config) -> dict[str, Drawn]:
    """Draw the figures of the first pair of words, by name."""
    if isinstance(attributes, OneWord):
        return {}
    pair = _contrast(attributes.tables["gep_score"])
    if pair is None:
        return {}
    vector, score = (attributes.tables[name] for name in ("gep_vector", "gep_score"))
    drawn = [
        draw_vectors({config.model_name: vector}, *pair, attributes.source),
        draw_scores({config.model_name: score}, *pair, attributes.source),
    ]
    if labels := _labels(score):
        drawn.append(draw_estimates(vector, *pair, labels))
        if attributes.single and "gep_ratio" in attributes.tables:
            drawn.append(draw_ratio(attributes.tables["gep_ratio"], attributes.single, *pair, labels))
        if "gep_artificial" in attributes.tables:
            drawn.append(draw_artificial(attributes.tables["gep_artificial"], *pair, labels))
    main = [member.name for member in indicators(config) if not member.control]
    drawn.append(draw_examples(attributes.examples, main, attributes.source))
    return {figure.name: figure for figure in drawn if figure is not None}


def section(attributes: Attributes | OneWord, config: Config) -> dict[str, Any]:
    """Return the values that the section's template shows."""
    if isinstance(attributes, OneWord):
        return _one_word(attributes)
    tables = attributes.tables
    score, auc, ratios = tables["gep_score"], tables["gep_auc"], tables.get("gep_ratio")
    order = {name: place for place, name in enumerate(ORDER)}
    # variants of the estimates stand in the tables of agreement alone
    score = score[score["source"].isin(ORDER)]
    shown = score[score["kind"] != "control"].assign(place=score["source"].map(order))
    mean = auc.groupby(["source", "labels"], sort=False)["auc"].agg(["mean", "count"]).reset_index()
    return {
        "sources": [SOURCES[name] for name in ORDER if name in set(score["source"])],
        "sentences": [_sentence(row, config.measure.alpha) for row in said_scores(attributes)],
        "scores": shown.sort_values(["setting", "place"], kind="stable").to_dict("records"),
        "controls": score[score["kind"] == "control"].to_dict("records"),
        "fit": tables.get("gep_clip_score", pd.DataFrame()).to_dict("records"),
        "agreement": _by_measure(tables["gep_agreement"], "setting", "source", "labels", "first", "second"),
        "artificial": _by_measure(tables.get("gep_artificial_agreement"), "source", "labels"),
        "powered": _powered(attributes),
        "ratios": [] if ratios is None else ratios[ratios["attribute"] == ""].to_dict("records"),
        "auc": mean.to_dict("records"),
        "labels": bool(_labels(score)),
        "over_units": over_units(shown["unit"]),
        "several_contexts": bool((score["n_contexts"] > 1).any()),
    }


def lead(attributes: Attributes | OneWord, config: Config) -> Lead | None:
    """Return the first screen: what the score of the first setting says, for a run whose prompts are an audit's."""
    if isinstance(attributes, OneWord):
        return None
    said, pair = said_scores(attributes), _contrast(attributes.tables["gep_score"])
    if pair is None:
        return None
    question = f"Do {_quantity(attributes.source)} differ between {pair[0]} and {pair[1]} prompts?"
    figures = ("gep-scores", "gep-vectors")
    if not said:
        return Lead(question, "No contrast was asked for, so no score was tested.", figures)
    row, alpha = said[0], config.measure.alpha
    shown = (attributes.lead_examples, *captions(row)) if attributes.lead_examples else ()
    place = f"In the {row['setting']} setting"
    if np.isnan(row["p_value"]):
        none = row["reason"].startswith("no difference")
        answer = (
            "no attribute differs" if none else "nothing can be said of differences; the reason stands below"
        )
        return Lead(question, f"{place} {answer}.", figures, *shown)
    more = "more" if more_than_chance(row, alpha) else "not more"
    answer = (
        f"{place} they differ by {number(row['score'])} on average, {more} than the {number(row['floor'])} that "
        f"chance alone gives ({page_p_text(row).partition(' over ')[0]})"
    )
    few = f"; too few for any p below {alpha:g}" if row["p_smallest"] > alpha else ""
    return Lead(question, f"{answer}{few}.", figures, *shown)


def said_scores(attributes: Attributes) -> list[dict[str, Any]]:
    """Return the rows of ``tables/gep_score`` of which a sentence speaks."""
    score = attributes.tables["gep_score"]
    own = score[(score["source"] == attributes.source) & (score["kind"] == "contrast")]
    return own.to_dict("records")


def _sentence(row: Mapping[str, Any], alpha: float) -> str:
    """Return what one score says, of which sample, and what its design could not have shown."""
    pair = f"between images generated from {row['first']} and from {row['second']} prompts"
    place = f"In the {row['setting']} setting"
    if np.isnan(row["p_value"]):
        if row["reason"].startswith("no difference"):
            return f"{place} no attribute differs {pair} ({row['reason']})."
        return f"{place} nothing can be said of differences {pair}: {row['reason']}."
    more = "more" if more_than_chance(row, alpha) else "not more"
    said = (
        f"{place} {_quantity(row['source'])} differ {pair} by {number(row['score'])} on average, {more} "
        f"than the {number(row['floor'])} that chance alone gives ({page_p_text(row)})."
    )
    if row["unit"] == IMAGES:
        said += " There is one context: its images are the sample, and this is said of it alone."
    if row["unit"] == CROSSED:
        said += " The seeds repeat over the contexts, so both are taken as samples that are crossed."
    if row["p_smallest"] > alpha:
        few = "images" if row["unit"] == IMAGES else "seeds" if row["unit"] == CROSSED else "contexts"
        said += (
            f" With so few {few} no p-value below {number(row['p_smallest'])} can be had, whatever the images show:"
            f" draw more {few}."
        )
    return said + (f" It is {row['reason']}." if row["reason"] else "")


def _quantity(source: str) -> str:
    """What of the attributes differs: an estimate of single images is no frequency."""
    if source in ("CLS", "CC", "C"):
        return f"{source} estimates of attributes"
    return "shares of images with an attribute"


def _by_measure(table: pd.DataFrame | None, *key: str) -> list[dict[str, Any]]:
    """One row per value of the keys, with the measures beside each other."""
    groups = () if table is None else table.groupby([*key], sort=False)
    return [
        {**dict(zip(key, names)), "cells": {row["measure"]: row for row in rows.to_dict("records")}}
        for names, rows in groups
    ]


def _powered(attributes: Attributes) -> list[dict[str, Any]]:
    """Rows of scores from a few labels and an estimate, one a setting and pair, with how many labels would do."""
    table = attributes.tables.get("gep_powered")
    if table is None:
        return []
    scores = table[(table["attribute"] == "") & (table["kind"] != "control")]
    each = table[table["attribute"] != ""].groupby(["setting", "first", "second"])["needed"].median()
    return [
        {**row, "needed_each": each.get((row["setting"], row["first"], row["second"]))}
        for row in scores.to_dict("records")
    ]


def _labels(score: pd.DataFrame) -> str:
    """The source that says what is in the images, if there is one."""
    return next((name for name in LABELS if name in set(score["source"])), "")


def _contrast(score: pd.DataFrame) -> tuple[str, str] | None:
    own = score[score["kind"] == "contrast"]
    own = own if len(own) else score
    return (own["first"].iloc[0], own["second"].iloc[0]) if len(own) else None


@dataclass(frozen=True)
class OneWord:
    """The frequencies of attributes in a run that compares no words."""

    frequencies: pd.DataFrame


def _read_one_word(run: Run) -> OneWord | None:
    """Return the frequencies of a run that compares no words; None where there are none."""
    if run.config.compares or "gep_frequencies" not in run.tables():
        return None
    return OneWord(read(run, "gep_frequencies"))


def _one_word(found: OneWord) -> dict[str, Any]:
    """Lay the section out: ``sources`` that read the images, and ``one_word``, a row for each setting and attribute."""
    table = found.frequencies
    sources = [name for name in ORDER if name in set(table["source"])]
    rows = [
        {
            "setting": setting,
            "attribute": attribute,
            "images": int(own["n_images"].max()),
            "by": own.drop_duplicates("source").set_index("source")["frequency"].to_dict(),
        }
        for (setting, attribute), own in table.groupby(["setting", "attribute"], sort=False)
    ]
    return {"sources": [SOURCES[name] for name in sources], "names": sources, "one_word": rows}


REPORTED = ReportedMethod(
    section=ReportSection(
        "analysis.methods.gep/section.html.j2",
        read=read_attributes,
        draw=draw,
        context=section,
        anchor="attributes",
        title="Attributes",
        lead=lead,
    ),
    documents=documents,
    results=results,
)

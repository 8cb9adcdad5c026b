"""Pictures of an audit's first screen: triplets of three attributes, each with its difference in frequency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.methods.gep.sources import SOURCES
from analysis.report.first_screen import ends_and_middle
from analysis.report.format import number, with_interval
from analysis.report.section import Example, ExamplePicture
from analysis.tables.registry import read
from probes.runs.run import Run

YES_NO = ("checker", "human", "detected")  # sources whose values are 0 and 1
HEADING = "How often an attribute is there: {first} less {second}"
CHOSEN = (
    "The attributes with the smallest, the middle and the largest difference in frequency, each in the first triplet "
    "in which any image has it; under an image: whether it does, by {source}."
)


def lead_examples(run: Run, vector: pd.DataFrame, said: Mapping[str, Any]) -> list[Example]:
    """Return triplets of the attributes with the smallest, the middle and the largest difference, in this order.

    Attributes that no image has are left out. Of each the first triplet, by prompt and seed, is shown in which any
    image has it (of an estimate: in which any lies above the attribute's mean). `said` is the row of
    ``tables/gep_score`` that the first screen speaks of.
    """
    if "gep_predictions" not in run.tables():
        return []
    same = ["setting", "source", "first", "second"]
    own = vector[(vector[same] == [said[key] for key in same]).all(axis=1) & vector["difference"].notna()]
    values = read(run, "gep_predictions")
    values = values[(values["setting"] == said["setting"]) & (values["source"] == said["source"])]
    shown = _triplets(run, values, [said["second"], run.config.reference, said["first"]])
    own = own[own["attribute"].isin(list(shown))].sort_values("difference", kind="stable")
    rows = own.to_dict("records")
    found = []
    for place in ends_and_middle(len(rows)).values():
        row, images = rows[place], shown[rows[place]["attribute"]]
        images = images.assign(reading=[_reading(value, row["source"]) for value in images["value"]])
        prompt = images["prompt"].loc[run.config.reference]
        found.append(example(run, row["attribute"], row, "difference", images, prompt))
    return found


def example(
    run: Run, title: str, row: Mapping[str, Any], value: str, images: pd.DataFrame, prompt: str
) -> Example:
    """Return a number of an audit with its pictures: ``sample_id``, ``prompt``, ``indicator`` and ``reading``."""
    shown = zip(run.images(images["sample_id"]), images["prompt"], images["indicator"], images["reading"])
    text = with_interval(row[value], row["low"], row["high"], 2, signed=True)
    return Example(title, row[value], text, prompt, [ExamplePicture(*one) for one in shown])


def captions(said: Mapping[str, Any]) -> tuple[str, str]:
    """Return what the numbers of the examples are, and how these were chosen, by a row of ``tables/gep_score``."""
    heading = HEADING.format(first=said["first"], second=said["second"])
    return heading, CHOSEN.format(source=SOURCES[said["source"]])


def _triplets(run: Run, values: pd.DataFrame, words: Sequence[str]) -> dict[str, pd.DataFrame]:
    """By attribute the images of its first triplet, in the order of the words."""
    words = list(dict.fromkeys(words))
    samples = run.samples(["sample_id", "triplet", "seed", "prompt"])
    samples = samples[~samples["sample_id"].isin(list(run.left_out()))]
    values = values[values["indicator"].isin(words)].merge(samples, on="sample_id")
    found = {}
    for attribute, own in values.groupby("attribute", sort=False):
        has = own["value"] > own["value"].mean()
        draws = own.assign(has=has).groupby(["triplet", "seed"])["has"].agg(["any", "size"])
        whole = draws[draws["any"] & (draws["size"] == len(words))]
        if len(whole):
            triplet, seed = whole.index[0]
            one = own[(own["triplet"] == triplet) & (own["seed"] == seed)].set_index("indicator", drop=False)
            found[str(attribute)] = one.loc[words]
    return found


def _reading(value: float, source: str) -> str:
    return ("yes" if value > 0.5 else "no") if source in YES_NO else number(value, 2)

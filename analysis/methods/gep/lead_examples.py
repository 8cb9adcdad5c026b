"""Pictures of an audit's first screen: triplets of three attributes, each with its difference in frequency."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.methods.gep.sources import SOURCES
from analysis.report.format import number
from analysis.report.section import Example, examples
from analysis.tables.registry import read
from analysis.tables.spec import Measured

YES_NO = ("checker", "human", "detected")  # sources whose values are 0 and 1
HEADING = "How often an attribute is there: {first} less {second}"
CHOSEN = (
    "The attributes with the smallest, the middle and the largest difference in frequency, each in the first triplet "
    "in which any image has it; under an image: whether it does, by {source}."
)


def lead_examples(shown: Measured, said: Mapping[str, Any]) -> tuple[list[Example], str, str] | tuple[()]:
    """Return triplets of three attributes, what their numbers are and how they were chosen; nothing without images.

    Of each attribute that any image has the first triplet, by prompt and seed, in which one does (of an estimate: in
    which one lies above the attribute's mean). `said` is the row of ``tables/gep_score`` that the first screen is of.
    """
    run, same = shown.run, ["setting", "source", "first", "second"]
    if "gep_predictions" not in run.tables():
        return ()
    names = list(dict.fromkeys([said["second"], run.config.reference, said["first"]]))
    values = read(run, "gep_predictions").query("setting == @said['setting'] and source == @said['source']")
    samples = run.samples(["sample_id", "triplet", "seed", "prompt"])
    samples = samples[~samples["sample_id"].isin(list(run.left_out()))]
    values = values[values["indicator"].isin(names)].merge(samples, on="sample_id")
    has = values["value"] > values.groupby("attribute")["value"].transform("mean")
    triplets = values.assign(has=has).groupby(["attribute", "triplet", "seed"])["has"].agg(["any", "size"])
    whole = triplets[triplets["any"] & (triplets["size"] == len(names))].reset_index()
    images = values.merge(whole.drop_duplicates("attribute")[["attribute", "triplet", "seed"]])
    images = images.sort_values("indicator", key=lambda own: own.map(names.index), kind="stable")
    words = images["value"].gt(0.5).map({True: "yes", False: "no"})
    reading = words if said["source"] in YES_NO else images["value"].map(lambda value: number(value, 2))
    vector = shown.rows("gep_vector").merge(pd.DataFrame([said])[same])
    vector = vector[vector["difference"].notna() & vector["attribute"].isin(images["attribute"])]
    found = examples(
        run, vector, "attribute", "difference", images.assign(label=images["indicator"], reading=reading)
    )
    return (found, HEADING.format(**said), CHOSEN.format(source=SOURCES[said["source"]])) if found else ()

"""What is measured of every prompt: what readers say, how often objects are there, and the gap of two words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.methods.dalleval.readings import answers
from analysis.methods.dalleval.scores import GENDER, TONE, TONES
from analysis.methods.templates.design import Design
from probes.runs.store import Run

GAP, OBJECTS = "gap", "objects"  # sources that are no readers
MOST_OBJECTS, LEAST_SHARE = (
    20,
    0.05,
)  # objects that are measured: so many at most, in so many of the images at least


@dataclass(frozen=True)
class Family:
    """Measures that are adjusted together: those of one source.

    Attributes
    ----------
    source : str
        Who or what read the images, `OBJECTS`, or `GAP`.
    values : DataFrame
        ``triplet``, ``seed``, ``question``, ``indicator`` (of a gap: the contrast), ``value``: one row per
        image, of gaps per prompt.
    """

    source: str
    values: pd.DataFrame


def centre(source: str, question: str) -> float:
    """Return the value that leans to neither side; NaN where there are no sides."""
    return 0.0 if source == GAP or question == GENDER else np.nan


def bounds(source: str, question: str) -> tuple[float, float]:
    """Return between which values a measure lies; infinite where it has no ends."""
    if source == GAP:
        return -np.inf, np.inf
    return {GENDER: (-1.0, 1.0), TONE: (1.0, float(TONES))}.get(question, (0.0, 1.0))


def families(run: Run, design: Design) -> Iterator[Family]:
    """Yield what was measured of the prompts of a design, readers first, then objects, then gaps."""
    samples = run.samples(["sample_id", "triplet", "seed", "indicator"])
    samples = samples[
        samples["triplet"].isin(list(design.cells)) & ~samples["sample_id"].isin(run.left_out())
    ]
    said: dict[str, list[pd.DataFrame]] = {}
    for question, source, rows in answers(run):
        decided = rows[rows["value"].notna()].merge(samples, on="sample_id")
        said.setdefault(source, []).append(decided.assign(question=question))
    for source, tables in said.items():
        found = pd.concat(tables, ignore_index=True)
        if len(found):
            yield Family(source, found[list(_COLUMNS)])
    if len(objects := _objects(run, samples)):
        yield Family(OBJECTS, objects)
    if "gap_prompts" in run.tables() and len(gaps := _gaps(run, design)):
        yield Family(GAP, gaps)


_COLUMNS = ("triplet", "seed", "question", "indicator", "value")


def _objects(run: Run, samples: pd.DataFrame) -> pd.DataFrame:
    """Whether each of the commonest objects is in each image."""
    if "objects" not in run.tables():
        return pd.DataFrame()
    observed = run.observed(["sample_id", "status"])
    seen = samples[samples["sample_id"].isin(observed.loc[observed["status"] == "ok", "sample_id"])]
    table = run.table("objects", ["sample_id", "object", "lemma"])
    there = table[(table["object"] >= 0) & table["sample_id"].isin(seen["sample_id"])]
    there = there.drop_duplicates(["sample_id", "lemma"])
    counts = there["lemma"].value_counts()
    counts = counts[counts >= max(1, LEAST_SHARE * len(seen))]
    common = sorted(counts.index, key=lambda name: (-counts[name], name))[:MOST_OBJECTS]
    has = set(zip(there["sample_id"], there["lemma"]))
    frames = [
        seen.assign(question=name, value=[float((sample, name) in has) for sample in seen["sample_id"]])
        for name in common
    ]
    return pd.concat(frames, ignore_index=True)[list(_COLUMNS)] if frames else pd.DataFrame()


def _gaps(run: Run, design: Design) -> pd.DataFrame:
    table = run.table("gap_prompts", ["triplet", "measure", "contrast", "gap"])
    table = table[table["triplet"].isin(list(design.cells)) & table["gap"].notna()]
    named = table.rename(columns={"measure": "question", "contrast": "indicator", "gap": "value"})
    return named.assign(seed=0)[list(_COLUMNS)]

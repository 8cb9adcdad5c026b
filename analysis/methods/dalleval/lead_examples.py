"""Pictures of an audit's first screen: images of three professions, each with its average gender."""

from __future__ import annotations

import pandas as pd

from analysis.methods.dalleval.names import profession
from analysis.methods.dalleval.page_tests import gender_rows
from analysis.methods.dalleval.readings import gender_answers
from analysis.report.section import Example, examples
from probes.prompts.diagnostic import profession_labels
from probes.runs.run import Run

IMAGES = 3  # of each profession


def lead_examples(run: Run, professions: pd.DataFrame, source: str) -> list[Example]:
    """Return the first images of the professions with the lowest, the middle and the highest average gender."""
    reference, answers = run.config.reference, gender_answers(run, source)
    samples = run.samples(["sample_id", "triplet", "seed", "indicator", "prompt"])
    samples = samples[(samples["indicator"] == reference) & ~samples["sample_id"].isin(list(run.left_out()))]
    called = samples["triplet"].map(profession_labels(run.config)).map(profession)
    samples = samples.assign(profession=called, reading=samples["sample_id"].map(answers), label="")
    samples = samples[samples["reading"].notna()].sort_values(["triplet", "seed"], kind="stable")
    rows = gender_rows(professions, reference)
    rows = rows.assign(profession=rows["profession"].map(profession))
    rows = rows[rows["average"].notna() & rows["profession"].isin(samples["profession"])]
    return examples(run, rows, "profession", "average", samples.groupby("profession").head(IMAGES))

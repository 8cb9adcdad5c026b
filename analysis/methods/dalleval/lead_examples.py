"""Pictures of an audit's first screen: images of three professions, each with its average gender."""

from __future__ import annotations

import pandas as pd

from analysis.methods.dalleval.names import profession
from analysis.methods.dalleval.page_tests import gender_rows
from analysis.methods.dalleval.readings import gender_answers
from analysis.methods.gep.lead_examples import example
from analysis.report.first_screen import ends_and_middle
from analysis.report.section import Example
from probes.prompts.diagnostic import profession_labels
from probes.runs.run import Run

IMAGES = 3  # of each profession


def lead_examples(run: Run, professions: pd.DataFrame, source: str) -> list[Example]:
    """Return the first images of the professions with the lowest, the middle and the highest average gender."""
    rows = gender_rows(professions, run.config.reference)
    rows = rows[rows["average"].notna()].to_dict("records")
    answers = gender_answers(run, source)
    samples = run.samples(["sample_id", "triplet", "seed", "indicator", "prompt"])
    samples = samples[samples["indicator"] == run.config.reference]
    samples = samples[~samples["sample_id"].isin(list(run.left_out()))]
    called = samples["triplet"].map(profession_labels(run.config))
    samples = samples.assign(profession=called, reading=samples["sample_id"].map(answers), indicator="")
    samples = samples[samples["reading"].notna()].sort_values(["triplet", "seed"], kind="stable")
    found = []
    for place in ends_and_middle(len(rows)).values():
        name, images = rows[place]["profession"], samples[samples["profession"] == rows[place]["profession"]]
        if len(images):
            prompt = images["prompt"].iloc[0]
            found.append(example(run, profession(name), rows[place], "average", images[:IMAGES], prompt))
    return found

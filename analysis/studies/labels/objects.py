"""People say which objects they see, beside what the detector found."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from analysis.report.format import number
from analysis.stats.rates import ALL
from analysis.studies.labels.detector import (
    AGREED,
    annotator_agreement,
    choose_questions,
    human_counts,
    labelled_items,
)
from analysis.studies.labels.kind import LabelKind, ticked
from analysis.studies.labels.nouns import noun_agreement, noun_summary
from analysis.study import contrasts, indicators
from analysis.tables.objects.human_answers import OBJECT_LABELS
from analysis.tables.registry import read, write
from probes.runs.run import Run

KEYS = ["sample_id", "triplet", "seed", "indicator"]


def measure(run: Run, labels: pd.DataFrame) -> Iterator[str]:
    """Write ``human_check``, ``human_nouns`` and ``human_counts``; yield the first two as text.

    The third corrects the objects of the run for what the detector misses, when it is measured again.
    """
    samples, nouns, objects = run.samples(KEYS), read(run, "nouns"), read(run, "objects")
    items = labelled_items(labels, samples, nouns, objects)
    if run.config.unit == "seed":
        items = items.assign(prompt=items["seed"])
    options = run.config.measure
    names = [member.name for member in indicators(run.config)]
    table = annotator_agreement(
        items,
        indicators=[name for name in names if name in set(items["indicator"])],
        contrasts=contrasts(run.config),
        level=options.level,
        resamples=options.bootstrap,
        seed=options.seed,
    )
    write(run, "human_check", table)
    of_nouns = noun_agreement(labels, samples, nouns, objects)
    write(run, "human_nouns", of_nouns)
    write(run, "human_counts", human_counts(items, samples, nouns, objects))
    yield summary(table)
    yield noun_summary(of_nouns)
    if AGREED in set(table["annotator"]):
        yield f"“{AGREED}”: only what every annotator answered, with equal answers"
    yield f"wrote {run.path / 'tables' / 'human_check.csv'}; triptych report {run.path} puts it on the page"


def summary(table: pd.DataFrame) -> str:
    """The main rows of ``human_check`` as lines of text."""
    main = table[table["object"] == ALL].drop(columns=["object", "version"])
    return main.to_string(index=False, float_format=number, na_rep="–")


OBJECTS = LabelKind(
    "objects",
    OBJECT_LABELS.name,
    "object",
    "present",
    images=100,
    instructions="Tick every object that you can see in the image, however small or partly hidden; leave the others"
    " empty; a name stands for one or several. Go by what you see, not by what fits. Some of the objects may be in no"
    " image, and the sheet does not know what the detector answered.",
    usual=lambda config: True,
    ask=choose_questions,
    reader=lambda run: lambda sample, question, label: ticked(label),
    measure=measure,
)

"""Questions to people about an audit's images, chosen at random, and their answers taken into its tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis.methods.gep.method import METHOD
from analysis.methods.gep.readings import joined
from analysis.methods.gep.stage import LABELS, audit_readings
from analysis.observe.features.attribute_audit import attributes, places
from analysis.report.format import counted, number
from analysis.studies.labels.kind import TICKED, LabelKind, Read
from analysis.tables.registry import write_method
from probes.errors import UserError
from probes.runs.run import Run

VALUES = {"1": 1.0, "yes": 1.0, "true": 1.0, "0": 0.0, "no": 0.0, "false": 0.0, "unclear": np.nan}


def sample_questions(run: Run, images: int, extra: int | None = None, seed: int = 0) -> pd.DataFrame:
    """The questions: of each word, setting and attribute so many images, chosen at random anew for each.

    In the explicit setting an image is asked for the attribute that its prompt names. The order says nothing of it.
    """
    phrases, where = attributes(run.config), pd.DataFrame(places(run.config))
    samples = run.samples(["sample_id", "triplet", "indicator"]).merge(where, on="triplet")
    samples = samples[~samples["sample_id"].isin(list(run.left_out()))]
    rng = np.random.default_rng(seed)
    frames = []
    for name, phrase in phrases.items():
        own = samples[(samples["named"] == name) | (samples["setting"] == "neutral")]
        for _, group in own.groupby(["setting", "indicator"], sort=False):
            chosen = group.iloc[rng.permutation(len(group))[:images]][["sample_id"]]
            frames.append(chosen.assign(question=name, asked=f"Do you see a person {phrase}?"))
    if not frames:
        raise UserError(
            f"{run.path}: expected images of the contexts to ask about, found none: run --stage generate again"
        )
    questions = pd.concat(frames, ignore_index=True)
    questions = questions.iloc[rng.permutation(len(questions))].reset_index(drop=True)
    return questions.assign(answers=[TICKED] * len(questions))


def reader(run: Run) -> Read:
    """What reads a label of an attribute: 1, 0, or NaN where it is unclear."""
    known = attributes(run.config)

    def read(sample: str, attribute: str, label: str) -> float:
        if attribute not in known:
            raise UserError(f"expected one of {', '.join(known)}, got {attribute!r:.60}")
        if label.lower() not in VALUES:
            raise UserError(f"expected yes or no, got {label!r:.60}")
        return VALUES[label.lower()]

    return read


def measure(run: Run, labels: pd.DataFrame) -> Iterator[str]:
    """Write the tables of attributes with people's answers; yield how many there are, and how far people agree."""
    write_method(run, METHOD, audit_readings(run))
    said, alpha, reason = joined(labels)
    people, undecided = labels["annotator"].nunique(), int(said["value"].isna().sum())
    known = f"no Krippendorff's alpha ({reason})" if reason else f"Krippendorff's alpha {number(alpha)}"
    agreed = f", {known}" if people > 1 else ""
    ties = f"; {undecided} undecided" if undecided else ""
    yield (
        f"{len(said)} labels by {counted(people, 'annotator')}{agreed}{ties}: {run.path / 'tables'};"
        f" next: triptych report {run.path}"
    )


ATTRIBUTES = LabelKind(
    "attributes",
    LABELS,
    "attribute",
    "value",
    images=20,
    instructions="Tick every question that you would answer with yes.",
    usual=lambda config: bool(places(config)),
    ask=sample_questions,
    reader=reader,
    measure=measure,
    needs="prompts with contexts",
)

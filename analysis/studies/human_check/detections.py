"""Sheet and agreement of people who say which objects they see, beside the detector's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.report.format import counted, interval, number
from analysis.stats.rates import ALL
from analysis.studies.human_check.check import (
    AGREED,
    annotator_agreement,
    choose_questions,
    human_counts,
    labelled_items,
)
from analysis.studies.human_check.labels import read_labels, together
from analysis.studies.human_check.nouns import noun_agreement, noun_summary
from analysis.studies.human_check.sheet import render_sheet
from analysis.study import contrasts, indicators
from analysis.tables.object_tables import observed_images
from analysis.tables.registry import read, write
from probes.runs.parts import write_bytes
from probes.runs.run import Run

EXTRA = 8  # objects asked about beside the nouns of a prompt
KEYS = ["sample_id", "triplet", "seed", "indicator"]
LABEL_COLUMNS = ["annotator", "sample_id", "object", "present"]


@dataclass(frozen=True)
class SheetOptions:
    """How a sheet is drawn: see `analysis.studies.human_check.check.choose_questions`."""

    images: int
    extra: int
    seed: int


def sample(run: Run, out: Path, options: SheetOptions) -> str:
    """Write ``sheet.html`` into `out`; return what there is to say about it."""
    names = main_names(run)
    questions = choose_questions(
        observed_images(run),
        read(run, "nouns"),
        read(run, "objects"),
        indicators=names,
        images=options.images,
        extra=options.extra,
        seed=options.seed,
    )
    chosen = list(dict.fromkeys(questions["sample_id"]))
    page = render_sheet(questions, dict(zip(chosen, run.images(chosen))), run.config.name)
    path = out / "sheet.html"
    write_bytes(path, page.encode())
    triplets = questions[["triplet", "seed"]].drop_duplicates().shape[0]
    return (
        f"{path}: {counted(len(chosen), 'image')} ({counted(triplets, 'triplet')} of {len(names)}), "
        f"{counted(len(questions), 'question')}; open it in a browser, export, then: "
        f"triptych labels read {run.path} labels.csv"
    )


def agreement(run: Run, files: Sequence[Path]) -> str:
    """Take people's answers into a run; return how far the detector saw what people see, for each indicator."""
    table, of_nouns = check(run, files)
    lines = [summary(table), noun_summary(of_nouns)]
    if AGREED in set(table["annotator"]):
        lines.append(f"“{AGREED}”: only what every annotator answered, with equal answers")
    lines.append(
        f"wrote {run.path / 'tables' / 'human_check.csv'}; triptych report {run.path} puts it on the page"
    )
    return "\n".join(lines)


def check(run: Run, files: Sequence[Path]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Write tables ``human_check``, ``human_nouns`` and ``human_counts`` of a run from labels; return the first two.

    The third corrects the objects of the run for what the detector misses, when it is measured again.
    """
    items = labels_of(run, files)
    samples, nouns, objects = run.samples(KEYS), read(run, "nouns"), read(run, "objects")
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
    of_nouns = noun_agreement(items[LABEL_COLUMNS], samples, nouns, objects)
    write(run, "human_nouns", of_nouns)
    write(run, "human_counts", human_counts(items, samples, nouns, objects))
    return table, of_nouns


def labels_of(run: Run, files: Sequence[Path]) -> pd.DataFrame:
    """Return the labels of a run with what was detected."""
    labels = together([read_labels(path, run) for path in files], files)
    return labelled_items(labels, run.samples(KEYS), read(run, "nouns"), read(run, "objects"))


def main_names(run: Run) -> list[str]:
    """Return the indicators whose images are shown: all but synonym controls."""
    return [member.name for member in indicators(run.config) if not member.control]


def summary(table: pd.DataFrame) -> str:
    """The main rows of ``human_check`` as lines of text."""
    main = table[(table["object"] == ALL) & (table["quantity"] != "seen")]
    main = main[(main["asked"] == ALL) | (main["indicator"] == ALL)]
    rows = [
        {
            "annotator": row.annotator,
            "quantity": row.quantity,
            "objects": {
                "prompt": "nouns of the prompt",
                "found": "found nearby",
                "other": "found nowhere",
            }.get(row.asked, ALL),
            "images": row.indicator,
            "value": number(row.value),
            "interval": interval(row.low, row.high),
            "bootstrap": interval(row.bootstrap_low, row.bootstrap_high),
            "n": row.n,
            "prompts": row.n_prompts,
            "reason": row.reason,
        }
        for row in main.itertuples()
    ]
    return pd.DataFrame(rows).to_string(index=False)

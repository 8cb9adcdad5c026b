"""Who says which attribute is in which image of a run: its labels and their places in the audit.

What a source says comes as one table of ``sample_id``, ``attribute`` and ``value``; whoever
made it, it is laid out in the same way.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.methods.gep.scores import Audit, audit
from analysis.observe.features.attribute_audit import SETTINGS, attributes, places
from analysis.stats.annotators import krippendorff_alpha, majority, no_alpha
from analysis.tables.answer_sheets import read_sheet
from probes.errors import UserError
from probes.prompts.grammar.nouns import lemma
from probes.runs.run import Run

YES, NO = {"1", "yes", "true"}, {"0", "no", "false"}
LABEL_COLUMNS = ("sample_id", "attribute", "annotator", "label")


def lay_out(run: Run, said: pd.DataFrame, source: str) -> list[Audit]:
    """Return the audits, one a setting, of a source's ``sample_id``, ``attribute``, ``value`` (NaN: not read)."""
    samples = placed(run)
    order = [name for name in attributes(run.config) if name in set(said["attribute"])]
    # every image has a row, so that images of one prompt have the same number whoever read them
    table = samples.merge(pd.DataFrame({"attribute": order}, dtype=object), how="cross")
    table = table.merge(said, on=["sample_id", "attribute"], how="left").rename(columns={"seed": "image"})
    table = table[(table["setting"] != "explicit") | (table["attribute"] == table["named"])]
    table["image"] += _apart(table)
    noise = run.config.sampler.noise if run.config.paired else "unpaired"
    found = []
    for setting in SETTINGS:
        rows = table[table["setting"] == setting]
        read = rows[rows["value"].notna()]
        rows = rows[rows["context"].isin(read["context"]) & rows["attribute"].isin(read["attribute"])]
        if len(rows):
            about = {"setting": setting, "source": source, "noise": noise}
            names = {"indicators": list(run.config.indicators), "attributes": order}
            found.append(audit(rows.sort_values("triplet", kind="stable"), **about, **names))
    return found


def _apart(table: pd.DataFrame) -> pd.Series:
    """What tells the images of several prompts of one place apart beside the seed, such as those of templates."""
    cell = ["setting", "context", "named"]
    number = table.groupby(cell)["triplet"].transform(lambda column: pd.factorize(column, sort=True)[0])
    return number * (table["image"].max() + 1 if len(table) else 1)


def placed(run: Run) -> pd.DataFrame:
    """Return the images of an audit that are not left out, with the places of their prompts."""
    where = pd.DataFrame(map(asdict, places(run.config)))
    samples = run.samples(["sample_id", "triplet", "seed", "indicator"]).merge(where, on="triplet")
    return samples[~samples["sample_id"].isin(run.left_out())]


def from_checker(run: Run, seen: pd.DataFrame) -> pd.DataFrame:
    """Return what the toyworld checker says of a run's attributes; those that it does not know are left out."""
    known = [name for name in attributes(run.config) if name in seen.columns]
    table = seen[known].astype(float).rename_axis("sample_id").reset_index()
    return table.melt("sample_id", var_name="attribute", value_name="value")


def from_detections(run: Run) -> pd.DataFrame:
    """Return for each image that was searched whether an attribute was detected in it; both go by their lemma.

    Those that were not looked for in an image are left out.
    """
    observed = run.read("observed", ["sample_id", "status", "tags"])
    observed = observed[observed["status"] == "ok"]
    detected = run.read("objects", ["sample_id", "label"])
    backend = run.config.measure.nouns
    names = {name: lemma(name, backend=backend) for name in attributes(run.config)}
    lemmas = {
        label: lemma(label, backend=backend)
        for label in {*detected["label"], *(tag for tags in observed["tags"] for tag in tags)}
    }
    there = set(zip(detected["sample_id"], detected["label"].map(lemmas)))
    rows = []
    for sample, tags in zip(observed["sample_id"], observed["tags"]):
        searched = {lemmas[tag] for tag in tags}
        rows += [
            (sample, name, float((sample, word) in there)) for name, word in names.items() if word in searched
        ]
    return pd.DataFrame(rows, columns=["sample_id", "attribute", "value"])


def read_labels(path: Path, run: Run) -> pd.DataFrame:
    """Return labels of people from a table, refused in a line where a row is wrong.

    Columns ``sample_id``, ``attribute``, ``label`` (yes or no, 1 or 0; empty: no answer) and, where there are several,
    ``annotator``.
    """
    table = read_sheet(path, LABEL_COLUMNS, "label")
    samples, known = set(run.samples(["sample_id"])["sample_id"]), attributes(run.config)
    for row in table.itertuples():
        place = f"{path}: {row.Index}"
        if row.sample_id not in samples:
            raise UserError(
                f"{place}: expected an image of {run.path}, got {row.sample_id!r}: take the row out"
            )
        if row.attribute not in known:
            listed = ", ".join(known)
            raise UserError(
                f"{place}: expected one of {listed}, got {row.attribute!r}: correct it or take it out"
            )
        if row.label.strip().lower() not in {*YES, *NO, ""}:
            raise UserError(f"{place}: expected yes or no, got {row.label!r}: correct it")
    twice = table.duplicated(["sample_id", "attribute", "annotator"])
    if twice.any():
        raise UserError(
            f"{path}: {table.index[twice][0]}: expected one answer an annotator, got a second one: keep one"
        )
    said = table["label"].str.strip().str.lower()
    value = np.where(said.isin(YES), 1.0, np.where(said.isin(NO), 0.0, np.nan))
    return table[["sample_id", "attribute", "annotator"]].assign(value=value).reset_index(drop=True)


def joined(labels: pd.DataFrame) -> tuple[pd.DataFrame, float, str]:
    """Return what most annotators say (``sample_id``, ``attribute``, ``value``), Krippendorff's alpha, or why none.

    A tie decides nothing; with one annotator alpha is NaN.
    """
    wide = labels.pivot(index="annotator", columns=["sample_id", "attribute"], values="value")
    answers = wide.to_numpy(float)
    said = wide.columns.to_frame(index=False).assign(value=majority(answers))
    return said, krippendorff_alpha(answers), no_alpha(answers)

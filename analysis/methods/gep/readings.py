"""Who says which attribute is in which image of a run: its labels and their places in the audit.

What a source says comes as one table of ``sample_id``, ``attribute`` and ``value``; whoever
made it, it is laid out in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.gep.scores import Audit
from analysis.observe.features.attribute_audit import SETTINGS, attributes, places
from analysis.stats.annotators import krippendorff_alpha, majority, no_alpha
from probes.prompts.grammar.nouns import lemma
from probes.runs.run import Run


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
        rows = table[table["setting"] == setting].sort_values("triplet", kind="stable")
        read = rows[rows["value"].notna()]
        rows = rows[rows["context"].isin(read["context"]) & rows["attribute"].isin(read["attribute"])]
        if len(rows):
            axes = {"context": rows["context"], "indicator": run.config.indicators, "attribute": order}
            names = {
                name: tuple(dict.fromkeys(one for one in axis if one in set(rows[name])))
                for name, axis in axes.items()
            }
            found.append(Audit(_values(rows, names), *names.values(), setting, source, noise))
    return found


def _values(rows: pd.DataFrame, names: Mapping[str, Sequence[str]]) -> NDArray[np.float64]:
    """The array of `Audit` of a row an image and attribute; ``image`` tells the images of a prompt apart."""
    images = rows.groupby(["context", "indicator"], sort=False)["image"].transform(
        lambda column: pd.factorize(column, sort=True)[0]
    )
    contexts, words, attributes = map(len, names.values())
    # in memory by attribute and word: the order in which means add up
    values = np.full((attributes, words, contexts, int(images.max()) + 1), np.nan).transpose(2, 1, 3, 0)
    context, word, attribute = (pd.Categorical(rows[name], categories=names[name]).codes for name in names)
    values[context, word, images, attribute] = rows["value"].astype(float)
    return values


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


def prediction_table(run: Run, said: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return what each source says of each image, one row per image and attribute; without variants of estimates.

    In the explicit setting an image is read for the attribute that its prompt names.
    """
    known = [table.assign(source=source) for source, table in said.items() if " " not in source]
    rows = placed(run).merge(pd.concat(known).dropna(subset="value"), on="sample_id")
    rows = rows[(rows["setting"] != "explicit") | (rows["attribute"] == rows["named"])]
    return rows.sort_values(["triplet", "seed"], kind="stable", ignore_index=True)


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


def joined(labels: pd.DataFrame) -> tuple[pd.DataFrame, float, str]:
    """Return what most annotators say (``sample_id``, ``attribute``, ``value``), Krippendorff's alpha, or why none.

    A tie decides nothing; with one annotator alpha is NaN.
    """
    wide = labels.pivot(index="annotator", columns=["sample_id", "attribute"], values="value")
    answers = wide.to_numpy(float)
    said = wide.columns.to_frame(index=False).assign(value=majority(answers))
    return said, krippendorff_alpha(answers), no_alpha(answers)

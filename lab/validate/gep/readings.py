"""Readings of an audit's images by the checker and CLIP's estimates, in three settings.

Beside the paper's two, **unnamed**: the images of the explicit setting, read for every attribute that their prompt does
not name. The benchmark models draw what a prompt names in nearly every image, whatever the word for the person, so the
explicit setting has hardly a difference to be estimated; what is not named is what the words differ in.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pandas as pd

from analysis.methods.gep.clip import clip_readings
from analysis.methods.gep.readings import from_checker, lay_out
from analysis.methods.gep.scores import Audit
from analysis.observe.features.attribute_audit import SETTINGS, attributes, places
from analysis.tables.objects.detector_error import seen_by_checker
from probes.errors import UserError
from probes.runs.run import Run

CHECKER, ESTIMATES = "checker", ("C", "CC", "CLS")
UNNAMED = "unnamed"
READ = (*SETTINGS, UNNAMED)
WORDS = ("feminine", "masculine")  # a difference is that of the first less the second


def readings(run: Run) -> dict[str, dict[str, Audit]]:
    """Readings by setting, then by source (`CHECKER` and `ESTIMATES`)."""
    seen = seen_by_checker(run)
    said = {} if seen is None else {CHECKER: from_checker(run, seen), **clip_readings(run)}
    missing = [source for source in (CHECKER, *ESTIMATES) if source not in said]
    if missing:
        raise UserError(
            f"{run.path}: expected an audit of a benchmark model with observed images, found nothing by {missing[0]}:"
            " run docs/validation/gep_audit.yaml"
        )
    found: dict[str, dict[str, Audit]] = {setting: {} for setting in READ}
    for source, table in said.items():
        for one in (*lay_out(run, table, source), unnamed(run, table, source)):
            found[one.setting][source] = one
    return found


def unnamed(run: Run, said: pd.DataFrame, source: str) -> Audit:
    """What a source says of the images of the explicit setting; NaN of the attribute that a prompt names."""
    where = pd.DataFrame(map(asdict, places(run.config)))
    samples = run.samples(["sample_id", "triplet", "seed", "indicator"]).merge(where, on="triplet")
    samples = samples[samples["setting"] == "explicit"]
    names, words = list(attributes(run.config)), list(run.config.indicators)
    wide = said.pivot(index="sample_id", columns="attribute", values="value").reindex(columns=names)
    keys = ["context", "indicator", "named", "seed"]
    axes = [list(dict.fromkeys(samples["context"])), words, names, sorted(set(samples["seed"]))]
    rows = samples.join(wide, on="sample_id").set_index(keys)[names]
    values = rows.reindex(pd.MultiIndex.from_product(axes)).to_numpy(float)
    values = values.reshape(*map(len, axes), len(names)).copy()
    for number in range(len(names)):
        values[:, :, number, :, number] = np.nan
    shape = (len(axes[0]), len(words), -1, len(names))
    return Audit(values.reshape(shape), tuple(axes[0]), tuple(words), tuple(names), UNNAMED, source)

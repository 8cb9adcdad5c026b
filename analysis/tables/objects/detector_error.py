"""The detector's errors by indicator, on toyworld, where the checker gives the truth.

An object counts by image: detected or not, there or not (by `probes.toyworld.checker`). Both go by their lemma, so that
the thing *boots* meets the object *boot* of the tables. Only objects are compared with each other that the detector
looked for in an image of the same triplet and seed; labels that the checker does not know (persons among them) are left
out. Where the detector is the checker, it would be its own truth, and there is no such table.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.stats.rates import COLUMNS, detection_rates
from analysis.study import contrasts, indicators
from analysis.tables.similarities.similarities import by_unit
from probes.prompts.grammar.nouns import lemma
from probes.runs.run import Run
from probes.toyworld import MODELS
from probes.toyworld.checker import THINGS, VERSION, read_images
from probes.toyworld.draw import SIZE

CHECKER = "toyworld-checker"
ERROR_COLUMNS = ("truth", *COLUMNS, "version")
CHECK_COLUMNS = ("annotator", *COLUMNS, "version")
ERROR_VERSION = "detector_error/2"
IMAGES = 512  # read at a time


Checked = tuple[pd.DataFrame, pd.DataFrame]  # images observed; what the checker sees, by ``sample_id``


def detector_error(run: Run, objects: pd.DataFrame, checked: Checked) -> pd.DataFrame:
    """Return recall and precision of a run's detector; ``truth`` is the version of the checker."""
    observed, seen = checked
    options, members = run.config.measure, indicators(run.config)
    rates = error_rates(
        observed,
        by_unit(objects, run.config),
        seen,
        indicators=[member.name for member in members],
        contrasts=contrasts(run.config),
        backend=options.nouns,
        level=options.level,
    )
    return rates.assign(truth=VERSION, version=ERROR_VERSION)[list(ERROR_COLUMNS)]


def count_errors(
    observed: pd.DataFrame, objects: pd.DataFrame, seen: pd.DataFrame, *, backend: str = "hanta"
) -> pd.DataFrame:
    """Return hits and errors by prompt, indicator and object; see `error_rates` for the parameters.

    All images and all things of the checker count, whether they were looked for or not: where presence is compared,
    what nobody looked for is missed too.
    """
    there = by_lemma(seen, backend=backend).loc[observed["sample_id"]].astype(bool)
    detections = objects[(objects["object"] >= 0) & objects["lemma"].isin(there.columns)]
    detected = pd.crosstab(*(detections[name].to_numpy() for name in ("sample_id", "lemma"))) > 0
    detected = detected.reindex(index=there.index, columns=there.columns, fill_value=False)
    cells = {"hits": there & detected, "missed": there & ~detected, "false": ~there & detected}
    cells |= {"rejected": ~there & ~detected}
    keys = [observed["triplet"].to_numpy(), observed["indicator"].to_numpy(object)]
    sums = {name: cell.groupby(keys, sort=False).sum() for name, cell in cells.items()}
    table = pd.DataFrame({name: own.stack() for name, own in sums.items()})  # noqa: PD013 (melt has another order)
    return table.rename_axis(["prompt", "indicator", "object"]).reset_index().assign(truth=VERSION)


def is_checker(run: Run) -> bool:
    """Return whether the checker found a run's objects, and so is its own truth."""
    return (run.meta.get("observer") or {}).get("engine") == CHECKER


def checked_images(run: Run) -> Checked | None:
    """Return the images that were observed, and what the checker sees in them.

    None where the checker knows nothing of the run's images, or found the objects itself.
    """
    if run.config.model not in MODELS or not run.parts("objects") or is_checker(run):
        return None
    observed = run.read("observed", ["sample_id", "triplet", "seed", "indicator", "status", "tags"])
    observed = by_unit(observed[observed["status"] == "ok"], run.config)
    seen = seen_by_checker(run, observed["sample_id"].to_list())
    return None if seen is None else (observed, seen)


def seen_by_checker(run: Run, samples: Sequence[str] | None = None) -> pd.DataFrame | None:
    """Return what the checker sees in images of a run, by ``sample_id``; None where it cannot read them."""
    if run.config.model not in MODELS:
        return None
    if samples is None:
        left_out = run.left_out()
        samples = [name for name in run.samples(["sample_id"])["sample_id"] if name not in left_out]
    tables = []
    for start in range(0, len(samples), IMAGES):
        images = run.images(samples[start : start + IMAGES])
        if any(image.size != (SIZE, SIZE) for image in images):
            return None
        tables.append(read_images(images)[list(THINGS)])
    return pd.concat(tables, ignore_index=True).set_axis(list(samples)) if tables else None


def error_rates(
    observed: pd.DataFrame,
    objects: pd.DataFrame,
    seen: pd.DataFrame,
    *,
    indicators: Sequence[str],
    contrasts: Sequence[tuple[str, str]] = (),
    backend: str = "hanta",
    level: float = 0.95,
) -> pd.DataFrame:
    """Return recall and precision of detections, compared with what is there.

    `observed` has a row per image with its ``tags`` (what was looked for), `objects` one per detection, `seen` by
    ``sample_id`` a bool column for every thing of the checker; `backend` is what the lemmas of `objects` were made
    with: tags and things are brought to the same form.
    """
    detections, seen = objects[objects["object"] >= 0], by_lemma(seen, backend=backend)
    lemmas, draw = dict(zip(detections["label"], detections["lemma"])), ["triplet", "seed"]
    names = {tag: lemmas.get(tag) or lemma(tag, backend=backend) for tag in set().union(*observed["tags"])}
    known = {
        tag: name for tag, name in names.items() if name in seen.columns
    }  # a detector has many more tags
    tags = observed.assign(lemma=[[known[tag] for tag in own if tag in known] for own in observed["tags"]])
    looked_for = pd.concat([tags[[*draw, "lemma"]].explode("lemma"), detections])[[*draw, "lemma"]]
    looked_for = looked_for[looked_for["lemma"].isin(seen.columns)].drop_duplicates()
    rows = observed.merge(looked_for, on=draw)
    where = seen.index.get_indexer(rows["sample_id"]), seen.columns.get_indexer(rows["lemma"])
    places = pd.MultiIndex.from_frame(rows[["sample_id", "lemma"]])
    items = pd.DataFrame(
        {
            "prompt": rows["triplet"],
            "indicator": rows["indicator"],
            "object": rows["lemma"],
            "truth": seen.to_numpy(bool)[where],
            "detected": places.isin(pd.MultiIndex.from_frame(detections[["sample_id", "lemma"]])),
        }
    )
    return detection_rates(items, indicators=indicators, contrasts=contrasts, level=level)


def by_lemma(seen: pd.DataFrame, *, backend: str = "hanta") -> pd.DataFrame:
    """Return what the checker saw under the names that the tables of objects use: columns by lemma, joined by *or*.

    >>> by_lemma(pd.DataFrame({"boots": [True, False], "jeans": [False, True]})).columns.tolist()
    ['boot', 'jeans']
    """
    names = [lemma(thing, backend=backend) for thing in seen.columns]
    return seen.T.groupby(names, sort=False).any().T

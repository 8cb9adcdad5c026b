"""The detector's errors by indicator, on toyworld, where the checker gives the truth.

An object counts by image: detected or not, there or not (by `probes.toyworld.checker`). Both go by their lemma, so that
the thing *boots* meets the object *boot* of the tables. Only objects are compared with each other that the detector
looked for in an image of the same triplet and seed; labels that the checker does not know (persons among them) are left
out and counted. Where the detector is the checker, it would be its own truth; then its measured accuracy on renderings,
whose content is known, is given instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.stats.proportions import wilson_interval
from analysis.stats.rates import ALL, COLUMNS, detection_rates
from analysis.study import contrasts, indicators
from analysis.tables.objects.claims import COUNTS
from analysis.tables.similarities.similarities import by_unit
from probes.errors import parse_json
from probes.prompts.grammar.nouns import lemma
from probes.runs.run import Run
from probes.toyworld import BENCHMARK_MODELS, MODELS, SHARED, WEIGHTS
from probes.toyworld.checker import THINGS, VERSION, read_images
from probes.toyworld.draw import SIZE

CHECKER = "toyworld-checker"
RENDERINGS = "renderings"
ERROR_COLUMNS = ("truth", *COLUMNS, "version")
ERROR_VERSION = "detector_error/2"
IMAGES = 512  # read at a time
ITS_OWN_TRUTH = "the detector is the checker, so its images hold no other truth"


Checked = tuple[pd.DataFrame | None, pd.DataFrame | None]


def detector_error(run: Run, checked: Checked) -> pd.DataFrame | None:
    """Return recall and precision of a run's detector; None where the checker cannot read its images.

    ``truth`` is the version of the checker or ``renderings``. Beside recall and precision there is ``known``, the share
    of the detections whose label the checker knows, and for the checker itself ``accuracy``, the smallest share of
    renderings read rightly of any of its things.
    """
    if run.config.model not in MODELS or not run.parts("objects"):
        return None
    if is_checker(run):
        return checker_accuracy(run.config.model, run.config.measure.level)
    observed, seen = checked
    if observed is None:
        return None
    objects = by_unit(run.table("objects"), run.config)
    options, members = run.config.measure, indicators(run.config)
    rates = error_rates(
        observed,
        objects,
        seen,
        indicators=[member.name for member in members],
        contrasts=contrasts(run.config),
        backend=options.nouns,
        level=options.level,
    )
    return rates.assign(truth=VERSION, version=ERROR_VERSION)[list(ERROR_COLUMNS)]


def detector_counts(run: Run, checked: Checked) -> pd.DataFrame | None:
    """Return hits and errors of a run by prompt, indicator and object; None where nothing else knows its images.

    All images and all things of the checker count, whether they were looked for or not: where presence is compared,
    what nobody looked for is missed too.
    """
    observed, seen = checked
    if observed is None:
        return None
    return count_errors(observed, run.table("objects"), seen, backend=run.config.measure.nouns)


def count_errors(
    observed: pd.DataFrame, objects: pd.DataFrame, seen: pd.DataFrame, *, backend: str = "hanta"
) -> pd.DataFrame:
    """`detector_counts` of what was detected and what is there; see `error_rates` for the parameters."""
    there = by_lemma(seen, backend=backend).loc[observed["sample_id"]]
    detections = objects[(objects["object"] >= 0) & objects["lemma"].isin(there.columns)]
    detected = pd.crosstab(*(detections[name].to_numpy() for name in ("sample_id", "lemma"))) > 0
    detected = detected.reindex(index=there.index, columns=there.columns, fill_value=False)
    true, detected = there.to_numpy(bool), detected.to_numpy(bool)
    cells = (true & detected, true & ~detected, ~true & detected, ~true & ~detected)
    group, kinds = pd.factorize(pd.MultiIndex.from_frame(observed[["triplet", "indicator"]]))
    columns = {}
    for name, cell in zip(COUNTS, cells):
        sums = np.zeros((len(kinds), cell.shape[1]), np.int64)
        np.add.at(sums, group, cell)
        columns[name] = sums.ravel()
    keys = {
        "prompt": np.repeat(kinds.get_level_values(0), len(there.columns)),
        "indicator": np.repeat(kinds.get_level_values(1), len(there.columns)).astype(object),
        "object": np.tile(np.array(there.columns, object), len(kinds)),
    }
    return pd.DataFrame(keys | columns).assign(truth=VERSION)


def is_checker(run: Run) -> bool:
    """Return whether the checker found a run's objects, and so is its own truth."""
    return (run.meta.get("observer") or {}).get("engine") == CHECKER


def checked_images(run: Run) -> Checked:
    """Return the images that were observed, and what the checker sees in them by ``sample_id``.

    Both are None where the checker knows nothing of the run's images, or found the objects itself.
    """
    if run.config.model not in MODELS or not run.parts("objects") or is_checker(run):
        return None, None
    observed = run.read("observed", ["sample_id", "triplet", "seed", "indicator", "status", "tags"])
    observed = by_unit(observed[observed["status"] == "ok"], run.config)
    seen = seen_by_checker(run, observed["sample_id"].to_list())
    return (None, None) if seen is None else (observed, seen)


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
    lemmas = dict(zip(detections["label"], detections["lemma"]))
    draw = ["triplet", "seed"]
    every = set().union(*observed["tags"])
    names = {tag: lemmas.get(tag) or lemma(tag, backend=backend) for tag in every}
    names = {
        tag: name for tag, name in names.items() if name in seen.columns
    }  # a detector has many more tags
    tags = observed.assign(lemma=[[names[tag] for tag in own if tag in names] for own in observed["tags"]])
    tags = tags[[*draw, "lemma"]].explode("lemma").dropna()
    looked_for = pd.concat([tags, detections])[[*draw, "lemma"]].drop_duplicates()
    looked_for = looked_for[looked_for["lemma"].isin(seen.columns)].sort_values("lemma")
    rows = observed.reset_index(drop=True).reset_index(names="row").merge(looked_for, on=draw)
    rows = rows.sort_values(["row", "lemma"])
    there = seen.loc[observed["sample_id"]].to_numpy(bool)
    found = pd.MultiIndex.from_frame(detections[["sample_id", "lemma"]])
    items = pd.DataFrame(
        {
            "prompt": rows["triplet"],
            "indicator": rows["indicator"],
            "object": rows["lemma"],
            "truth": there[rows["row"], seen.columns.get_indexer(rows["lemma"])],
            "detected": pd.MultiIndex.from_frame(rows[["sample_id", "lemma"]]).isin(found),
        }
    )
    rates = detection_rates(items, indicators=indicators, contrasts=contrasts, level=level)
    known = detections["lemma"].isin(seen.columns)
    share = float(known.mean()) if len(known) else np.nan
    reason = "" if len(known) else "nothing detected"
    row = _rate_of_all("known", share, n=len(known), n_prompts=detections["triplet"].nunique(), reason=reason)
    return pd.concat([rates, pd.DataFrame([row], columns=list(COLUMNS))], ignore_index=True)


def _rate_of_all(
    quantity: str,
    value: float,
    *,
    low: float = np.nan,
    high: float = np.nan,
    n: int,
    n_prompts: int,
    reason: str,
) -> dict[str, Any]:
    """A row of a table of rates, on all objects and indicators."""
    return {
        "quantity": quantity,
        "object": ALL,
        "indicator": ALL,
        "value": value,
        "low": low,
        "high": high,
        "n": n,
        "n_prompts": n_prompts,
        "reason": reason,
    }


def by_lemma(seen: pd.DataFrame, *, backend: str = "hanta") -> pd.DataFrame:
    """Return what the checker saw under the names that the tables of objects use: columns by lemma, joined by *or*.

    >>> by_lemma(pd.DataFrame({"boots": [True, False], "jeans": [False, True]})).columns.tolist()
    ['boot', 'jeans']
    """
    names = [lemma(thing, backend=backend) for thing in seen.columns]
    joined = {name: seen.iloc[:, [n == name for n in names]].any(axis=1) for name in dict.fromkeys(names)}
    return pd.DataFrame(joined, index=seen.index)


def checker_accuracy(model: str, level: float = 0.95) -> pd.DataFrame:
    """Return the accuracy of the checker on renderings, as measured when the model was trained (``quality.json``)."""
    measured = model if model in BENCHMARK_MODELS else SHARED  # of renderings alone, whichever model draws
    quality = parse_json((WEIGHTS / measured / "quality.json").read_text(encoding="utf-8"))
    value, n = float(quality["checker_accuracy_least"]), int(quality["checker_renderings"])
    low, high = (float(end) for end in wilson_interval(np.float64(value), n, level))
    rate = _rate_of_all("accuracy", value, low=low, high=high, n=n, n_prompts=0, reason=ITS_OWN_TRUTH)
    row = {"truth": RENDERINGS, "version": ERROR_VERSION} | rate
    return pd.DataFrame([row], columns=list(ERROR_COLUMNS))


CHECK_COLUMNS = ("annotator", *COLUMNS, "version")

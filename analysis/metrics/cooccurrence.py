"""Counts of observed objects by prompt, indicator and dependency group, presence and amounts.

Objects are distinguished by their lemma. Counts compare images of one prompt and seed, so a (prompt, seed) counts where
every indicator has an observed image; presence, amounts and intersections (Wu et al. 2025, Tables 11 to 13)
take all images.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from scipy import sparse

from analysis.metrics.dependency import GROUPS
from analysis.stats.object_counts import ObjectTable, image_of_each, object_table

ALL = "all"
LEFT_OUT, INCLUDED = "left out", "included"
NOT_GROUPED = "no image whose objects could be grouped"
NO_IMAGES = "no image was observed"
EMPTY_GROUP = "no object in this group"


def counted(
    images: pd.DataFrame, objects: pd.DataFrame, names: Sequence[str], without: Iterable[str] = ()
) -> dict[str, ObjectTable]:
    """Counts of the objects by prompt and indicator of every group, ``all`` first; `without` are lemmas left out.

    C(o, P) of Wu et al. 2025, Eq. 3, and C_g(o, P) of section 6.3; in ``all`` are detections, no hidden nouns. `images`
    are the observed ones (``triplet``, ``seed``, ``indicator``), `objects` is table ``objects``, `names` indicators.
    """
    images, objects = (rows.rename(columns={"triplet": "prompt"}) for rows in (images, objects))
    objects = objects[~objects["lemma"].isin(list(without))]
    image = image_of_each(images, objects)
    lemma, lemmas = pd.factorize(objects["lemma"].astype(str), sort=True)
    tables = {}
    for group in (ALL, *GROUPS):
        rows = np.flatnonzero(objects["object"] >= 0 if group == ALL else objects["group"] == group)
        there, what = np.unique(lemma[rows], return_inverse=True)
        shape = (len(images), len(there))
        counts = sparse.csr_array((np.ones(len(rows)), (image[rows], what)), shape=shape)
        tables[group] = object_table(images, counts, indicators=names, objects=list(lemmas[there]))
    return tables


def cooccurrence(tables: dict[str, ObjectTable], human: Iterable[str]) -> pd.DataFrame:
    """C(o, P) and C_g(o, P): how often each object was detected, and in how many images.

    `tables` are those of `counted`, individuals included; `human` the lemmas that refer to humans. Source: Wu et al.
    2025, Eq. 3 and section 6.3.
    """
    parts = [
        pd.DataFrame(
            {
                "group": group,
                "object": np.repeat(table.objects, len(table.indicators)).astype(object),
                "indicator": np.tile(np.array(table.indicators, object), len(table.objects)),
                "detections": table.totals("detections").reshape(-1),
                "images": table.totals().reshape(-1),
                "n_images": table.n_images,
                "n_prompts": len(table.prompts),
            }
        )
        for group, table in tables.items()
    ]
    counts = pd.concat(parts, ignore_index=True)
    counts.insert(2, "human", counts["object"].isin(list(human)))
    return counts


def presence(
    images: pd.DataFrame, objects: pd.DataFrame, names: Sequence[str], individuals: Iterable[str] = ()
) -> pd.DataFrame:
    """Percent of the images that hold a group (Table 11), of all indicators' together and of each one's.

    Between indicators only the rows without `individuals` (lemmas) compare: a detector that calls every figure "person"
    finds what was asked for with "person" and never with "woman". Images with an object that could not be grouped are
    left out of ``n_images``.
    """
    images = images[images["indicator"].isin(list(names))]
    unknown = objects.loc[objects["group"] == "", "sample_id"].unique()
    known = images[~images["sample_id"].isin(unknown)]
    reason = NO_IMAGES if images.empty else NOT_GROUPED
    others = objects[~objects["lemma"].isin(list(individuals))]
    rows = []
    for treatment, found in ((INCLUDED, objects), (LEFT_OUT, others)):
        for group in GROUPS:
            has = known["sample_id"].isin(found.loc[found["group"] == group, "sample_id"])
            for name in (ALL, *names):
                own = has if name == ALL else has[known["indicator"] == name]
                n, count = len(own), int(own.sum())
                percent = 100 * count / n if n else np.nan
                rows.append((treatment, group, name, percent, count, n, "" if n else reason))
    columns = ["individuals", "group", "indicator", "percent_of_images", "images", "n_images", "reason"]
    return pd.DataFrame(rows, columns=columns)


def amounts(
    images: pd.DataFrame, objects: pd.DataFrame, nouns: pd.DataFrame, names: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Distinct objects of each group and distinct nouns (Table 12), and what the groups have in common (Table 13).

    Amounts have one row per group (and ``nouns``) and indicator, ``all`` of them first. Intersections have one per two
    groups: ``percent`` of the objects of ``over_group`` that are in ``group`` too, of all indicators together; NaN,
    with a reason, over an empty group.
    """
    images, objects = (rows[rows["indicator"].isin(list(names))] for rows in (images, objects))
    spoken = nouns.merge(images[["triplet", "indicator"]].drop_duplicates(), on=["triplet", "indicator"])
    rows, whole = [], {}
    for name in (ALL, *names):
        own = objects if name == ALL else objects[objects["indicator"] == name]
        of_indicator = spoken if name == ALL else spoken[spoken["indicator"] == name]
        sets = {group: set(own.loc[own["group"] == group, "lemma"]) for group in GROUPS}
        sets["nouns"] = set(of_indicator["lemma"])
        whole = whole or sets
        rows += [(group, name, len(found)) for group, found in sets.items()]
    common = [
        (over, group, 100 * len(own & other) / len(own) if own else np.nan, len(own & other), len(own))
        for over, own in whole.items()
        for group, other in whole.items()
    ]
    columns = ["over_group", "group", "percent", "common", "amount"]
    shared = pd.DataFrame(common, columns=columns).assign(reason="")
    shared.loc[shared["amount"] == 0, "reason"] = EMPTY_GROUP
    return pd.DataFrame(rows, columns=["group", "indicator", "amount"]), shared

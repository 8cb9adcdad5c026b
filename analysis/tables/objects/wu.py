"""The tables and figures of Wu et al. 2025, sections 5 to 7, as tidy tables: objects by indicator and dependency group.

Everything starts from table ``objects`` (`analysis.metrics.dependency`), counted by `analysis.metrics.cooccurrence`.

Controls never enter a table of the paper: its prompt sets are those of the reference and of the other indicators.

What the paper leaves open: whether individuals ("person", "woman" …) are among the objects compared. Section 6.3.1
leaves them out of Figure 6, and p-values near 1 of explicit objects can only come of leaving them out of Tables 7 to 9,
since "woman" stands in the feminine prompts alone. Eq. 3 to 5 leave nothing out: Table 6, Figures 4, 7 and 8 and
Tables 11 to 13 have them in. Where it matters both are given, and each says which it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations, product

import numpy as np
import pandas as pd
from scipy import sparse

from analysis.metrics.cooccurrence import INCLUDED, LEFT_OUT
from analysis.metrics.dependency import GROUPS
from analysis.metrics.registry import NO_STEP
from analysis.stats.object_counts import ObjectTable
from analysis.stats.object_tests import bias_scores
from analysis.stats.table_tests import chi_square_test
from analysis.tables.similarities.similarities import pair_name
from hooks.cosine import cosine_of
from probes.config.schema import Measure

OBJECT_SITES = {INCLUDED: "objects", LEFT_OUT: "objects.no_persons"}  # of tables of similarities
CHI_SQUARE_COLUMNS = (
    *("group", "individuals", "comparison", "statistic", "dof", "p_value", "cramers_v", "smallest_expected"),
    *("expected_below_5", "cells", "detections_per_image", "n_objects", "n_prompts", "n_images"),
    *("reason", "warnings"),
)


def similarity_pairs(
    images: pd.DataFrame, objects: pd.DataFrame, names: Sequence[str], *, site: str = "objects"
) -> pd.DataFrame:
    r"""Cosine of the object counts of two images, for every pair of a triplet and seed.

    The mean over prompts is the co-occurrence similarity :math:`s_O` (`analysis.tables.similarities.gap.disparity`). An
    image without any object has no direction: NaN, and left out of the mean (the paper does not say).
    `objects` is table ``objects``, -1 for a noun that nothing was detected of; `site` is what the column of that name
    says. 0 to 1, 1 for counts in the same proportions; rows as `analysis.tables.similarities.similarities.from_table`
    takes them.

    Source: Wu et al. 2025, Eq. 4.

    >>> images = pd.DataFrame({"triplet": 0, "seed": 0, "indicator": ["f", "m"], "sample_id": ["a", "b"]})
    >>> objects = pd.DataFrame(
    ...     {"sample_id": ["a", "a", "b"], "lemma": ["hat", "cup", "hat"], "object": [0, 1, 0]}
    ... )
    >>> f"{similarity_pairs(images, objects, ['f', 'm'])['value'][0]:.3f}"
    '0.707'
    """
    rows = objects[objects["object"] >= 0]
    image = pd.Index(images["sample_id"]).get_indexer(rows["sample_id"])
    what, kinds = pd.factorize(rows["lemma"])
    counts = sparse.csr_array((np.ones(len(rows)), (image, what)), shape=(len(images), max(len(kinds), 1)))
    counts.sum_duplicates()
    length = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).ravel())
    place = images.assign(row=np.arange(len(images))).pivot(
        index=["triplet", "seed"], columns="indicator", values="row"
    )
    rows_of = {name: place[name].fillna(-1).to_numpy(int) for name in names if name in place}
    pairs = list(combinations(rows_of, 2))
    if not pairs:
        return pd.DataFrame({"site": [], "pair": [], "value": []})
    both = [np.flatnonzero((rows_of[one] >= 0) & (rows_of[other] >= 0)) for one, other in pairs]
    a, b = (np.concatenate([rows_of[pair[side]][at] for pair, at in zip(pairs, both)]) for side in (0, 1))
    dot = np.asarray(counts[a].multiply(counts[b]).sum(axis=1)).ravel()
    value = cosine_of(dot, length[a] * length[b])
    shown = place.index[np.concatenate(both)]
    pair_names = np.array([pair_name(*pair, names) for pair in pairs], object)
    return pd.DataFrame(
        {
            **{"space": "image", "site": site, "step": NO_STEP, "metric": "cooccurrence"},
            **{name: shown.get_level_values(name) for name in ("triplet", "seed")},
            "pair": np.repeat(pair_names, [len(at) for at in both]),
            "value": value.astype(np.float32),
        }
    )


def chi_square(
    tables: dict[str, ObjectTable], sets: Sequence[Sequence[str]], individuals: str
) -> pd.DataFrame:
    """Chi-square tests of object counts for all objects (section 5.3) and every group (Tables 7 to 9).

    As in the paper, on pooled detections; ``warnings`` says where the p-value does not hold, and `table_tests` gives
    one that does. Cramér's V is the size of the effect.

    Source: Wu et al. 2025, section 5.2 (1); `scipy.stats.chi2_contingency` without correction.
    """
    rows = []
    for group, table in tables.items():
        for names in sets:
            own = table.select(list(names))
            test = chi_square_test(own, of="detections")
            seen = int((own.totals("detections").sum(axis=1) > 0).sum())
            rows.append(
                (
                    *(
                        group,
                        individuals,
                        "-".join(names),
                        test.statistic,
                        test.dof,
                        test.p_value,
                        test.cramers_v,
                    ),
                    *(test.smallest_expected, test.expected_below_5, test.cells, test.detections_per_image),
                    *(seen, len(own.prompts), own.n_images, test.reason, "; ".join(test.warnings)),
                )
            )
    return pd.DataFrame(rows, columns=list(CHI_SQUARE_COLUMNS))


MIN_COUNT = Measure().min_count  # the paper: 10 (GCC), 20 (COCO, TextCaps, Flickr30k), 5 (Profession)
TOP_SCORES = 10  # towards each side, Figures 7 and 8
TOP_OBJECTS = 20  # of each group, Figure 6


def figure_scores(
    tables: dict[str, ObjectTable],
    leaning: Sequence[tuple[str, str]],
    *,
    individuals: Collection[str] = (),
    least: int = MIN_COUNT,
    level: float = 0.95,
) -> pd.DataFrame:
    """Bias scores behind Figures 4 (all objects), 7 (implicitly guided) and 8 (implicitly independent).

    In `leaning` pairs (first, second) a score of 0 is an object of the first indicator's images only, 1 of the
    second's. ``kept`` tells the objects detected at least `least` times for one of the two (the paper's filter),
    ``individual`` marks the individuals. ``top`` names the indicator for which the object is among the ten kept ones
    with the most extreme scores; ``top_left_out`` is the same where individuals are left out.

    Source: Wu et al. 2025, Eq. 5; section 5.3 for the filter, 6.3.2 for the ten.
    """
    parts = []
    for (group, table), (first, second) in product(tables.items(), leaning):
        score = bias_scores(table, first, second, of="detections", level=level)
        totals = table.totals("detections")[:, [table.column(first), table.column(second)]]
        columns = {
            **{"group": group, "first": first, "second": second, "object": table.objects.astype(object)},
            "individual": np.array([name in individuals for name in table.objects], bool),
            **{"count_first": totals[:, 0], "count_second": totals[:, 1]},
            "kept": totals.max(axis=1, initial=0) >= least,
            **{"bias_score": score.value, "low": score.low, "high": score.high, "n_prompts": score.n},
            **{"n_images": table.n_images, "min_count": least, "reason": score.reason},
        }
        part = pd.DataFrame(columns)
        parts.append(
            part.assign(
                top=_top(part, part["kept"]), top_left_out=_top(part, part["kept"] & ~part["individual"])
            )
        )
    return pd.concat(parts, ignore_index=True)


def _top(part: pd.DataFrame, chosen: pd.Series) -> pd.Series:
    """The side of the most extreme scores, else empty: of equal ones the most frequent first, then by name."""
    most = part[["count_first", "count_second"]].max(axis=1)
    extreme = part.assign(extreme=(part["bias_score"] - 0.5).abs(), most=most)[chosen]
    extreme = extreme.sort_values(["extreme", "most", "object"], ascending=[False, False, True])
    top = pd.Series("", part.index, object)
    for side, leaning in (("first", extreme["bias_score"] < 0.5), ("second", extreme["bias_score"] > 0.5)):
        places = extreme.index[leaning][:TOP_SCORES]
        top[places] = part.loc[places, side]
    return top


def figure_objects(tables: dict[str, ObjectTable]) -> pd.DataFrame:
    """Most frequent objects of each group, over all indicators together (Figure 6).

    `tables` leave individuals out.
    """
    parts = []
    for group in GROUPS:
        table = tables[group]
        totals = table.totals("detections")
        part = pd.DataFrame(
            {"group": group, "object": table.objects.astype(object), "count": totals.sum(axis=1)}
        )
        for name in table.indicators:
            part[f"count_{name}"] = totals[:, table.column(name)]
        part = (
            part[part["count"] > 0]
            .sort_values(["count", "object"], ascending=[False, True])
            .head(TOP_OBJECTS)
        )
        part.insert(1, "rank", np.arange(1, len(part) + 1))
        parts.append(part)
    return pd.concat(parts, ignore_index=True)

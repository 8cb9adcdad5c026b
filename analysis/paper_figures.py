"""What Figures 4 and 6 to 8 of Wu et al. 2025 show: objects that lean to one indicator, and frequent ones, by group."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from analysis.bias_scores import bias_scores
from analysis.dependency import GROUPS
from analysis.object_tables import ObjectTable

MIN_COUNT = 5  # the paper: 10 (GCC), 20 (COCO, TextCaps, Flickr30k), 5 (Profession)
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

    Parameters
    ----------
    tables : dict of str to ObjectTable
        Of `paper_tables.counted`, individuals included: Eq. 5 leaves nothing out, and scores one object by itself.
    leaning : sequence of (str, str)
        Pairs (first, second): a score of 0 is an object of the first indicator's images only, 1 of the second's.
    individuals : collection of str
        Lemmas of individuals.
    least : int
        ``kept`` tells the objects detected at least so often for one of the two (the paper's filter).
    level : float
        Of the interval over prompts, which the paper does not have.

    Returns
    -------
    DataFrame
        A row an object, pair and group. ``individual`` marks the individuals. ``top`` names the indicator for which the
        object is among the ten kept ones with the most extreme scores, and is empty for the others;
        ``top_left_out`` is the same where individuals are left out.

    Source
    ------
    Wu et al. 2025, Eq. 5; section 5.3 for the filter, 6.3.2 for the ten.
    """
    parts = []
    for group, table in tables.items():
        for first, second in leaning:
            score = bias_scores(table, first, second, of="detections", level=level)
            totals = table.totals("detections")[:, [table.column(first), table.column(second)]]
            part = pd.DataFrame(
                {
                    **{
                        "group": group,
                        "first": first,
                        "second": second,
                        "object": table.objects.astype(object),
                        "individual": np.array([name in individuals for name in table.objects], bool),
                    },
                    **{"count_first": totals[:, 0], "count_second": totals[:, 1]},
                    **{"kept": totals.max(axis=1, initial=0) >= least},
                    **{"bias_score": score.value, "low": score.low, "high": score.high, "n_prompts": score.n},
                    **{"n_images": table.n_images, "min_count": least, "reason": score.reason},
                }
            )
            others = _top(part, first, second, part["kept"] & ~part["individual"])
            parts.append(part.assign(top=_top(part, first, second, part["kept"]), top_left_out=others))
    return pd.concat(parts, ignore_index=True)


def _top(part: pd.DataFrame, first: str, second: str, chosen: pd.Series) -> np.ndarray:
    top = np.full(len(part), "", object)
    kept = part[chosen].assign(most=-part[["count_first", "count_second"]].max(axis=1))
    for name, side in ((first, kept[kept["bias_score"] < 0.5]), (second, kept[kept["bias_score"] > 0.5])):
        order = side.assign(far=-(side["bias_score"] - 0.5).abs()).sort_values(["far", "most", "object"])
        top[order.index[:TOP_SCORES].to_numpy(int)] = name
    return top


def figure_objects(tables: dict[str, ObjectTable]) -> pd.DataFrame:
    """Most frequent objects of each group, over all indicators together (Figure 6).

    Parameters
    ----------
    tables : dict of str to ObjectTable
        Of `paper_tables.counted`, individuals left out.
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

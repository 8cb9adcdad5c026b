"""Tables of what is due to the template: each measure template by template, and how far templates lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.templates.design import FACTORS, TemplateDesign
from analysis.methods.templates.measures import MeasureFamily, bounds, centre
from analysis.stats.effects import student_interval
from analysis.stats.group_swaps import group_swaps
from analysis.stats.intervals import Interval
from analysis.stats.range_of_means import range_of_means
from analysis.stats.rare_changes import unseen_share
from probes.config.schema import Measure

VERSION = "templates/2"
CONSTANT = "the same at every unit"
DRAWS = 1999
PLACE = ("source", "question", "indicator")
VALUE_COLUMNS = (
    "factor",
    *PLACE,
    "template",
    "mean",
    "low",
    "high",
    "texts",
    "images",
    "level",
    "reason",
    "version",
)
EFFECT_COLUMNS = (
    "factor",
    *(
        *PLACE,
        "templates",
        "texts",
        "lowest",
        "lowest_mean",
        "highest",
        "highest_mean",
        "range",
        "low",
        "high",
    ),
    *(
        "explained",
        "floor",
        "p_value",
        "p_adjusted",
        "same_side",
        "apart",
        "unit",
        "level",
        "reason",
        "version",
    ),
)


def template_tables(
    families: Sequence[MeasureFamily], design: TemplateDesign, measure: Measure
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return both tables.

    The unit is the text: the images of a template and text count as one, their mean. Of one text it is the seed.

    Parameters
    ----------
    families : sequence of MeasureFamily
    design : TemplateDesign
    measure : Measure

    Returns
    -------
    values : DataFrame
        `VALUE_COLUMNS`, a row for each measure and template: the mean with Student's interval over texts, within
        what the measure can be.
    effects : DataFrame
        `EFFECT_COLUMNS`, a row for each measure: the templates with the lowest and the highest mean and the range
        between them (`analysis.stats.range_of_means`, over the texts that all templates have); ``explained``, the share
        of the variance between the means of template and text that lies between templates (eta squared), beside its
        ``floor``, the mean where templates change places within each text, with a p-value, adjusted over the measures
        of the source (`analysis.stats.group_swaps`). ``same_side``: templates whose mean lies on the side of the mean
        of all, of measures that have sides; ``apart``: those of them whose interval leaves out the middle.
    """
    values: list[dict] = []
    effects: list[dict] = []
    noun = FACTORS[design.factor]
    for family in families:
        keys, table, images, unit = _laid_out(family, design)
        draws = max(1, min(DRAWS, measure.permutations - 1))
        found = group_swaps(table, draws=draws, seed=measure.seed)
        for number, key in enumerate(keys):
            own = table[:, :, number]
            ends = bounds(family.source, key[0])
            each = _intervals(own, measure.level, ends)
            place = {"factor": design.factor, **dict(zip(PLACE, (family.source, *key)))}
            for row, template in enumerate(design.templates):
                values.append(
                    place
                    | {
                        "template": template,
                        "mean": each.mean[row],
                        "low": each.low[row],
                        "high": each.high[row],
                        "texts": int((~np.isnan(own[row])).sum()) if unit == "text" else 1,
                        "images": int(images[row, number]),
                        "level": measure.level,
                        "reason": _reason(str(each.reason[row]).replace("prompt", unit), unit, noun),
                        "version": VERSION,
                    }
                )
            apart = range_of_means(own, level=measure.level, width=ends[1] - ends[0])
            middle = centre(family.source, key[0])
            side = np.sign(np.nanmean(each.mean) - middle) if not np.isnan(each.mean).all() else np.nan
            side = side if side else np.nan
            same = np.sign(each.mean - middle) == side
            clear = same & np.where(side > 0, each.low > middle, each.high < middle)
            effects.append(
                place
                | {
                    "templates": int((~np.isnan(each.mean)).sum()),
                    "texts": apart.units if unit == "text" else 1,
                    "lowest": design.templates[apart.lowest] if apart.lowest >= 0 else "",
                    "lowest_mean": apart.means[apart.lowest] if apart.lowest >= 0 else np.nan,
                    "highest": design.templates[apart.highest] if apart.highest >= 0 else "",
                    "highest_mean": apart.means[apart.highest] if apart.highest >= 0 else np.nan,
                    "range": apart.range,
                    "low": apart.low,
                    "high": apart.high,
                    "explained": found.explained[number],
                    "floor": found.floor[number],
                    "p_value": found.p_value[number],
                    "p_adjusted": found.p_adjusted[number],
                    "same_side": float(same.sum()) if side == side else np.nan,
                    "apart": float(clear.sum()) if side == side else np.nan,
                    "unit": unit,
                    "level": measure.level,
                    "reason": _reason(apart.reason or str(found.reason[number]), unit, noun),
                    "version": VERSION,
                }
            )
    return (
        pd.DataFrame(values, columns=list(VALUE_COLUMNS)),
        pd.DataFrame(effects, columns=list(EFFECT_COLUMNS)),
    )


def _intervals(own: NDArray[np.float64], level: float, ends: tuple[float, float]) -> Interval:
    """Mean of each template over texts with Student's interval, within the ends of the measure.

    Of values that are all the same it is as wide as texts that were not seen could make it
    (`analysis.stats.rare_changes.unseen_share`); without ends there is none.
    """
    found = student_interval(own.T, level=level)
    same = (np.nanmax(own, axis=1, initial=-np.inf) == np.nanmin(own, axis=1, initial=np.inf)) & (found.n > 1)
    wide = unseen_share(found.n, alpha=1 - level) * (ends[1] - ends[0])
    half = np.where(np.isfinite(wide), wide, np.nan)
    low = np.where(same, found.mean - half, found.low)
    high = np.where(same, found.mean + half, found.high)
    reason = np.where(same & np.isnan(half), CONSTANT, found.reason)
    return replace(found, low=np.clip(low, *ends), high=np.clip(high, *ends), reason=reason)


def _reason(reason: str, unit: str, noun: str) -> str:
    """Why something is not known, in the terms of templates and texts."""
    for word, said in (("groups", f"{noun}s"), ("group", noun), ("units", f"{unit}s"), ("unit", unit)):
        reason = reason.replace(word, said)
    return reason


def _laid_out(
    family: MeasureFamily, design: TemplateDesign
) -> tuple[list[tuple[str, str]], NDArray[np.float64], NDArray[np.int64], str]:
    """The measures, their means of each template and text, (templates, units, measures), images, and the unit."""
    rows = family.values
    places = rows["triplet"].map(design.cells)
    rows = rows.assign(row=[one for one, _ in places], text=[two for _, two in places])
    keys = list(dict.fromkeys(zip(rows["question"], rows["indicator"])))
    unit, column = ("text", "text") if len(design.texts) > 1 else ("seed", "seed")
    order = {value: place for place, value in enumerate(sorted(rows[column].unique()))}
    if unit == "text":
        order = {number: number for number in range(len(design.texts))}
    table = np.full((len(design.templates), len(order), len(keys)), np.nan)
    images = np.zeros((len(design.templates), len(keys)), np.int64)
    place = {key: number for number, key in enumerate(keys)}
    groups = rows.groupby(["question", "indicator", "row", column], sort=False)["value"]
    for (question, indicator, row, one), own in groups:
        number = place[question, indicator]
        table[row, order[one], number] = own.mean()
        images[row, number] += len(own)
    return keys, table, images, unit

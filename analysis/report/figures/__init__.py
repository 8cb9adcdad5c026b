"""Figures, drawn from tables only: nothing here computes a statistic."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import pandas as pd

from analysis.metrics.registry import NO_STEP, Metric
from analysis.report.figures.atlas import draw_atlas
from analysis.report.figures.headline import draw_headline
from analysis.report.figures.lines import draw_decoder, draw_similarity, draw_steps, draw_text_layers
from analysis.report.figures.objects import draw_bias_scores, draw_group_objects
from analysis.report.figures.prompts import draw_prompts
from analysis.report.figures.specifications import draw_specifications
from analysis.report.figures.style import Drawn, files, inline_svg
from analysis.report.figures.triplets import draw_triplets
from analysis.report.verdict import FEWEST_PROMPTS

__all__ = [
    "Drawn",
    "draw_bias_scores",
    "draw_figures",
    "draw_group_objects",
    "draw_prompts",
    "draw_triplets",
    "files",
    "inline_svg",
    "with_ends",
]


def draw_figures(
    gap: pd.DataFrame,
    findings: pd.DataFrame,
    gap_prompts: pd.DataFrame,
    specifications: pd.DataFrame,
    disparity: pd.DataFrame,
    timesteps: dict[int, float],
    metrics: list[Metric],
    contrasts: list[tuple[str, str]],
    reference: str,
    pairs: list[str],
    unit: str = "prompt",
    primary: str = "z0",
    paired: bool = True,
    prompts: Mapping[int, str] | None = None,
    shown: Collection[int] = (),
) -> dict[str, Drawn]:
    """Draw every figure that the tables have something for, by name.

    `timesteps` are of each call number; `pairs` stand in the order in which they are drawn; `primary` is the key of the
    metric whose specifications are drawn; `prompts` is the text of each triplet, and those in `shown` are marked among
    the gaps of prompts.
    """
    own = [metric for metric in metrics if metric.key == primary]
    drawn = [
        draw_headline(with_ends(findings, gap), metrics, contrasts, reference, unit),
        *(
            draw_prompts(
                gap_prompts[
                    (gap_prompts["measure"] == primary) & (gap_prompts["contrast"] == "-".join(contrast))
                ],
                prompts or {},
                metric,
                contrast,
                reference,
                unit,
                shown,
            )
            for metric in own
            for contrast in contrasts
        ),
        *(
            draw_specifications(specifications, metric, contrast, reference, unit)
            for metric in own
            for contrast in contrasts
        ),
        *(draw_atlas(gap, timesteps, contrast, reference) for contrast in contrasts),
        draw_text_layers(gap, contrasts, reference, unit),
        draw_steps(gap, timesteps, contrasts, reference, unit),
        draw_similarity(disparity, timesteps, pairs, unit, paired),
        draw_decoder(gap, contrasts, reference),
    ]
    return {figure.name: figure for figure in drawn if figure is not None}


def with_ends(findings: pd.DataFrame, gap: pd.DataFrame) -> pd.DataFrame:
    """Return findings with the ends of their intervals and δ, from ``tables/gap``."""
    keys = ["contrast", "space", "site", "metric"]
    columns = ["ci_low", "ci_high", "word_low", "word_high", "delta", "n_prompts"]
    ends = gap[gap["step"] == NO_STEP][[*keys, *columns]].drop_duplicates(keys)
    found = findings.merge(ends, on=keys, how="left")
    few = found["n_prompts"] < FEWEST_PROMPTS
    found.loc[few, ["ci_low", "ci_high", "word_low", "word_high"]] = math.nan
    return found

"""Figures, drawn from tables only: nothing here computes a statistic."""

from __future__ import annotations

import pandas as pd

from analysis.metrics.registry import Metric
from analysis.report.figures.atlas import draw_atlas
from analysis.report.figures.headline import draw_headline
from analysis.report.figures.lines import draw_decoder, draw_similarity, draw_steps, draw_text_layers
from analysis.report.figures.objects import draw_bias_scores, draw_group_objects
from analysis.report.figures.specifications import draw_specifications
from analysis.report.figures.style import Drawn, files, inline_svg
from analysis.report.figures.triplets import draw_triplets

__all__ = [
    "Drawn",
    "draw_bias_scores",
    "draw_figures",
    "draw_group_objects",
    "draw_triplets",
    "files",
    "inline_svg",
]


def draw_figures(
    gap: pd.DataFrame,
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
) -> dict[str, Drawn]:
    """Draw every figure that the tables have something for.

    Parameters
    ----------
    gap, specifications, disparity : DataFrame
        ``tables/gap``, ``tables/specifications`` and ``tables/disparity``.
    timesteps : dict of int to float
        Timestep of each call number.
    metrics : list of Metric
        Headline metrics.
    contrasts : list of tuple of str
        Gaps are positive towards the first of each.
    reference : str
        Name of the reference indicator.
    pairs : list of str
        Pairs in the order in which they are drawn.
    unit : {"prompt", "seed"}
        What intervals are over.
    primary : str
        Key of the headline metric whose specifications are drawn.
    paired : bool
        Whether the images of a triplet start from the same noise.

    Returns
    -------
    dict of str to Drawn
        By name; what was not captured is absent.
    """
    drawn = [
        draw_headline(gap, metrics, contrasts, reference, unit),
        *(
            draw_specifications(specifications, metric, contrast, reference, unit)
            for metric in metrics
            if metric.key == primary
            for contrast in contrasts
        ),
        *(draw_atlas(gap, timesteps, contrast, reference) for contrast in contrasts),
        draw_text_layers(gap, contrasts, reference, unit),
        draw_steps(gap, timesteps, contrasts, reference, unit),
        draw_similarity(disparity, timesteps, pairs, unit, paired),
        draw_decoder(gap, contrasts, reference),
    ]
    return {figure.name: figure for figure in drawn if figure is not None}

"""Figures, drawn from tables only: nothing here computes a statistic."""

from analysis.report.figures.objects import draw_bias_scores, draw_group_objects
from analysis.report.figures.style import Drawn, Saved, files, inline_svg, saved

__all__ = ["Drawn", "Saved", "draw_bias_scores", "draw_group_objects", "files", "inline_svg", "saved"]

"""The path of the interval of a run that stops."""

from __future__ import annotations

from analysis.report.figures.style import DOUBLE, FAINT, INK, PALETTE, Drawn, new_figure, style
from analysis.tables.spec import Measured


def draw_path(shown: Measured) -> Drawn:
    """Draw gap and interval at each look, up to the most prompts there could have been."""
    table, question = shown.rows("stopping"), shown.words["question"]
    (first, second), within = question.contrast, question.within
    known = table[table["reason"] == ""]
    with style():
        figure = new_figure(DOUBLE, 2.2)
        axes = figure.subplots()
        axes.axhspan(-within, within, color=FAINT, alpha=0.35, lw=0, zorder=0)
        axes.axhline(0, color=INK, lw=0.6, zorder=1)
        for low, high, alpha in (("low", "high", 0.18), ("prompts_low", "prompts_high", 0.22)):
            axes.fill_between(
                known["n_prompts"], known[low], known[high], color=PALETTE[0], alpha=alpha, lw=0
            )
        axes.plot(table["n_prompts"], table["gap"], "-o", ms=2.6, lw=1.1, color=PALETTE[0])
        axes.axvline(table["n_prompts"].iloc[-1], color=INK, lw=0.8, ls=(0, (2, 2)))
        axes.set_xlim(0, question.most)
        axes.set_xlabel("prompts")
        axes.set_ylabel(f"gap, {question.shown.symbol}\n← {second}      {first} →")
    caption = (
        f"Gap after each look, with its {100 * question.level:g} % interval over all looks together: dark for other"
        " prompts, light for other words too. Grey: gaps that would not matter. Dashed: where the run stopped; the axis"
        " ends where it would have ended in any case."
    )
    return Drawn("stopping", figure, "The gap as prompts were generated", caption, wide=True)

"""The path of a race: the gap of each entrant as prompts are drawn, and where it left."""

from __future__ import annotations

import pandas as pd

from analysis.methods.stopping.race.columns import LEFT
from analysis.report.figures.style import DASHES, DOUBLE, INK, PALETTE, Drawn, new_figure, style
from analysis.report.format import label


def draw_race(table: pd.DataFrame, most: int, symbol: str, unit: str = "prompt") -> Drawn:
    """Draw gap and interval of each entrant at each look, up to the most prompts, or seeds, there could have been.

    Parameters
    ----------
    table : DataFrame
        `analysis.methods.stopping.race.columns.race_table`.
    most : int
        Prompts, or seeds, of the plan.
    symbol : str
        Of the measure.
    unit : {"prompt", "seed"}
    """
    first, second = table["contrast"].iloc[0].split("-")
    names = list(dict.fromkeys(table["entrant"]))
    with style():
        figure = new_figure(DOUBLE, 2.9)
        axes = figure.subplots()
        axes.axhline(0, color=INK, lw=0.6, zorder=1)
        for number, name in enumerate(names):
            own = table[table["entrant"] == name]
            color, dash = PALETTE[number % len(PALETTE)], DASHES[number // len(PALETTE) % len(DASHES)]
            known = own.dropna(subset=["low", "high"])
            axes.fill_between(known["n_prompts"], known["low"], known["high"], color=color, alpha=0.16, lw=0)
            axes.plot(
                own["n_prompts"],
                own["gap"],
                ls=dash,
                marker="o",
                ms=2.4,
                lw=1.1,
                color=color,
                label=label(name, 28),
            )
            last = own.iloc[-1]
            if last["state"] == LEFT:
                axes.plot(last["n_prompts"], last["gap"], marker="X", ms=7, mew=0.6, mec="white", color=color)
        axes.set_xlim(0, 1.02 * most)
        axes.axvline(most, color=INK, lw=0.6, ls=(0, (2, 2)))
        axes.set_xlabel(f"{unit}s")
        axes.set_ylabel(f"gap, {symbol}\n← {second}      {first} →")
        figure.legend(loc="outside upper center", ncols=min(4, len(names)))
    caption = (
        f"Gap of each entrant after each look, with its own {100 * table['level'].iloc[0]:g} % interval over all looks."
        " A cross: where it left, since another was surely ahead; that is decided by paired differences, which are"
        f" narrower than two intervals side by side. Dashed: where all {unit}s would have been drawn."
    )
    return Drawn("race-path", figure, f"The gaps as {unit}s were drawn", caption, wide=True)

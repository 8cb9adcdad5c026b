"""The page docs/validation/traced_edits.md and its figure, from what `lab.validate.tracing.frontier` stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.report.figures.style import DOUBLE, INK, PALETTE, Drawn, limits, new_figure, style
from lab.templates import render

FIGURE = "traced_edits"
SAID = {
    "keys_and_values": "keys and values",
    "project": "projection",
    "steer": "gated steering",
    "steer_choice": "steering of choices",
}
MARKS = {"traced": "o", "all": "s", "elsewhere": "x"}
Result = Mapping[str, Any]


def _of(result: Result, measure: str, place: str, kind: str) -> list[dict[str, Any]]:
    return [
        row for row in result["rows"] if (row["measure"], row["place"], row["kind"]) == (measure, place, kind)
    ]


def draw_frontier(results: Mapping[str, Result]) -> Drawn:
    """Draw what each edit does to the neutral word's lean and to the images of the words that are kept, by model."""
    kinds = [kind for kind in SAID if any(_of(one, "lean", "all", kind) for one in results.values())]
    columns = min(4, len(results))
    lines = -(-len(results) // columns)
    with style():
        figure = new_figure(DOUBLE, 1.0 + 1.75 * lines)
        panels = figure.subplots(lines, columns, squeeze=False, sharey=True)
        for number, (name, result) in enumerate(results.items()):
            axes = panels[number // columns, number % columns]
            _panel(axes, result, kinds)
            axes.set_title(name.removeprefix("toyworld-"), loc="left")
        for axes in panels.flat[len(results) :]:
            axes.set_visible(False)
        for row in panels:
            row[0].set_ylabel("pixels, kept words")
        for axes in panels[-1]:
            axes.set_xlabel("change of the lean")
        named = {
            label: handle
            for axes in panels.flat
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=len(kinds), fontsize=7)
    caption = (
        "What an edit does to the share of verdicts for b of images generated from “person” (left is towards “woman”),"
        " and what it costs: mean difference of images of “woman” and “man” from the unedited model’s, of 0 to 1. Lines"
        " join amounts of one edit, from none."
    )
    return Drawn(
        FIGURE, figure, "Edits where the trace points, everywhere, and elsewhere", caption, wide=True
    )


def _panel(axes: Any, result: Result, kinds: Sequence[str]) -> None:
    axes.axvline(0, color=INK, lw=0.6)
    reach = [0.0]
    for number, kind in enumerate(kinds):
        for place, mark in MARKS.items():
            lean = [0.0, *(row["mean"] for row in _of(result, "lean", place, kind))]
            kept = [0.0, *(row["mean"] for row in _of(result, "kept", place, kind))]
            if len(lean) > 1:
                face = PALETTE[number] if place == "traced" else "white"
                axes.plot(
                    lean,
                    kept,
                    color=PALETTE[number],
                    marker=mark,
                    mfc=face,
                    ms=4 if place == "traced" else 5.5,
                    lw=1,
                    ls="-" if place == "traced" else ":",
                    label=f"{SAID[kind]}, {place}",
                )
                reach += lean
    axes.set_xlim(*limits([*reach, -0.05, 0.05]))


def page(results: Mapping[str, Result]) -> str:
    """Return the page."""
    some = next(iter(results.values()))
    rows = []
    for name, result in results.items():
        for kind in SAID:
            for amount in sorted({row["amount"] for row in result["rows"] if row["kind"] == kind}):
                cells = {
                    (row["place"], row["measure"]): row
                    for row in result["rows"]
                    if (row["kind"], row["amount"]) == (kind, amount)
                }
                rows.append({"name": name, "kind": SAID[kind], "amount": amount, "cells": cells})
    return render(
        "traced_edits",
        results=results,
        rows=rows,
        prompts=some["prompts"],
        trace=some["trace"],
        steps=some["steps"],
    )

"""Accuracy of visual skills by count and by relation, after figure 5 of Cho et al. 2023, with intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.methods.skills.scores import ACCURACY, CLASSES, NUMBER
from analysis.methods.skills.tables import ALL
from analysis.report.figures.style import DOUBLE, FAINT, INK, PALETTE, Drawn, new_figure, style

# of each panel: the skill, the split, its title, and the tasks with what they are called
PANELS = (
    ("object", "object", "Object", {ACCURACY: "the object"}),
    ("count", "count", "Count", {NUMBER: "so many, of any class", ACCURACY: "so many of the object"}),
    ("spatial", "relation", "Spatial", {CLASSES: "both objects", ACCURACY: "both in the relation"}),
)


def draw_skills(accuracy: pd.DataFrame) -> Drawn | None:
    """Draw ``tables/skills_accuracy``, a panel a skill; None where no image could be judged."""
    panels = [panel for panel in PANELS if accuracy.loc[accuracy["skill"] == panel[0], "value"].notna().any()]
    if not panels:
        return None
    with style():
        figure = new_figure(DOUBLE, 2.3)
        numbers = [
            accuracy.loc[(accuracy["skill"] == skill) & (accuracy["split"] == split), "level"].nunique()
            for skill, split, *_ in panels
        ]
        widths = [max(1 + number, 8) for number in numbers]  # room for a legend
        axes = figure.subplots(1, len(panels), squeeze=False, sharey=True, width_ratios=widths)[0]
        for place, (panel, (skill, split, title, tasks)) in enumerate(zip(axes, panels)):
            of_skill = accuracy[accuracy["skill"] == skill]
            levels = [ALL, *dict.fromkeys(of_skill[of_skill["split"] == split]["level"])]
            width = 0.8 / len(tasks)
            for number, (task, label) in enumerate(tasks.items()):
                chosen = of_skill[(of_skill["task"] == task) & of_skill["split"].isin([ALL, split])]
                rows = chosen.set_index("level").reindex(levels)
                at = np.arange(len(levels)) + (number + 0.5) * width - 0.4
                panel.bar(at, rows["value"], 0.92 * width, color=PALETTE[number + 2 * place], label=label)
                panel.vlines(at, rows["low"], rows["high"], color=INK, lw=0.7)
                shuffled = rows["shuffled"].iloc[0]
                panel.hlines(
                    shuffled, at[0] - width / 2, at[0] + width / 2, color=INK, lw=1.2, ls=(0, (2, 1))
                )
            panel.axvline(0.5, color=FAINT, lw=0.6)
            panel.set_title(title, loc="left")
            turned = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if split != "count" else {}
            panel.set_xticks(range(len(levels)), levels, **turned)
            panel.tick_params(axis="x", length=0)
            if len(tasks) > 1:
                panel.legend(loc="upper left", bbox_to_anchor=(0, 1.0), fontsize=6.5)
        axes[0].set_ylim(0, 1.28)
        axes[0].set_yticks(np.linspace(0, 1, 5))
        axes[0].set_ylabel("share of images")
    caption = (
        "Share of images that show what was asked for, over all and by object, number and relation, with intervals over"
        " prompts; dashed: the same with images dealt out at random (after Cho et al. 2023, figure 5)."
    )
    return Drawn("skills", figure, "Visual skills", caption, wide=True)

"""Figures of effects, where no total effect gives shares."""

import numpy as np
import pandas as pd

from analysis.methods.tracing.effects import WHAT
from analysis.methods.tracing.figures import draw_map, forest

WORDS = {"level": 0.95, "alpha": 0.05, "outcome": "verdict", "unit": "prompt"}


def rows(low, high, **columns):
    count = len(low)
    table = pd.DataFrame({"kind": "site", "site": [f"unet.mid.attn.{n}.cross" for n in range(count)]})
    for name in set(WHAT) - set(table):
        table[name] = -1 if name.endswith("step") else None
    table = table.assign(effect=np.arange(count) / 10.0, effect_low=low, effect_high=high, p_adjusted=0.5)
    none = dict.fromkeys(("share", "low", "high"), np.nan)
    return table.assign(estimand="sufficiency", n_prompts=5, **none).assign(**columns)


def test_an_interval_without_an_end_goes_on_beyond_the_figure():
    drawn = forest(rows([-0.2, -np.inf], [0.3, np.inf]), WORDS)
    (axes,) = drawn.figure.axes
    low, high = axes.get_xlim()
    assert -1 < low < -0.1 and 0.1 < high < 1
    assert "No shares" in drawn.caption and axes.figure._supxlabel.get_text().endswith("the verdict by")


def test_of_one_prompt_the_map_shows_the_effects_of_places_and_steps_and_says_that_none_has_an_interval():
    none = [np.nan] * 4
    windows = rows(
        none,
        none,
        site=[f"unet.mid.attn.{n}.cross" for n in (0, 0, 1, 1)],
        first_step=[0, 2, 0, 2],
        stop_step=[2, 4, 2, 4],
        p_adjusted=np.nan,
        n_prompts=1,
    )
    drawn = draw_map(windows, WORDS, "windows")
    axes, _ = drawn.figure.axes
    assert sorted(text.get_text() for text in axes.texts) == ["0.00", "0.10", "0.20", "0.30"]
    assert drawn.title.startswith("Map of effects") and "no interval can be given." in drawn.caption

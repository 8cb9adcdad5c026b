"""The figure of effects, where no total effect gives shares."""

import numpy as np
import pandas as pd

from analysis.methods.tracing.effects import WHAT
from analysis.methods.tracing.figures import draw_effects


def rows(low, high):
    count = len(low)
    table = pd.DataFrame({"kind": "site", "site": [f"unet.mid.attn.{n}.cross" for n in range(count)]})
    for name in set(WHAT) - set(table):
        table[name] = -1 if name.endswith("step") else ""
    table = table.assign(effect=np.arange(count) / 10.0)
    return table.assign(
        effect_low=low, effect_high=high, n_prompts=5, p_value=0.5, p_adjusted=0.5, sufficiency=np.nan
    )


def lines(drawn):
    (axes,) = drawn.figure.axes
    found = [one for one in axes.collections if hasattr(one, "get_segments")]
    return axes, [segment for one in found for segment in one.get_segments()]


def test_an_interval_without_ends_is_dotted_across_the_figure():
    drawn = draw_effects(rows([-0.2, -np.inf], [0.3, np.inf]), 0.95, "verdict")
    axes, segments = lines(drawn)
    low, high = axes.get_xlim()
    assert sorted(float(np.ptp(one[:, 0])) for one in segments) == sorted([0.5, high - low])
    assert "Dotted: too few prompts" in drawn.caption and high < 1


def test_intervals_with_ends_are_drawn_as_they_are():
    drawn = draw_effects(rows([-0.2, -0.1], [0.3, 0.4]), 0.95, "verdict")
    _, segments = lines(drawn)
    np.testing.assert_allclose(sorted(float(np.ptp(one[:, 0])) for one in segments), [0.5, 0.5])
    assert "Dotted" not in drawn.caption

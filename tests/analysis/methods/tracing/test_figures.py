"""The figure of effects, where no total effect gives shares."""

import numpy as np
import pandas as pd
import pytest

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


@pytest.mark.parametrize("end", [0.4, np.inf])
def test_an_interval_without_ends_is_dotted_across_the_figure(end):
    drawn = draw_effects(rows([-0.2, -end], [0.3, end]), 0.95, 0.05, "verdict")
    (axes,) = drawn.figure.axes
    found = [one for one in axes.collections if hasattr(one, "get_segments")]
    lengths = sorted(float(np.ptp(segment[:, 0])) for one in found for segment in one.get_segments())
    low, high = axes.get_xlim()
    np.testing.assert_allclose(lengths, sorted([0.5, 0.8 if end == 0.4 else high - low]))
    assert ("Dotted: too few prompts" in drawn.caption) == (end == np.inf) and high < 1

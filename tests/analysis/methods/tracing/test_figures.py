"""The figure of effects, where no total effect gives shares."""

import numpy as np
import pandas as pd
import pytest

from analysis.methods.tracing.effects import WHAT
from analysis.methods.tracing.figures import draw_effects, draw_windows


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


def test_of_one_prompt_the_map_shows_the_effects_of_places_and_steps_and_says_that_none_has_an_interval():
    none = [np.nan] * 4
    windows = rows(none, none).assign(
        site=[f"unet.mid.attn.{n}.cross" for n in (0, 0, 1, 1)],
        first_step=[0, 2, 0, 2],
        stop_step=[2, 4, 2, 4],
        **dict.fromkeys(("necessity", "necessity_effect", "p_adjusted"), np.nan),
        n_prompts=1,
    )
    drawn = draw_windows(windows, 0.05, "prompt", "verdict")
    axes, _ = drawn.figure.axes
    assert [text.get_text() for text in axes.texts] == ["0.00", "0.10", "0.20", "0.30"]
    assert drawn.title.startswith("Map of effects") and drawn.caption.startswith(
        "Effect of both words on the verdict"
    )
    assert drawn.caption.endswith("Of one prompt: no interval can be given.") and "Bold" not in drawn.caption

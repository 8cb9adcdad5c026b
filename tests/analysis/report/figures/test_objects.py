"""Figures on objects: sorted, readable in a column, nothing cut off or on top of another, and the same bytes twice."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from analysis.metrics.dependency import GROUPS
from analysis.report.figures.objects import LEAN, LONGEST, MOST, draw_bias_scores, draw_group_objects
from analysis.report.figures.style import DOUBLE, SINGLE
from analysis.report.format import label

PAIR = ("feminine", "masculine")


def scores_of(n, most=40, seed=0) -> pd.DataFrame:
    """Rows as in ``tables/figure04_bias_scores`` with ``p_objects``."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(1, most, (2, n))
    score = second / (first + second)
    frame = {"object": [f"object number {i}" for i in range(n)], "bias_score": score, "low": score - 0.1}
    frame |= {"high": np.minimum(score + 0.1, 1), "count_first": first, "count_second": second}
    frame |= {
        "individual": False,
        "kept": np.maximum(first, second) >= 5,
        "min_count": 5,
        "p_objects": rng.uniform(0, 0.1, n),
    }
    return pd.DataFrame(frame)


def draw(scores):
    return draw_bias_scores(scores, "scores", "Bias scores", PAIR, "all objects")


@pytest.mark.parametrize("name", ["a\x07b\x1b" * 900, "$\\frac{1$"])
def test_no_name_leaves_a_figure_without_axes(name):
    scores = scores_of(12)
    scores.loc[3, "object"] = name
    drawn = draw_bias_scores(scores, "scores", "Bias scores", (name, "masculine"), "all objects")
    table = frequent_of(3)
    table.loc[0, "object"] = name
    table = table.rename(columns={"count_feminine": f"count_{name}"})
    groups = draw_group_objects(table, ["neutral", name, "masculine"])
    for figure in (drawn.figure, groups.figure):
        for axes in figure.axes[: len(GROUPS)]:
            box = axes.get_position()
            assert box.width > 0.1 and box.height > 0.2
        texts = {text.get_text() for text in figure.findobj(Text)}
        assert all(len(text) < 400 and "\x07" not in text for text in texts)
        assert any(label(name, LONGEST) in text for text in texts)
    assert name in drawn.links  # what is looked up stays whole


def frequent_of(n) -> pd.DataFrame:
    """Rows as in ``tables/figure06_group_objects``."""
    rows = [
        (group, rank, f"thing {rank} of a group", 30 - rank) for group in GROUPS for rank in range(1, n + 1)
    ]
    table = pd.DataFrame(rows, columns=["group", "rank", "object", "count"])
    return table.assign(count_neutral=table["count"] // 3, count_feminine=0, count_masculine=table["count"])


@pytest.fixture(
    params=[
        ("scores", 90, 40),
        ("scores", 30, 90_000),
        ("groups", 20, 0),
    ],
    ids=lambda param: "-".join(map(str, param)),
)
def drawn(request):
    kind, n, most = request.param
    return (
        draw(scores_of(n, most))
        if kind == "scores"
        else draw_group_objects(frequent_of(n), ["neutral", *PAIR])
    )


def test_figures_fit_a_column_and_nothing_is_cut_off_or_covered(drawn):
    drawn.figure.draw_without_rendering()  # places the labels of its axes
    width, height = drawn.figure.get_size_inches()
    assert width in (SINGLE, DOUBLE) and height <= 9
    texts = [
        t
        for t in drawn.figure.findobj(lambda a: hasattr(a, "get_fontsize"))
        if t.get_text() and t.get_visible()
    ]
    assert min(text.get_fontsize() for text in texts) >= 7.5
    box = drawn.figure.get_tightbbox()
    assert box.x0 >= -0.01 and box.y0 >= -0.01 and box.x1 <= width + 0.01 and box.y1 <= height + 0.01
    level = [text for text in texts if text.get_rotation() == 0]
    boxes = [(text.get_text(), text.get_window_extent().shrunk(0.9, 0.8)) for text in level]
    for (name, one), (other, two) in itertools.combinations(boxes, 2):
        assert not one.overlaps(two), (name, other)


def test_scores_are_sorted_and_the_middle_is_left_out():
    scores = scores_of(90)
    kept = scores[scores["kept"]].sort_values(["bias_score", "object"], ascending=[False, True])
    figure = draw(scores)
    ends = [*kept["object"].head(MOST // 2), *kept["object"].tail(MOST - MOST // 2)]
    assert figure.links == ends and f"the {len(kept) - MOST} nearest to ½" in figure.caption
    axes = figure.figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ends
    marks = [line for line in axes.lines if line.get_marker() == "o"]
    by_name = scores.set_index("object")
    for name, mark in zip(ends, marks, strict=True):
        row = by_name.loc[name]
        assert mark.get_xdata()[0] == row["bias_score"]
        assert (mark.get_markerfacecolor() != "white") == (row["p_objects"] < 0.05)
        if row["bias_score"] != 0.5:
            assert mark.get_markeredgecolor() == LEAN[int(row["bias_score"] > 0.5)]

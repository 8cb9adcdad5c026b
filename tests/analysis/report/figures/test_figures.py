"""Figures: there, readable in a column, the same bytes twice, and in the order of the network."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection

from analysis.metrics.registry import headline_metrics
from analysis.report.figures import headline, rows
from analysis.report.figures.atlas import atlas_rows, beyond_words, draw_atlas
from analysis.report.figures.headline import draw_headline
from analysis.report.figures.rows import draw_specifications
from analysis.report.figures.style import DOUBLE, SINGLE, Saved, files, inline_svg, saved
from analysis.report.findings import summaries
from analysis.report.gallery import primary_gaps
from analysis.report.page import Content, draw_figures
from analysis.tables.similarities.headline import SPECIFICATION_COLUMNS as COLUMNS
from analysis.tables.similarities.word_gap import joined_gaps
from hooks.architectures.addresses import place
from probes.runs.run import Run

CONTRASTS = [("masculine", "feminine")]
TIMES = {step: 1000.0 - 100 * step for step in range(6)}
SPECIFICATIONS = pd.DataFrame(columns=list(COLUMNS))
RUNS: list[Run] = []  # whose gaps are drawn


@pytest.fixture(scope="module")
def run(measured) -> Run:
    RUNS.append(measured)
    return measured


@pytest.fixture(scope="module")
def drawn(run):
    return draw(joined_gaps(run.table))


def draw(gap, contrasts=CONTRASTS):
    run = RUNS[-1]
    content = Content(
        config=run.config.model_copy(update={"contrasts": contrasts}),
        meta={},
        gap=gap,
        specifications=SPECIFICATIONS,
        summaries=summaries_of(gap),
        gaps=primary_gaps(run.table("gap_prompts"), run.config),
        timesteps=TIMES,
        samples=run.samples(["triplet", "indicator", "prompt"]),
    )
    return draw_figures(content)


def atlas(gap):
    return draw_atlas(gap, TIMES, CONTRASTS[0], "neutral")


def summaries_of(gap):
    """What a report words of these gaps."""
    run = RUNS[-1]
    return summaries(gap, run.config) if len(gap) else []


def test_the_specification_curve_has_a_row_for_every_choice_in_order_of_its_gap():
    z0 = next(metric for metric in headline_metrics() if metric.key == "z0")
    gaps = {"as run": 0.2, "without “lady”": 0.1, "without “person”": 0.3}
    table = [
        {"space": "denoising", "site": "latent.final", "metric": "cosine", "contrast": "masculine-feminine"}
        | {
            "specification": name,
            "of_run": name == "as run",
            "gap": gap,
            "low": gap - 0.05,
            "high": gap + 0.05,
        }
        for name, gap in gaps.items()
    ]
    table = pd.DataFrame(table, columns=list(COLUMNS))
    figure = draw_specifications(table, z0, CONTRASTS[0])
    axes = figure.figure.axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == sorted(gaps, key=gaps.get)
    low, high = axes.get_xlim()
    assert low <= 0.0 and high >= 0.35  # 0 and every interval are in the picture
    assert "share nearly all their data" in figure.caption
    assert draw_specifications(table.iloc[:1], z0, CONTRASTS[0]) is None
    many = pd.concat(
        [table] + [table.iloc[1:].assign(gap=0.185 + 0.001 * k) for k in range(30)], ignore_index=True
    )
    cut = draw_specifications(many, z0, CONTRASTS[0]).figure.axes[0]
    labels = [tick.get_text() for tick in cut.get_yticklabels()]
    assert len(labels) == 41 and "as run" in labels


def test_number_marker_and_text_of_a_headline_row_are_those_of_the_gap_over_words():
    """Signs differ, and the words of a side lie so near to the other's that there is no share of their distance."""
    row = dict(
        measure="z0", primary=True, contrast="masculine-feminine", n_prompts=24, p_control=0.04, delta=0.02
    )
    row |= dict(gap=0.05, ci_low=0.01, ci_high=0.09, distance=0.1, share=0.5)
    row |= dict(word_gap=-0.03, word_low=-0.3, word_high=-0.01)
    row |= dict.fromkeys(("word_share", "word_share_low", "word_share_high"), np.nan)
    drawn = draw_headline(pd.DataFrame([row]), headline_metrics(), CONTRASTS, "neutral")
    (axes,) = drawn.figure.axes
    places = {
        line.get_marker(): float(line.get_xdata()[0]) for line in axes.lines if len(line.get_xdata()) == 1
    }
    assert places == pytest.approx({"o": 0.5, "D": -0.3, "<": -headline.FARTHEST})
    assert [text.get_text() for text in axes.texts] == ["−0.30", "share"]
    assert drawn.alt.endswith("z₀: over prompts +0.50, over words −0.30.")
    (axes,) = draw_headline(
        pd.DataFrame([row | {"p_control": np.nan}]), headline_metrics(), CONTRASTS, "neutral"
    ).figure.axes
    assert axes.texts[0].get_text() == "+0.50"  # no diamond: the circle's


def test_figures_fit_a_column_and_their_text_is_readable(drawn):
    for figure in drawn.values():
        width, height = figure.figure.get_size_inches()
        assert width in (SINGLE, DOUBLE, headline.WIDTH, rows.WIDTH) and height <= 9
        texts = [t for t in figure.figure.findobj(lambda a: hasattr(a, "get_fontsize")) if t.get_text()]
        assert texts and min(t.get_fontsize() for t in texts) >= 7.5


def test_nothing_is_cut_off(drawn):
    for figure in drawn.values():
        box = figure.figure.get_tightbbox()
        width, height = figure.figure.get_size_inches()
        assert box.x0 >= -0.01 and box.y0 >= -0.01, figure.name
        assert box.x1 <= width + 0.01 and box.y1 <= height + 0.01, figure.name


@pytest.mark.slow
def test_files_are_the_same_twice_and_carry_no_date(run, drawn):
    name = "atlas-masculine-feminine"
    figure, again = drawn[name], atlas(joined_gaps(run.table))
    first, second = (files(one, ["svg", "pdf", "png"]) for one in (figure, again))
    assert first == second and set(first) == {f"{name}.svg", f"{name}.pdf", f"{name}.png"}
    assert b"<dc:date>" not in first[f"{name}.svg"]
    assert b"CreationDate" not in first[f"{name}.pdf"]
    assert b"/Type3" not in first[f"{name}.pdf"] and b"FontFile2" in first[f"{name}.pdf"]  # TrueType
    assert inline_svg(figure) == inline_svg(again)


def test_only_the_files_that_are_asked_for(drawn):
    figure = drawn["gap-layers"]
    assert saved({figure.name: figure}, ["png"]) == {
        figure.name: Saved(files(figure, ["png"]), inline_svg(figure))
    }


def test_ids_of_clips_do_not_follow_the_last_bits_of_coordinates(drawn):
    figure = pickle.loads(pickle.dumps(drawn["gap-layers"]))
    before = files(figure, ["svg"])
    assert any(b"clip-path" in file for file in before.values())
    for axes in figure.figure.axes:
        axes.set_position([value * (1 + 2**-52) for value in axes.get_position().bounds])
    assert files(figure, ["svg"]) == before


def test_svg_names_do_not_clash_and_load_nothing(drawn):
    pages = [inline_svg(figure) for figure in drawn.values()]
    names = [name for page in pages for name in re.findall(r'\bid="([^"]+)"', page)]
    assert len(names) == len(set(names))
    for page in pages:
        assert "http" not in page and "<style" not in page and "<script" not in page
        targets = re.findall(r'href="#([^"]+)"', page) + re.findall(r"url\(#([^)]+)\)", page)
        assert set(targets) <= set(names)


def test_atlas_holds_the_numbers_of_the_table_in_network_order(run, drawn):
    cells = drawn["atlas-masculine-feminine"].cells
    groups = [place(address).group for address in cells["addresses"]]
    assert [g for i, g in enumerate(groups) if i == 0 or groups[i - 1] != g] == [
        "in",
        "down",
        "mid",
        "up",
        "out",
    ]
    gap = run.table("word_gap").set_index(["site", "step", "metric"])
    for row, address in enumerate(cells["addresses"]):
        for column, step in enumerate(cells["steps"]):
            expected = gap.loc[(address, step, "cosine"), ["word_gap", "word_low", "word_high"]]
            found = [cells[name][row, column] for name in ("gap", "low", "high")]
            np.testing.assert_equal(found, expected.to_numpy(float))


def test_atlas_is_filled_by_the_test_against_words(run):
    """Gaps that differ from 0, none of them by more than words differ: nothing is filled."""
    gap = joined_gaps(run.table)
    gap["p_sites"], gap["p_control_sites"] = 0.001, 0.5
    assert len(atlas_rows(gap, CONTRASTS[0])) == (gap["metric"].eq("cosine") & gap["step"].ge(0)).sum()
    assert not beyond_words(atlas_rows(gap, CONTRASTS[0])["p_control_sites"], 0.05).any()
    one = gap.index[(gap["site"] == "unet.mid") & (gap["step"] == 3)]
    gap.loc[one, "p_control_sites"] = 0.04
    assert beyond_words(atlas_rows(gap, CONTRASTS[0])["p_control_sites"], 0.05).sum() == 1
    figure = atlas(gap)
    dots = [c for c in figure.figure.axes[0].collections if isinstance(c, PathCollection)]
    filled = [tuple(xy) for c in dots if len(c.get_facecolors()) for xy in c.get_offsets()]
    cells = figure.cells
    assert filled == [(3.5, cells["addresses"].index("unet.mid") + 0.5)]
    assert "control gap" not in figure.caption and "more than synonyms differ" in figure.caption

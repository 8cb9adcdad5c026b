"""Figures: there, readable in a column, the same bytes twice, and in the order of the network."""

import hashlib
import os
import pickle
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from PIL import Image

from analysis.metrics.registry import METRICS, computed_from, headline_metrics
from analysis.report.figures import (
    draw_figures,
    files,
    headline,
    inline_svg,
    prompts,
    specifications,
    with_ends,
)
from analysis.report.figures.atlas import atlas_rows, beyond_words
from analysis.report.figures.headline import draw_headline
from analysis.report.figures.lines import _name_ticks, draw_sites
from analysis.report.figures.style import DOUBLE, SINGLE, new_figure, style
from analysis.report.findings import findings_table, summaries
from analysis.report.saving import Saved, saved
from analysis.tables.similarities.specifications import COLUMNS
from analysis.tables.stage import measure
from hooks.architectures.addresses import place, readable
from probes.runs.store import Run
from tests.analysis.synthetic_run import write_run

CONTRASTS = [("masculine", "feminine")]
PAIRS = ["neutral-feminine", "neutral-masculine"]
SPECIFICATIONS = pd.DataFrame(columns=list(COLUMNS))
RUNS: list[Run] = []  # whose gaps are drawn


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    path = write_run(tmp_path_factory.mktemp("figures") / "run", prompts=5, seeds=1, steps=6)
    run = Run.open(path)
    measure(run)
    RUNS.append(run)
    return run


@pytest.fixture(scope="module")
def drawn(run):
    return draw(run.table("gap"), run.table("disparity"))


def draw(gap, disparity, contrasts=CONTRASTS, specifications=None):
    steps = {step: 1000.0 - 100 * step for step in range(6)}
    table = SPECIFICATIONS if specifications is None else specifications
    tables = (findings_of(gap), RUNS[-1].table("gap_prompts"), table)
    texts = {triplet: f"a person {triplet}" for triplet in range(5)}
    return draw_figures(
        gap, *tables, disparity, steps, headline_metrics(), contrasts, "neutral", PAIRS, prompts=texts
    )


def findings_of(gap):
    """The findings that a report words of these gaps."""
    run = RUNS[-1]
    found = (
        summaries(gap, run.table("specifications"), run.table("agreement"), run.config) if len(gap) else []
    )
    return findings_table(found)


def test_the_specification_curve_has_a_row_for_every_choice_in_order_of_its_gap(run):
    gaps = {"as run": 0.2, "without “lady”": 0.1, "without “person”": 0.3}
    rows = [
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
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    drawn = draw(run.table("gap"), run.table("disparity"), specifications=table)
    figure = drawn["specifications-masculine-feminine"]
    axes = figure.figure.axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == sorted(gaps, key=gaps.get)
    low, high = axes.get_xlim()
    assert low <= 0.0 and high >= 0.35  # 0 and every interval are in the picture
    assert "share nearly all their data" in figure.caption
    one = draw(run.table("gap"), run.table("disparity"), specifications=table.iloc[:1])
    assert "specifications-masculine-feminine" not in one
    many = pd.concat(
        [table] + [table.iloc[1:].assign(gap=0.185 + 0.001 * k) for k in range(30)], ignore_index=True
    )
    cut = draw(run.table("gap"), run.table("disparity"), specifications=many)
    labels = [t.get_text() for t in cut["specifications-masculine-feminine"].figure.axes[0].get_yticklabels()]
    assert len(labels) == 41 and "as run" in labels


def test_every_figure_is_drawn(drawn):
    expected = [
        "headline",
        "prompts-masculine-feminine",
        "atlas-masculine-feminine",
        "gap-text-layers",
        "gap-steps",
        "similarity-steps",
    ]
    assert list(drawn) == [*expected, "gap-decoder"]


def test_the_rows_of_eight_measures_leave_their_names_and_numbers_room():
    rows = pd.DataFrame(
        [
            {"measure": one.key, "primary": one.key == "z0", "contrast": "masculine-feminine"}
            for one in headline_metrics()
        ]
    )
    rows = rows.assign(gap=-0.00125, ci_low=-0.0052, ci_high=-0.0001, delta=0.02, distance=0.1, share=-0.0125)
    rows = rows.assign(p_control=np.nan, word_gap=np.nan, word_low=np.nan, word_high=np.nan)
    rows = rows.assign(word_share=np.nan, word_share_low=np.nan, word_share_high=np.nan, n_prompts=24)
    figure = draw_headline(rows, headline_metrics(), CONTRASTS, "neutral").figure
    figure.canvas.draw()
    (axes,) = figure.axes
    assert len(axes.get_yticklabels()) == 8
    low, high = axes.get_xlim()
    numbers = [tick for tick in axes.get_xticklabels() if low <= tick.get_position()[0] <= high]
    for texts in (axes.get_yticklabels(), numbers):
        boxes = [text.get_window_extent() for text in texts]
        assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in boxes)
        assert not any(one.overlaps(two) for one, two in combinations(boxes, 2))


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


@pytest.mark.parametrize(("count", "named"), [(1, [0]), (5, [0, 1, 2, 3, 4]), (14, [0, 2, 4, 6, 8, 10, 13])])
def test_as_many_layers_are_named_as_have_room(count, named):
    axes = new_figure(SINGLE, 2).subplots()
    _name_ticks(axes, [str(number) for number in range(count)], most=7)
    assert [int(tick.get_text()) for tick in axes.get_xticklabels()] == named


def test_every_chosen_site_is_drawn_and_those_left_out_are_named():
    sites = [f"unet.down.{n}" for n in range(37)]
    rows = pd.DataFrame([(site, step) for site in sites for step in (0, 1)], columns=["site", "step"])
    rows = pd.concat([rows, pd.DataFrame({"site": ["vae.decoder.mid"], "step": [-1]})])
    rows = rows.assign(metric="cosine", contrast="masculine-feminine", gap=0.1, ci_low=0.0, ci_high=0.2)
    drawn = draw_sites(rows, {0: 999.0, 1: 500.0}, CONTRASTS[0], "neutral")
    named = [line.get_label() for axes in drawn.figure.axes for line in axes.lines]
    assert [name for name in named if not name.startswith("_")] == sites
    assert "Left out, without cosine along the steps: vae.decoder.mid." in drawn.caption
    assert drawn.figure.axes[0].get_title(loc="left") == "cosine; left out: 1 site"


def test_figures_fit_a_column_and_their_text_is_readable(drawn):
    for figure in drawn.values():
        width, height = figure.figure.get_size_inches()
        assert width in (SINGLE, DOUBLE, headline.WIDTH, prompts.WIDTH, specifications.WIDTH) and height <= 9
        texts = [t for t in figure.figure.findobj(lambda a: hasattr(a, "get_fontsize")) if t.get_text()]
        assert texts and min(t.get_fontsize() for t in texts) >= 7.5


def test_nothing_is_cut_off(drawn):
    for figure in drawn.values():
        box = figure.figure.get_tightbbox()
        width, height = figure.figure.get_size_inches()
        assert box.x0 >= -0.01 and box.y0 >= -0.01, figure.name
        assert box.x1 <= width + 0.01 and box.y1 <= height + 0.01, figure.name


def test_long_prompts_are_not_cut_off_at_any_resolution():
    """Prompts of narrow and of wide letters, measured as fine as they are drawn in a file."""
    names = dict(
        enumerate(
            [
                "a person standing on a skateboard",
                "iiii " * 9,
                "A PERSON STANDING ON A SKATEBOARD",
                "a person",
            ]
        )
    )
    gaps = pd.DataFrame({"triplet": range(4), "gap": [0.4, -0.2, 0.1, 0.3]})
    figure = prompts.draw_prompts(gaps, names, headline_metrics()[0], CONTRASTS[0], "neutral").figure
    for dpi in (72, 100, 300):
        figure.set_dpi(dpi)
        with style():
            figure.draw_without_rendering()
            edges = [text.get_window_extent().x0 for text in figure.axes[0].get_yticklabels()]
        assert min(edges) >= 0, dpi


def test_files_are_the_same_twice_and_carry_no_date(run, drawn):
    again = draw(run.table("gap"), run.table("disparity"))
    for name, figure in drawn.items():
        first, second = files(figure), files(again[name])
        assert first == second and set(first) == {f"{name}.pdf", f"{name}.png"}
        assert b"CreationDate" not in first[f"{name}.pdf"]
        assert b"/Type3" not in first[f"{name}.pdf"] and b"FontFile2" in first[f"{name}.pdf"]  # TrueType
        assert inline_svg(figure) == inline_svg(again[name])


@pytest.mark.parametrize("name", ["headline", "gap-decoder"])
def test_a_figure_sent_to_another_process_gives_the_same_bytes(drawn, name):
    sent = pickle.loads(pickle.dumps(drawn[name]))
    assert saved({name: sent}) == {name: Saved(files(drawn[name]), inline_svg(drawn[name]))}


def test_files_do_not_depend_on_the_process(run, tmp_path):
    code = (
        "import sys, hashlib, pandas as pd\n"
        "from analysis.report.figures import files\n"
        "from analysis.report.figures.headline import draw_headline\n"
        "from analysis.metrics.registry import headline_metrics\n"
        "gap = pd.read_parquet(sys.argv[1])\n"
        "drawn = draw_headline(gap, headline_metrics(), [('masculine', 'feminine')], 'neutral')\n"
        "print(*(hashlib.sha256(data).hexdigest() for data in files(drawn).values()))"
    )
    findings = with_ends(findings_of(run.table("gap")), run.table("gap"))
    here = draw_headline(findings, headline_metrics(), CONTRASTS, "neutral")
    expected = [hashlib.sha256(data).hexdigest() for data in files(here).values()]
    table = str(tmp_path / "findings.parquet")
    findings.to_parquet(table)
    root = Path(__file__).parents[4]
    other = subprocess.run(
        [sys.executable, "-c", code, table],
        env={**os.environ, "PYTHONHASHSEED": "77"},
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.split() == expected


def test_png_is_white_behind(drawn, tmp_path):
    path = tmp_path / "x.png"
    path.write_bytes(files(drawn["gap-decoder"])["gap-decoder.png"])
    corner = Image.open(path).convert("RGBA").getpixel((0, 0))
    assert corner == (255, 255, 255, 255)


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
    gap = run.table("gap").set_index(["site", "step", "metric"])
    for row, address in enumerate(cells["addresses"]):
        for column, step in enumerate(cells["steps"]):
            expected = gap.loc[(address, step, "cosine"), ["word_gap", "word_low", "word_high"]]
            found = [cells[name][row, column] for name in ("gap", "low", "high")]
            np.testing.assert_equal(found, expected.to_numpy(float))


def test_atlas_without_words_to_hold_a_gap_against_holds_that_of_the_indicators(run):
    gap = run.table("gap")
    gap[["word_low", "word_high", "p_control", "p_control_adjusted"]] = np.nan
    drawn = draw(gap, run.table("disparity"))["atlas-masculine-feminine"]
    rows = gap[(gap["metric"] == "cosine") & (gap["step"] >= 0)].set_index(["site", "step"])
    at = (drawn.cells["addresses"][0], drawn.cells["steps"][-1])
    found = [drawn.cells[name][0, -1] for name in ("gap", "low", "high")]
    np.testing.assert_equal(found, rows.loc[at, ["gap", "ci_low", "ci_high"]].to_numpy(float))
    assert "over all words" not in drawn.caption.partition("Rings")[0]


def test_the_atlas_says_how_many_cells_are_filled_and_a_gap_that_does_not_matter_stays_pale(run):
    gap = run.table("gap")
    shown = (gap["step"] >= 0) & (gap["metric"] == "cosine")
    gap.loc[shown, "word_gap"] = np.where(np.arange(shown.sum()) % 2, 1e-4, -1e-4)
    gap.loc[shown, "p_control_adjusted"] = 0.9
    gap.loc[gap.index[shown][:3], "p_control_adjusted"] = 0.01
    atlas = draw(gap, run.table("disparity"))["atlas-masculine-feminine"]
    here = shown & (gap["contrast"] == "masculine-feminine") & gap["word_gap"].notna()
    filled = int((gap.loc[here, "p_control_adjusted"] < 0.05).sum())
    assert f"{filled} of {int(here.sum()):,} cells are filled, each a claim about one site" in atlas.caption
    mesh = atlas.figure.axes[0].collections[0]
    assert mesh.norm.vmax == METRICS["cosine"].least_delta == -mesh.norm.vmin


def test_atlas_is_filled_by_the_test_against_words_and_not_by_the_control_gap(run):
    """Gaps far beyond the largest of two control gaps, none of them more than words differ: nothing is filled."""
    gap = run.table("gap")
    gap["control_gap"], gap["p_adjusted"], gap["p_control_adjusted"] = 0.0, 0.001, 0.5
    assert len(atlas_rows(gap, CONTRASTS[0])) == (gap["metric"].eq("cosine") & gap["step"].ge(0)).sum()
    assert not beyond_words(atlas_rows(gap, CONTRASTS[0])["p_control_adjusted"]).any()
    one = gap.index[(gap["site"] == "unet.mid") & (gap["step"] == 3)]
    gap.loc[one, "p_control_adjusted"], gap.loc[one, "control_gap"] = 0.04, 1.0
    assert beyond_words(atlas_rows(gap, CONTRASTS[0])["p_control_adjusted"]).sum() == 1
    figure = draw(gap, run.table("disparity"))["atlas-masculine-feminine"]
    dots = [c for c in figure.figure.axes[0].collections if isinstance(c, PathCollection)]
    filled = [tuple(xy) for c in dots if len(c.get_facecolors()) for xy in c.get_offsets()]
    cells = figure.cells
    assert filled == [(3.5, cells["addresses"].index("unet.mid") + 0.5)]
    assert "control gap" not in figure.caption and "more than synonyms differ" in figure.caption


def test_undefined_cells_stay_undefined(run):
    gap = run.table("gap")
    mid = (gap["site"] == "unet.mid") & (gap["step"] == 2)
    gap.loc[mid, ["gap", "word_gap", "ci_low", "ci_high", "p_value", "p_adjusted"]] = np.nan
    cells = draw(gap, run.table("disparity"))["atlas-masculine-feminine"].cells
    assert np.isnan(cells["gap"][cells["addresses"].index("unet.mid"), 2])


def test_what_was_not_captured_is_not_drawn(run):
    gap, disparity = run.table("gap"), run.table("disparity")
    image = computed_from("pictures")
    only = draw(gap[gap["metric"].isin(image)], disparity[disparity["metric"].isin(image)])
    assert list(only) == ["headline", "prompts-masculine-feminine"]
    assert list(draw(gap.iloc[:0], disparity, contrasts=[])) == ["similarity-steps"]


def test_caller_keeps_the_look_of_matplotlib(run):
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    draw_headline(
        with_ends(findings_of(run.table("gap")), run.table("gap")), headline_metrics(), CONTRASTS, "neutral"
    )
    assert dict(mpl.rcParams) == before


def test_sites_follow_the_data_through_the_network():
    order = [
        *("text.embeddings", "text.layers.0", "text.layers.2", "text.layers.10", "text.final", "latent"),
        *("unet.conv_in", "unet.down.0.resnet.0", "unet.down.0.attn.0.cross", "unet.down.0.attn.0"),
        *("unet.down.0.resnet.1", "unet.down.0.downsample", "unet.down.0", "unet.down.1.resnet.0"),
        *("unet.mid.resnet.0", "unet.mid.attn.0.cross", "unet.mid.attn.0", "unet.mid.resnet.1", "unet.mid"),
        *("unet.up.0.resnet.0", "unet.up.0.upsample", "unet.up.0", "noise_pred.guided", "x0_pred"),
        *(
            "latent.final",
            "vae.post_quant",
            "vae.decoder.mid",
            "vae.decoder.up.0",
            "vae.decoder.up.10",
            "image",
        ),
    ]
    shuffled = pd.Series(order).sample(frac=1, random_state=0)
    assert sorted(shuffled, key=place) == order
    assert len({readable(address) for address in order}) == len(order)
    assert place("something.else").group == "other"

"""A run in a notebook: its tables, pictures and the page that sums it up."""

import re

import numpy as np
import pytest

import analysis
from analysis.metrics.registry import headline_metrics
from analysis.tables.registry import TABLES
from analysis.tables.stage import measure
from probes.errors import UserError
from tests.analysis.synthetic_run import configure, write_run


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    loaded = analysis.load_run(write_run(tmp_path_factory.mktemp("runs") / "shown", prompts=4, steps=3))
    measure(loaded.run)
    return loaded


def test_the_tables_are_tidy(loaded):
    assert len(loaded.samples) == 4 * 2 * 5 and "image" not in loaded.samples
    pairs = loaded.pairs(site="unet.mid")
    assert {"space", "site", "step", "metric", "triplet", "seed", "pair", "value"} <= set(pairs)
    assert {"mean", "ci_low", "ci_high", "n"} <= set(loaded.disparity())
    assert {"gap", "p_adjusted", "control_gap"} <= set(loaded.gap())
    assert {"word", "heat", "peak"} <= set(loaded.words)
    loaded.gap()["gap"] = 0.0
    assert loaded.gap()["gap"].any(), "a copy, each time"


def test_headline_is_the_table_of_the_paper(loaded):
    table = loaded.headline()
    assert table.columns.tolist() == [
        metric.symbol for metric in headline_metrics() if metric.needs != "features"
    ]
    assert table.columns.tolist()[:4] == ["t", "z₀", "SSIM", "Diff. Pix."]
    assert table.index.tolist() == [f"neutral-{x}" for x in ("feminine", "masculine", "individual", "human")]
    rows = loaded.disparity()
    row = rows[(rows["metric"] == "ssim") & (rows["pair"] == "neutral-masculine")].iloc[0]
    assert table.loc["neutral-masculine", "SSIM"] == row["mean"]
    assert table.notna().all(axis=None)


def test_a_triplet_by_indicator(loaded):
    pictures = loaded.triplet(2, seed=1)
    assert list(pictures) == ["neutral", "feminine", "masculine", "individual", "human"]
    expected = np.asarray(loaded.image("t00002-s1-masculine"))
    np.testing.assert_array_equal(np.asarray(pictures["masculine"]), expected)
    with pytest.raises(UserError, match="got triplet 9"):
        loaded.triplet(9)


def test_the_page_shows_pictures_and_numbers(loaded):
    page = loaded._repr_html_()
    assert page.count("<img src='data:image/png;base64,") == 3 * 5
    assert "gap</b> towards masculine" in page and "the same over all words" in page and "95 %" in page
    assert f"{loaded.headline().loc['neutral-feminine', 'SSIM']:.3f}" in page
    assert not re.search(r"https?://|<script", page)
    assert "planned" not in repr(loaded) and str(loaded.path) in repr(loaded)


def test_text_is_escaped(tmp_path):
    indicators = {"neutral": {"word": "<b>&'x", "control": False}, "other": {"word": "man", "control": False}}
    run = analysis.load_run(
        write_run(tmp_path / "run", prompts=1, steps=2, indicators=indicators, contrasts=())
    )
    page = run._repr_html_()
    assert "<b>&'x" not in page and "&lt;b&gt;&amp;&#39;x" in page


def test_a_run_that_is_not_measured_says_so(tmp_path):
    run = analysis.load_run(write_run(tmp_path / "run", prompts=2, steps=2))
    page = run._repr_html_()
    assert "<img" in page and "--stage measure" in page
    with pytest.raises(UserError, match="--stage measure"):
        run.gap()


def test_no_run_is_named(tmp_path):
    with pytest.raises(UserError, match=r"no run\.json"):
        analysis.load_run(tmp_path)


def test_only_what_is_there_is_listed(loaded, tmp_path):
    of_samples = (n for n, table in TABLES.items() if (table.needs, table.stage) == ("samples", "measure"))
    tables = ", ".join(sorted(of_samples))
    assert tables.startswith("agreement, disparity, gap, gap_prompts, image_similarities, ")
    assert f"samples, captures, words, {tables})" in repr(loaded)
    bare = analysis.load_run(write_run(tmp_path / "run", prompts=1, steps=2))
    assert repr(bare).endswith("samples, captures, words)")


def test_the_tables_that_are_there_are_listed(loaded):
    listed = loaded.tables().set_index("table")["row"]
    assert list(listed.index) == loaded.run.tables()
    assert listed["timesteps"] == "a denoising step and its timestep"


def test_tables_of_objects_that_were_not_looked_for(loaded):
    """Measuring again would not make them."""
    with pytest.raises(UserError, match=r"found 7 others .*: no object was looked for: run --stage observe"):
        _ = loaded.objects
    configure(loaded.run, observe={"objects": False})
    with pytest.raises(
        UserError, match=r"objects were switched off: set observe.objects to true, run --stage ob"
    ):
        loaded.table("object_tests")
    with pytest.raises(UserError, match=r"such as gap"):
        loaded.table("gaps")

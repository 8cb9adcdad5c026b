"""A run in a notebook: its tables, pictures and the page that sums it up."""

import re

import numpy as np
import pytest

import analysis
from analysis.report import page
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
    assert {"gap", "p_sites", "word_gap", "p_control"} <= set(loaded.gap())
    changed = loaded.gap()
    changed.loc[:, "gap"] = 0.0
    assert loaded.gap()["gap"].any(), "a copy, each time"


def test_the_page_shows_pictures_and_findings(loaded):
    page = loaded._repr_html_()
    assert page.count("<img src='data:image/png;base64,") == 3 * 5
    for key in ("t", "z0", "ssim", "diff_pix"):
        assert loaded.finding(key)._repr_html_() in page
    assert not re.search(r"https?://|<script", page)
    assert "planned" not in repr(loaded) and str(loaded.path) in repr(loaded)


def test_gaps_are_chosen_by_site_step_metric_and_contrast(loaded):
    everything = loaded.gap()
    cross = loaded.gap(["unet.mid*", "text.final"])
    assert set(cross["site"]) == {
        site for site in everything["site"] if site.startswith("unet.mid") or site == "text.final"
    }
    assert set(loaded.gap("unet.mid", step=1)["step"]) == {1}
    assert set(loaded.gap(metric="cosine_eos")["metric"]) == {"cosine_eos"}
    (row,) = loaded.gap("z0").to_dict("records")
    assert (row["site"], row["metric"], row["step"]) == ("latent.final", "cosine", -1)
    assert row["gap"] == loaded.z0.gap


def test_a_finding_says_what_the_report_says(loaded):
    from analysis.report.findings import summaries
    from analysis.tables.similarities.word_gap import joined_gaps

    (summary,) = summaries(joined_gaps(loaded.table), loaded.run.config)
    claims = {one.metric.key: one.claim for one in summary.findings}
    for key in ("t", "z0", "ssim", "diff_pix"):
        found = loaded.finding(key)
        assert found.claim == claims[key] and found.claim in repr(found) and "<p>" in found._repr_html_()
    assert "points" in repr(loaded.finding("diff_pix")) and "over all words" not in repr(
        loaded.finding("ssim")
    )


@pytest.mark.slow
def test_figures_are_those_of_the_report_before_there_is_one(loaded):
    assert "findings" not in loaded.run.tables()
    drawn = page.draw(page.read(loaded.run))
    assert loaded.plots()["plot"].to_list() == list(drawn)
    assert loaded.plot("gap-layers")._repr_png_() == drawn["gap-layers"]._repr_png_()
    with pytest.raises(UserError, match="expected a plot, got 'gap-layer': did you mean gap-layers"):
        loaded.plot("gap-layer")
    with pytest.raises(UserError, match="no object was looked for"):
        loaded.objects()


def test_a_gallery_is_chosen_and_sorted(loaded):
    gaps = loaded.table("gap_prompts").query("measure == 'z0'")
    largest = gaps.loc[gaps["gap"].abs().idxmax(), "triplet"]
    gallery = loaded.gallery(sort="gap")
    assert gallery.of == 4 * 2 and len(gallery) == 8 and gallery.triplets[0].number == largest
    word = loaded.samples["words"].iloc[0][-1]
    with_map, without = (loaded.gallery(1, word=one)._repr_html_() for one in (word, None))
    assert with_map != without and word in with_map


def test_a_map_of_a_phrase_is_the_mean_over_its_tokens(loaded):
    row = loaded.samples.iloc[0]
    stored = loaded.run.read("words").query("sample_id == @row.sample_id").set_index("word_index")
    words, positions = list(row["words"]), [len(one) for one in row["word_positions"]]
    first = words.index(row["word"])
    parts = [np.array(stored.loc[place, "heat"], float) for place in (first, first + 1)]
    expected = np.average(parts, axis=0, weights=positions[first : first + 2])
    found = loaded.word_map(row["sample_id"], f"{words[first]} {words[first + 1].upper()}")
    np.testing.assert_allclose(found.values.ravel(), expected, rtol=1e-6)
    assert found.overlay().size == loaded.image(row["sample_id"]).size


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


def test_the_tables_that_are_there_are_listed(loaded):
    listed = loaded.tables().set_index("table")["row"]
    assert list(listed.index) == loaded.run.tables()
    assert listed["timesteps"] == "a denoising step and its timestep"


def test_tables_of_objects_that_were_not_looked_for(loaded):
    """Measuring again would not make them."""
    with pytest.raises(UserError, match=r"found 8 others .*: no object was looked for: run --stage observe"):
        loaded.table("objects")
    configure(loaded.run, observe={"objects": False})
    with pytest.raises(
        UserError, match=r"objects were switched off: set observe.objects to true, run --stage ob"
    ):
        loaded.table("object_tests")
    with pytest.raises(UserError, match=r"such as gap"):
        loaded.table("gaps")

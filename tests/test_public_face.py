"""A newcomer's tasks by the names of ``import triptych`` alone; each result is a text, a table and a figure."""

import base64
import html
import importlib
import io
import shutil
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import analysis.report.page
import triptych
from analysis.report.figures.dots import draw_dots
from hooks.architectures.addresses import place
from tests.runs import python

SECONDS = 0.3  # of a processor, for the import alone
WORDS = {"neutral": "figure", "feminine": "lady", "masculine": "gentleman"}
OBSERVED = {"engine": "toyworld-checker", "features": []}


class Tasks:
    """What each task shows; the reports of its runs have no figures."""

    def __init__(self, folder):
        self.config = triptych.Config(
            prompts=["a {person} with a dog in the park", "a {person} holding an umbrella on the beach"],
            sampler={"steps": 4},
            observe=OBSERVED,
        )
        self.run = triptych.run(self.config, out=folder / "first", progress=False)
        self.plan = triptych.plan(self.config, indicators=WORDS)
        self.pipe = triptych.load_pipeline("toyworld")
        self.pipe.save_pretrained(folder / "model")
        self.mine = triptych.run(
            self.config,
            model=folder / "model",
            indicators=WORDS,
            stage="generate",
            out=folder / "mine",
            progress=False,
        )
        with triptych.Probe(self.pipe, sites="unet.*.cross", pairs=[(0, 1)], word_maps=True) as self.probe:
            prompts = ["a person with a dog", "a woman with a dog"]
            self.images = self.pipe(prompts, num_inference_steps=4).images
        rows = ["file,prompt,indicator,seed"]
        for sample in self.run.samples.itertuples():
            self.run.image(sample.sample_id).save(folder / f"{sample.sample_id}.png")
            rows.append(f"{sample.sample_id}.png,{sample.prompt},{sample.indicator},{sample.triplet}")
        (folder / "images.csv").write_text("\n".join(rows))
        images = {"images": {"from": folder / "images.csv"}, "observe": OBSERVED}
        self.foreign = triptych.run(images, out=folder / "foreign", progress=False)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(analysis.report.page, "draw", lambda content: {})
        return Tasks(tmp_path_factory.mktemp("tasks"))


@pytest.fixture(scope="module")
def run(tasks):
    return tasks.run


# What comes of them


def test_a_run_has_its_images_tables_and_report(run):
    assert isinstance(run, triptych.LoadedRun)
    assert run.run.status == "complete" and (run.path / "report.html").is_file()
    assert len(run.samples) == 2 * 3 and run.run.config.sampler.steps == 4
    kept = (run.path / "triplets.yaml").read_text()
    assert "a {person} with a dog in the park" in kept and "steps: 4" in kept
    assert list(run.run.meta["config"]["passed"]["changes"]) == ["out"]


def test_the_heat_map_holds_the_gaps(run):
    atlas = run.plot_atlas()
    assert atlas._repr_png_().startswith(b"\x89PNG")
    cells = dict(zip(atlas.cells["addresses"], atlas.cells["gap"], strict=True))
    for row in run.gap("unet.mid*").itertuples():
        if row.step >= 0:
            assert cells[row.site][row.step] == row.gap


def test_the_gallery_shows_each_image_with_its_prompt(run):
    page = run.gallery(2)._repr_html_()
    assert page.count("<img") == 6 and page.count("data:image/png;base64,") == 6
    assert all(f"<small>{prompt}</small>" in page for prompt in run.samples["prompt"])
    assert "gap in z₀" in page


def test_the_word_map_is_that_of_a_probe_on_the_same_noise(tasks, run):
    row = run.samples[run.samples["triplet"] == 1].set_index("indicator").loc["neutral"]
    pipe = tasks.pipe
    noise = torch.Generator().manual_seed(int(row["noise_seed"]))
    guidance = run.run.config.sampler.guidance_scale
    with triptych.Probe(pipe, word_maps=True) as probe:
        image = pipe(row["prompt"], generator=noise, num_inference_steps=4, guidance_scale=guidance).images[0]
    for word in ("umbrella", "an umbrella", "Umbrella on the beach"):
        expected = probe.word_map(word)
        found = run.word_map(row["sample_id"], word)
        assert found.positions == expected.positions
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-3, atol=1e-3)
    shown = np.asarray(run.word_map(1, "umbrella").overlay(), float)
    drawn = np.asarray(probe.word_map("umbrella").overlay(image), float)
    assert np.abs(shown - drawn).mean() < 2


def test_own_words_are_planned(tasks):
    plan = tasks.plan
    assert plan.images == 6 and set(plan.table["word"]) == {"figure", "lady", "gentleman"}
    assert "a lady holding an umbrella on the beach" in set(plan.table["prompt"])
    assert "lady" in repr(plan) and "gentleman" in repr(plan) and "6 images" in repr(plan)
    assert "<pre" in plan._repr_html_()


def test_a_model_of_ones_own_is_a_folder(tasks, run):
    mine = tasks.mine
    assert mine.run.meta["model"]["kind"] == "folder" and set(mine.samples["word"]) >= {"lady"}
    assert mine.run.meta["model"]["weight_hash"] == run.run.meta["model"]["weight_hash"]
    gallery = mine.gallery(1, word="umbrella")
    assert len(gallery) == 1 and "umbrella" in gallery._repr_html_()


def test_a_probe_reads_a_pipeline(tasks):
    probe, image = tasks.probe, tasks.images[0]
    assert len(probe.similarity) == 7 and probe.similarity["unet.mid.attn.0.cross:cosine"].values.shape == (
        4,
        1,
    )
    assert "similarity at 7 sites of 1 pair" in repr(probe) and "<table>" in probe._repr_html_()
    assert probe.word_map("dog").overlay(image).size == image.size


def test_images_of_another_program_have_the_same_gap(tasks, run):
    (row,) = tasks.foreign.gap("ssim").to_dict("records")
    assert row["gap"] == pytest.approx(float(run.gap("ssim")["gap"].iloc[0]), abs=1e-9)
    assert not tasks.foreign.run.parts("captures")


# What is no name of a run


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda run: run.gap("unet.midd"), "expected a site, got 'unet.midd': did you mean unet.mid?"),
        (lambda run: run.gap(step=9), "expected a step from -1 to 3, got 9"),
        (lambda run: run.gap(contrast="man-woman"), "masculine-feminine"),
        (lambda run: run.finding("z1"), "expected a measure, got 'z1': did you mean z0?"),
        (lambda run: run.image(0, "femine"), "expected an indicator, got 'femine': did you mean feminine?"),
        (lambda run: run.image(7), "expected a triplet and a seed of this run, got triplet 7, seed any"),
        (lambda run: run.word_map(1, "umbrela"), "expected a word, got 'umbrela': did you mean umbrella?"),
        (lambda run: run.word_map(1, "umbrella", occurrence=1), "expected a number below the 1"),
        (lambda run: run.export("coca"), "expected a format, got 'coca': did you mean coco?"),
    ],
)
def test_what_is_not_there_is_named_with_the_nearest(run, ask, expected):
    with pytest.raises(triptych.UserError) as raised:
        ask(run)
    assert expected in str(raised.value) and "\n" not in str(raised.value)


# Objects, figures and sites


def test_objects_are_told_as_on_the_report(run):
    found = run.objects()
    assert found.contrast == ("masculine", "feminine") and found.claim in repr(found)
    page = (run.path / "report.html").read_text("utf-8")
    for sentence in (found.claim, found.whole, found.paper):
        assert sentence and html.escape(sentence, quote=False) in page.replace("&#39;", "'"), sentence
    claims = run.table("object_claims").query("first == 'feminine' and second == 'masculine'")
    assert found.table["object"].to_list() == claims["object"].to_list()


def test_objects_are_outlined_in_a_gallery(run):
    gallery = run.gallery(2, objects=True)
    page = gallery._repr_html_()
    assert page.count("data:image/svg+xml;base64,") == 6 and "implicitly guided" in page
    rows = run.table("objects")
    there = rows[(rows["object"] >= 0) & ~rows["human"]]
    for triplet in gallery.triplets:
        for cell in triplet.cells:
            drawn = ElementTree.fromstring(base64.b64decode(cell.source.partition(",")[2]))
            names = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
            assert sorted(names) == sorted(there.loc[there["sample_id"] == cell.sample_id, "lemma"])
            (image,) = drawn.iter("{http://www.w3.org/2000/svg}image")
            pixels = Image.open(io.BytesIO(base64.b64decode(image.get("href").partition(",")[2])))
            np.testing.assert_array_equal(np.asarray(pixels), np.asarray(run.image(cell.sample_id)))
    plain = run.gallery(2)._repr_html_()
    assert "svg" not in plain and "implicitly guided" not in plain


def test_sites_are_those_that_a_probe_reads(tasks):
    pipe = tasks.pipe
    table = triptych.sites(pipe).set_index("site")
    with triptych.Probe(pipe, sites="*", pairs=[(0, 1)], keep=["unet.mid", "text.final"]) as probe:
        pipe(["a person", "a woman"], num_inference_steps=2)
    assert set(table.index[table["default"]]) == {key.partition(":")[0] for key in probe.similarity}
    for site, kept in probe.kept.items():
        assert tuple(kept.values.shape[2:]) == table.loc[site, "shape"]
        assert len(kept.values) == (2 if table.loc[site, "per_step"] else 1)
    assert not table.loc["image", "patchable"] and table.loc["unet.mid", "patchable"]
    with pytest.raises(triptych.UserError):
        triptych.sites(object())


# What is shown


def test_every_public_object_says_what_it_is(tasks, run):
    pipe = tasks.pipe
    patch = triptych.Patch("unet.mid", source=1, into=0, steps=range(2))
    shown = {
        "config": tasks.config,
        "run": run,
        "plan": tasks.plan,
        "probe before": triptych.Probe(pipe),
        "probe": tasks.probe,
        "intervention": triptych.Intervention(pipe, [patch]),
        "patch": patch,
        "finding": run.z0,
        "gallery": run.gallery(2),
        "objects": run.objects(),
        "word map": run.word_map(1, "umbrella"),
        "figure": run.plot_atlas(),
        "similarity": tasks.probe.similarity,
        "maps": tasks.probe.maps,
    }
    for name, one in shown.items():
        assert "object at 0x" not in repr(one) and len(repr(one)) < 3000, (name, repr(one))
    assert repr(patch) == "Patch('unet.mid', source=(1,), into=(0,), steps=[0, 1])"
    assert repr(tasks.config).startswith("Config(") and "toyworld-checker" in repr(tasks.config)
    for name in ("config", "run", "plan", "probe", "finding", "objects", "gallery"):
        assert shown[name]._repr_html_().startswith("<"), name


def test_figures_are_saved(run, tmp_path):
    assert run.plot("headline").save(tmp_path / "new" / "headline.pdf").read_bytes().startswith(b"%PDF")
    assert Image.open(run.plot("gap-layers").save(tmp_path / "layers.png")).width > 1500
    assert "<img" in run.gallery(1).save(tmp_path / "gallery.html").read_text("utf-8")


# What the commands do

CLUSTERED = {"sd_word": 0.2, "sd_reference": 0.1, "simulations": 20}


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(lambda run, out: triptych.plan(run.run.config), id="plan"),
        pytest.param(lambda run, out: triptych.models(), id="models"),
        pytest.param(lambda run, out: triptych.power(gap=[0.5, 1], seeds=[1, 2], **CLUSTERED), id="power"),
        pytest.param(lambda run, out: triptych.labels(run, out=out, images=3), id="labels"),
        pytest.param(lambda run, out: run.objects(), id="objects"),
        pytest.param(lambda run, out: triptych.compare(run, run_like(run, out)), id="compare"),
    ],
)
def test_a_result_is_a_text_a_table_and_a_figure(run, tmp_path, result):
    found = result(run, tmp_path / "out")
    assert len(found.table) and len(found.table.columns) > 2
    assert found._repr_html_().startswith("<") and "object at 0x" not in repr(found)
    if type(found) is triptych.Result:
        assert html.escape(found.text, quote=True) in found._repr_html_()
        assert found.plot()._repr_png_().startswith(b"\x89PNG")


def run_like(run, out):
    """The same run under another name."""
    shutil.copytree(run.path, out)
    return out


def test_a_trace_is_measured(run, tmp_path):
    copy = run_like(run, tmp_path / "copy")
    found = triptych.trace(
        copy, trace={"prompts": 2, "sites": ["unet.mid.attn.0.cross"], "cuts": False}, progress=False
    )
    assert "unet.mid.attn.0.cross" in set(found.table["site"])
    assert "masculine and feminine prompts take effect" in found.text
    assert found.plot().name == "trace-shares"


def test_labels_are_read_into_the_run(run, tmp_path):
    copy = run_like(run, tmp_path / "copy")
    sheet = triptych.labels(copy, out=tmp_path / "sheet", images=3, seed=1)
    assert (tmp_path / "sheet" / "sheet.html").is_file() and len(sheet.table)
    rows = [f"{row.sample_id},objects,{row.question},yes,ann" for row in sheet.table.itertuples()]
    (tmp_path / "labels.csv").write_text("\n".join(["image,about,question,label,annotator", *rows]))
    found = triptych.labels(copy, tmp_path / "labels.csv")
    assert len(found.table) == len(sheet.table) and set(found.table["annotator"]) == {"ann"}
    assert found.plot()._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda: triptych.power(gapp=0.5), "--gapp"),
        (lambda: triptych.power(alpha=2), "--alpha: expected a number between 0 and 1, got '2'"),
        (lambda: triptych.labels("nowhere"), "nowhere"),
        (lambda: triptych.verify("toyworld", dtype="int8"), "--dtype"),
    ],
)
def test_an_option_that_is_wrong_is_one_line(ask, expected):
    with pytest.raises(triptych.UserError) as raised:
        ask()
    assert expected in str(raised.value) and "\n" not in str(raised.value)


def test_a_figure_of_sites_has_all_of_them_or_counts_the_others(run):
    table = run.gap("unet.*", step=2, metric="cosine")
    drawn = run.plot_gap("unet.*", step=2)
    (axes,) = drawn.figure.axes
    values = {float(x) for line in axes.lines for x in line.get_xdata() if line.get_marker() == "o"}
    assert values == set(table["gap"]) and "of" not in drawn.title.split("(")[-1]
    assert [one.get_text() for one in axes.get_yticklabels()] == sorted(table["site"], key=place)
    (axes,) = run.plot_gap().figure.axes
    drawn = {one.get_text() for one in axes.get_yticklabels()}
    assert drawn == {site for site in run.gap()["site"] if not site.startswith("objects")}
    fewer = pd.DataFrame({"label": ["a", "b", "c"], "value": [-3.0, 1.0, 2.0]})
    drawn = draw_dots("fewer", "Fewer", "Three.", fewer, "value", most=2, noun="site")
    assert [one.get_text() for one in drawn.figure.axes[0].get_yticklabels()] == ["a", "c"]
    assert "(2 of 3 sites)" in drawn.title
    assert drawn.caption == "Three. Left out: 1 site with smaller absolute values."


def test_disparity_is_drawn_for_each_pair(run):
    table = run.disparity("z0")
    assert set(table["pair"]) >= {"neutral-feminine", "neutral-masculine"}
    drawn = run.plot_disparity("latent.final")
    values = {float(x) for line in drawn.figure.axes[0].lines for x in line.get_xdata()}
    named = table[table["pair"].str.fullmatch("(neutral|feminine|masculine)-(neutral|feminine|masculine)")]
    assert values == set(named["mean"])


def test_the_papers_names_are_tables(run):
    scores = run.bias_scores("all")
    assert set(scores["group"]) == {"all"} and {"bias_score", "low", "high"} <= set(scores)
    assert {"statistic", "p_value", "cramers_v", "warnings"} <= set(run.chi_square())
    with pytest.raises(triptych.UserError, match=r"expected a group, got 'al'.*did you mean all"):
        run.bias_scores("al")


# The module


def test_the_import_is_quick_and_loads_nothing_large():
    """And a function stays one where a module of its name was imported by the command line."""
    code = """
import sys, time
began = time.process_time()
import triptych
print(time.process_time() - began)
print({"torch", "pandas", "numpy", "pydantic", "matplotlib", "PIL"} & set(sys.modules))
import triptych.cli.main, triptych.stages, triptych.run_plan
print(callable(triptych.run), callable(triptych.plan), callable(triptych.compare))
"""
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    seconds, loaded, functions = done.stdout.splitlines()
    assert float(seconds) <= SECONDS and loaded == "set()" and functions == "True True True"


def test_completion_shows_what_is_public_and_no_more():
    for name in ("triptych", "hooks", "analysis"):
        module = importlib.import_module(name)
        assert dir(module) == sorted(module.__all__)
        assert all(getattr(module, one) is not None for one in module.__all__)
    with pytest.raises(AttributeError, match="no attribute 'lod_run': did you mean load_run"):
        _ = triptych.lod_run

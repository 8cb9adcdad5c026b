"""A newcomer's tasks by the names of ``import triptych`` alone: those of notebook 00, each in three calls at most."""

import base64
import html
import importlib
import io
from xml.etree import ElementTree

import nbformat
import numpy as np
import pytest
import torch
from PIL import Image

import analysis.report.page
import triptych
from tests.notebooks import FOLDER, run_cells
from tests.runs import python

TASKS = (
    "run",
    "gap table",
    "gallery",
    "word map overlay",
    "own words",
    "own model folder",
    "probe",
    "images of another program",
    "export",
    "heat map",
)
SECONDS = 0.3  # of a processor, for the import alone
NOTEBOOK = nbformat.read(FOLDER / "00_ten_tasks.ipynb", as_version=4)
CODE = [cell for cell in NOTEBOOK.cells if cell.cell_type == "code"]


def is_task(cell):
    return "task" in cell.metadata.get("tags", ())


class Tasks:
    """The names that the notebook has defined at its end, and what each task shows; its reports have no figures."""

    def __init__(self):
        self.names = {}
        values = zip(CODE, run_cells(NOTEBOOK, self.names), strict=True)
        self.shown = dict(zip(TASKS, (value for cell, value in values if is_task(cell)), strict=True))

    def __getitem__(self, task):
        return self.shown[task]


@pytest.fixture(scope="module")
def tasks():
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(analysis.report.page, "draw", lambda content: {})
        return Tasks()


@pytest.fixture(scope="module")
def run(tasks):
    return tasks.names["run"]


# What comes of them


def test_a_run_has_its_images_tables_and_report(tasks, run):
    assert tasks["run"] is run and isinstance(run, triptych.LoadedRun)
    assert run.run.status == "complete" and (run.path / "report.html").is_file()
    assert len(run.samples) == 2 * 3 and run.run.config.sampler.steps == 4
    kept = (run.path / "triplets.yaml").read_text()
    assert "a {person} with a dog in the park" in kept and "steps: 4" in kept
    assert list(run.run.meta["config"]["passed"]["changes"]) == ["out"]


def test_the_heat_map_holds_the_gaps(tasks, run):
    atlas = tasks["heat map"]
    assert atlas._repr_png_().startswith(b"\x89PNG")
    cells = dict(zip(atlas.cells["addresses"], atlas.cells["gap"], strict=True))
    for row in run.gap("unet.mid*").itertuples():
        if row.step >= 0:
            assert cells[row.site][row.step] == row.gap


def test_the_gallery_shows_each_image_with_its_prompt(tasks, run):
    page = tasks["gallery"]._repr_html_()
    assert page.count("<img") == 6 and page.count("data:image/png;base64,") == 6
    assert all(f"<small>{prompt}</small>" in page for prompt in run.samples["prompt"])
    assert "gap in z₀" in page


def test_the_word_map_is_that_of_a_probe_on_the_same_noise(tasks, run):
    row = run.samples[run.samples["triplet"] == 1].set_index("indicator").loc["neutral"]
    pipe = tasks.names["pipe"]
    noise = torch.Generator().manual_seed(int(row["noise_seed"]))
    guidance = run.run.config.sampler.guidance_scale
    with triptych.Probe(pipe, word_maps=True) as probe:
        image = pipe(row["prompt"], generator=noise, num_inference_steps=4, guidance_scale=guidance).images[0]
    for word in ("umbrella", "an umbrella", "Umbrella on the beach"):
        expected = probe.word_map(word)
        found = run.word_map(row["sample_id"], word)
        assert found.positions == expected.positions
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-3, atol=1e-3)
    shown = np.asarray(tasks["word map overlay"].resize(image.size), float)
    drawn = np.asarray(probe.word_map("umbrella").overlay(image), float)
    assert tasks["word map overlay"].size == (256, 256) and np.abs(shown - drawn).mean() < 2


def test_own_words_are_planned(tasks):
    plan = tasks["own words"]
    assert plan.images == 6 and set(plan.samples["word"]) == {"figure", "lady", "gentleman"}
    assert "a lady holding an umbrella on the beach" in set(plan.samples["prompt"])
    assert "lady" in repr(plan) and "gentleman" in repr(plan) and "6 images" in repr(plan)
    assert "<pre>" in plan._repr_html_()


def test_a_model_of_ones_own_is_a_folder(tasks, run):
    mine = tasks.names["mine"]
    assert mine.run.meta["model"]["kind"] == "folder" and set(mine.samples["word"]) >= {"lady"}
    assert mine.run.meta["model"]["weight_hash"] == run.run.meta["model"]["weight_hash"]
    assert len(tasks["own model folder"]) == 1 and "umbrella" in tasks["own model folder"]._repr_html_()


def test_a_probe_reads_a_pipeline(tasks):
    probe, image = tasks["probe"], tasks.names["images"][0]
    assert len(probe.similarity) == 7 and probe.similarity["unet.mid.attn.0.cross:cosine"].values.shape == (
        4,
        1,
    )
    assert "similarity at 7 sites of 1 pair" in repr(probe) and "<table>" in probe._repr_html_()
    assert probe.word_map("dog").overlay(image).size == image.size


def test_images_of_another_program_have_the_same_gap(tasks, run):
    (row,) = tasks["images of another program"].to_dict("records")
    assert row["gap"] == pytest.approx(float(run.gap("ssim")["gap"].iloc[0]), abs=1e-9)
    assert not tasks.names["foreign"].run.parts("captures")


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
    found = run.object_finding()
    assert found.contrast == ("masculine", "feminine") and found.claim in repr(found)
    page = (run.path / "report.html").read_text("utf-8")
    for sentence in (found.claim, found.whole, found.paper):
        assert sentence and html.escape(sentence, quote=False) in page.replace("&#39;", "'"), sentence
    claims = run.table("object_claims")
    named = claims.loc[claims["claim"] != "open", "object"]
    assert set(found.objects["object"]) <= set(named)


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
    pipe = tasks.names["pipe"]
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
    pipe = tasks.names["pipe"]
    patch = triptych.Patch("unet.mid", source=1, into=0, steps=range(2))
    shown = {
        "config": tasks.names["config"],
        "run": run,
        "plan": tasks["own words"],
        "probe before": triptych.Probe(pipe),
        "probe": tasks["probe"],
        "intervention": triptych.Intervention(pipe, [patch]),
        "patch": patch,
        "finding": run.z0,
        "gallery": tasks["gallery"],
        "objects": run.object_finding(),
        "word map": run.word_map(1, "umbrella"),
        "figure": tasks["heat map"],
        "similarity": tasks["probe"].similarity,
        "maps": tasks["probe"].maps,
    }
    for name, one in shown.items():
        assert "object at 0x" not in repr(one) and len(repr(one)) < 3000, (name, repr(one))
    assert repr(patch) == "Patch('unet.mid', source=(1,), into=(0,), steps=[0, 1])"
    assert repr(tasks.names["config"]).startswith("Config(") and "toyworld-checker" in repr(
        tasks.names["config"]
    )
    for name in ("config", "run", "plan", "probe", "finding", "objects", "gallery"):
        assert shown[name]._repr_html_().startswith("<"), name


def test_figures_are_saved(run, tmp_path):
    assert run.plot("headline").save(tmp_path / "new" / "headline.pdf").read_bytes().startswith(b"%PDF")
    assert Image.open(run.plot("gap-layers").save(tmp_path / "layers.png")).width > 1500
    assert "<img" in run.gallery(1).save(tmp_path / "gallery.html").read_text("utf-8")


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

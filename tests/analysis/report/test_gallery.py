"""The paged gallery: every triplet once, within its budget, found by what it holds."""

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageDraw

from analysis.metrics.dependency import GROUPS
from analysis.report import gallery_files
from analysis.report.outlines import MASK_SIDE, fit, polygons, simplified
from analysis.report.page import report
from probes.config import measurement
from probes.runs.run import Run
from tests.analysis.report.test_overlays import filled
from tests.analysis.synthetic_run import configure

CHROMIUM = Path("/usr/bin/chromium")


def called(path: Path) -> list:
    """The arguments of the call that a script is."""
    text = path.read_text(encoding="utf-8")
    return json.loads(f"[{text[text.index('(') + 1 : text.rindex(')')]}]")


@pytest.fixture(scope="module")
def run(measured, tmp_path_factory):
    made = Run.open(shutil.copytree(measured.path, tmp_path_factory.mktemp("gallery") / "run"))
    report(configure(made, report={"figures": False}))
    return made


def test_every_triplet_is_there_once(run):
    (index,) = called(run.path / "gallery" / "index.js")
    files = sorted((run.path / "gallery").glob("0*.js"))
    contents = dict(map(called, files))
    samples = run.samples(["triplet", "seed", "indicator", "prompt", "word"])
    draws = list(dict.fromkeys(zip(samples["triplet"], samples["seed"])))
    assert list(zip(index["triplet"], index["seed"])) == draws
    assert len(set(zip(index["file"], index["at"]))) == len(draws) == sum(map(len, contents.values())) == 12
    for i, (triplet, seed) in enumerate(draws):
        entry = contents[index["file"][i]][index["at"][i]]
        own = samples[(samples["triplet"] == triplet) & (samples["seed"] == seed)].set_index("indicator")
        assert [cell["of"] for cell in entry["cells"]] == list(run.config.indicators)
        assert all(cell["prompt"] == own.loc[cell["of"], "prompt"] for cell in entry["cells"])
        assert index["prompts"][index["prompt"][i]] == own.loc["neutral", "prompt"]
        assert len(entry["there"]) == len(entry["sizes"]) == len(entry["cells"]) and all(entry["there"])
    primary = run.table("gap_prompts").query("measure == @run.config.measure.primary")
    expected = primary.set_index("triplet")["gap"]
    gaps = index["gaps"]["masculine-feminine"]
    assert np.allclose(gaps, [expected[triplet] for triplet in index["triplet"]], rtol=1e-5)


def test_report_links_it_or_leaves_it_out(run):
    assert 'href="gallery/index.html"' in (run.path / "report.html").read_text(encoding="utf-8")
    names = run.written("report")
    assert "gallery/index.html" in names and "gallery/00000.js" in names
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measurement, "MOST_TRIPLETS", 11)  # the run has 12
        report(configure(run, report={"all_triplets": "auto"}))
    assert not list((run.path / "gallery").glob("*"))
    html = (run.path / "report.html").read_text(encoding="utf-8")
    assert "gallery/index.html" not in html and "{all_triplets: true}</code> and" in html


def noisy(rng, n_images, side, words, objects):
    """Samples, maps and objects of a triplet that nothing compresses."""
    names = [f"word{number}" for number in range(n_images)]
    images = []
    for _ in names:
        image = Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8))
        path = io.BytesIO()
        image.save(path, "png")
        images.append({"bytes": path.getvalue()})
    text = [f"word{number}" for number in range(words)]
    samples = pd.DataFrame(
        {"sample_id": names, "indicator": names, "word": names, "prompt": " ".join(text), "image": images}
    )
    samples["words"] = [text] * n_images
    maps = {
        name: pd.DataFrame(
            {
                "word_index": range(words),
                "heat": list(rng.random((words, 64 * 64))),
                "height": 64,
                "width": 64,
            }
        )
        for name in names
    }
    box = [0.1234, 0.1234, 0.5, 0.5]
    path, reduction = polygons(rng.random((side, side)) < 0.5)
    entry = {"label": "thing", "group": 0, "box": box, "path": path, "view": [2 * side / reduction] * 2}
    return samples.set_index("sample_id"), maps, dict.fromkeys(names, [entry] * objects), names


@pytest.mark.parametrize(("images", "objects"), [(3, 0), (9, 20)])
def test_no_triplet_is_larger_than_its_budget(images, objects):
    rng = np.random.default_rng(0)
    samples, maps, shown, names = noisy(rng, images, 512, 12, objects)
    text = gallery_files._triplet(samples, maps, shown, names, names[0])
    entry = json.loads(text)
    assert len(text.encode()) <= gallery_files.BUDGET
    assert len(entry["sizes"]) == images and all(len(cell["objects"]) == objects for cell in entry["cells"])


def test_outlines_are_left_out_before_boxes():
    rng = np.random.default_rng(0)
    samples, maps, shown, names = noisy(rng, 3, 64, 5, 20)
    found = json.loads(gallery_files._triplet(samples, maps, shown, names, names[0]))
    assert {len(one) for cell in found["cells"] for one in cell["objects"]} == {3}
    few = {name: entries[:1] for name, entries in shown.items()}
    few = {name: [entry | {"path": "M1 1l2 0 0 2z"} for entry in own] for name, own in few.items()}
    found = json.loads(gallery_files._triplet(samples, maps, few, names, names[0]))
    assert {len(one) for cell in found["cells"] for one in cell["objects"]} == {6}


def test_what_cannot_be_drawn_with_fewer_corners_is_left_out_the_longest_first():
    noise = polygons(np.random.default_rng(0).random((64, 64)) < 0.5)[0]
    square = "M1 1l9 0 0 9-9 0z"
    assert simplified(noise, 5.0) == "" and simplified(square, 1.5) == square
    assert list(fit([square, noise, square], 10)) == [square, "", square]
    assert list(fit([square, square], len(square))) == ["", square]


def test_polygons_filled_again_are_the_mask():
    size = 300
    image = Image.new("1", (size, size))
    draw = ImageDraw.Draw(image)
    draw.ellipse([size * 0.2, size * 0.1, size * 0.8, size * 0.7], fill=1)
    draw.rectangle([size * 0.4, size * 0.3, size * 0.55, size * 0.5], fill=0)
    draw.rectangle([size * 0.9, 0, size, size * 0.3], fill=1)
    mask = np.asarray(image)
    path, reduction = polygons(mask)
    assert reduction == -(-size // MASK_SIDE)
    whole, back = mask.repeat(4, 0).repeat(4, 1), filled(path, reduction, mask.shape)
    assert (whole & back).sum() / (whole | back).sum() >= 0.85


def test_index_says_in_which_rows_an_object_is():
    rng = np.random.default_rng(1)
    names = ["neutral", "feminine"]
    draws = pd.DataFrame({"triplet": np.repeat(np.arange(40), 2), "seed": np.tile([3, 9], 40)})
    table = draws.sample(120, replace=True, random_state=1).assign(
        indicator=rng.choice(names, 120),
        lemma=rng.choice(["hat", "dog"], 120),
        group=rng.choice([*GROUPS, ""], 120),
        object=rng.integers(-1, 3, 120),
    )
    found = gallery_files._where(table, draws, names)
    decoded = {
        (lemma, place, names[indicator], int(row))
        for lemma, lists in found.items()
        for place, indicator, steps in lists
        for row in np.cumsum(steps)
    }
    rows = {(triplet, seed): number for number, (triplet, seed) in enumerate(draws.itertuples(index=False))}
    expected = {
        (
            one.lemma,
            GROUPS.index(one.group) if one.group else len(GROUPS),
            one.indicator,
            rows[one.triplet, one.seed],
        )
        for one in table.itertuples()
        if one.object >= 0
    }
    assert decoded == expected


@pytest.mark.slow
def test_page_in_chromium(run):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"no browser at {CHROMIUM}")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        page = browser.new_page(viewport={"width": 390, "height": 800})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((run.path / "gallery" / "index.html").as_uri())
        page.wait_for_selector(".triplet canvas")
        assert page.locator(".triplet").count() == 12 and "12 triplets" in page.inner_text("#count")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        (index,) = called(run.path / "gallery" / "index.js")
        page.select_option("#order", "+masculine-feminine")
        first = page.locator(".triplet").first.get_attribute("id")
        gaps = index["gaps"]["masculine-feminine"]
        best = int(np.argmax(gaps))
        assert first == f"t{index['triplet'][best]}s{index['seed'][best]}"
        page.fill("#text", index["prompts"][0])
        assert page.locator(".triplet").count() == 2
        page.goto((run.path / "gallery" / "index.html").as_uri() + "#triplet=t4s1")
        page.reload()
        page.wait_for_selector(".triplet.linked")
        assert page.locator(".triplet.linked").get_attribute("id") == "t4s1" and errors == []
        browser.close()

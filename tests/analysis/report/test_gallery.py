"""The gallery: the triplets that a reader would look at, each with its images as files, found by what it holds."""

import base64
import io
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from analysis.metrics.dependency import GROUPS
from analysis.report import gallery
from analysis.report.page import report
from probes.runs.run import Run
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


@pytest.fixture(scope="module")
def entries(run) -> list[dict]:
    files = sorted((run.path / "gallery").glob("0000?.js"))
    return [entry for _, own in map(called, files) for entry in own]


def test_every_triplet_of_a_small_run_is_there_once_with_its_images(run, entries):
    (index,) = called(run.path / "gallery" / "index.js")
    samples = run.samples(["sample_id", "triplet", "seed", "indicator", "prompt", "word"])
    draws = list(dict.fromkeys(zip(samples["triplet"], samples["seed"])))
    assert list(zip(index["triplet"], index["seed"])) == draws and index["of"] == len(entries) == 12
    for i, ((triplet, seed), entry) in enumerate(zip(draws, entries, strict=True)):
        own = samples[(samples["triplet"] == triplet) & (samples["seed"] == seed)].set_index("indicator")
        assert [cell["of"] for cell in entry["cells"]] == list(run.config.indicators)
        assert all(cell["prompt"] == own.loc[cell["of"], "prompt"] for cell in entry["cells"])
        assert index["prompts"][index["prompt"][i]] == own.loc["neutral", "prompt"]
        for cell in entry["cells"]:
            with Image.open(run.path / "gallery" / cell["file"]) as image:
                stored = run.image(own.loc[cell["of"], "sample_id"])
                assert np.array_equal(np.asarray(image.convert("RGB")), np.asarray(stored))
    primary = run.table("gap_prompts").query("measure == @run.config.measure.primary")
    expected = primary.set_index("triplet")["gap"]
    gaps = index["gaps"]["masculine-feminine"]
    assert np.allclose(gaps, [expected[triplet] for triplet in index["triplet"]], rtol=1e-5)


def test_maps_give_back_the_stored_heat(run, entries):
    words = run.read("words").set_index(["sample_id", "word_index"])
    samples = run.samples(["sample_id", "indicator"])
    for entry, (_, own) in zip(entries, samples.groupby(np.arange(len(samples)) // 5)):
        width, height = entry["map"]
        sprite = np.asarray(Image.open(io.BytesIO(base64.b64decode(entry["maps"]))), float)
        for row, cell in enumerate(entry["cells"]):
            sample = own.loc[own["indicator"] == cell["of"], "sample_id"].iloc[0]
            for index, (low, high, peak) in enumerate(entry["ranges"][row]):
                stored = words.loc[(sample, index)]
                heat = np.asarray(stored["heat"]).reshape(stored["height"], stored["width"])
                if not math.isclose(heat.max(), stored["peak"], rel_tol=1e-3):  # stored after min-max
                    heat = heat * stored["peak"]
                tile = sprite[row * height : (row + 1) * height, index * width : (index + 1) * width]
                off = np.abs(low + tile / 255 * (high - low) - heat)
                assert heat.shape == (height, width) and off.mean() <= 0.05 * (high - low)
                assert math.isclose(peak, stored["peak"], rel_tol=1e-5)


def samples_of(triplets: int) -> pd.DataFrame:
    rows = [(t, s, name) for t in range(triplets) for s in (0, 1) for name in ("neutral", "feminine")]
    return pd.DataFrame(rows, columns=["triplet", "seed", "indicator"])


def test_the_largest_and_smallest_gaps_the_objects_that_differ_and_others_are_chosen():
    samples = samples_of(100)
    gaps = pd.DataFrame({"triplet": range(100), "gap": np.roll(np.arange(100.0), 7)})
    objects = samples.assign(object=0, lemma="wall")
    objects.loc[objects["triplet"].between(40, 60), "lemma"] = "tie"
    chosen = gallery.choose_to_look_at(samples, gaps, objects, ["tie"], 30)
    assert len(set(chosen)) == len(chosen) == 30 and chosen == sorted(chosen)
    ends = gaps.sort_values("gap")["triplet"].tolist()
    assert {(t, 0) for t in (*ends[:5], *ends[-5:])} <= set(chosen)
    with_tie = [draw for draw in chosen if 40 <= draw[0] <= 60]
    assert len(with_tie) >= 6 and any(
        not 40 <= t <= 60 and t not in (*ends[:5], *ends[-5:]) for t, _ in chosen
    )
    assert gallery.choose_to_look_at(samples, gaps, objects, ["tie"], 200) == gallery.choose(samples, 200)
    assert gallery.choose_to_look_at(samples, gaps.iloc[:0], None, (), 0) == []


def test_the_gallery_takes_the_first_seeds_of_all_prompts_and_shows_them_in_the_runs_order():
    assert gallery.choose(samples_of(3), 4) == [(0, 0), (0, 1), (1, 0), (2, 0)]


def test_report_links_it_says_how_many_or_leaves_it_out(run):
    names = run.written("report")
    assert {"gallery/index.html", "gallery/00000.js", "gallery/00000-0-0.png"} <= set(names)
    text = (run.path / "report.html").read_text(encoding="utf-8")
    assert '<a href="gallery/index.html">All 12 triplets</a>' in text
    report(configure(run, report={"gallery": 5}))
    text = (run.path / "report.html").read_text(encoding="utf-8")
    assert '<a href="gallery/index.html">5 of 12 triplets</a>' in text and "--gallery all" in text
    (index,) = called(run.path / "gallery" / "index.js")
    assert len(index["triplet"]) == 5 and len(list((run.path / "gallery").glob("*.png"))) == 25
    report(configure(run, report={"gallery": 0}))
    assert not list((run.path / "gallery").glob("*"))
    assert 'href="gallery/' not in (run.path / "report.html").read_text(encoding="utf-8")
    report(configure(run, report={"gallery": "all"}))
    assert len(list((run.path / "gallery").glob("*.png"))) == 60


def test_large_images_are_reduced():
    buffer = io.BytesIO()
    Image.new("RGB", (600, 300)).save(buffer, "png")
    data, ending = gallery._reduced(buffer.getvalue())
    assert ending == "jpg" and Image.open(io.BytesIO(data)).size == (gallery.LARGEST, gallery.LARGEST // 2)


def test_index_says_in_which_rows_an_object_is():
    rng = np.random.default_rng(1)
    names = ["neutral", "feminine"]
    draws = pd.DataFrame({"triplet": np.repeat(np.arange(40), 2), "seed": np.tile([3, 9], 40)})
    draws["row"] = range(80)
    table = draws[["triplet", "seed"]].sample(120, replace=True, random_state=1)
    table = table.assign(
        indicator=rng.choice(names, 120),
        lemma=rng.choice(["hat", "dog"], 120),
        group=rng.choice([*GROUPS, ""], 120),
        object=rng.integers(-1, 3, 120),
    )
    decoded = {
        (lemma, place, names[indicator], row)
        for lemma, lists in gallery._where(table, draws, names).items()
        for place, indicator, rows in lists
        for row in rows
    }
    rows = {(row.triplet, row.seed): row.row for row in draws.itertuples()}
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
    address = (run.path / "gallery" / "index.html").as_uri()
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        page = browser.new_page(viewport={"width": 390, "height": 800})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.goto(address)
        page.wait_for_function("[...document.images].some((one) => one.naturalWidth === 64)")
        assert page.locator(".triplet").count() == 12 and "12 triplets" in page.inner_text("#count")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.wait_for_selector(".triplet .chips")
        page.locator(".triplet .chips button").nth(1).click()
        assert page.locator(".triplet canvas:visible").count() == 3
        assert "peak " in page.locator(".triplet .peak").first.inner_text()
        page.keyboard.press("ArrowLeft")  # from word to word; Escape lifts the map, and leads to the search
        assert page.evaluate("document.activeElement === document.querySelector('.chips button')")
        page.keyboard.press("Escape")
        assert page.locator(".triplet canvas:visible").count() == 0
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.id") == "text"
        for number, key in ((0, None), (1, "ArrowRight"), (2, "ArrowRight"), (1, "ArrowLeft")):
            page.keyboard.press(key) if key else page.focus(".triplet h2 a")
            own = "document.activeElement.closest('.triplet') === document.querySelectorAll('.triplet')"
            assert page.evaluate(f"{own}[{number}]")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        (index,) = called(run.path / "gallery" / "index.js")
        page.select_option("#order", "+masculine-feminine")
        first = page.locator(".triplet").first.get_attribute("id")
        gaps = index["gaps"]["masculine-feminine"]
        best = int(np.argmax(gaps))
        assert first == f"t{index['triplet'][best]}s{index['seed'][best]}"
        page.fill("#text", index["prompts"][0])
        assert page.locator(".triplet").count() == 2
        page.goto(address + "#triplet=t4s1")
        page.reload()
        page.wait_for_selector(".triplet.linked")
        assert page.locator(".triplet.linked").get_attribute("id") == "t4s1" and errors == []
        browser.close()

"""Report, gallery and audit page as a browser shows them: first screen, phone, print, keyboard, contrast, axe."""

import os
import shutil
from pathlib import Path

import pytest

import triptych
from analysis.report.page import report
from analysis.tables.stage import measure
from lab.pages.report_picture import DRAW, MARKS
from probes.runs.run import Run
from tests.analysis.methods.audit.pictures import COUNTS, table_of, write_pictures
from tests.analysis.synthetic_objects import add_objects
from tests.analysis.synthetic_run import NINE, configure, write_run

CHROMIUM = shutil.which("chromium")
AXE = os.environ.get("AXE_JS")  # the path of axe.min.js, of the npm package axe-core
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="Debian's chromium is not installed")

DESK, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
MOST_WORDS, MOST_IN_ALL, HIGHEST = 1800, 6000, 12_000  # pixels
AA, AA_LARGE = 4.5, 3.0  # WCAG 2.2, success criterion 1.4.3
PATIENCE = 600_000  # milliseconds, also on a machine that is busy otherwise
OPTIONS = {"prompts": 24, "seeds": 1, "steps": 4, "indicators": NINE}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]

# Ratio of every visible text to what is behind it, the lowest first: [ratio, limit, text].
CONTRASTS = """() => {
  const channels = (text) => {
    const numbers = text.match(/[\\d.]+/g).map(Number);
    const scale = text.startsWith("color(") ? 255 : 1;
    return [...numbers.slice(0, 3).map((one) => one * scale), numbers.length > 3 ? numbers[3] : 1];
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((one, i) => one * a + under[i] * (1 - a));
  const behind = (node) => {
    const layers = [];
    for (; node; node = node.parentElement) layers.push(channels(getComputedStyle(node).backgroundColor));
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const light = (rgb) => rgb.map((one) => one / 255)
    .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
    .reduce((sum, one, i) => sum + one * [0.2126, 0.7152, 0.0722][i], 0);
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    if (!text || element.closest("script, style, noscript, svg") || !element.checkVisibility()) continue;
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    const under = behind(element), [a, b] = [light(over(channels(style.color), under)), light(under)];
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), large, text.slice(0, 40)]);
  }
  return found;
}"""
CLIPPED = """() => [...document.querySelectorAll(".scroll")]
  .filter((one) => one.checkVisibility() && one.querySelector("table") && one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.getAttribute("aria-label"))"""
OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
WORDS = "document.body.innerText.split(/\\s+/).filter(Boolean).length"
WIDTH, HEIGHT = "document.documentElement.scrollWidth", "document.documentElement.scrollHeight"


@pytest.fixture(scope="module")
def addresses(tmp_path_factory) -> dict[str, str]:
    """A report as that of the default run (24 prompts, nine words, objects, all figures), its gallery, and an audit."""
    folder = tmp_path_factory.mktemp("browser")
    run = Run.open(add_objects(write_run(folder / "run", **OPTIONS), **OPTIONS))
    configure(run, report={"gallery": 24, "figures": ["svg"]}, measure={"bootstrap": 50, "permutations": 64})
    measure(run)
    labels = write_pictures(folder, table_of(COUNTS))
    audit = triptych.audit(folder, labels, resamples=50, permutations=2000).write(folder / "audit")
    page = report(run)
    pages = {"report": page, "gallery": page.parent / "gallery" / "index.html", "audit": audit}
    return {name: one.as_uri() for name, one in pages.items()}


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=PATIENCE)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, addresses):
    """Open the page on a screen; nothing may be said on the console, and nothing be asked of the network."""
    pages = []

    def opened(screen, name="report", **options):
        page = browser.new_page(viewport=screen, **options)
        page.set_default_timeout(PATIENCE)
        said = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if request.url[:4] == "http" else None)
        page.goto(addresses[name])
        pages.append((page, said))
        return page

    yield opened
    for page, said in pages:
        page.close()
        assert said == []


def test_the_first_screen_holds_question_answer_triplets_forest_and_what_was_not_tested(open_page):
    page = open_page(DESK)
    parts = {"h1": 1, "#summary .answer": 1, ".trio": 3, "#headline svg": 1, ".untested li": 4}
    for selector, least in parts.items():
        boxes = [one.bounding_box() for one in page.query_selector_all(selector)]
        assert len(boxes) >= least, selector
        assert all(box["y"] >= 0 and box["y"] + box["height"] <= DESK["height"] for box in boxes), selector
    assert "nearer to masculine or to feminine" in page.inner_text("h1")
    assert len(page.inner_text("#summary .answer").split()) <= 30
    assert all(
        "gap in cosine similarity: " in one.inner_text()
        for one in page.query_selector_all(".trio figcaption")
    )


@pytest.mark.slow
def test_the_page_is_short(open_page):
    page = open_page(DESK)
    assert 400 < page.evaluate(WORDS) <= MOST_WORDS and page.evaluate(HEIGHT) <= HIGHEST
    page.evaluate(OPEN_ALL)
    assert page.evaluate(WORDS) <= MOST_IN_ALL


@pytest.mark.slow
@pytest.mark.parametrize("screen", [DESK, PHONE], ids=["1280", "390"])
def test_nothing_runs_over_the_side_and_no_table_that_is_open_is_clipped(open_page, screen):
    audit = open_page(screen, "audit")
    page = open_page(screen)
    for one in (audit, page):
        assert one.evaluate(WIDTH) <= screen["width"] and one.evaluate(CLIPPED) == []
    page.evaluate(OPEN_ALL)
    assert page.evaluate(WIDTH) <= screen["width"]
    assert screen is PHONE or page.evaluate(CLIPPED) == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_of_text_is_aa(open_page, scheme):
    page = open_page(DESK, color_scheme=scheme)
    page.evaluate(OPEN_ALL)
    ratios = page.evaluate(CONTRASTS)
    assert len(ratios) > 500
    assert [one for one in ratios if one[0] < (AA_LARGE if one[1] else AA)] == []


@pytest.mark.slow
def test_everything_is_reached_by_keyboard(open_page):
    page = open_page(DESK)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"
    page.focus("#measures .term")
    target = page.get_attribute("#measures .term", "popovertarget")
    page.keyboard.press("Enter")
    assert page.is_visible(f"#{target}")
    page.keyboard.press("Escape")
    assert not page.is_visible(f"#{target}")
    page.focus("#measures tbody a")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")  # a link to what is folded unfolds it
    page.wait_for_selector("#measures .cards article", state="visible")


@pytest.mark.slow
def test_a_term_is_explained_once_and_prints_as_a_list(open_page):
    page = open_page({"width": 700, "height": 1000})
    targets = page.eval_on_selector_all(".term", "all => all.map((one) => one.getAttribute('popovertarget'))")
    there = page.eval_on_selector_all(".definition", "all => all.map((one) => one.id)")
    assert len(there) == len(set(there)) == len(set(targets)) and set(targets) == set(there)
    assert not any(page.is_visible(f"#{one}") for one in there)
    page.emulate_media(media="print")
    assert all(page.is_visible(f"#{one}") for one in there)
    assert page.evaluate(WIDTH) <= 700 and not page.is_visible("nav")
    assert page.is_visible("#limits li") and page.is_visible("#measures .finding >> nth=-1")
    assert not page.is_visible("#record pre")
    assert page.pdf(format="A4").startswith(b"%PDF-")


@pytest.mark.slow
def test_every_mark_of_the_annotated_picture_has_its_place(open_page):
    """Those that `lab.pages.report_picture` draws for the page on how to read a report."""
    assert open_page(DESK).evaluate(DRAW, [list(mark) for mark in MARKS]) == []


@pytest.mark.slow
def test_tables_are_sorted_by_their_heads(open_page):
    page = open_page(PHONE, "audit")
    shares = "#ranks tbody td[data-label='Mean share']"
    before = page.locator(shares).all_inner_texts()
    head = page.locator("#ranks th", has_text="Mean share")
    page.focus("#ranks th:nth-child(3) .sort")
    for way, expected in (
        ("ascending", sorted(before)),
        ("descending", sorted(before)[::-1]),
        (None, before),
    ):
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == way and page.locator(shares).all_inner_texts() == expected


@pytest.mark.slow
@pytest.mark.skipif(not AXE, reason="AXE_JS does not say where axe.min.js is (npm install axe-core)")
@pytest.mark.parametrize("name", ["report", "gallery", "audit"])
def test_axe_finds_nothing_serious(open_page, name):
    page = open_page(DESK, name)
    page.evaluate(Path(AXE).read_text("utf-8"))
    for screen, scheme in ((DESK, "light"), (DESK, "dark"), (PHONE, "light"), (PHONE, "dark")):
        page.set_viewport_size(screen)
        page.emulate_media(color_scheme=scheme)
        for opened in ("() => 0", OPEN_ALL):
            page.evaluate(opened)
            found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
            assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []

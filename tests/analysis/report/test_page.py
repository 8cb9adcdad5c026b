"""The report: self-contained, careful in its words, and every number on it stands in the tables."""

import shutil
from html.parser import HTMLParser

import pytest

from analysis.metrics.registry import headline_metrics
from analysis.observe.objects.engines.choice import object_observer
from analysis.report.page import answers, read, render, report
from analysis.tables.similarities.word_gap import joined_gaps
from analysis.tables.stage import measure
from probes.config.schema import Config
from probes.runs.run import Run
from tests.analysis.synthetic_run import DEFAULT_INDICATORS, configure, write_run

VOID = {"meta", "link", "img", "input", "br", "hr"}


class Page(HTMLParser):
    """A page as read by the standard library: tags, <data> values by section, scripts, text."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.stack: list[str] = []
        self.data: list[tuple[float, str]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self._value = None
        self.feed(text)
        assert not self.stack, f"not closed: {self.stack}"

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if tag not in VOID:
            self.stack.append(tag)
        if tag == "data":
            self._value = float(attrs["value"])

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack and self.stack.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, text):
        inside = self.stack[-1] if self.stack else ""
        if inside == "script":
            self.scripts.append(text)
        elif inside != "style":
            self.words.append(text)
        if inside == "data":
            self.data.append((self._value, text))

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def make(path, **options) -> Run:
    run = Run.open(write_run(path, **options))
    measure(run)
    return run


def page_of(run: Run) -> Page:
    return Page(render(read(run), {}))


@pytest.fixture(scope="module")
def run(measured) -> Run:
    return measured


@pytest.fixture(scope="module")
def page(run) -> Page:
    return Page(report(run).read_text(encoding="utf-8"))


def without_controls() -> dict:
    return {name: entry for name, entry in DEFAULT_INDICATORS.items() if not entry["control"]}


# The page


def test_page_loads_nothing(run, page):
    for tag, attrs in page.tags:
        for name in ("src", "href", "xlink:href", "data", "action", "srcset", "poster"):
            value = attrs.get(name) or "#"
            beside = tag == "a" and value.startswith("gallery/index.html")  # a link: nothing is loaded
            assert beside or value.startswith(("#", "data:")), (tag, name, value[:60])
        assert tag not in ("iframe", "object", "embed", "base")
        assert not (tag == "script" and "src" in attrs)
    text = (run.path / "report.html").read_text(encoding="utf-8")
    assert "://" not in text and "@import" not in text
    styles = [attrs.get("style") or "" for _, attrs in page.tags]
    assert not any("url(" in style and "url(#" not in style for style in styles)
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")


def test_figures_stand_beside_the_page(run, page):
    names = {"headline", "atlas-masculine-feminine", "gap-layers"}
    names |= {"specifications-masculine-feminine", "prompts-masculine-feminine"}
    written = {path.name for path in (run.path / "figures").iterdir()}
    assert written == {f"{name}.svg" for name in names}
    text = (run.path / "report.html").read_text("utf-8")
    assert text.count('<span class="files">figures/') == text.count(".svg</span>") == len(names)
    assert sum(tag == "svg" for tag, _ in page.tags) == len(names)


def test_summary_holds_each_headline_gap(run, page):
    gap = joined_gaps(run.table).query("step == -1")
    values = [value for value, _ in page.data]
    for metric in headline_metrics()[:4]:
        row = gap[(gap["site"] == metric.site) & (gap["metric"] == metric.metric)].iloc[0]
        for column in ("gap", "ci_low", "ci_high", "p_value", "word_gap", "word_low", "word_high"):
            assert row[column] in values, (metric.symbol, column)


def test_words_are_careful(page):
    text = page.text.lower()
    for claim in (" women", " men ", "causes", "because of gender", "proves that"):
        assert claim not in text, claim
    assert "planted, not how anybody looks" in text
    assert "what these numbers do not say" in text
    assert "images generated from neutral prompts (person" in text


def test_prompts_cannot_break_the_page(tmp_path):
    evil = "<b>x</b></script><script>alert(1)</script>"
    people = without_controls() | {"feminine": {"word": evil, "control": False}}
    page = page_of(make(tmp_path / "run", prompts=2, seeds=1, steps=2, indicators=people))
    assert not any("alert(1)" in script for script in page.scripts)
    assert sum(tag == "script" for tag, _ in page.tags) == 2
    assert evil in page.text


def test_own_names_and_several_contrasts(tmp_path):
    names = {"worker": "worker", "tall": "very tall worker", "old": "old worker", "short": "short worker"}
    people = {name: {"word": word, "control": False} for name, word in names.items()}
    people["laborer"] = {"word": "laborer", "control": True}
    contrasts = (("tall", "short"), ("old", "short"))
    run = make(
        tmp_path / "run",
        prompts=6,
        seeds=1,
        steps=2,
        indicators=people,
        reference="worker",
        contrasts=contrasts,
    )
    page = page_of(run)
    for words in ("Are worker prompts nearer to tall or to short ones?", "nearer to old or to short"):
        assert words in page.text
    assert "More words: a claim without a hedge takes 3 a side" in page.text
    assert "feminine" not in page.text and "masculine" not in page.text and "neutral" not in page.text


def test_no_contrast_no_words_no_gallery(tmp_path):
    people = {name: DEFAULT_INDICATORS[name] for name in ("neutral", "feminine")}
    run = make(tmp_path / "run", prompts=3, seeds=1, steps=2, indicators=people, contrasts=())
    shutil.rmtree(run.path / "words")
    page = page_of(run)
    assert "No contrast was asked for" in page.text and "No word maps were stored" in page.text
    configure(run, report={"gallery": 0})
    assert "The gallery is empty" in page_of(run).text


def test_what_is_said_of_tables_goes_with_them(tmp_path):
    """The sentences and the LaTeX are made of the tables: measured again, they wait for the next report."""
    run = configure(make(tmp_path / "run", prompts=2, steps=2), report={"figures": False})
    said = {"tables/findings.csv", "tables/findings.parquet", "tables/table05_disparity.tex"}
    report(run)
    assert said <= set(run.written("report")) and all((run.path / name).exists() for name in said)
    measure(run)
    assert not any((run.path / name).exists() for name in said)
    assert (run.path / "tables" / "gap.parquet").exists()


def test_a_run_whose_objects_nobody_looked_for_says_so_on_its_page_and_at_its_end(run, monkeypatch):
    why = object_observer(Config(prompts=["a {person}"], model="somebody/model"))[1]
    meta = run.meta | {"not_observed": {"objects": why}}
    monkeypatch.setattr(run, "meta", meta)
    lines = " ".join(
        ["detector: IDEA-Research/grounding-dino-tiny", "and segmenter: facebook/sam-vit-base under observe:"]
    )
    text = Page(render(read(run), {})).text
    assert "Objects were not looked for: no detector for the images of this model" in text and lines in text
    answer, missing = answers(run)
    assert answer == read(run).summaries[0].answer
    assert missing == f"Not measured: objects ({why})."

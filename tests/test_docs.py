"""The pages of the documentation: links and anchors lead somewhere, generated pages are current, the site builds."""

import configparser
import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

import triptych
from lab.pages import command_line
from probes.runs.schemas import CAPTURES, OBJECTS, SAMPLES, WORDS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(
    [*DOCS.rglob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
)
LINK = re.compile(r"(?<!`)!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
PATH = re.compile(r"(?<![\w/.-])docs/[\w./]*\w")  # as code, comments and messages name a page
SOURCES = ("*.py", "*.j2", "*.yaml", "*.json", "*.cfg", "*.md", "*.ipynb")
LOADED = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^\"]*\"")
SPHINX = importlib.util.find_spec("sphinx") and importlib.util.find_spec("pydata_sphinx_theme")


def prose(page):
    """The text of a page without its blocks of code."""
    return re.sub(r"^(```+|:::+\{code)[\s\S]*?^\1?\s*$", "", page.read_text("utf-8"), flags=re.M)


@cache
def anchors(page):
    """The anchors of a page's headings, as GitHub and the site make them."""
    found = []
    for line in re.findall(r"^#{1,6} +(.+?)\s*$", prose(page), re.M):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line)
        slug = re.sub(r"[^\w\- ]", "", text.replace("`", "").lower()).replace(" ", "-")
        number = sum(slug == other.rpartition("~")[0] or slug == other for other in found)
        found.append(slug if not number else f"{slug}~{number}")
    return {one.replace("~", "-") for one in found}


def test_links_and_anchors_lead_somewhere():
    wrong = []
    for page in PAGES:
        for target in LINK.findall(prose(page)):
            path, _, anchor = target.partition("#")
            there = (page.parent / path).resolve() if path else page
            if not re.match(r"[a-z]+:", target) and not (
                there.exists() and (not anchor or there.suffix != ".md" or anchor in anchors(there))
            ):
                wrong.append(f"{page.relative_to(ROOT)}: {target}")
    assert wrong == []


def test_every_page_that_is_named_is_there():
    tracked = subprocess.run(
        ["git", "ls-files", "-z", *SOURCES], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if tracked.returncode:
        pytest.skip("not a checkout of git: the files of the project are not known")
    for name in tracked.stdout.split("\0"):
        path = ROOT / name
        if not name or name == "CHANGELOG.md" or "weights/" in name or not path.exists():
            continue
        for found in PATH.findall(path.read_text("utf-8")):
            if not found.startswith("docs/_build"):
                assert (ROOT / found).exists(), f"{name}: {found}"


def test_one_version_is_cited_and_released():
    """That of ``setup.cfg``, in CITATION.cff, in the README's BibTeX and as the newest of the changelog."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", "utf-8")
    version = setup["metadata"]["version"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    released = re.findall(r"(?m)^## \[(\d[\d.]*)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert (version, str(cited["date-released"])) == (cited["version"], released[0][1])
    assert released[0][0] == version
    bibtex = f"""```bibtex
@software{{triptych,
  title   = {{{cited["title"]}}},
  author  = {{{{{cited["authors"][0]["name"]}}}}},
  year    = {{{cited["date-released"].year}}},
  version = {{{version}}}
}}
```"""
    assert bibtex in (ROOT / "README.md").read_text("utf-8")


def test_a_line_of_the_changelog_is_short():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert len(text.encode()) <= 20_000
    assert [line for line in text.splitlines() if line.startswith("- ") and len(line.split()) > 26] == []


def test_the_page_of_the_command_line_is_that_of_the_parsers():
    text = (DOCS / "reference" / "command_line.md").read_text("utf-8")
    assert text == command_line.page(), (
        "run: python -m lab.pages.command_line > docs/reference/command_line.md"
    )
    assert text.count("\n### `triptych ") == sum(map(len, command_line.GROUPS.values()))


def test_the_page_of_the_run_directory_has_the_columns_of_the_parts():
    page = (DOCS / "reference" / "runs.md").read_text("utf-8")
    for kind, schema in (
        ("samples", SAMPLES),
        ("captures", CAPTURES),
        ("words", WORDS),
        ("objects", OBJECTS),
    ):
        section = page.partition(f"\n### `{kind}/`\n")[2].partition("\n### ")[0]
        cells = re.findall(r"^\| (`.*?`) \|", section, re.M)
        assert re.findall(r"`(\w+)`", " ".join(cells)) == schema.names, kind


def test_every_public_name_stands_on_its_page():
    page = (DOCS / "reference" / "python_api.md").read_text("utf-8")
    documented = set(re.findall(r"^\.\. auto\w+:: triptych\.(\w+)", page, re.M))
    assert documented == set(triptych.__all__) - {"__version__"}


@pytest.mark.skipif(not SPHINX, reason="needs pip install 'triptych[docs]'")
@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_loads_nothing(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-n", "-d", str(tmp_path / "trees"), str(DOCS)]
    built = subprocess.run([*command, str(tmp_path / "html")], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-2000:]
    pages = list((tmp_path / "html").rglob("*.html"))
    assert len(pages) > len(list(DOCS.rglob("*.md")))
    for page in pages:
        assert not LOADED.search(page.read_text("utf-8")), page.name
    assert (tmp_path / "html" / "searchindex.js").stat().st_size > 100_000

"""A method is one folder and one row: everything that makes, lists or shows results iterates over the rows."""

import json
from pathlib import Path

import pandas as pd
import pytest

import analysis.report.page
from analysis.methods import registry
from analysis.methods.registry import METHODS, Method
from analysis.tables.registry import TABLES, groups
from analysis.tables.spec import method_specs
from lab.pages import tables
from probes.runs.run import Run
from tests.runs import TINY, saved_yaml
from triptych.cli.main import main

ROOT = Path(__file__).parents[3]
FOLDER = "tests.analysis.methods.brightness.method"
ROW = Method("brightness", spec=f"{FOLDER}:METHOD")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A run that was made by the command line while there was a further row; of figures with those of methods alone."""
    folder = tmp_path_factory.mktemp("method")
    config = {name: value for name, value in TINY.items() if name not in ("capture", "trace")}
    over = {"seeds": [0, 1], "observe": {"engine": "toyworld-checker"}, "report": {"gallery": 2}}
    configuration = str(saved_yaml(folder, {**config, **over}))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(registry, "METHODS", (*METHODS, ROW))
        monkeypatch.setattr(analysis.report.page, "draw_figures", lambda *tables, **choices: {})
        assert main([configuration, "--out", str(folder / "run"), "--quiet"]) == 0
        page = tables.page()
    return Run.open(folder / "run"), page, configuration


@pytest.mark.slow
def test_a_row_brings_table_section_figure_and_latex(small):
    run, page, _ = small
    table = run.table("brightness")
    assert list(table.columns) == ["indicator", "brightness", "n"] and len(table) == 4
    assert pd.read_csv(run.path / "tables" / "brightness.csv")["n"].tolist() == [6] * 4
    assert (run.path / "figures" / "brightness.svg").exists()
    assert "Mean brightness of images." in (run.path / "tables" / "brightness.tex").read_text("utf-8")
    report = (run.path / "report.html").read_text("utf-8")
    assert '<a href="#brightness">Brightness</a>' in report and report.count('<section id="brightness">') == 1
    assert report.index('<section id="brightness">') < report.index('<section id="gallery">')
    assert f'value="{table["brightness"][0]}"' in report and "</data> over prompts." in report
    assert 'id="brightness"' in report and "figures/brightness.svg" in report
    assert "## Of any run with images" in page and "### `brightness`" in page
    assert "- `indicator` (text): Indicator of the images." in page


@pytest.mark.slow
def test_without_the_row_nothing_of_it_is_left(small):
    run, _, configuration = small
    assert "brightness" not in TABLES and "any run with images" not in groups()
    file = Path(configuration)
    config = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps(config | {"report": {"gallery": 2, "figures": False}}), "utf-8")
    for stage in ("measure", "report"):
        assert main([configuration, "--out", str(run.path), "--stage", stage, "--quiet"]) == 0
    left = [path for path in run.path.rglob("*") if "brightness" in path.name]
    assert not left and "brightness" not in (run.path / "report.html").read_text("utf-8")


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_row_has_its_folder_and_what_it_names_stands_there(method):
    package = f"analysis.methods.{method.name}"
    assert (ROOT / package.replace(".", "/") / "__init__.py").exists()
    places = [
        *filter(None, (method.spec, method.people)),
        *([method.command.module] if method.command else []),
    ]
    assert places and all(place.startswith(f"{package}.") for place in places)


def test_every_folder_has_its_row():
    folders = {path.parent.name for path in (ROOT / "analysis" / "methods").glob("*/__init__.py")}
    assert folders == {method.name for method in METHODS}
    names = [table.name for method in method_specs() for table in method.tables]
    assert len(names) == len(set(names))


def test_no_template_below_names_a_method():
    templates = (ROOT / "analysis" / "report" / "templates").glob("*.j2")
    texts = {path: path.read_text("utf-8") for path in templates}
    assert not [path for path, text in texts.items() if any(one.name in text for one in METHODS if one.spec)]

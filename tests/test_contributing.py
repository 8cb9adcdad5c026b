"""CONTRIBUTING.md names places that are there; some of its rows are done here, as it says, in a copy of the code."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from probes.runs.store import Run
from tests.small_run import PATIENCE, small_yaml
from tests.test_imports import BELOW

ROOT = Path(__file__).parents[1]
PATH = re.compile(r"`([\w.]+(?:/[\w.]*)+)`")
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
ARCHITECTURE = (ROOT / "docs/explanation/architecture.md").read_text("utf-8")


def cells(text: str) -> list[list[str]]:
    """The rows of the Markdown tables of a text, without head and rule."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows][2:]


ROWS = {row[0]: PATH.findall(" ".join(row[1:])) for row in cells(TEXT.partition("## Who may import")[0])}


def test_paths_are_there():
    paths = PATH.findall(TEXT)
    assert len(set(paths)) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_few_rows_each_of_few_files():
    assert len(ROWS) <= 15 and len(TEXT.split()) <= 700
    for name, paths in ROWS.items():
        assert 1 <= len(set(paths)) <= 4, name  # of which a file is an example or an alternative


def test_commands_are_modules_that_are_there():
    modules = set(re.findall(r"python -m ([\w.]+)", TEXT + ARCHITECTURE)) - {"sphinx"}
    assert len(modules) > 5
    for name in modules:
        path = ROOT.joinpath(*name.split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), name


def test_the_table_of_folders_is_the_one_that_is_tested():
    section = ARCHITECTURE.partition("## Inside `analysis`")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` [^|]*\| ([^|]*) \|$", section, re.M)
    said = {folder: set(re.findall(r"`(\w+)`", below)) for folder, below in rows}
    assert said == {folder: set(below) for folder, below in BELOW.items()}


# Nine rows at once, in a copy of the packages.

METRIC = '''

def mean_absolute_error(pair: PicturePair) -> Score:
    """Return the mean absolute difference of grey values, in percent of their range."""
    first, second = (one.moments.grey.astype(float) for one in (pair.first, pair.second))
    return Score(float(np.abs(first - second).mean() / 2.55))
'''
METRIC_ROW = """    Metric(
        metric="mae",
        version="mae/1",
        needs="pictures",
        symbol="MAE",
        low=0.0,
        high=100.0,
        higher_is_nearer=False,
        unit="%",
        function="mean_absolute_error",
    ),
"""
PROMPTS = """about: Three trades
topics:
  Trades:
    Carpenter: planes a board
    Mason: lays a brick
    Smith: bends a bar
"""
COMMAND = '''"""``triptych greet``."""

from probes import command_line


def parser():
    main = command_line.Parser(prog="triptych greet")
    main.add_argument("whom")
    return main


def work(options):
    print(f"hello, {options.whom}")
'''
OBSERVER = '''"""Mean brightness of each image."""

from analysis.observe.observer import Needs
from probes.runs.schemas import FEATURES

KIND = "features/brightness"


class Brightness:
    """Stores the mean brightness of each image."""

    name, schemas, whole_triplets, batch, resolved = KIND, {KIND: FEATURES}, False, 8, {}

    def __str__(self):
        return "brightness"

    def needs(self):
        return Needs("cpu", 0, 0.001, {})

    def fields(self):
        return {f"{KIND}.version": 1}

    def load(self):
        pass

    def observe(self, images):
        return {KIND: [{**one.key, "vector": [float(one.pixels.mean())], "reason": None} for one in images]}

    def record(self, run):
        return {KIND: {}}


def brightness(config):
    return Brightness(), ""
'''

DEFINITION = """DECODER_MEAN = Definition(
    name="decoder-mean", version="1", layers=(("unet.up.*", 1.0),), heads="mean", source="this test"
)

"""
READER = '''"""The reader ``brightness``: is an image bright?"""

from analysis.observe.questions.reader import Answer


class BrightnessReader:
    """Answers every question by the mean brightness of the image."""

    name, libraries = "brightness", ("numpy",)

    def __str__(self):
        return "mean brightness"

    def parameters(self):
        return 0

    def seconds(self, questions):
        return 0.001

    def identity(self):
        return {"threshold": 128}

    def load(self, device):
        pass

    def answers(self, images, questions):
        return [[self._answer(image, question) for question in questions] for image in images]

    def _answer(self, image, question):
        reading = "yes" if image.pixels.mean() > 128 else "no"
        return Answer(question.text, reading, reading)
'''
MAKER = """def _brightness(config: Config) -> Reader:
    from analysis.observe.questions.brightness import BrightnessReader

    return BrightnessReader()


"""
FIGURE = '''"""How many prompts each gap is over."""

from analysis.report.figures.style import SINGLE, Drawn, new_figure, style


def draw_prompt_numbers(gap):
    """Draw a histogram of the numbers of prompts of the rows of ``tables/gap``."""
    with style():
        figure = new_figure(SINGLE, 2)
        figure.subplots().hist(gap["n_prompts"].dropna())
    return Drawn("prompt_numbers", figure, "Numbers of prompts", "Prompts of each gap.")
'''
PAGE = '''"""A page with a number: ``python -m lab.pages.metrics``."""

from analysis.metrics.registry import headline_metrics
from lab.templates import render

if __name__ == "__main__":
    print(render("metrics", metrics=headline_metrics()))
'''


def inserted(file: Path, before: str, text: str) -> None:
    """Put text before a line that stands once in a file."""
    source = file.read_text("utf-8")
    assert source.count(before) == 1, (file, before)
    file.write_text(source.replace(before, text + before), "utf-8")


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy of the packages in which nine rows of the table are done."""
    copy = tmp_path_factory.mktemp("extended")
    for package in ("hooks", "probes", "analysis", "triptych"):
        ignored = shutil.ignore_patterns("weights", "__pycache__")
        shutil.copytree(ROOT / package, copy / package, ignore=ignored)
    (copy / "probes/toyworld/weights").symlink_to(ROOT / "probes/toyworld/weights")
    pixels = copy / "analysis/metrics/pixels.py"
    pixels.write_text(pixels.read_text("utf-8") + METRIC, "utf-8")
    inserted(copy / "analysis/metrics/registry.py", '    Metric(\n        metric="ssim_full",', METRIC_ROW)
    (copy / "probes/prompts/sets/trades.yaml").write_text(PROMPTS, "utf-8")
    (copy / "triptych/cli/greet.py").write_text(COMMAND, "utf-8")
    row = '        CommandRow("greet", "triptych.cli.greet", "say hello"),\n'
    inserted(copy / "triptych/cli/main.py", '        CommandRow("power",', row)
    (copy / "analysis/observe/brightness.py").write_text(OBSERVER, "utf-8")
    registry = copy / "analysis/observe/registry.py"
    inserted(
        registry,
        "from analysis.observe.captions.observer import",
        "from analysis.observe.brightness import brightness\n",
    )
    inserted(registry, '    "skin_tone": skin_observer,', '    "features/brightness": brightness,\n')
    definitions = copy / "hooks/attention/definitions.py"
    inserted(definitions, "_REGISTRY: dict[str, Definition]", DEFINITION)
    inserted(definitions, "OUTPUT_SPACE)", "DECODER_MEAN, ")
    inserted(
        copy / "probes/config/sections.py",
        "    gallery: Annotated[",
        '    author: Annotated[Word | None, option("Who ran it.", null="nobody", example="Ada")] = None\n',
    )
    inserted(
        copy / "probes/config/question_options.py", '"toyworld-vqa", "toyworld-checker")', '"brightness", '
    )
    (copy / "analysis/observe/questions/brightness.py").write_text(READER, "utf-8")
    readers = copy / "analysis/observe/questions/observer.py"
    inserted(readers, "MAKERS: Mapping", MAKER)
    inserted(readers, "_vqa, _checker), strict", "_brightness, ")
    figures = copy / "analysis/report/figures"
    (figures / "prompt_numbers.py").write_text(FIGURE, "utf-8")
    inserted(
        figures / "__init__.py",
        "from analysis.report.figures.style import",
        "from analysis.report.figures.prompt_numbers import draw_prompt_numbers\n",
    )
    inserted(
        figures / "__init__.py", "        draw_headline(with_ends", "        draw_prompt_numbers(gap),\n"
    )
    inserted(
        copy / "analysis/report/templates/gap.html.j2",
        '{% if "headline" in figures %}',
        '{{ figure(figures["prompt_numbers"]) }}\n',
    )
    (copy / "lab/templates").mkdir(parents=True)
    (copy / "lab/pages").mkdir()
    for file in ("lab/__init__.py", "lab/templates/__init__.py", "lab/pages/__init__.py"):
        shutil.copy(ROOT / file, copy / file)
    (copy / "lab/templates/metrics.md.j2").write_text("There are {{ metrics | length }} metrics.\n", "utf-8")
    (copy / "lab/pages/metrics.py").write_text(PAGE, "utf-8")
    return copy


def command(copy: Path, *arguments: object, module: str = "triptych") -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@pytest.fixture(scope="module")
def run(extended):
    yaml = small_yaml(extended)
    text = yaml.read_text("utf-8")
    listed = text[text.index("prompts:") : text.index("seeds:")]
    text = text.replace(listed, "prompts: {from: trades}\n").replace("measure: {", "measure: {primary: mae, ")
    text = text.replace("report: {", "report: {author: Ada, ").replace(
        "observe: {",
        "observe: {questions: {readers: [brightness], paper: false, ask: {bright: {text: Is it bright?}}}, ",
    )
    yaml.write_text(text + "capture: {definition: decoder-mean}\n", "utf-8")
    done = command(extended, yaml, "--out", extended / "run", "--quiet")
    assert done.returncode == 0, done.stderr
    return Run.open(extended / "run")


def test_a_metric_is_a_function_and_a_row(run):
    gap = pd.read_parquet(run.path / "tables/gap.parquet")
    assert "mae" in set(gap["metric"]) and "MAE" in (run.path / "report.html").read_text("utf-8")
    assert (gap[gap["metric"] == "mae"]["n_prompts"] == 3).all()


def test_a_set_of_prompts_is_a_file(run):
    prompts = run.samples(["indicator", "prompt"])
    neutral = prompts[prompts["indicator"] == "neutral"]["prompt"].unique().tolist()
    assert neutral == ["a carpenter planes a board", "a mason lays a brick", "a smith bends a bar"]


def test_an_observer_is_a_file_and_a_row(run):
    vectors = [one for table in run.part_tables("features/brightness") for one in table["vector"].to_pylist()]
    assert len(vectors) == 24 and all(0 <= vector[0] <= 255 for vector in vectors)


def test_a_command_is_a_file_and_a_row(extended):
    done = command(extended, "greet", "world")
    assert (done.returncode, done.stdout) == (0, "hello, world\n"), done.stderr
    assert "greet" in command(extended).stdout


def test_a_definition_of_a_word_map_stands_in_one_file(run):
    assert run.config.capture.definition == "decoder-mean"
    assert {one for table in run.part_tables("words") for one in table["definition"].to_pylist()} == {
        "decoder-mean"
    }


def test_an_option_is_a_field_that_is_checked_recorded_and_in_the_schema(extended, run):
    assert run.meta["config"]["resolved"]["report"]["author"] == "Ada"
    schema = json.loads(command(extended, "run", "--schema").stdout)
    assert schema["$defs"]["Report"]["properties"]["author"]["description"] == "Who ran it."


def test_a_question_reader_is_a_file_and_its_name(run):
    rows = [row for table in run.part_tables("attributes/brightness") for row in table.to_pylist()]
    assert len(rows) == 24 and {row["reading"] for row in rows} <= {"yes", "no"}


def test_a_figure_is_a_file_and_a_row(run):
    assert (run.path / "figures/prompt_numbers.pdf").stat().st_size > 1000
    assert "Numbers of prompts" in (run.path / "report.html").read_text("utf-8")


def test_a_page_is_a_template_and_a_file(extended):
    done = command(extended, module="lab.pages.metrics")
    assert re.fullmatch(r"There are \d+ metrics\.\n+", done.stdout), done.stderr

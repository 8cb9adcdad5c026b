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

from probes.runs.run import Run
from tests.runs import PATIENCE, ROOT, TINY
from tests.test_imports import BELOW

PATH = re.compile(r"`([\w.]+(?:/[\w.]*)+)`")
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
ARCHITECTURE = (ROOT / "docs/explanation/architecture.md").read_text("utf-8")


def test_paths_are_there():
    paths = PATH.findall(TEXT)
    assert len(set(paths)) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_table_of_folders_is_the_one_that_is_tested():
    section = ARCHITECTURE.partition("## Inside `analysis`")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` [^|]*\| ([^|]*) \|$", section, re.M)
    said = {folder: set(re.findall(r"`(\w+)`", below)) for folder, below in rows}
    assert said == {folder: set(below) for folder, below in BELOW.items()}


# Five rows at once, in a copy of the packages.

METRIC = '''

def mean_absolute_error(pair: PicturePair) -> Score:
    """Return the mean absolute difference of grey values, in percent of their range."""
    return Score(float(np.abs(pair.first.astype(float) - pair.second).mean() / 2.55))
'''
METRIC_ROW = """    Metric(
        metric="mae",
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

from analysis.observe.observer import Observer
from probes.runs.schemas import FEATURES

KIND = "features/brightness"


class Brightness(Observer):
    """Stores the mean brightness of each image."""

    name, schemas, batch, device_type = KIND, {KIND: FEATURES}, 8, "cpu"

    def __str__(self):
        return "brightness"

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


def inserted(file: Path, before: str, text: str) -> None:
    """Put text before a line that stands once in a file."""
    source = file.read_text("utf-8")
    assert source.count(before) == 1, (file, before)
    file.write_text(source.replace(before, text + before), "utf-8")


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy of the packages in which five rows of the table are done."""
    copy = tmp_path_factory.mktemp("extended")
    for package in ("hooks", "probes", "analysis", "triptych"):
        ignored = shutil.ignore_patterns("weights")  # what is compiled holds for what is not changed
        shutil.copytree(ROOT / package, copy / package, ignore=ignored)
    (copy / "probes/toyworld/weights").symlink_to(ROOT / "probes/toyworld/weights")
    pixels = copy / "analysis/metrics/pixels.py"
    pixels.write_text(pixels.read_text("utf-8") + METRIC, "utf-8")
    inserted(copy / "analysis/metrics/registry.py", "    _SSIM,\n    Metric(\n", METRIC_ROW)
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
    inserted(
        copy / "probes/config/measurement.py",
        "    gallery: Annotated[",
        '    author: str | None = option(None, null="nobody", example="Ada")\n    """Who ran it."""\n',
    )
    return copy


ALL = """
import sys
from triptych.cli.main import main
for line in (["greet", "world"], ["--help"], ["run", "--schema"], ["run", sys.argv[1], "--out", "run", "--quiet"]):
    print(f"<{line[0]}>", flush=True)
    try:
        assert main(line) == 0
    except SystemExit as end:
        assert end.code == 0
"""


@pytest.fixture(scope="module")
def said(extended, tiny):
    """What the commands print, all in a process of the copy."""
    config = {
        **{name: value for name, value in TINY.items() if name != "trace"},
        "model": str(tiny.yaml.parent / "tiny"),
        "prompts": {"from": "trades"},
        "observe": {"engine": "toyworld-checker", "features": []},
        "measure": {**TINY["measure"], "primary": "mae"},
        "report": {**TINY["report"], "author": "Ada"},
    }
    (extended / "small.yaml").write_text(json.dumps(config), "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", ALL, "small.yaml"],
        cwd=extended,
        env={**os.environ, "PYTHONPATH": str(extended)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    parts = re.split(r"<([\w-]+)>\n", done.stdout)[1:]
    return dict(zip(["greet", "help", "schema", "run"], parts[1::2], strict=True))


@pytest.fixture(scope="module")
def run(extended, said):
    return Run.open(extended / "run")


@pytest.mark.slow
def test_a_metric_is_a_function_and_a_row(run):
    gap = pd.read_parquet(run.path / "tables/gap.parquet")
    assert "mae" in set(gap["metric"]) and "MAE" in (run.path / "report.html").read_text("utf-8")
    assert (gap[gap["metric"] == "mae"]["n_prompts"] == 3).all()


@pytest.mark.slow
def test_a_set_of_prompts_is_a_file(run):
    prompts = run.samples(["indicator", "prompt"])
    neutral = prompts[prompts["indicator"] == "neutral"]["prompt"].unique().tolist()
    assert neutral == ["a carpenter planes a board", "a mason lays a brick", "a smith bends a bar"]


@pytest.mark.slow
def test_an_observer_is_a_file_and_a_row(run):
    vectors = [one for table in run.part_tables("features/brightness") for one in table["vector"].to_pylist()]
    assert len(vectors) == 12 and all(0 <= vector[0] <= 255 for vector in vectors)


@pytest.mark.slow
def test_a_command_is_a_file_and_a_row(said):
    assert said["greet"] == "hello, world\n" and "greet" in said["help"]


@pytest.mark.slow
def test_an_option_is_a_field_that_is_checked_recorded_and_in_the_schema(said, run):
    assert run.meta["config"]["resolved"]["report"]["author"] == "Ada"
    schema = json.loads(said["schema"])
    assert schema["$defs"]["Report"]["properties"]["author"]["description"] == "Who ran it."

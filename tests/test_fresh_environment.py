"""The package without its extras, in an environment of its own: the smallest case of every command."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.runs import PATIENCE, ROOT
from tests.test_imports import FLOORS
from triptych.cli.main import COMMANDS, split_command

LINES = """\
init given.yaml
plan small.yaml
run small.yaml --out a --quiet
run small.yaml --out b --quiet --model toyworld-null
report a
init professions.yaml --from professions
compare a b
power --gap 0.1
labels sheet a --out sheet
labels sheet a --about questions --images 2
audit pictures --labels labels.csv
audit gep images pictures --weights toyworld
audit alignment a
decode small.yaml
export a --to coco --out coco
export a --to imagefolder
trace a
models
doctor"""
SMALL = """\
prompts:
  - a {person}
  - a {person} in a hat
  - a {person} on a couch
  - a {person} in a car
  - a {person} with a dog
  - a {person} with a cat
indicators: {neutral: [person, human], feminine: [woman, lady], masculine: [man, gentleman]}
sampler: {steps: 2}
trace: {sites: [unet.mid.attn.0.cross], cuts: false}
measure: {bootstrap: 20, permutations: 20}
"""
MAY_BE_REFUSED = {"audit gep"}  # an audit so small need not find anything


@pytest.mark.filterwarnings("ignore")  # of setuptools, that data files stand in no package
def test_every_data_file_is_installed(monkeypatch):
    setuptools = pytest.importorskip("setuptools")
    monkeypatch.chdir(ROOT)
    made = setuptools.Distribution({"name": "triptych", "script_name": "setup.py", "package_dir": {}})
    made.parse_config_files(["setup.cfg"])
    made.include_package_data = False  # nor what a manifest of an earlier build lists
    build = made.get_command_obj("build_py")
    build.ensure_finalized()
    installed = {Path(folder, name) for _, folder, _, names in build.data_files for name in names}
    held = {path for room in FLOORS[:-1] for path in Path(room).rglob("*") if path.is_file()}
    assert {path for path in held if path.suffix not in (".py", ".pyc")} == installed


@pytest.fixture
def triptych(tmp_path):
    """The command of an environment that holds what ``pip install`` of this folder brings."""
    source, environment = tmp_path / "source", tmp_path / "environment"
    shutil.copytree(
        ROOT, source, ignore=shutil.ignore_patterns(".*", "tests", "lab", "docs", "build", "*.egg-info")
    )
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    subprocess.run([environment / "bin" / "pip", "install", "-q", source], check=True)
    return environment / "bin" / "triptych"


@pytest.mark.slow
def test_every_command_runs_without_extras(triptych, tmp_path):
    folder = tmp_path / "work"
    (folder / "pictures").mkdir(parents=True)
    rows = ["file,label,profession"]
    for number, word in enumerate(["person", "woman", "man"] * 2):
        context = ("sitting at a table", "riding a bike")[number // 3]
        name = f"a {word} {context}_0.png"
        Image.fromarray(np.full((64, 64, 3), 40 * number, np.uint8)).save(folder / "pictures" / name)
        rows.append(f"{name},{('yes', 'no')[number % 2]},{('nurse', 'judge')[number // 3]}")
    (folder / "labels.csv").write_text("\n".join(rows))
    (folder / "small.yaml").write_text(SMALL)
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    called = [line.split() for line in LINES.splitlines()]
    assert {split_command(line)[0] for line in called} == set(COMMANDS)
    for line in called:
        done = subprocess.run(
            [triptych, *line], cwd=folder, env=variables, capture_output=True, text=True, timeout=PATIENCE
        )
        refused = done.returncode == 2 and split_command(line)[0] in MAY_BE_REFUSED
        assert done.returncode == 0 or refused, (line, done.stderr)

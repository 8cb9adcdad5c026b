"""The commands of the pages are there, and do what the pages say."""

import argparse
import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest

from lab.__main__ import PARTS
from lab.pages.blocks import PAGES, ROOT, Block, blocks, commands, name, runnable
from probes.runs.run import Run
from tests.analysis.tables.columns_held import misdescribed
from tests.page_runs import Study, run_page
from triptych.cli.main import COMMANDS, split_command

BLOCKS = [block for page in PAGES for block in blocks(page)]
SHELL = [block for block in BLOCKS if block.language == "bash"]
PYTHON = [block for block in BLOCKS if block.language == "python"]


def parser_of(command: str) -> argparse.ArgumentParser:
    return importlib.import_module(COMMANDS[command].module).parser()


def line_of(block: Block) -> str:
    return f"{block.page}:{block.line}"


def test_commands_are_there(capsys):
    """Those of `triptych` are read by their parsers, marked or not; modules and parts of the laboratory are there.

    All others are marked.
    """
    wrong = []
    for block in SHELL:
        for part in (one for line in commands(block.text) for one in re.split(r"\s(?:&&|\|)\s", line)):
            if part.startswith(("triptych ", "python -m probes.run ")):
                there = parses(shlex.split(part.replace("python -m probes.run", "triptych run", 1)))
            elif part.startswith("python -m lab "):
                there = tuple(part.split()[3:5]) in {(one.verb, one.name) for one in PARTS}
            elif part.startswith("python -m ") and "." in part.split()[2]:
                path = ROOT.joinpath(*part.split()[2].split("."))
                there = path.with_suffix(".py").exists() or (path / "__main__.py").exists()
            else:  # to be marked as not run
                there = block.why or block.page == "CONTRIBUTING.md"
            if error := capsys.readouterr().err or ("" if there else "not there, or not marked as not run"):
                wrong.append(f"{line_of(block)}: {part}: {error}")
    assert wrong == []


def parses(words: list[str]) -> bool:
    _, *rest = [re.sub(r"\$\w+", "0", word) for word in words]
    command, arguments = split_command(rest)
    if command not in COMMANDS:
        command, arguments = "run", rest
    try:
        return bool(parser_of(command).parse_args(arguments))
    except SystemExit as end:
        return end.code == 0


INLINE = re.compile(r"(?<!`)`(?:triptych|python -m probes\.run) ([^`\n]+)`(?!`)")


def test_commands_in_a_sentence_are_there():
    """Their command, what stands below it, and their options."""
    wrong = []
    for page, line in [(name(one), line) for one in PAGES for line in INLINE.findall(one.read_text("utf-8"))]:
        words = line.split()
        command, rest = split_command(words)
        command = command if command in COMMANDS else "run"
        there = command != "run" or words[0] == "run" or re.search(r"[./]|^[A-Z]|^--", words[0])
        parser = parser_of(command)
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction) and rest and rest[0].islower():
                parser = action.choices.get(rest[0], parser)
                there = there and rest[0] in action.choices
        options = {option for action in parser._actions for option in action.option_strings}
        if not there or not {word for word in words if word.startswith("--")} <= options:
            wrong.append(f"{page}: {line}")
    assert wrong == []


def test_python_compiles():
    for block in PYTHON:
        assert compile(block.text, line_of(block), "exec")


# What a file of the folder, or what was printed ("") holds after a page, beside that every status was 0.
HOLDS = {
    "docs/start/first_run.md": {"runs/first-light/report.html": ["<svg"]},
    "docs/start/own_model.md": {
        "": ["to hand it back: verify-my-model/verify.json", "runs/sd15/report.html"]
    },
    "docs/start/own_pictures.md": {"audit/audit.html": ["data:image/png;base64,", "editor"]},
    "docs/how_to/labelled_pictures.md": {
        "": ["decided pictures a cell", "against its share in labour.csv"],
        "audit/audit.html": ["data:image/png;base64,"],
    },
    "docs/how_to/image_to_image.md": {"": ["starts from 1 picture of", "report: runs/portraits/report.html"]},
    "docs/how_to/latex.md": {"": ["gap &"]},
    "docs/how_to/word_map.md": {f"{picture}.png": ["PNG"] for picture in ("person", "dog", "hat", "picture")},
    "docs/how_to/questions.md": {
        "": ["288 answers by 1 annotator", "next: triptych report runs/first-light"]
    },
    "docs/how_to/trace.md": {"": ["next: triptych run runs/first-light --stage measure"]},
    "docs/how_to/sharing.md": {"first-light-card/README.md": ["p against words"]},
    "docs/how_to/sparse_autoencoders.md": {"": ["activations that are kept"]},
    "docs/how_to/prompts.md": {"triplets.yaml": ["captions_train2017.json"], "captions.csv": ["replaced"]},
}

RUN = [page for page in PAGES if not all(block.why for block in runnable(page))]
QUICK = ("README.md",)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return Study(tmp_path_factory.mktemp("study"))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if name(page) in QUICK else pytest.mark.slow, id=name(page))
        for page in RUN
    ],
)
def test_a_page_does_what_it_says(page, study, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["triptych"])
    study.figures = name(page) == "docs/start/first_run.md"
    ran = run_page(page, study, tmp_path)
    assert ran == [block for block in runnable(page) if not block.why]
    out = capsys.readouterr().out
    for file, texts in HOLDS.get(name(page), {}).items():
        text = Path(file).read_text("utf-8", errors="replace") if file else out
        assert [one for one in texts if one not in text] == []
    for run in (record.parent for record in tmp_path.glob("runs/*/run.json")):
        assert misdescribed(Run.open(run))[0] == [], run.name

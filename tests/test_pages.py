"""The pages say what a reader can do, are short, keep to the words of the field, and their commands are there."""

import argparse
import ast
import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest

from lab.pages.blocks import LONG, PAGES, ROOT, Block, blocks, commands, name, runnable
from lab.pages.shortened import SLOW
from probes.runs.store import Run
from tests.analysis.tables.columns_held import misdescribed
from tests.page_runs import Study, run_page
from tests.remembered import leave_figures_out
from tests.test_imports import FILES
from triptych.cli.main import COMMANDS

GUIDES = [page for page in PAGES if page.is_relative_to(ROOT / "docs") and not name(page).startswith(LONG)]
BLOCKS = [block for page in PAGES for block in blocks(page)]
SHELL = [block for block in BLOCKS if block.language == "bash"]
PYTHON = [block for block in BLOCKS if block.language == "python"]

# Former words of this project; HOUSE.md has the table, with what is said instead.
RETIRED = {
    r"specimens?": "benchmark model",
    r"sol(?:ved|ves) anew": "closed-form edit",
    r"by lot": "at random",
    r"keeps? (?:its|their) word": "error rates and coverage",
    r"what came of": "outcomes, results",
    r"goes? without saying": "defaults",
    r"an? row an?": "one row per",
    r"exchanges? of activations|activations exchanged|exchanged activations": "activation patching",
    r"the instrument": "the tool",
}
WORDS = re.compile("|".join(rf"(?<![\w-])(?:{one})(?![\w-])" for one in RETIRED), re.IGNORECASE)


def retired(text: str) -> list[str]:
    return [" ".join(found.split()) for found in WORDS.findall(re.sub(r"\s+", " ", text))]


def test_the_words_would_be_found():
    assert retired("One specimen, A row\n  an image, drawn by lot") == ["specimen", "A row an", "by lot"]
    assert retired("--specimen is now --model; one row per image; ballot") == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_retired_word_on_a_page(page):
    assert retired(page.read_text("utf-8")) == []


def test_no_retired_word_in_a_docstring():
    found = {}
    for path in FILES:
        tree = ast.parse((ROOT / path).read_text("utf-8"))
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        texts = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)]
        if words := retired("\n".join(texts)):
            found[path.as_posix()] = words
    assert found == {}


def parsers(parser: argparse.ArgumentParser):
    yield parser
    for action in parser._actions:
        for inner in action.choices.values() if isinstance(action, argparse._SubParsersAction) else ():
            yield from parsers(inner)


def parser_of(command: str) -> argparse.ArgumentParser:
    module = COMMANDS[command].module if command != "run" else "triptych.cli.run"
    return importlib.import_module(module).parser()


@pytest.mark.parametrize("command", ["run", *sorted(COMMANDS)])
def test_no_retired_word_in_a_help(command):
    for parser in parsers(parser_of(command)):
        assert retired(parser.format_help()) == []


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_a_guide_is_short_and_begins_with_what_its_reader_can_do(page):
    text = page.read_text("utf-8")
    assert len(text.split()) <= 1500
    opening = text.partition("\n")[2].partition("\n## ")[0]
    assert "After th" in opening or page.name in ("index.md", "release_notes.md"), (
        "begin: After this page you can ..."
    )


def test_every_block_names_its_language():
    known = {"", "bash", "python", "yaml", "text", "csv", "latex", "json", "toml", "markdown"}
    for block in BLOCKS:
        assert block.language in known, block
        if not block.language:
            assert not re.match(r"(python|triptych|pip|hf|curl) ", block.text.lstrip()), (
                f"{block.page}:{block.line}"
            )


def test_the_readme_is_read_in_three_minutes():
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 900


def line_of(block: Block) -> str:
    return f"{block.page}:{block.line}"


@pytest.mark.parametrize("block", SHELL, ids=line_of)
def test_commands_are_there(block, capsys):
    """Those of `triptych` are read by their parsers, marked or not; modules are there; all others are marked."""
    for line in commands(block.text):
        for part in re.split(r"\s(?:&&|\|)\s", line):
            if part.startswith(("triptych ", "python -m probes.run ")):
                parse(shlex.split(part.replace("python -m probes.run", "triptych run", 1)), part)
            elif part.startswith("python -m ") and "." in part.split()[2]:
                path = ROOT.joinpath(*part.split()[2].split("."))
                assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), part
            else:
                assert block.why or block.page == "CONTRIBUTING.md", (
                    f"{line_of(block)}: mark {part!r} as not run"
                )
    assert capsys.readouterr().err == ""


def parse(words: list[str], line: str) -> None:
    _, *rest = [re.sub(r"\$\w+", "0", word) for word in words]
    command = rest[0] if rest and rest[0] in ("run", *COMMANDS) else "run"
    arguments = rest[1:] if rest and rest[0] == command else rest
    try:
        assert parser_of(command).parse_args(arguments)
    except SystemExit as end:
        assert end.code == 0, line


INLINE = re.compile(r"(?<!`)`(?:triptych|python -m probes\.run) ([^`\n]+)`(?!`)")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_in_a_sentence_are_there(page):
    """Their command, what stands below it, and their options."""
    for line in INLINE.findall(page.read_text("utf-8")):
        words = line.split()
        command = words[0] if words[0] in COMMANDS else "run"
        assert command != "run" or words[0] == "run" or re.search(r"[./]|^[A-Z]|^--", words[0]), line
        parser = parser_of(command)
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction) and words[1:] and words[1].islower():
                parser = action.choices[words[1]]
        options = {option for action in parser._actions for option in action.option_strings}
        assert {word for word in words if word.startswith("--")} <= options, line


@pytest.mark.parametrize("block", PYTHON, ids=line_of)
def test_python_compiles(block):
    assert compile(block.text, line_of(block), "exec")


# What a file of the folder, or what was printed ("") holds after a page, beside that every status was 0.
HOLDS = {
    "docs/start/first_run.md": {"runs/first-light/report.html": ["<svg"]},
    "docs/how_to/labelled_pictures.md": {
        "": ["decided pictures a cell", "against its share in labour.csv"],
        "audit/audit.html": ["data:image/jpeg;base64,"],
    },
    "docs/how_to/latex.md": {"": ["gap &"]},
    "docs/how_to/word_map.md": {"person.png": ["PNG"], "dog.png": ["PNG"]},
    "docs/how_to/questions.md": {
        "": ["288 answers by 1 annotator", "next: triptych report runs/first-light"]
    },
    "docs/how_to/trace.md": {"": ["next: triptych run runs/first-light --stage measure"]},
    "docs/how_to/sharing.md": {"cards/every-eval-ever.json": ["gap"]},
    "docs/how_to/sparse_autoencoders.md": {"": ["activations that are kept"]},
    "docs/how_to/prompts.md": {"coco/triplets.yaml": ["person with a dog"]},
}

RUN = [page for page in PAGES if not all(block.why for block in runnable(page))]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return Study(tmp_path_factory.mktemp("study"))


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow if name(page) in SLOW else (), id=name(page)) for page in RUN],
)
def test_a_page_does_what_it_says(page, study, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["triptych"])
    if name(page) != "docs/start/first_run.md":
        leave_figures_out(monkeypatch)
    ran = run_page(page, study, tmp_path)
    assert ran == [block for block in runnable(page) if not block.why]
    out = capsys.readouterr().out
    for file, texts in HOLDS.get(name(page), {}).items():
        text = Path(file).read_text("utf-8", errors="replace") if file else out
        assert [one for one in texts if one not in text] == []
    for run in (record.parent for record in tmp_path.glob("runs/*/run.json")):
        assert misdescribed(Run.open(run))[0] == [], run.name
    for report in tmp_path.glob("runs/*/report.html"):
        text = report.read_text("utf-8")
        assert retired(re.sub(r"<[^>]*>", " ", re.sub(r"data:[^\"]*", "", text))) == []

"""The pages say what a reader can do, are short, keep to the words of the field, and their commands are there."""

import argparse
import ast
import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from lab.pages import not_run
from tests.pages import LONG, PAGES, ROOT, Block, blocks, commands, name
from tests.test_imports import FILES
from triptych.cli.main import COMMANDS, main

GUIDES = [page for page in PAGES if page.is_relative_to(ROOT / "docs") and not name(page).startswith(LONG)]
BLOCKS = [block for page in PAGES for block in blocks(page)]
SHELL = [block for block in BLOCKS if block.language in ("bash", "sh", "shell", "console")]
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


@pytest.mark.parametrize("block", PYTHON, ids=line_of)
def test_python_compiles(block):
    assert compile(block.text, line_of(block), "exec")


def test_the_list_of_what_is_not_run_is_the_one_of_the_pages():
    assert (ROOT / "docs/validation/not_run.md").read_text("utf-8") == not_run.page()


# Pages whose blocks are run one after another, in one folder, on a run that is made shorter.
RUN = [
    "docs/start/first_run.md",
    "docs/how_to/word_map.md",
    "docs/how_to/latex.md",
    "docs/how_to/mitigation.md",
    "docs/how_to/audits.md",
    "docs/explanation/statistics.md",
]
SHORT = {
    "limit": 2,
    "sampler": {"steps": 2},
    "generate": {"device": "cpu", "workers": 1},
    "observe": {"engine": "toyworld-checker", "features": []},
    "measure": {"bootstrap": 50, "permutations": 64},
}


def test_python_that_is_not_run_says_why():
    for block in PYTHON:
        assert block.page in RUN or block.why, f"{line_of(block)}: mark it, or add its page to RUN"


def test_pages_do_what_they_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["triptych"])
    for page in RUN:
        for block in blocks(ROOT / page):
            if block.why:
                continue
            if block.language == "bash":
                for line in commands(block.text):
                    assert main(shlex.split(line)[1:]) == 0, (line_of(block), line, capsys.readouterr().err)
                    if line == "triptych init":
                        path = Path("triplets.yaml")
                        short = yaml.safe_load(path.read_text("utf-8")) | SHORT
                        path.write_text(yaml.safe_dump(short, sort_keys=False), "utf-8")
            elif block.language == "python":
                exec(compile(block.text, line_of(block), "exec"), {})
    assert Path("person.png").stat().st_size > 0 and Path("dog.png").stat().st_size > 0
    assert "gap &" in capsys.readouterr().out
    report = Path("runs/first-run/report.html").read_text("utf-8")
    assert retired(re.sub(r"<[^>]*>", " ", re.sub(r"data:[^\"]*", "", report))) == []

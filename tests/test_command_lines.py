"""Every command line goes through one front: one line and exit status 2 for what the user can mend, no traceback."""

import argparse
import ast
import errno
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from hooks.errors import HookError
from probes import command_line
from probes.errors import UserError
from tests.test_imports import FILES, ROOT
from triptych.cli.main import COMMANDS, command, main, split
from triptych.options import _FIELDS as FIELDS

# Print a page and take no argument.
OUTSIDE = {
    "lab/pages/sites.py",
    "lab/pages/tables.py",
    "lab/pages/metric_list.py",
    "lab/pages/configuration.py",
    "lab/pages/command_line.py",
}
DOORS = {"probes.run", "analysis.__main__", "triptych.__main__"}  # of `triptych run` and of `triptych`
STUDIES = {f"triptych {name}" for name in COMMANDS}
MODULES = {
    "triptych.cli.run",
    *("lab.papers.reproduce", "lab.pages.toyworld", "lab.pages.word_maps", "lab.validate.word_maps"),
    *(f"lab.train.base.{name}" for name in ("train", "measure", "independent")),
    *(f"lab.train.{room}.train" for room in ("dit", "located", "work")),
    *("lab.train.located.measure", "lab.train.work.measure", "lab.train.work.calibrate"),
    *(f"lab.train.detectors.{name}" for name in ("__main__", "measure", "page")),
    *("lab.train.features.__main__", "lab.train.questions.__main__", "lab.train.questions.page"),
    *(f"lab.validate.{room}.__main__" for room in ("dalleval", "gep", "skills", "skin_tone", "tracing")),
    *("lab.validate.models.calibrate", "lab.validate.objects.findings"),
    *("lab.validate.statistics.page", "lab.validate.statistics.stopping"),
    "lab.validate.models.atlas_dots",
    "lab.validate.tracing.coverage",
    *("lab.validate.tracing.certificates", "lab.validate.tracing.edited", "lab.validate.tracing.structures"),
    *("lab.pages.report_picture", "lab.validate.alignment"),
    *("lab.pages.default_run", "lab.pages.page_figure", "lab.validate.transformer_word_maps"),
}


def main_of(name: str):
    """The function of a command from its arguments to its exit status."""
    if name in STUDIES:
        return command(name.removeprefix("triptych "))
    return importlib.import_module(name).main


def is_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)


def guarded() -> dict[str, ast.Module]:
    """The modules that can be run, by name."""
    found = {}
    for path in FILES:
        if path.as_posix() not in OUTSIDE:
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            if any(is_guard(node) for node in tree.body):
                found[".".join(path.with_suffix("").parts)] = tree
    return found


def test_every_module_that_can_be_run_goes_through_the_front():
    found = guarded()
    assert set(found) == MODULES | DOORS
    for name in MODULES:
        tree = found[name]
        guard = next(node for node in tree.body if is_guard(node))
        assert ast.unparse(guard.body) in ("sys.exit(main())", "signals.leave(main())"), name
        main = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main")
        assert ast.unparse(main.body[-1]).startswith("return command_line.run("), name
        assert "ArgumentParser(" not in ast.unparse(tree), f"{name}: a parser whose errors are not one line"


@pytest.mark.parametrize("name", sorted(MODULES | STUDIES))
def test_help_ends_well_and_an_unknown_option_does_not(name, capsys):
    main = main_of(name)
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    called = {"triptych.cli.run": "triptych run"}.get(name, name.removesuffix(".__main__"))
    assert called in capsys.readouterr().out
    assert_refused(main, ["--nosuch"], "", capsys)


def test_the_front_lists_the_commands_and_runs_them(capsys):
    assert main([]) == main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in ("run", *COMMANDS))
    assert_refused(main, ["comparison"], "did you mean compare?", capsys)
    for name in ("x" * 5000, "\x1b[31m"):
        assert_refused(main, [name], ": expected ", capsys)  # no such configuration
    assert_refused(main, ["power", "--seed", "-1"], "--seed: ", capsys)


def lines_of(parser) -> dict[str, command_line.Parser]:
    """The examples of a parser and of its commands, each with the parser whose help shows it."""
    found = dict.fromkeys(parser.examples, parser)
    for action in parser._actions:
        for inner in action.choices.values() if isinstance(action, argparse._SubParsersAction) else ():
            assert inner.examples, f"{inner.prog}: no example"
            found |= lines_of(inner)
    return found


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_ends_with_an_example_that_can_be_run(name):
    parser = importlib.import_module(COMMANDS[name].module).parser()
    found = lines_of(parser)
    assert parser.examples
    for line, shown in found.items():
        program, *words = shlex.split(line)
        called, arguments = split(words)
        assert (program, called) == ("triptych", name) and line.startswith(shown.prog)
        assert parser.parse_args(arguments)
        last = shown.format_help().rstrip().splitlines()[-2:]
        assert last[0].startswith("  triptych ") and last[1].startswith("      "), last


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_says_the_defaults(name):
    """Of every option with a value that may be left out; what stands over a field of triplets.yaml is the schema's."""
    of_fields = {field.written for fields in FIELDS.values() for field in fields}
    top = importlib.import_module(COMMANDS[name].module).parser()
    for shown in (top, *lines_of(top).values()):
        for action in shown._actions:
            flags = set(action.option_strings) - of_fields
            if flags and action.nargs != 0 and not action.required:
                assert "default" in shown._get_formatter()._get_help_string(action), (shown.prog, flags)


HELP = """
import sys
from triptych.cli.main import main

for name in sys.argv[1:]:
    try:
        main([*name.split(), "--help"])
    except SystemExit as end:
        assert end.code == 0, name
    found = {"torch", "numpy", "pandas", "pyarrow", "pydantic"} & sys.modules.keys()
    assert not found, (name, found)
"""


def test_help_of_a_command_is_quick():
    names = sorted(set(COMMANDS) - {"prompts"})  # which takes its lists from the schema
    line = [sys.executable, "-c", HELP, *names]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert all(f"triptych {name}" in done.stdout for name in names)


def test_the_option_that_was_meant_is_named(capsys):
    for line, meant in (
        (
            "run triplets.yaml --stepz 3",
            "unrecognized arguments: --stepz 3: did you mean --steps? see --help",
        ),
        ("audit gep images pictures --modle=x", "did you mean --model?"),
        ("doctor extra", "unrecognized arguments: extra: see --help"),
    ):
        assert_refused(main, line.split(), meant, capsys)


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"triptych {metadata.version('triptych')}\n"


def test_the_door_of_analysis_is_the_command():
    line = [sys.executable, "-m", "analysis", "power", "--seed", "-1"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (2, "") and "--seed: expected a whole number" in done.stderr


def test_help_in_colour_on_a_terminal_alone(capsys, monkeypatch):
    assert main(["--help"]) == 0
    plain = capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["--help"]) == 0
    coloured = capsys.readouterr().out
    assert "\x1b[" in coloured and "\x1b[" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def assert_refused(main, arguments, message, capsys):
    assert main([str(one) for one in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1 and len(captured.err) <= 401, captured.err
    assert message in captured.err and "Traceback" not in captured.err


@pytest.fixture
def places(tmp_path):
    """Paths that the arguments below name."""
    (tmp_path / "file").write_text("years of work")
    (tmp_path / "empty").mkdir()
    (tmp_path / "figures.json").write_text('{"cases": []}')
    resolved = {"model": "other/model", "indicators": {"neutral": {"word": "person", "control": False}}}
    for name, config in (("foreign", resolved), ("bare", resolved | {"model": "toyworld"})):
        (tmp_path / name).mkdir()
        record = {"format": 3, "status": "complete", "config": {"resolved": config}}
        (tmp_path / name / "run.json").write_text(json.dumps(record))
    return tmp_path


NUMBER = "expected a whole number"
BAD = [
    ("triptych compare", "a b --seed -1", f"--seed: {NUMBER} of at least 0, got '-1'"),
    ("triptych compare", "a b --seed 1e3", f"--seed: {NUMBER} of at least 0, got '1e3'"),
    (
        "triptych compare",
        "a b --resamples 0",
        f"--resamples: {NUMBER} from 1 to 1,000,000, got '0'",
    ),
    ("triptych compare", "a b --resamples 100000000000", "--resamples: "),
    ("triptych compare", "a b --permutations 0", "--permutations: "),
    (
        "triptych compare",
        "a b --level nan",
        "--level: expected a number between 0 and 1, got 'nan'",
    ),
    ("triptych compare", "a b --out {file}", "{file}: cannot be written"),
    ("triptych compare", "a b --out {file}/c", "{file}/c: cannot be written"),
    ("triptych compare", "a b --out {empty}", "a: expected a run directory"),
    ("triptych compare", "a", "two or more"),
    ("triptych export", "{empty}", "arguments are required: --to"),
    ("triptych export", "{empty} --to csv", "expected a run directory"),
    ("triptych export", "{bare} --to yolo", "--to: invalid choice"),
    ("triptych export", "{bare} --to csv --out {file}", "{file}: expected a new or empty folder"),
    ("triptych export", "{bare} --to card", "{bare}: expected a contrast"),
    ("triptych power", "--seeds 1000000000", f"--seeds: {NUMBER} from 1 to 10,000, got '1000000000'"),
    ("triptych power", "--seed -1", "--seed: "),
    ("triptych power", "--gap inf", "--gap: expected a number, got 'inf'"),
    ("triptych power", "--sd-prompt nan", "--sd-prompt: "),
    ("triptych power", "--family 0", "--family: "),
    ("triptych power", "--simulations 100000000000", "--simulations: "),
    ("triptych power", "--difference 2", "--difference: expected a number between -1 and 1, got '2'"),
    ("triptych power", "--out {empty}", "{empty}: cannot be written (Is a directory)"),
    ("triptych power", "--out {file}/p.csv", "cannot be written"),
    ("lab.validate.gep.__main__", "{foreign} --out {empty}/page.md", "expected a run of a benchmark model"),
    ("lab.validate.gep.__main__", "--out {empty}/page.md", "expected runs, or results in"),
    (
        "lab.validate.models.calibrate",
        "{foreign} --out {empty}/page.md",
        "expected a run of a benchmark model",
    ),
    ("lab.validate.models.calibrate", "{bare} --out {empty}/page.md", "without the indicator feminine"),
    ("lab.validate.models.calibrate", "{bare} --out {empty}", "cannot be written"),
    (
        "lab.validate.models.calibrate",
        "{bare} --scores a b c --out {empty}/p.md",
        "at most one sample, got 3 paths",
    ),
    ("lab.papers.reproduce", "--only nobody", "--only: invalid choice"),
    ("lab.papers.reproduce", "--out {empty}", "cannot be written"),
    ("lab.papers.reproduce", "--data {empty}/none", "--data: expected a folder that is there"),
    ("lab.papers.reproduce", "--data {empty}", "expected a reference table"),
    ("triptych audit gep", "", "arguments are required: command"),
    (
        "triptych audit gep",
        "images {empty} --out {empty}/run",
        "{empty}: expected rows of images",
    ),
    (
        "triptych audit gep",
        "images {empty}/none",
        "expected a table or a folder of images, found",
    ),
    ("triptych audit gep", "sheet {bare} --images 0", "--images: "),
    ("triptych audit gep", "sheet {bare} --out {empty}/sheet", "expected a run whose prompts have"),
    ("triptych human-check", "", "arguments are required: command"),
    ("triptych human-check", "sample {bare} --out {empty} --images 0", "--images: "),
    ("triptych human-check", "sample {bare} --out {empty} --seed -1", "--seed: "),
    ("triptych human-check", "sample {bare} --out {empty} --objects -1", "--objects: "),
    ("triptych human-check", "sample {bare} --out {file}", "{file}: cannot be written"),
    ("triptych human-check", "sample {bare} --out {empty}", "{bare}"),
    ("triptych human-check", "agreement {bare} {empty}/labels.csv", "labels.csv"),
    ("lab.validate.statistics.page", "--columns 0", "--columns: "),
    (
        "lab.validate.statistics.page",
        "--scale {empty}/none.json",
        "--scale: expected a file that is there",
    ),
    ("lab.validate.statistics.page", "--scale {file}", "expected the figures of a measurement"),
    (
        "lab.validate.statistics.page",
        "--scale {figures.json}",
        "expected the figures of a measurement",
    ),
    ("lab.validate.statistics.page", "--seed -1", "--seed: "),
    ("lab.validate.statistics.page", "--out {empty}", "cannot be written"),
    ("lab.train.base.measure", "toyworld --images 0", f"--images: {NUMBER} from 2 to 1,000,000, got '0'"),
    ("lab.train.base.measure", "toyworld --steps 0", f"--steps: {NUMBER} from 1 to 1,000, got '0'"),
    ("lab.train.base.measure", "toyworld --weights {empty}/none", "--weights: expected a folder"),
    ("lab.train.base.measure", "toyworld --weights {empty}", "toyworld/model_index.json"),
    ("lab.train.base.measure", "toyworld --device nope", "--device nope: expected auto, cpu"),
    ("lab.train.base.measure", "toyworld --device cuda:99", "--device cuda:99: expected a device"),
    ("lab.train.base.measure", "toyworld --threads 0", "--threads: "),
    ("lab.train.base.measure", "toyworld --guidance-scale nan", "--guidance-scale: "),
    ("lab.train.base.measure", "toyworld --out {empty}", "cannot be written"),
    ("lab.train.base.measure", "toyworld --sheet {file}/a.png", "cannot be written"),
    ("lab.train.base.measure", "toyland", "argument model: invalid choice"),
    ("lab.train.base.independent", "toyworld --out {empty}/a --images 0", "--images: "),
    ("lab.train.base.independent", "toyworld --out {empty}", "cannot be written"),
    ("lab.train.base.independent", "toyworld", "arguments are required: --out"),
    ("lab.validate.word_maps", "--out {empty} --prompts 0", "--prompts: "),
    ("lab.validate.word_maps", "--out {empty} --specimens toyworld", "--specimens is now --models"),
    ("lab.train.base.train", "--specimen toyworld", "--specimen is now --model"),
    ("lab.train.work.measure", "--specimen toyworld-work", "--specimen is now --model"),
    ("lab.validate.word_maps", "--out {empty} --models toyland", "--models: invalid choice"),
    (
        "lab.validate.word_maps",
        "--out {empty} --weights {empty}",
        "expected a folder with the benchmark model",
    ),
    ("lab.validate.word_maps", "--out {file}", "cannot be written"),
    ("lab.train.base.train", "--work {empty} --stage clip", "stage clip: expected {empty}/tokenizer"),
    (
        "lab.train.base.train",
        "--work {empty} --stage finetune",
        "run --stage tokenizer before it, or resume",
    ),
    ("lab.train.base.train", "--work {empty} --stage tokenizer vae base", "{empty}/clip.safetensors"),
    ("lab.train.base.train", "--work {empty} --stage resume --weights {empty}", "stage resume: expected"),
    ("lab.train.base.train", "--work {file}", "{file}: cannot be written"),
    ("lab.train.base.train", "--work {empty} --weights {file}", "{file}: cannot be written"),
    ("lab.train.base.train", "--work {empty} --vae-steps 0", "--vae-steps: "),
    ("lab.train.base.train", "--work {empty} --often lamp", "--often: 'lamp': "),
    ("lab.train.base.train", "--work {empty} --finetune-from mine", "--finetune-from: invalid choice"),
    ("lab.train.base.train", "--work {empty} --device nope", "--device nope: expected auto"),
    ("lab.train.dit.train", "--work {file}", "{file}: cannot be written"),
    ("lab.train.dit.train", "--work {empty} --stage base", "stage base: expected {empty}/tokenizer_3"),
    ("lab.train.dit.train", "--work {empty} --stage resume --weights {empty}", "stage resume: expected"),
    ("lab.train.located.train", "toyworld-redundant --work {empty}", "argument model: invalid choice"),
    ("lab.train.located.train", "toyworld-cross-4 --work {file}", "{file}: cannot be written"),
    ("lab.train.located.train", "toyworld-cross-4 --work {empty} --steps 0", "--steps: "),
    ("lab.train.located.measure", "toyworld-null", "argument model: invalid choice"),
    ("lab.train.located.measure", "toyworld-opposing --out {file}", "{file}: cannot be written"),
    ("lab.train.work.train", "--work {file}", "{file}: cannot be written"),
    ("lab.train.work.train", "--work {empty} --prior 1", "--prior: expected a number between 0 and 1"),
    ("lab.train.work.measure", "--out {file}", "{file}: cannot be written"),
    ("lab.train.work.calibrate", "--work {file}", "{file}: cannot be written"),
    (
        "lab.train.work.calibrate",
        "--work {empty} --start {empty}",
        "expected {empty}/delta.safetensors, found none: train it",
    ),
    ("lab.validate.dalleval.__main__", "--out {empty}/page.md --images 0", "--images: "),
    (
        "lab.train.detectors.__main__",
        "--work {empty} --stage sam",
        "expected {empty}/pictures.npz, found none",
    ),
    ("lab.train.detectors.__main__", "--work {empty} --stage export", "stage export: expected"),
    ("lab.train.detectors.__main__", "--work {empty} --pictures 0", "--pictures: "),
    ("lab.train.detectors.__main__", "--work {file}", "cannot be written"),
    ("lab.train.detectors.measure", "sam --renderings 0", "--renderings: "),
    ("lab.train.detectors.measure", "sam --weights {empty}", "sam/model.safetensors"),
]


@pytest.mark.parametrize(("module", "arguments", "message"), BAD)
def test_bad_arguments_are_one_line(module, arguments, message, places, capsys):
    before = sorted(places.rglob("*"))

    def fill(text):
        for name in ("file", "empty", "foreign", "bare", "figures.json"):
            text = text.replace(f"{{{name}}}", str(places / name))
        return text

    assert_refused(main_of(module), fill(arguments).split(), fill(message), capsys)
    assert sorted(places.rglob("*")) == before, "nothing is left behind"
    assert (places / "file").read_text() == "years of work"


# The front itself.


def parser() -> command_line.Parser:
    main = command_line.Parser(prog="try")
    main.add_argument("--number", type=command_line.count, default=1)
    return main


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (UserError("here: expected a, got b: do c"), 2, "here: expected a, got b: do c\n"),
        (HookError("there: expected\na"), 2, "there: expected a\n"),
        (KeyboardInterrupt(), 130, "\ninterrupted: nothing is lost but this command's work\n"),
        (OSError(errno.ENOSPC, "No space left"), 2, ".: expected room on the disk, got `No space left`"),
        (OSError(errno.EDQUOT, "Quota", "a"), 2, "a: expected room on the disk"),
        (
            PermissionError(errno.EACCES, "Permission denied", "a/b"),
            2,
            "a/b: refused by the file system (Permission",
        ),
        (OSError(errno.EROFS, "Read-only file system", b"a"), 2, "a: refused by the file system (Read-only"),
    ],
)
def test_what_the_user_can_mend_is_one_line(error, status, message, capsys):
    def work(_):
        raise error

    assert command_line.run(work, parser(), []) == status
    err = capsys.readouterr().err
    assert err.startswith(message) and err.strip("\n").count("\n") == 0


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("a bug"),
        ValueError("a bug"),
        FileNotFoundError(errno.ENOENT, "no", "a"),
        PermissionError(errno.EPERM, "of no file"),
    ],
)
def test_a_bug_keeps_its_traceback(error):
    def work(_):
        raise error

    with pytest.raises(type(error)):
        command_line.run(work, parser(), [])


def test_a_long_message_and_control_characters_stay_one_printable_line(capsys):
    hostile = "x\x1b[31m\x00\u2028\udc80" + "y" * 5000

    def work(_):
        raise UserError(f"{hostile}: expected less: shorten it")

    assert command_line.run(work, parser(), []) == 2
    err = capsys.readouterr().err
    assert len(err) <= 401 and err[:-1].isprintable() and err.endswith(": shorten it\n")
    assert_refused(
        lambda argv: command_line.run(work, parser(), argv), ["--number", hostile], "--num", capsys
    )
    assert_refused(lambda argv: command_line.run(work, parser(), argv), ["--numb", "1"], "--numb 1", capsys)
    assert_refused(
        lambda argv: command_line.run(work, parser(), argv), ["--number", "9" * 9999], "9...", capsys
    )


def test_a_reader_that_has_gone_is_no_fault():
    code = (
        "import sys\nfrom probes import command_line\n"
        "sys.exit(command_line.run(lambda _: print('x' * 10**6), command_line.Parser(), []))"
    )
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=120
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("path", "folder"), [("a/b/page.md", False), ("a/b", True), ("page.md", False), ("there.md", False)]
)
def test_a_path_that_can_be_written_is_tried_and_left_as_it_was(path, folder, tmp_path):
    (tmp_path / "there.md").write_text("before")
    assert command_line.writable(tmp_path / path, folder=folder) == tmp_path / path
    assert [file.name for file in tmp_path.rglob("*")] == ["there.md"]
    assert (tmp_path / "there.md").read_text() == "before"


@pytest.mark.parametrize("path", ["/dev/null", "/proc/nowhere/page.md", "x" * 300, "a\0b", "."])
def test_a_path_that_cannot_be_written_is_one_line(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="--out"):
        command_line.writable(Path(path))
    assert not list(tmp_path.iterdir())

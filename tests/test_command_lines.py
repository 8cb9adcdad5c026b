"""Every command line goes through one front: one line and exit status 2 for what the user can mend, no traceback."""

import argparse
import errno
import importlib
import json
import os
import shlex
import subprocess
import sys
from importlib import metadata

import pytest

from hooks.errors import HookError
from probes import command_line
from probes.errors import UserError
from tests.test_imports import ROOT
from triptych.cli.main import COMMANDS, command, main, split_command

STUDIES = {f"triptych {name}" for name in COMMANDS}


def main_of(name: str):
    """The function of a command from its arguments to its exit status."""
    if name in STUDIES:
        return command(name.removeprefix("triptych "))
    return importlib.import_module(name).main


def test_help_ends_well_and_an_unknown_option_does_not(capsys):
    for name in sorted(STUDIES):
        main = main_of(name)
        with pytest.raises(SystemExit) as end:
            main(["--help"])
        assert end.value.code == 0
        assert name in capsys.readouterr().out
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


def test_help_ends_with_an_example_that_can_be_run():
    for name in COMMANDS:
        parser = importlib.import_module(COMMANDS[name].module).parser()
        assert parser.examples
        for line, shown in lines_of(parser).items():
            program, *words = shlex.split(line)
            called, arguments = split_command(words)
            assert (program, called) == ("triptych", name) and line.startswith(shown.prog)
            assert parser.parse_args(arguments)
            last = shown.format_help().rstrip().splitlines()[-2:]
            assert last[0].startswith("  triptych ") and last[1].startswith("      "), last


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
    resolved = {"model": "toyworld", "indicators": {"neutral": {"word": "person", "control": False}}}
    (tmp_path / "bare").mkdir()
    record = {"format": 4, "status": "complete", "config": {"resolved": resolved}}
    (tmp_path / "bare" / "run.json").write_text(json.dumps(record))
    return tmp_path


NUMBER = "expected a whole number"
BAD = [
    ("compare", "a b --seed 1e3", f"--seed: {NUMBER} of at least 0, got '1e3'"),
    ("compare", "a b --resamples 0", f"--resamples: {NUMBER} from 1 to 1,000,000, got '0'"),
    ("compare", "a b --permutations 100000000000", "--permutations: "),
    ("compare", "a b --level nan", "--level: expected a number between 0 and 1, got 'nan'"),
    ("compare", "a b --out {file}/c", "{file}/c: cannot be written"),
    ("compare", "a b --out {empty}", "a: expected a run directory"),
    ("compare", "a", "two or more"),
    ("verify", "toyworld --images 1", f"--images: {NUMBER} from 2 to 1,000, got '1'"),
    ("verify", "toyworl", "did you mean toyworld?"),
    ("export", "{empty}", "arguments are required: --to"),
    ("export", "{empty} --to csv", "expected a run directory"),
    ("export", "{bare} --to yolo", "--to: invalid choice"),
    ("export", "{bare} --to csv --out {file}", "{file}: expected a new or empty folder"),
    ("export", "{bare} --to card", "{bare}: expected a contrast"),
    ("labels", "", "arguments are required: command"),
    ("labels", "sheet {bare} --out {empty} --images 0", "--images: "),
    (
        "labels",
        "sheet {bare} --about questions --out {empty} --objects 2",
        "--objects: expected a sheet about",
    ),
    (
        "labels",
        "sheet {bare} --about attributes --out {empty}/s",
        "expected prompts with contexts",
    ),
    ("labels", "read {bare} {empty}/labels.csv", "labels.csv: expected a table, found none"),
    ("power", "--gap inf", "--gap: expected a number, got 'inf'"),
    ("power", "--difference 2", "--difference: expected a number between -1 and 1, got '2'"),
    ("power", "--out {empty}", "{empty}: cannot be written (Is a directory)"),
    ("audit gep", "", "arguments are required: command"),
    ("audit gep", "images {empty} --out {empty}/run", "{empty}: expected rows of images"),
    ("audit gep", "images {empty}/none", "expected a table or a folder of images, found"),
]


@pytest.mark.parametrize(("name", "arguments", "message"), BAD)
def test_bad_arguments_are_one_line(name, arguments, message, places, capsys):
    before = sorted(places.rglob("*"))

    def fill(text):
        for place in ("file", "empty", "bare"):
            text = text.replace(f"{{{place}}}", str(places / place))
        return text

    assert_refused(command(name), fill(arguments).split(), fill(message), capsys)
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


@pytest.mark.parametrize("error", [ValueError("a bug"), FileNotFoundError(errno.ENOENT, "no", "a")])
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

"""Hostile ``triplets.yaml`` and options: one printable line of at most 400 characters, soon, and exit status 2."""

import os
import time
from pathlib import Path

import pytest

from analysis.observe.checkpoints import find
from analysis.observe.objects.tags.tags import read_vocabulary
from probes import errors
from probes.config.schema import build_config
from probes.errors import UserError
from probes.fields.yaml import DEPTH, UNFOLDED, parse_yaml
from probes.models import loading
from probes.paths import expand
from tests.soon import soon
from triptych.cli.main import main

PROMPTS = "prompts: ['a {person} with a dog']\n"
SECONDS = 5  # of a processor


def refused(text):
    """The message for a YAML text; fails where it takes long, or is no printable line of 400 characters."""
    began = time.process_time()
    with pytest.raises(UserError) as caught:
        source = parse_yaml(text, "triplets.yaml")
        build_config(source.data if isinstance(source.data, dict) else {}, source)
    assert time.process_time() - began < SECONDS
    return proper(str(caught.value))


def proper(message):
    assert 0 < len(message) <= 400
    assert message.isprintable()
    return message


# Messages


def test_escape_codes_and_marks_are_spelled_out():
    assert errors.printable("\x1b]0;x\x07 \u202eabc\u2069 \udc80 \u2028") == (
        "\\x1b]0;x\\x07 \\u202eabc\\u2069 \\udc80 \\u2028"
    )
    for text in ("a café", "人物", "שלום", "می‌خواهم", "👩‍🔬", "a\u00a0b"):
        assert errors.printable(text) == text


# YAML


@pytest.mark.parametrize("char", ["\0", "\x1b", "\x7f", "\x80", "\ufffe"])
def test_control_characters(char, tmp_path, capsys):
    message = refused(PROMPTS + f"name: a\nmodel: b{char}c\n")
    assert message.startswith("triplets.yaml: line 3: expected text without control characters, got ")
    if char != "\ufffe":
        escaped = f'"\\u{ord(char):04x}"'
        message = refused(f"prompts: ['a {{person}}', {escaped[:-1]} {{person}}\"]")
        assert message.startswith("triplets.yaml: prompts[1]: expected text without control characters")
    (tmp_path / "a.yaml").write_text(PROMPTS + f"name: a{char}c\n", encoding="utf-8")
    assert main(["plan", str(tmp_path / "a.yaml")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
)
MERGES = "\n".join(
    ["a0: &a0 {k: v}"] + [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 10)]
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: " + "[" * 5000 + "]" * 5000, f"at most {DEPTH} levels"),
        ("".join(f"{' ' * i}a:\n" for i in range(2000)), f"at most {DEPTH} levels"),
        (BOMB, f"aliases to add at most {UNFOLDED} values"),
        (MERGES, f"aliases to add at most {UNFOLDED} values"),
        ("a: &a [*a]", "expected an anchor written before, got `*a`"),
        ("a: &x 1\nb: &x 2", "line 2: expected each anchor once"),
        ("a: *b", "expected an anchor written before, got `*b`"),
        ("<<: 3", "to merge by `<<`"),
        ('a: !!int ""', "a: expected a value of the kind `int`, got ``, line 1"),
        ("a: 2024-02-30", "of the kind `date`, got `2024-02-30`"),
        ("a: 9223372036854775808", "a number below 2^63"),
        ("a: !!python/object/apply:os.system [ls]", "expected no tags"),
        ("a: 1\n---\na: 2", "line 2: expected one document, got a second"),
        ("? [a]\n: 3", "expected a text as key, got a list or mapping"),
        ("1: 3", "expected a text as key, got `1`"),
        ("<<: {a: 1}\na: 2\n'a': 3", "key `a` stands twice, on lines 2 and 3"),
        ("{a: 1, a: 2}", "key `a` stands twice, on lines 1 and 1"),
        ("a:\n\tb: 1", "line 2: not valid YAML"),
    ],
)
def test_traps(text, message):
    assert message in refused(text)


def test_anchors_merges_and_tags_of_plain_kinds_are_taken():
    several = "<<: [{a: 1, b: 2}, {a: 3, c: 4}]\nb: !!int 5\nd: &x [~]\ne: *x"
    assert parse_yaml(several, "a").data == {"a": 1, "b": 5, "c": 4, "d": [None], "e": [None]}


def test_a_file_without_end_and_one_that_is_no_file(tmp_path, capsys):
    for path in ("/dev/zero", "/dev/null/x", "\0", "a" * 5000, "~nosuchuser/x.yaml", tmp_path / "\udc80none"):
        assert main(["plan", str(path)]) == 2
        captured = capsys.readouterr()
        assert (captured.out, captured.err.count("\n")) == ("", 1)
        proper(captured.err.strip("\n"))


# Numbers


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            "seeds: {count: 1000000000000}",
            "seeds.count: expected a number of at most 500000, got 1000000000000: choose another",
        ),
        ("seeds: [" + ", ".join(map(str, [*range(60_000), 7])) + "]", "seeds[60000]: 7 stands twice"),
        ("seeds: {count: 200000}", "expected at most 500000 images, got 600000"),
    ],
)
def test_numbers_beyond_measure(fields, message):
    assert message in refused(PROMPTS + fields)


# Paths and names

LONG = "/".join(["x" * 300] * 3)


@pytest.mark.parametrize("name", ["~nosuchuser/x", "a\0b", "a\ud800b", LONG])
def test_paths_that_no_file_system_takes(name, tmp_path, capsys):
    with pytest.raises(UserError) as caught:
        expand(name, "out")
    assert proper(str(caught.value)).startswith("out: expected a path, got ")
    with pytest.raises(UserError) as caught:
        loading.resolve(name)
    proper(str(caught.value))
    file = tmp_path / "a.yaml"
    file.write_text(PROMPTS)
    for arguments in (["--out", name], ["--model", name]):
        assert main(["plan", str(file), *arguments]) == 2
        captured = capsys.readouterr()
        assert (captured.out, captured.err.count("\n")) == ("", 1)
        assert proper(captured.err.strip("\n")).startswith(("--", "model"))
    for field in ("detector", "segmenter", "vocabulary"):
        with pytest.raises(UserError) as caught:
            find(name, f"observe.{field}", fetch=False) if field != "vocabulary" else read_vocabulary(name)
        assert proper(str(caught.value)).startswith(f"observe.{field}: ")


def test_the_plan_shows_no_escape_codes(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text("prompts: [\"a {person} \\u202e in \\u2066 'x'\"]\n")
    assert main(["plan", str(tmp_path / "a.yaml"), "--samples"]) == 0
    out = capsys.readouterr().out
    assert "a woman \\u202e in \\u2066 'x'" in out
    assert all(line.isprintable() for line in out.splitlines())
    assert main([str(tmp_path / "a.yaml"), "--stage", "x\x1b[31m\u202e"]) == 2
    assert "\\x1b[31m\\u202e" in proper(capsys.readouterr().err.strip("\n"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["--out", ""], "--out: expected a folder, got '': name one, or leave it out"),
        (["--model", ""], "--model: expected a text, got an empty one: write one, or leave the key out"),
    ],
)
def test_an_empty_option_is_no_option_that_was_left_out(line, message, tmp_path, monkeypatch, capsys):
    """As of a shell's variable that is not set: `--out "$WHERE" --overwrite` must not replace another run."""
    monkeypatch.chdir(tmp_path)
    Path("triplets.yaml").write_text('prompts: ["a {person} with a dog"]\n')
    assert main(["triplets.yaml", "--stage", "generate", "--overwrite", *line]) == 2
    assert capsys.readouterr().err == f"{message}\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["triplets.yaml"]


def test_a_name_that_is_a_path_and_a_record_in_the_place_of_its_run(tmp_path, capsys):
    file = tmp_path / "triplets.yaml"
    file.write_text('name: a/b\nprompts: ["a {person} with a dog"]\n')
    assert main([str(file)]) == 2
    assert capsys.readouterr().err == (
        "triplets.yaml: name: expected letters, digits, `.`, `_` and `-`, a letter or digit first, got 'a/b': write"
        " another `name:`\n"
    )
    record = tmp_path / "run.json"
    record.write_text("{}")
    assert main([str(record)]) == 2
    assert capsys.readouterr().err.endswith(
        f"expected triplets.yaml or the folder of a run, got the record of one: give {tmp_path}\n"
    )


@pytest.mark.parametrize("name", ["pipe.png", "to_pipe.png", "loop.png", "/dev/zero"])
def test_images_that_are_no_files_are_refused_at_once(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe.png")
    Path("to_pipe.png").symlink_to("pipe.png")
    Path("loop.png").symlink_to("loop.png")
    Path("images.csv").write_text(f"image,prompt,profession\n{name},a nurse,nurse\n")
    Path("t.yaml").write_text("images: {from: images.csv}\n")
    with soon():
        assert main(["t.yaml", "--out", "run", "--stage", "generate", "--quiet"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "images.csv: line 2: " in proper(said.strip("\n"))
    assert ("expected a regular file, got a " in said) == (name != "loop.png")

"""Tables of images and files of captions that others made hostile: they are read, or refused in one line, and soon.

Nothing of theirs is run, nothing hangs (pipes and devices among the paths), and no other error ends a command.
"""

import contextlib
import io
import os
import random
import shutil

import pytest
import yaml
from PIL import Image

from tests.hostile_tables import CANARY, PNG, WORDS, hostile_captions, hostile_table
from tests.probes.config.test_fuzz import read_models_once
from tests.soon import soon
from triptych.cli.run import main

SETTINGS = {"indicators": WORDS, "reference": "neutral", "model": "toyworld"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with two images, pipes, links and a file of code; nothing is ever added to it."""
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    draw = random.Random(0)
    for name in ("a.png", "b.png"):
        Image.frombytes("RGB", (16, 16), draw.randbytes(768)).save(pictures / name)
    (pictures / "odd.png").write_bytes(PNG)
    (pictures / "cut.png").write_bytes(PNG[:40])
    (pictures / "evil.py").write_text(f"open({CANARY!r}, 'w')\n")
    os.mkfifo(pictures / "pipe.png")
    (pictures / "to_pipe.png").symlink_to("pipe.png")
    (pictures / "loop.png").symlink_to("loop.png")
    monkeypatch.chdir(pictures)
    read_models_once(monkeypatch)
    return pictures


def outcome(settings, name, data, *arguments):
    """Write a file and its configuration, run the command and hold it to its word; gives what came of it."""
    there = sorted(os.listdir())
    with open(name, "wb") as file:
        file.write(data)
    with open("t.yaml", "w") as file:
        yaml.safe_dump({**SETTINGS, **settings}, file, sort_keys=False)
    out, err = io.StringIO(), io.StringIO()
    with soon(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["t.yaml", "--out", "../run", "--quiet", *arguments])
    os.remove(name), os.remove("t.yaml")
    shutil.rmtree("../run", ignore_errors=True)
    said = err.getvalue()
    if status:
        assert (status, said.count("\n"), said[-1:]) == (2, 1, "\n"), (status, said)
        assert len(said) <= 401 and said[:-1].isprintable(), said
    assert sorted(os.listdir()) == there and not os.path.exists(f"../{CANARY}")
    return "refused" if status else "read"


def fuzz_tables(numbers):
    """What came of so many tables, each taken in as far as its images are stored."""
    counts = {"read": 0, "refused": 0}
    for number in numbers:
        name, data, options = hostile_table(number)
        try:
            counts[outcome({"images": {"from": name, **options}}, name, data, "--stage", "generate")] += 1
        except BaseException as error:
            error.add_note(f"hostile_table({number})")
            raise
    assert min(counts.values()) > 0, counts
    print("tables", counts)


def fuzz_captions(numbers):
    """What came of so many files of captions, each planned with a model's tokenizer."""
    counts = {"read": 0, "refused": 0}
    for number in numbers:
        name, data, options = hostile_captions(number)
        try:
            counts[
                outcome({"prompts": {"from": name, **options}, "seeds": [0]}, name, data, "--dry-run")
            ] += 1
        except BaseException as error:
            error.add_note(f"hostile_captions({number})")
            raise
    assert min(counts.values()) > 0, counts
    print("captions", counts)


def test_a_foreign_table_is_taken_in_or_refused_in_a_line(folder):
    fuzz_tables(range(33))


def test_captions_are_read_or_refused_in_a_line(folder):
    fuzz_captions(range(33))


@pytest.mark.slow
@pytest.mark.parametrize("fuzz", [fuzz_tables, fuzz_captions])
def test_two_thousand_files(fuzz, folder):
    fuzz(range(2000))

"""METEOR and SPICE: what is said where something is missing or fails, and the programs where there is Java."""

import json
import os
import stat
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.methods.alignment import java_captions
from analysis.methods.alignment.captions import other_scores
from analysis.methods.alignment.java_captions import (
    CORENLP,
    ENGINE,
    JavaError,
    java_version,
    lacks,
    meteor,
    spice,
)

WANTED = {3: ["a cat"], 1: ["a dog"]}
SAID = {3: ["a black cat"], 1: ["a man"]}
ANSWERS = """
import json, sys
rows = json.load(open(sys.argv[5]))
json.dump({"arguments": sys.argv[1:], "rows": rows}, open(%r, "w"))
scores = [{"image_id": row["image_id"], "scores": {"All": {"f": row["image_id"] / 4}}} for row in rows]
json.dump(scores[::-1], open(sys.argv[sys.argv.index("-out") + 1], "w"))
"""


@pytest.fixture
def java(tmp_path, monkeypatch) -> Callable[[str], None]:
    """Puts a program named java first on PATH that does what a text in Python or, after ``#!``, in the shell says."""

    def put(text: str) -> None:
        program = tmp_path / "bin of java" / "java"
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            text if text.startswith("#!") else f'#!/bin/sh\nexec "{sys.executable}" - "$@" <<"E"\n{text}\nE\n'
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", os.pathsep.join([str(program.parent), os.environ["PATH"]]))

    return put


def told(version: str, status: int = 0) -> str:
    return f"#!/bin/sh\necho 'Picked up JAVA_TOOL_OPTIONS: -Xint' >&2\necho '{version}' >&2\nexit {status}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Where SPICE lies, with empty jars of CoreNLP; and temporary files in a folder of their own."""
    made = tmp_path / "site packages" / "spice"
    (made / "lib").mkdir(parents=True)
    for name in CORENLP:
        (made / "lib" / name).touch()
    (tmp_path / "temporary files").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary files"))
    monkeypatch.delenv("CLASSPATH", raising=False)
    return made


@pytest.mark.parametrize(
    ("line", "status", "expected"),
    [
        ('java version "1.8.0_412"', 0, 8),
        ('openjdk version "17.0.15" 2025-04-15', 0, 17),
        ("Unable to locate a Java Runtime.", 1, None),  # what a Mac has in place of Java
    ],
)
def test_the_version_of_java(java, line, status, expected):
    java(told(line, status))
    assert java_version() == expected


def test_what_is_missing_is_named(java, folder, tmp_path, monkeypatch):
    java(told('openjdk version "17.0.15"'))
    assert lacks("meteor", folder) == ""
    assert lacks("spice", folder).startswith(
        "needs a JavaScript engine, which Java has until 14, and this is Java 17:"
    )
    engine, other = tmp_path / "an engine.jar", tmp_path / "other.jar"
    for path, entry in ((engine, ENGINE), (other, "a.class")):
        with zipfile.ZipFile(path, "w") as jar:
            jar.writestr(entry, "")
    monkeypatch.setenv("CLASSPATH", f"{other}{os.pathsep}{tmp_path / 'away.jar'}{os.pathsep}{folder}")
    assert "JavaScript" in lacks("spice", folder)
    monkeypatch.setenv("CLASSPATH", f"{other}{os.pathsep}{engine}")
    assert lacks("spice", folder) == ""
    monkeypatch.delenv("CLASSPATH")
    java(told('java version "1.8.0_412"'))
    assert lacks("spice", folder) == ""
    (folder / "lib" / CORENLP[1]).unlink()  # a download that broke off
    assert f"of which {CORENLP[1]} is not in {folder / 'lib'}: python -m" in lacks("spice", folder)
    monkeypatch.setattr(java_captions.shutil, "which", lambda name: None)
    assert {lacks(name, folder) for name in ("meteor", "spice")} == {
        "needs Java, which is not on this machine"
    }


def test_spice_is_asked_without_a_cache_and_nothing_is_left(java, folder, tmp_path, monkeypatch):
    """By a program in Java's place, which answers in another order."""
    java(ANSWERS % str(tmp_path / "asked.json"))
    monkeypatch.setenv("CLASSPATH", "/some where/engine.jar")
    assert spice(WANTED, SAID, folder) == (0.5, [0.75, 0.25])
    asked = json.loads((tmp_path / "asked.json").read_text())
    assert asked["rows"] == [
        {"image_id": 3, "test": "a black cat", "refs": ["a cat"]},
        {"image_id": 1, "test": "a man", "refs": ["a dog"]},
    ]
    path = f"{folder / 'spice-1.0.jar'}{os.pathsep}/some where/engine.jar"
    assert asked["arguments"][1:3] == ["-cp", path] and "-cache" not in asked["arguments"]
    assert not list((tmp_path / "temporary files").iterdir())
    assert [one.name for one in folder.iterdir()] == ["lib"]  # the package is not written into


TRACE = """#!/bin/sh
echo '[main] INFO Adding annotator tokenize' >&2
echo 'Error: Could not score batched file input:' >&2
echo 'java.lang.OutOfMemoryError: Java heap space' >&2
echo '    at edu.anu.spice.SpiceScorer.main' >&2
exit 1
"""


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (TRACE, "java.lang.OutOfMemoryError: Java heap space"),
        ("#!/bin/sh\nexit 137\n", "exit status 137"),
        ("import sys\nopen(sys.argv[7], 'w').write('[]')", "no result that could be read (KeyError)"),
    ],
)
def test_spice_that_fails_says_why(java, folder, tmp_path, program, said):
    java(program)
    with pytest.raises(JavaError) as caught:
        spice(WANTED, SAID, folder)
    assert str(caught.value) == said
    assert not list((tmp_path / "temporary files").iterdir())


def test_meteor_whose_java_ends_says_why_and_does_not_wait(java):
    pytest.importorskip("pycocoevalcap")
    java("#!/bin/sh\necho 'Error occurred during initialization of VM' >&2\necho 'more' >&2\nexit 1\n")
    with pytest.raises(JavaError, match=r"^Error occurred during initialization of VM$"):
        meteor(WANTED, SAID)


@pytest.mark.slow
def test_spice_of_captions():
    """The real one, where Stanford CoreNLP was downloaded."""
    package = pytest.importorskip("pycocoevalcap.spice.spice")
    lacking = lacks("spice", Path(package.__file__).parent)
    if lacking:
        pytest.skip(lacking)
    texts = [("a young girl stands on a court", "a young girl stands on a court"), ("a dog", "a red car")]
    texts += [("a cat on the sofa", "a black cat on the couch")]
    found = other_scores(*zip(*texts))["spice"]
    assert not found.reason
    assert found.each.tolist() == pytest.approx([1, 0, 6 / 7])

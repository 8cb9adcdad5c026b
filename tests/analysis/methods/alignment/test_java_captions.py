"""METEOR and SPICE: what is said where something is missing or fails, and the programs where there is Java."""

import json
import os
import shutil
import stat
import sys
import tempfile
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from nltk.translate.meteor_score import single_meteor_score

from analysis.methods.alignment import captions, java_captions
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
from tests.analysis.methods.alignment.corenlp_stand_in import make_corenlp, make_engine

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
        ('openjdk version "25" 2025-09-16', 0, 25),
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
        ("#!/bin/sh\nexit 0\n", "no result that could be read (FileNotFoundError)"),
        ("import sys\nopen(sys.argv[7], 'w').write('[]')", "no result that could be read (KeyError)"),
    ],
)
def test_spice_that_fails_says_why(java, folder, tmp_path, program, said):
    java(program)
    with pytest.raises(JavaError) as caught:
        spice(WANTED, SAID, folder)
    assert str(caught.value) == said
    assert not list((tmp_path / "temporary files").iterdir())


def test_spice_that_does_not_end_is_given_up(java, folder, tmp_path, monkeypatch):
    java("#!/bin/sh\nexec sleep 30\n")
    monkeypatch.setattr(java_captions, "SECONDS", 0.2)
    monkeypatch.setattr(java_captions, "SECONDS_EACH", 0.0)
    with pytest.raises(JavaError, match=r"^not done within 0 seconds$"):
        spice(WANTED, SAID, folder)
    assert not list((tmp_path / "temporary files").iterdir())


def test_meteor_whose_java_ends_says_why_and_does_not_wait(java):
    pytest.importorskip("pycocoevalcap")
    java("#!/bin/sh\necho 'Error occurred during initialization of VM' >&2\necho 'more' >&2\nexit 1\n")
    with pytest.raises(JavaError, match=r"^Error occurred during initialization of VM$"):
        meteor(WANTED, SAID)


def test_of_no_captions_there_is_nothing():
    assert {one.reason for one in other_scores([], []).values()} == {
        "needs captions, of which there are none"
    }


def plain_meteor(said: list[str], wanted: list[str], function: set[str]) -> float:
    """METEOR 1.5 in English where only equal words match and none comes twice (Denkowski and Lavie 2014)."""
    alpha, beta, gamma, delta = 0.85, 0.2, 0.6, 0.75
    pairs = [(index, wanted.index(word)) for index, word in enumerate(said) if word in wanted]

    def weight(words):
        return sum(1 - delta if word in function else delta for word in words)

    matched = weight(said[index] for index, _ in pairs)
    if not pairs:
        return 0.0
    precision, recall = matched / weight(said), matched / weight(wanted)
    chunks = 1 + sum((b[0] - a[0], b[1] - a[1]) != (1, 1) for a, b in pairwise(pairs))
    whole = len(pairs) == len(said) == len(wanted) and chunks == 1
    penalty = 0 if whole else gamma * (chunks / len(pairs)) ** beta
    return (1 - penalty) * precision * recall / (alpha * precision + (1 - alpha) * recall)


class NoSynonyms:
    def synsets(self, word):
        return []


class NoStems:
    def stem(self, word):
        return word


@pytest.mark.slow
def test_meteor_is_that_of_a_plain_computation_and_of_nltk():
    """NLTK knows no function words and no sentence that is all one: it is asked of others."""
    pytest.importorskip("pycocoevalcap")
    if shutil.which("java") is None:
        pytest.skip("no Java")
    content = [
        ("dog kite snow", "dog beach snow"),
        ("kite dog", "dog kite umbrella"),
        ("boots dog kite beach", "kite beach boots guitar dog"),
    ]
    texts = [
        *content,
        ("a man with a dog", "a man with a dog"),
        ("a cat", "the umbrella"),
        ("a cat", "a dog"),
        ("a kite on the beach", "the kite in a park"),
        ("", "a dog"),
        ("a ||| dog", "a ||| dog"),
    ]
    said, wanted = ({index: [text[side]] for index, text in enumerate(texts)} for side in (0, 1))
    value, each = meteor(wanted, said)
    function = {"a", "the", "on", "in", "with"}
    split = [[side.replace("|||", "").split() for side in text] for text in texts]
    plain = [1.0 if len({*one[0]}) < len(one[0]) else plain_meteor(*one, function) for one in split]
    assert each == pytest.approx(plain, abs=1e-9)
    nltk = [
        single_meteor_score(
            *(text.split() for text in (b, a)),
            stemmer=NoStems(),
            wordnet=NoSynonyms(),
            alpha=0.85,
            beta=0.2,
            gamma=0.6,
        )
        for a, b in content
    ]
    assert each[:3] == pytest.approx(nltk, abs=1e-9)
    assert min(each) < value < max(each)


TEXTS = [
    ("red dog on couch", "red dog on couch", 1.0),
    ("a man with a cat", "snow in the office", 0.0),
    # cat, sofa, cat-on-sofa against cat, couch, cat-black, cat-on-couch: 3 of 3 and 3 of 4, sofa being a couch
    ("a cat on the sofa", "a black cat on the couch", 6 / 7),
    ("a red dog", "a black dog", 0.5),  # the dog of two things each
    ("the the", "a cat", 0.0),
    ("", "a cat", 0.0),
]


@pytest.mark.slow
def test_the_program_of_spice_by_a_stand_in_for_corenlp(folder, tmp_path, monkeypatch):
    """SPICE's own matching, synonyms and output on the Java that is here; no parser, so not its numbers of captions."""
    package = pytest.importorskip("pycocoevalcap.spice.spice")
    if shutil.which("java") is None or shutil.which("javac") is None:
        pytest.skip("no Java, or no compiler of it")
    shutil.copytree(Path(package.__file__).parent, folder, dirs_exist_ok=True)
    make_corenlp(folder / "lib" / CORENLP[0], tmp_path / "corenlp")
    shutil.copy(folder / "lib" / CORENLP[0], folder / "lib" / CORENLP[1])
    make_engine(tmp_path / "an engine.jar", tmp_path / "engine")
    monkeypatch.setattr(captions, "_spice_folder", lambda: folder)
    monkeypatch.setattr(captions, "OTHERS", {"spice": 1.0})
    monkeypatch.setenv("CLASSPATH", str(tmp_path / "an engine.jar"))
    before = sorted(folder.rglob("*"))
    found = other_scores(*zip(*(text[:2] for text in TEXTS)))["spice"]
    assert found.reason == "" and found.package.startswith("pycocoevalcap 1.")
    expected = [text[2] for text in TEXTS]
    np.testing.assert_allclose(found.each, expected, rtol=1e-12)
    assert found.value == pytest.approx(np.mean(expected))
    assert sorted(folder.rglob("*")) == before and not list((tmp_path / "temporary files").iterdir())
    (folder / "lib" / CORENLP[0]).write_bytes(b"no jar")
    (folder / "lib" / CORENLP[1]).write_bytes(b"no jar")
    broken = other_scores(["a dog"], ["a cat"])["spice"].reason
    assert broken.startswith("pycocoevalcap failed: ") and "NoClassDefFoundError: edu/stanford" in broken


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

"""METEOR and SPICE, the two metrics of captions that are Java programs of pycocoevalcap: what they need, their runs.

SPICE is started here, as the package starts it but for three things. Its cache is left out: it lies inside the
installed package, and Java from 16 on refuses how it is written. Files lie in a temporary folder. And the class path
has what the variable CLASSPATH names, since SPICE writes its results by a JavaScript engine and Java has none from 15
on.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from probes.errors import parse_json

Texts = Mapping[int, list[str]]
CORENLP = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
SPICE_JAR = "spice-1.0.jar"
SPICE_HEAP = "8G"  # as the package asks for
LAST_WITH_JAVASCRIPT = 14
ENGINE = "META-INF/services/javax.script.ScriptEngineFactory"
SECONDS = 600  # until SPICE is given up: of loading its models,
SECONDS_EACH = 1  # and of a caption with its reference
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_FAULT = re.compile(r"\w(?:Exception|Error)\b|^Error(?: occurred|:)(?! Could not score)")


class JavaError(Exception):
    """A Java program that ended without a result; says in a line what it complained of."""


def java_version() -> int | None:
    """Return the version of the Java on PATH, 8 for 1.8; None where there is none that runs."""
    found = shutil.which("java")
    if found is None:
        return None
    try:
        done = subprocess.run(
            [found, "-version"], capture_output=True, text=True, errors="replace", timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stderr + done.stdout)
    return int(match[1]) if match and done.returncode == 0 else None


def lacks(name: str, folder: Path) -> str:
    """Return what ``meteor`` or ``spice`` needs and is not there, empty where it can be run; `folder` is SPICE's."""
    version = java_version()
    if version is None:
        return "needs Java, which is not on this machine"
    if name != "spice":
        return ""
    away = [jar for jar in CORENLP if not (folder / "lib" / jar).is_file()]
    if away:
        return (
            f"needs Stanford CoreNLP 3.6.0, of which {' and '.join(away)} {'is' if len(away) == 1 else 'are'} not in"
            f" {folder / 'lib'}: python -m pycocoevalcap.spice.get_stanford_models downloads it"
        )
    if version > LAST_WITH_JAVASCRIPT and not any(map(_is_engine, _class_path())):
        return (
            f"needs a JavaScript engine, which Java has until {LAST_WITH_JAVASCRIPT}, and this is Java {version}:"
            " name the jar of one, such as Rhino's, in CLASSPATH"
        )
    return ""


def _class_path() -> list[str]:
    return [entry for entry in os.environ.get("CLASSPATH", "").split(os.pathsep) if entry]


def _is_engine(entry: str) -> bool:
    try:
        with zipfile.ZipFile(entry) as jar:
            return ENGINE in jar.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def meteor(wanted: Texts, candidates: Texts) -> tuple[float, list[float]]:
    """Return METEOR 1.5 (Denkowski and Lavie 2014) of all captions and of each, by the package's program."""
    from pycocoevalcap.meteor.meteor import Meteor

    program = Meteor()
    # three bars part the references of a caption, of which there is one
    plain = {
        index: [" ".join(text.replace("|||", " ").split()) for text in texts]
        for index, texts in wanted.items()
    }
    try:
        return program.compute_score(plain, dict(candidates))
    except (OSError, ValueError) as error:
        program.meteor_p.kill()
        complaint = _complaint(program.meteor_p.stderr.read().decode(errors="replace"))
        raise JavaError(complaint or str(error)) from error
    finally:
        if program.lock.locked():  # the package leaves it so after an error, and would wait for it at the end
            program.lock.release()


def spice(wanted: Texts, candidates: Texts, folder: Path) -> tuple[float, list[float]]:
    """Return SPICE 1.0 (Anderson et al. 2016) as the mean over captions and of each, in the order of ``candidates``.

    A caption in which the program finds nothing has 0; a JavaError says why there is none.
    """
    with tempfile.TemporaryDirectory(prefix="spice-") as temporary:
        captions_file, scores_file = Path(temporary, "captions.json"), Path(temporary, "scores.json")
        rows = [
            {"image_id": index, "test": candidates[index][0], "refs": wanted[index]} for index in candidates
        ]
        captions_file.write_text(json.dumps(rows), encoding="ascii")
        program = [str(shutil.which("java")), f"-Xmx{SPICE_HEAP}", "-cp"]
        program += [os.pathsep.join([str(folder / SPICE_JAR), *_class_path()]), "edu.anu.spice.SpiceScorer"]
        _run(
            [*program, str(captions_file), "-out", str(scores_file), "-silent"],
            SECONDS + SECONDS_EACH * len(rows),
        )
        try:
            scores = {
                row["image_id"]: row["scores"]["All"]["f"]
                for row in parse_json(scores_file.read_text("utf-8"))
            }
            each = [float(scores[index]) for index in candidates]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise JavaError(f"no result that could be read ({type(error).__name__})") from error
    return sum(each) / len(each), each


def _run(command: list[str], seconds: float) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise JavaError(f"not done within {seconds:.0f} seconds") from error
    if done.returncode:
        complaint = _complaint(done.stderr) or _complaint(done.stdout)
        raise JavaError(complaint or f"exit status {done.returncode}")


def _complaint(text: str) -> str:
    """The line that names the fault, or the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if _FAULT.search(line)), lines[-1] if lines else "")

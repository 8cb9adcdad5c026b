"""A run ends with the same bytes, page and figures too, however it was generated: `run.json` alone says how."""

import hashlib
import importlib.util
import json
import re

import pytest

from tests.runs import python, record, run_here

APART = re.compile(r"run\.json|\.lock")  # what says how and by whom it was generated


def tree(run):
    """The checksum of every file of a run but of those that say how it was generated."""
    names = {file.relative_to(run).as_posix(): file for file in sorted(run.rglob("*")) if file.is_file()}
    return {
        name: hashlib.sha256(file.read_bytes()).hexdigest()
        for name, file in names.items()
        if not APART.fullmatch(name)
    }


def noted(run):
    """What its record says but for processes, seconds and the way from it to its model."""
    meta = json.loads(re.sub(r'"(\.\./)+([^"/]*/)*', '"', json.dumps(record(run))))
    apart = ("workers", "seconds")
    return {
        name: {key: value for key, value in entry.items() if key not in apart}
        if isinstance(entry, dict)
        else entry
        for name, entry in meta.items()
    }


@pytest.mark.parametrize(
    ("name", "figures"),
    [("tiny", set()), pytest.param("toyworld", {"svg"}, marks=pytest.mark.slow)],
)
def test_two_processes_in_another_folder(name, figures, request, tmp_path, monkeypatch, capfd):
    made = request.getfixturevalue(name)
    expected = tree(made.run)
    kinds = {name.partition("/")[0] for name in expected}
    assert {"samples", "captures", "words", "objects", "features", "traced", "tables"} < kinds
    assert {"report.html", "triplets.yaml"} < kinds
    assert {name.rpartition(".")[2] for name in expected if name.startswith("figures/")} == figures
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    capfd.readouterr()
    assert run_here(made.yaml, "another", "--workers", "2") == 0
    assert capfd.readouterr().err == ""  # of helpers neither warnings nor progress
    run = tmp_path / "deep" / "er" / "another"
    assert tree(run) == expected
    assert noted(run) == noted(made.run)
    meta = json.loads((run / "run.json").read_text())
    assert (meta["device"]["workers"], meta["device"]["threads"]) == (2, 1)
    assert (meta["observer"]["workers"], meta["observer"]["threads"]) == (2, 1)
    assert meta["config"]["resolved"]["generate"]["workers"] == 2
    assert json.loads((made.run / "run.json").read_text())["device"]["workers"] == 1


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray (triptych[cluster])")
def test_ray_on_this_machine_which_ends_without_a_word_of_its_own(toyworld, tmp_path):
    done = python("-m", "probes.run", toyworld.yaml, "--out", tmp_path / "run", "--cluster", "local")
    assert done.returncode == 0 and done.stdout.endswith(f"\nreport: {tmp_path / 'run' / 'report.html'}\n")
    told = [part for part in re.split(r"[\r\n]+|\x1b\[A", done.stderr) if part.strip()]
    own = re.compile(
        r"(cluster: Ray|generate|observe|trace|measure|report|with \d+ prompts no p of a gap|toyworld does)\b.*"
    )
    assert [part for part in told if not own.match(part.strip())] == []
    assert tree(tmp_path / "run") == tree(toyworld.run)

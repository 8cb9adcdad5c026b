"""A run directory that is taken away while a stage is at work: one line, and nothing is made in its place."""

import shutil

import pytest

from probes import locks
from tests.runs import run_here

WRITES = {"generate": 4, "observe": 4, "trace": 2, "measure": 3, "report": 2}  # until it is taken away
MADE = {"generate": "*", "observe": ("objects", "observed", "features", "attributes"), "trace": ("traced",)}


def before(stage, copy):
    """A run as a stage finds it."""
    for kind in MADE.get(stage, ()):
        for folder in copy.glob(kind):
            shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
    return copy


def taken_away(monkeypatch, path, after, how):
    """Let a folder be taken away once so many files were written in it."""
    real, left = locks.require_not_removed, [after]

    def require_not_removed(file):
        if not file.name.endswith(".lock") and file != path:
            left[0] -= 1
            if not left[0]:
                how(path)
        real(file)

    monkeypatch.setattr(locks, "require_not_removed", require_not_removed)


def moved(path):
    path.rename(path.with_name("moved"))


def replaced(path):
    shutil.rmtree(path)
    path.mkdir()
    (path / ".lock").touch()


@pytest.mark.parametrize(
    ("stage", "how"), zip(WRITES, (shutil.rmtree, moved, replaced, shutil.rmtree, moved), strict=True)
)
def test_it_is_said_in_a_line(stage, how, tiny, tiny_copy, monkeypatch, capsys):
    path = before(stage, tiny_copy)
    taken_away(monkeypatch, path, WRITES[stage], how)
    assert run_here(tiny.yaml, path, "--stage", stage) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == (
        f"{path}: expected the run directory to stay while it is worked on, found it removed, moved or replaced: put"
        " it back and run the same command again, or begin anew\n"
    )
    assert not path.exists() or [file.name for file in path.iterdir()] == [".lock"]


def test_what_is_read_from_it_meanwhile_is_no_bug(tiny, tiny_copy, monkeypatch, capsys):
    """Gone after the last part of the trace is written: its record is read then."""
    path, counts = before("trace", tiny_copy), "probes.stages.trace.stage.fault_counts"
    monkeypatch.setattr(counts, lambda faults: {}["a bug"])
    with pytest.raises(KeyError, match="a bug"):  # an error of another kind stays what it is
        run_here(tiny.yaml, path, "--stage", "trace")
    monkeypatch.setattr(counts, lambda faults: shutil.rmtree(path))
    assert run_here(tiny.yaml, path, "--stage", "trace") == 2
    assert "expected the run directory to stay" in capsys.readouterr().err and not path.exists()

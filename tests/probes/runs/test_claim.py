"""Who may work on a run directory beside whom, what is said, and whose files are cleared away."""

import contextlib
import errno
import fcntl
import os
import socket
import time

import pytest

from probes.errors import UserError
from probes.locks import is_lock, locked
from probes.runs import parts
from probes.runs.directory import DAY, claim
from probes.runs.run import Run
from tests.faults import holding

META = {"format": 4, "status": "planned", "config": {"resolved": {}}}


@pytest.fixture
def run(tmp_path):
    Run(tmp_path / "run", {}).write_meta(**META)
    return tmp_path / "run"


def tried(path, alone):
    """None where one can work on the directory, or the line that is said."""
    try:
        with claim(path, alone=alone):
            return None
    except UserError as error:
        return str(error)


@pytest.mark.parametrize(
    ("there", "wanted", "said"),
    [
        (False, False, None),
        (False, True, "expected to be the only one writing here, found another process (process"),
        (True, False, "found another process that replaces what is here (process"),
        (True, True, "expected to be the only one writing here, found another process (process"),
    ],
)
def test_who_keeps_out_whom(there, wanted, said, run):
    with holding(claim(run, alone=there)) as process:
        told = tried(run, wanted)
        assert told == said or (said in told and told.startswith(f"{run}: "))
        assert told is None or f"(process {process} on {socket.gethostname()}): let it end first" in told
    assert tried(run, wanted) is None  # the lock ends with the process, though it was killed
    assert [file.name for file in run.iterdir() if is_lock(file.name)] == [".lock"]


def left_behind(run):
    """What writers have left: temporary files of this minute and of two days ago, and the lock of a part."""
    (run / "samples").mkdir(exist_ok=True)
    (run / "samples" / "part-00002.parquet.lock").touch()
    fresh, old = (parts.temporary_path(run / "samples" / f"part-0000{number}.parquet") for number in (0, 1))
    for file in (fresh, old):
        file.write_bytes(b"half")
    os.utime(old, (time.time() - 2 * DAY,) * 2)
    return fresh, old


def test_leftovers_are_cleared_away_where_nobody_else_can_be_writing(run):
    left_behind(run)
    assert tried(run, False) is None and not list((run / "samples").iterdir())
    fresh, old = left_behind(run)
    with holding(claim(run, alone=False)):
        assert fresh.exists() is old.exists() is False
        fresh, old = left_behind(run)
        with locked(run / "samples" / "part-00002.parquet.lock"):
            assert tried(run, False) is None
            assert sorted(file.suffix for file in (run / "samples").iterdir()) == [".lock", ".parquet"]


def test_without_locks_it_is_said_and_fresh_files_stay(run, monkeypatch, capsys):
    def none(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    fresh, old = left_behind(run)
    assert tried(run, False) is None
    assert fresh.exists() and not old.exists()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{run}: this file system has no locks, nothing keeps a second process from")


def test_a_folder_that_came_to_nothing_is_taken_away_unless_others_work_on_it(tmp_path):
    path = tmp_path / "deep" / "run"
    with pytest.raises(ZeroDivisionError), claim(path):
        raise ZeroDivisionError
    assert not (tmp_path / "deep").exists()
    with holding(claim(path, alone=False)):
        assert tried(path, False) is None
        assert path.exists()


def test_processes_do_not_lose_each_others_notes(run):
    """Six note at once under names of their own, and the later stage stays."""
    children = []
    mine = Run.open(run)
    for number in range(6):
        children.append(os.fork())
        if not children[-1]:  # pragma: no cover
            status = 1
            with contextlib.suppress(BaseException):
                one = Run(run, dict(mine.meta))
                for turn in range(10):
                    one.write_meta(**{f"note-{number}-{turn}": turn})
                one.write_meta(status="generated" if number else "complete")
                status = 0
            os._exit(status)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 6
    mine.write_meta(status="observed", own=1)
    there = Run.open(run).meta
    assert {f"note-{number}-{turn}" for number in range(6) for turn in range(10)} | {"own"} <= set(there)
    assert there["status"] == "complete"
    assert mine.status == "observed"
    Run(run, {}).write_meta(**META)  # a run that replaces another notes nothing of it
    assert Run.open(run).meta == META

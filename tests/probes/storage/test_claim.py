"""Holding a run directory, in processes: who keeps out whom, what is said, and whose files are cleared away."""

import contextlib
import errno
import fcntl
import os
import socket
import time

import pytest

from probes.runs import parts
from probes.runs.run import Run
from probes.storage.claim import DAY, HeldError, Hold, claim
from probes.storage.locks import FolderHold, GoneError, is_lock

ALONE, SHARD, RESULTS = Hold.ALONE, Hold.SHARD, Hold.RESULTS


@pytest.fixture
def run(tmp_path):
    Run(tmp_path / "run", {}).write_meta(format=4, status="planned", config={"resolved": {}})
    return tmp_path / "run"


@contextlib.contextmanager
def held(path, hold):
    """Another process holds a run directory."""
    ready, told = os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover
        try:
            with claim(path, hold):
                os.write(told, b"!")
                time.sleep(600)
        finally:
            os._exit(1)
    os.close(told)
    try:
        assert os.read(ready, 1) == b"!"
        yield child
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(ready)


def tried(path, hold):
    """None where the directory can be held, or the line that is said."""
    try:
        with claim(path, hold):
            return None
    except HeldError as error:
        return str(error)


@pytest.mark.parametrize(
    ("there", "wanted", "said"),
    [
        (ALONE, ALONE, "expected to be the only one writing here, found another process (process"),
        (ALONE, SHARD, "found another process that has this folder alone (without --shard) (process"),
        (ALONE, RESULTS, "expected to be the only one writing here, found another process (process"),
        (SHARD, ALONE, "found processes that share this folder (--shard, or measuring beside it) (process"),
        (SHARD, SHARD, None),
        (SHARD, RESULTS, None),
        (RESULTS, ALONE, "found processes that share this folder (--shard, or measuring beside it) (process"),
        (RESULTS, SHARD, None),
        (
            RESULTS,
            RESULTS,
            "the only one measuring here, found another process that measures or reports (process",
        ),
    ],
)
def test_who_keeps_out_whom(there, wanted, said, run):
    with held(run, there) as process:
        told = tried(run, wanted)
        assert told == said or (said in told and told.startswith(f"{run}: "))
        assert told is None or f"(process {process} on {socket.gethostname()}): let it end first" in told
    assert tried(run, wanted) is None  # the lock ends with the process, though it was killed


def left_behind(run):
    """Temporary files of a writer: one of this minute, one of two days ago."""
    (run / "samples").mkdir(exist_ok=True)
    fresh, old = (parts.temporary(run / "samples" / f"part-0000{number}.parquet") for number in (0, 1))
    for file in (fresh, old):
        file.write_bytes(b"half")
    os.utime(old, (time.time() - 2 * DAY,) * 2)
    return fresh, old


@pytest.mark.parametrize(("hold", "stays"), [(ALONE, False), (RESULTS, False), (SHARD, True)])
def test_leftovers_are_cleared_away_where_nobody_else_can_be_writing(hold, stays, run):
    fresh, old = left_behind(run)
    assert tried(run, hold) is None
    assert fresh.exists() == stays and not old.exists()


def test_without_locks_it_is_said_and_fresh_files_stay(run, monkeypatch, capsys):
    def none(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    for hold in Hold:
        fresh, old = left_behind(run)
        assert tried(run, hold) is None
        assert fresh.exists() and not old.exists()
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"{run}: this file system has no locks, nothing keeps a second process out")


def test_a_folder_that_came_to_nothing_is_taken_away_unless_others_hold_it(tmp_path):
    for hold, stays in ((ALONE, False), (RESULTS, False), (SHARD, True)):
        path = tmp_path / hold.value / "deep" / "run"
        with pytest.raises(ZeroDivisionError), claim(path, hold):
            raise ZeroDivisionError
        assert path.exists() == (tmp_path / hold.value).exists() == stays
        assert tried(path, ALONE) is None


def test_of_many_that_begin_at_one_moment_one_at_a_time_holds(run, tmp_path):
    """Each adds a line to a file while it is alone: no line is lost, and no two are inside at once."""
    children = []
    for _ in range(6):
        children.append(os.fork())
        if not children[-1]:  # pragma: no cover
            status = 1
            with contextlib.suppress(BaseException):
                for _ in range(5):
                    one = FolderHold(run, ALONE)
                    while not one.taken():
                        time.sleep(0.002)
                    (tmp_path / "inside").touch(exist_ok=False)
                    time.sleep(0.002)
                    (tmp_path / "inside").unlink()
                    one.close()
                status = 0
            os._exit(status)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 6


def test_a_lock_that_is_taken_away_is_said(run):
    one = FolderHold(run, ALONE)
    one.take()
    one.require()
    (lock,) = (file for file in run.iterdir() if is_lock(file.name) and file.name != ".lock")
    lock.unlink()
    with pytest.raises(GoneError, match="expected the run directory to stay"):
        one.require()
    lock.touch()  # another file
    with pytest.raises(GoneError):
        one.require()
    one.close()


# Files that several write


def test_of_many_that_make_a_file_one_does(tmp_path):
    """Processes that begin at one moment: one content is there, whole, and one process is told that it is its own."""
    path, go = tmp_path / "run.json", tmp_path / "go"
    children = []
    for number in range(8):
        children.append(os.fork())
        if not children[-1]:  # pragma: no cover
            while not go.exists():
                time.sleep(0.0005)
            os._exit(0 if parts.create_bytes(path, b"%d" % number * 100_000) else 1)
    go.touch()
    made = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert sorted(made) == [0, *[1] * 7]
    assert path.read_bytes() == b"%d" % made.index(0) * 100_000
    assert sorted(file.name for file in tmp_path.iterdir()) == ["go", "run.json"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_is_made_where_there_are_no_hard_links(number, tmp_path, monkeypatch):
    def none(*names):
        raise OSError(number, "no links")

    monkeypatch.setattr(os, "link", none)
    assert parts.create_bytes(tmp_path / "x", b"first")
    assert not parts.create_bytes(tmp_path / "x", b"second")
    assert (tmp_path / "x").read_bytes() == b"first"
    assert [file.name for file in tmp_path.iterdir()] == ["x"]

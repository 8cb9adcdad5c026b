"""Claims on object storage, on the client's own store in memory; skipped where `obstore` is not installed."""

import json
import threading
import time

import pytest

from probes.errors import UserError
from probes.runs import parts
from probes.runs.store import Run
from probes.storage import lease, locations, objects
from probes.storage.claim import HeldError, Hold, claim
from probes.storage.lease import Lease, LostError
from probes.storage.locks import OtherHoldsError
from probes.storage.objects import ObjectPath

obstore = pytest.importorskip("obstore")
ROOT = "s3://bucket/run"
ALONE, SHARD, RESULTS = Hold.ALONE, Hold.SHARD, Hold.RESULTS
SECONDS = 0.8


@pytest.fixture(autouse=True)
def store(monkeypatch):
    from obstore.store import MemoryStore

    one = MemoryStore()
    monkeypatch.setattr(objects, "opened", lambda scheme, bucket, size=0: one)
    monkeypatch.setattr(lease, "SECONDS", SECONDS)
    monkeypatch.setattr(lease, "_ROUNDING", 0.1)
    monkeypatch.setattr(locations, "GUARDS", [])
    return one


@pytest.fixture
def root():
    return locations.run_path(ROOT)


def asleep(held):
    """A holder that does nothing any more, as a machine that is suspended; a killed one is no different."""
    held._stop.set()
    held._thread.join()
    return held


def names(store):
    return sorted(entry["path"] for entry in store.list("run/.claims").collect())


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        (ALONE, ALONE, True),
        (ALONE, SHARD, True),
        (ALONE, RESULTS, True),
        (SHARD, ALONE, True),
        (SHARD, SHARD, False),
        (SHARD, RESULTS, False),
        (RESULTS, ALONE, True),
        (RESULTS, SHARD, False),
        (RESULTS, RESULTS, True),
    ],
)
def test_who_holds_a_run_with_whom(first, second, refused, root, store):
    there = Lease(root, first).take()
    if refused:
        with pytest.raises(OtherHoldsError) as caught:
            Lease(root, second).take()
        assert caught.value.hold == first
    else:
        Lease(root, second).take().close()
    there.require()
    there.close()
    Lease(root, second).take().close()
    assert names(store) == []


def test_the_lines_of_a_refusal(root):
    with claim(root, Hold.SHARD):
        with (
            pytest.raises(HeldError, match=r"found processes that share this folder .* \(process \d+ on"),
            claim(root),
        ):
            pass
        with (
            claim(root, Hold.RESULTS),
            pytest.raises(HeldError, match="another process that measures or reports"),
            claim(root, Hold.RESULTS),
        ):
            pass
    with (
        claim(root),
        pytest.raises(HeldError, match=r"the only one writing here, found another process \(process"),
        claim(root),
    ):
        pass


@pytest.mark.parametrize(
    ("first", "second"), [(ALONE, ALONE), (SHARD, ALONE), (RESULTS, RESULTS), (ALONE, SHARD)]
)
def test_a_claim_that_nobody_renews_runs_out_and_its_holder_writes_nothing_more(first, second, root, store):
    held = asleep(Lease(root, first).take())
    parts.write_bytes(root / "samples" / "part-00000.parquet", b"before")
    after = Lease(root, second).take()
    assert lease._now() - held._began > SECONDS
    locations.GUARDS.remove(after)  # it is another process's
    time.sleep(0.2)
    for write in (
        lambda: parts.write_bytes(root / "samples" / "part-00001.parquet", b"x"),
        lambda: parts.write_bytes(root / "run.json", b"x"),
        lambda: parts.create_bytes(root / "run.json", b"x"),
        lambda: Run(root, {}).remove_file("samples/part-00000.parquet"),
    ):
        with pytest.raises(LostError, match="found that the claim ran out and another process took it over"):
            write()
    assert sorted(entry["path"] for entry in store.list("run/samples").collect()) == [
        "run/samples/part-00000.parquet"
    ]
    held.close()  # takes nothing away from the other one
    locations.GUARDS.append(after)
    after.require()
    parts.write_bytes(root / "run.json", b"{}")
    after.close()
    assert names(store) == []


def test_the_claim_of_a_killed_process_is_waited_for_and_said(root, store, capsys):
    """It says itself for how long it holds."""
    claimed = {"host": "node-7", "process": 4711, "token": "x", "hold": "alone", "seconds": 1.7}
    (root / ".claims" / "alone").write(json.dumps(claimed).encode())
    began = time.monotonic()
    Lease(root, ALONE).take().close()
    assert time.monotonic() - began > 1.7
    line = "s3://bucket/run: claimed by process 4711 on node-7: waiting at most 2 s to see whether it is at work\n"
    assert capsys.readouterr().err == line and names(store) == []


def test_a_holder_that_slept_goes_on_where_nobody_took_over(root):
    held = asleep(Lease(root, ALONE).take())
    time.sleep(SECONDS + 0.2)
    parts.write_bytes(root / "run.json", b"{}")
    held.close()


def test_a_claim_outlives_its_seconds_while_it_is_renewed(root):
    held = Lease(root, ALONE).take()
    time.sleep(2.5 * SECONDS)
    with pytest.raises(OtherHoldsError):
        Lease(root, ALONE).take()
    held.require()
    held.close()


def test_an_answer_that_was_lost_is_no_loss(root, monkeypatch):
    """The claim was written, and the request sent again finds what it has written itself."""
    write, failed = ObjectPath.write, []

    def twice(self, data, expected="any"):
        version = write(self, data, expected)
        if expected != "any" and len(failed) < 2:
            failed.append(self)
            return write(self, data, expected)
        return version

    monkeypatch.setattr(ObjectPath, "write", twice)
    held = Lease(root, ALONE).take()
    assert failed
    parts.write_bytes(root / "run.json", b"{}")
    assert len(failed) == 2 and (root / "run.json").read_bytes() == b"{}"
    held._renew(), held.require()
    held.close()


def test_a_record_that_another_wrote_is_not_written_over(root):
    parts.write_bytes(root / "run.json", b"1")
    held = Lease(root, ALONE).take()
    parts.write_bytes(root / "run.json", b"2")
    (root / "run.json").write(b"another's")
    with pytest.raises(LostError, match="expected the record that this process wrote last, found another"):
        parts.write_bytes(root / "run.json", b"3")
    assert (root / "run.json").read_bytes() == b"another's"
    held.close()


def test_storage_that_does_not_answer_ends_the_claim_in_time(root, monkeypatch):
    held = Lease(root, ALONE).take()

    def gone(*arguments, **options):
        raise objects.StorageError("s3://bucket/run: object storage cannot be reached")

    monkeypatch.setattr(ObjectPath, "_do", gone)
    held.require()
    time.sleep(SECONDS + 0.3)
    with pytest.raises(LostError, match="cannot be reached"):
        held.require()
    held.close()


def test_of_many_at_once_one_at_a_time_holds(root):
    inside, most, taken, ended, lock = [0], [0], [], [], threading.Lock()

    def contend(number):
        for _ in range(2):
            one = Lease(root, ALONE)
            if one.taken():
                with lock:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    taken.append(number)
                time.sleep(0.02)
                one.require()
                with lock:
                    inside[0] -= 1
                one.close()
        ended.append(number)

    threads = [threading.Thread(target=contend, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1 and taken and sorted(ended) == [*range(6)]


def test_storage_that_heeds_no_conditions_is_said(root, monkeypatch, capsys):
    write = ObjectPath.write
    with claim(root):
        assert capsys.readouterr().err == ""
    monkeypatch.setattr(ObjectPath, "write", lambda self, data, expected="any": write(self, data))
    with claim(root):
        assert (
            "this storage heeds no conditional writes, nothing keeps a second process out"
            in capsys.readouterr().err
        )


def test_a_prefix_that_holds_something_else_is_refused_and_untouched(root, store):
    parts.write_bytes(root / "thesis.txt", b"mine")
    with pytest.raises(UserError, match="expected an empty folder or a run, got other files"), claim(root):
        pass
    assert [entry["path"] for entry in store.list("run").collect()] == ["run/thesis.txt"]

"""Claims on object storage, on the client's own store in memory; skipped where `obstore` is not installed."""

import json
import threading
import time

import pytest

from probes.runs import parts
from probes.runs.store import Run
from probes.storage import lease, locations, objects
from probes.storage.claim import Hold
from probes.storage.lease import Lease, LostError
from probes.storage.locks import OtherHoldsError

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


@pytest.mark.parametrize(("first", "second"), [(ALONE, ALONE), (SHARD, ALONE)])
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


def test_a_record_that_another_wrote_is_not_written_over(root):
    parts.write_bytes(root / "run.json", b"1")
    held = Lease(root, ALONE).take()
    parts.write_bytes(root / "run.json", b"2")
    (root / "run.json").write(b"another's")
    with pytest.raises(LostError, match="expected the record that this process wrote last, found another"):
        parts.write_bytes(root / "run.json", b"3")
    assert (root / "run.json").read_bytes() == b"another's"
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

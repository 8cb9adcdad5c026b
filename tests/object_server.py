"""A server of object storage on this machine (moto's), and command lines that write to it in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

BUCKET = "triptych-tests"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "hidden-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
}


def free_port() -> int:
    """The number of a port that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def until_it_answers(port: int, process: subprocess.Popen, log: Path) -> None:
    """Wait until a server takes connections."""
    until = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert process.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.1)


class Server:
    """moto's server as a process.

    Parameters
    ----------
    log : pathlib.Path
        Where it notes each request.
    """

    def __init__(self, log: Path):
        self.port, self.log = free_port(), log
        self.process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=log.open("wb"),
            env={**os.environ, **CREDENTIALS},
        )
        self.environment = {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}"}
        until_it_answers(self.port, self.process, log)

    def client(self):
        """The client that tests look with: AWS' own, not the project's."""
        import boto3

        return boto3.client("s3", endpoint_url=self.environment["AWS_ENDPOINT_URL"])

    def create_bucket(self) -> None:
        """Make the bucket that tests write to."""
        self.client().create_bucket(Bucket=BUCKET)

    def names(self, prefix: str) -> list[str]:
        """The names of the objects under a prefix."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{prefix}/")
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]

    def stored(self, prefix: str) -> dict[str, bytes]:
        """Every object under a prefix, by the rest of its name."""
        client, found = self.client(), {}
        for name in self.names(prefix):
            try:
                found[name.removeprefix(f"{prefix}/")] = client.get_object(Bucket=BUCKET, Key=name)[
                    "Body"
                ].read()
            except client.exceptions.NoSuchKey:  # of a process that is at work
                continue
        return found

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


_PROCESSES = multiprocessing.get_context("forkserver")  # it has loaded the libraries, and used none
_PROCESSES.set_forkserver_preload(
    ["tests.object_server", "triptych.cli.run", "probes.stages.generate", "analysis.observe.stage"]
)


def driver(arguments, environment, said: Path, *, lease: float = 60.0, retried: float = 90.0):
    """Start a command line in a process of its own; what it says goes to a file."""
    process = _PROCESSES.Process(
        target=_drive, args=([str(one) for one in arguments], environment, str(said), lease, retried)
    )
    process.start()
    return process


def _drive(arguments, environment, said, lease_seconds, retried):
    import torch

    from probes.storage import lease, objects
    from triptych.cli.run import main

    os.environ.update(environment)
    torch.set_num_threads(1)
    lease.SECONDS, objects.RETRIED, objects.BRIEF = lease_seconds, retried, min(retried, 30.0)
    os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    os.dup2(2, 1)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    status = 1
    try:
        status = main(arguments)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

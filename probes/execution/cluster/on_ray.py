"""The connection to Ray, and a worker as its actor; the one module that imports it."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import ray
from ray.exceptions import RayError

from probes.config.cluster_options import AUTO, LOCAL, Cluster
from probes.errors import UserError
from probes.execution import signals, workers
from probes.execution.cluster.garbage import frozen
from probes.execution.cluster.job import Job
from probes.execution.cluster.worker import Worker
from probes.execution.team import blocked

_STORE = 100 * 2**20  # bytes that a local Ray keeps for texts; its least is 75 MiB
_NONE_FOUND = re.compile("not find any running Ray")  # the one failure after which a Ray is started here
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Actor(Worker):
    """A worker as Ray's actor."""

    def describe(self) -> dict[str, Any]:
        """As a worker answers, with the machine's name for Ray."""
        return {**super().describe(), "node": ray.get_runtime_context().get_node_id()}

    def answer(self, function: str, job: Job) -> Any:
        """As a worker answers."""
        with frozen():
            return super().answer(function, job)

    def open_stage(self, function: str, job: Job) -> str:
        """As a worker does."""
        with frozen():
            return super().open_stage(function, job)

    def _close(self) -> None:
        gc.unfreeze()
        super()._close()
        gc.collect()


def actors(options: Cluster, *, on_cpu: bool) -> tuple[Any, int]:
    """Return the class of actors that workers are, and how many the cluster has room for as it is."""
    there = ray.cluster_resources()
    gpus = options.gpus_per_worker
    if gpus == AUTO:
        gpus = 1.0 if there.get("GPU") and not on_cpu else 0.0
    room = there.get("CPU", 0) / options.cpus_per_worker
    if gpus:
        room = min(room, there.get("GPU", 0) / gpus)
    kind = ray.remote(num_cpus=options.cpus_per_worker, num_gpus=gpus, max_restarts=0)(Actor)
    return kind.options(scheduling_strategy="SPREAD"), int(room)


@contextlib.contextmanager
def connected(options: Cluster) -> Iterator[str]:
    """Connect to the cluster that is meant, or hold a Ray on this machine; yields a line on what there is."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # of a worker that is ended nobody asks any more
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns of a change to come
    before, out = {number: signal.getsignal(number) for number in _SIGNALS}, sys.stdout
    with open(os.devnull, "w") as nowhere:
        sys.stdout = nowhere  # what Ray prints would tear the progress bar; its logs have it, too
        try:
            where = _connect(options)
            with _own_signals(before):
                yield f"cluster: Ray {where}: {_resources()}"
        except SystemExit:  # how Ray takes a SIGTERM while it connects
            raise signals.Terminated from None
        finally:
            ray.shutdown()
            gc.unfreeze()  # of `Pool.make`: what stays frozen is never freed, which nanobind reports when Python ends
            sys.stdout = out
            _handle(before)


@contextlib.contextmanager
def _own_signals(handlers: dict[signal.Signals, Any]) -> Iterator[None]:
    """Take signals as before Ray put handlers of its own in their place.

    Whatever a handler raises while Ray waits comes out of it as a `KeyboardInterrupt`: so it is noted what it was.
    """
    raised: list[BaseException] = []

    def noted(number: int, frame: Any) -> None:
        try:
            handlers[signal.SIGTERM](number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    _handle({**handlers, **({signal.SIGTERM: noted} if callable(handlers[signal.SIGTERM]) else {})})
    try:
        yield
    except KeyboardInterrupt as error:
        raise (raised or [error])[0] from None


def _handle(handlers: dict[signal.Signals, Any]) -> None:
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _resources() -> str:
    there, nodes = ray.cluster_resources(), sum(node["Alive"] for node in ray.nodes())
    counts = [(nodes, "node"), (there.get("GPU", 0), "GPU"), (there.get("CPU", 0), "CPU")]
    return ", ".join(f"{count:g} {what}{'s' if count != 1 else ''}" for count, what in counts if count)


def _connect(options: Cluster) -> str:
    """Connect; says where."""
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    address = (os.environ.get("RAY_ADDRESS") if options.address == AUTO else None) or options.address
    if address != LOCAL:
        try:
            found = ray.init(address=address, **quiet).address_info["gcs_address"]
            return f"at {found}"
        except (ConnectionError, RuntimeError, ValueError, RayError) as error:
            if address != AUTO or not _NONE_FOUND.search(str(error)):
                raise UserError(
                    f"cluster.address: expected a running Ray at {address}, found none"
                    f" ({' '.join(str(error).split()):.160}): start one with `ray start`, or say --cluster local"
                ) from None
    # Ray's own is 15: on a machine that is busy they would starve
    os.environ.setdefault("RAY_worker_niceness", "0")
    wanted = 0 if options.workers == AUTO else options.workers * options.cpus_per_worker
    local = {
        "num_cpus": max(workers.cores(), wanted),
        "object_store_memory": _STORE,
        "include_dashboard": False,
    }
    try:
        with blocked(signal.SIGTERM):  # of one to the whole group Ray would end before this process
            ray.init(address=LOCAL, **local, **quiet)
    except Exception as error:  # Ray has no kind of its own for this
        raise UserError(
            "cluster: expected Ray to start on this machine, it did not"
            f" ({' '.join(str(error).split()):.160}): try again, or use --workers"
        ) from error
    return "on this machine"

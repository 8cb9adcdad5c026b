"""Ray as the engine that places workers; the one module that imports it.

A worker is an actor that is never restarted (``max_restarts=0``): whoever is lost is lost, and the queue asks for
another. Calls of an actor are made in order, one at a time.
"""

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
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError

from probes.config.cluster_options import AUTO, LOCAL, Cluster
from probes.errors import UserError
from probes.execution import signals, workers
from probes.execution.cluster.engine import Heard
from probes.execution.cluster.garbage import set_aside
from probes.execution.cluster.worker import Worker
from probes.json_text import parse_json

_STORE = 100 * 2**20  # bytes that a local Ray keeps for texts; its least is 75 MiB
_NONE_FOUND = re.compile("not find any running Ray")  # the one failure after which a Ray is started here
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Actor(Worker):
    """A worker as Ray's actor."""

    def asked(self, function: str, text: str) -> str:
        """As a worker answers."""
        with set_aside():
            return super().asked(function, text)

    def opened(self, function: str, text: str) -> str:
        """As a worker does."""
        with set_aside():
            return super().opened(function, text)

    def _close(self) -> None:
        gc.unfreeze()
        super()._close()
        gc.collect()

    def node(self) -> str:
        """The machine that it is on, by Ray's name."""
        return ray.get_runtime_context().get_node_id()


class OnRay:
    """Workers on a Ray cluster that this process is connected to, see `connected`.

    Parameters
    ----------
    options : Cluster
    on_cpu : bool
        Whether they are to have no GPU.
    """

    def __init__(self, options: Cluster, *, on_cpu: bool):
        there = ray.cluster_resources()
        gpus = options.gpus_per_worker
        if gpus == AUTO:
            gpus = 1.0 if there.get("GPU") and not on_cpu else 0.0
        self._room = min(
            there.get("CPU", 0) / options.cpus_per_worker,
            there.get("GPU", 0) / gpus if gpus else float("inf"),
        )
        self._kind = ray.remote(
            num_cpus=options.cpus_per_worker, num_gpus=gpus, max_restarts=0, max_task_retries=0
        )(Actor)
        self._options = {"scheduling_strategy": "SPREAD"}
        self._actors: dict[int, Any] = {}
        self._nodes: dict[int, str] = {}
        self._calls: dict[Any, tuple[int, str]] = {}
        self._started = 0

    @property
    def expected(self) -> int:
        """Workers that the cluster has room for as it is."""
        return int(self._room)

    def start(self) -> int:
        """Ask for a worker; it stays asked for until there is room."""
        self._started += 1
        self._actors[self._started] = self._kind.options(**self._options).remote()
        self.send(self._started, "node")
        self.send(self._started, "placed")
        return self._started

    def shared(self, text: str) -> Any:
        """Hold a text once, whoever is sent it; where a stage begins."""
        gc.freeze()  # this process is asked for collections, too, see `probes.execution.cluster.garbage`
        return ray.put(text)

    def send(self, worker: int, call: str, *told: Any) -> None:
        """Call a worker."""
        self._calls[getattr(self._actors[worker], call).remote(*told)] = worker, call

    def heard(self, seconds: float) -> list[Heard]:
        """What is heard, waiting at most so long."""
        ready, _ = ray.wait([*self._calls], num_returns=1, timeout=seconds)
        if ready and len(self._calls) > 1:
            ready, _ = ray.wait([*self._calls], num_returns=len(self._calls), timeout=0)
        heard = []
        for ref in ready:
            worker, call = self._calls.pop(ref, (None, ""))
            if worker is None:  # of one that was found lost by another of its calls
                continue
            try:
                answer = ray.get(ref)
            except RayError as error:
                heard.append(self._lost(worker, error))
                continue
            if call == "node":
                self._nodes[worker] = answer
            else:
                heard.append(Heard(worker, call, parse_json(answer)))
        return heard

    def drop(self, worker: int) -> None:
        """End a worker, whatever it is at."""
        self._forget(worker, end=True)

    def _forget(self, worker: int, *, end: bool) -> None:
        actor = self._actors.pop(worker)
        self._calls = {ref: of for ref, of in self._calls.items() if of[0] != worker}
        if end:
            ray.kill(actor, no_restart=True)

    def _lost(self, worker: int, error: RayError) -> Heard:
        """What a call says that comes to nothing: the process has ended, or cannot be reached, which is as good."""
        if not isinstance(error, (ActorDiedError, ActorUnavailableError)):
            raise error
        self._forget(worker, end=isinstance(error, ActorUnavailableError))
        node = self._nodes.get(worker)
        return Heard(worker, lost=_reason(error), node=node if node in self.gone() else None)

    def gone(self) -> set[str]:
        """The machines that had workers and that Ray knows to be lost by now."""
        return {*self._nodes.values()} - {one["NodeID"] for one in ray.nodes() if one["Alive"]}


def _reason(error: RayError) -> str:
    """Ray's reason, in a line: the one that is not about the actor's name and number."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("The actor")), lines[0] if lines else "")[:200]


@contextlib.contextmanager
def connected(options: Cluster) -> Iterator[str]:
    """Connect to the cluster that is meant, or hold a Ray on this machine that ends with the context.

    Yields
    ------
    str
        What there is, in a line.

    Raises
    ------
    UserError
        There is none at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns of a change to come
    before, out = {number: signal.getsignal(number) for number in _SIGNALS}, sys.stdout
    with open(os.devnull, "w") as nowhere:
        sys.stdout = nowhere  # what Ray prints would tear the progress bar; its logs have it, too
        try:
            where = _connect(options)
            with _told_apart(before):
                yield f"cluster: Ray {where}: {_resources()}"
        except SystemExit:  # how Ray takes a SIGTERM while it connects
            raise signals.Terminated from None
        finally:
            ray.shutdown()
            gc.unfreeze()  # of `shared`: what stays frozen is never freed, which nanobind reports when Python ends
            sys.stdout = out
            _handle(before)


@contextlib.contextmanager
def _told_apart(handlers: dict[signal.Signals, Any]) -> Iterator[None]:
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


@contextlib.contextmanager
def _kept_from(number: signal.Signals) -> Iterator[None]:
    """Let processes that are started here hear nothing of a signal: of one to the whole group Ray would end first,
    and this process with it, before it could say so."""
    if not hasattr(signal, "pthread_sigmask"):  # no such thing on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
    os.environ.setdefault(
        "RAY_worker_niceness", "0"
    )  # Ray's own is 15: on a machine that is busy they would starve
    wanted = 0 if options.workers == AUTO else options.workers * options.cpus_per_worker
    local = {
        "num_cpus": max(workers.cores(), wanted),
        "object_store_memory": _STORE,
        "include_dashboard": False,
    }
    try:
        with _kept_from(signal.SIGTERM):
            ray.init(address=LOCAL, **local, **quiet)
    except Exception as error:  # Ray has no kind of its own for this
        raise UserError(
            "cluster: expected Ray to start on this machine, it did not"
            f" ({' '.join(str(error).split()):.160}): try again, or use --workers"
        ) from error
    return "on this machine"

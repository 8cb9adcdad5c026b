"""Parts made by Ray: a remote call each, whose files come back to this process, which alone writes them.

So no disk is shared. Ray decides where a part is made, and makes it again where the worker or its machine is lost. A
worker keeps the work that it has opened, so a model is loaded once in each.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import socket
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import RayError

from probes import command_line
from probes.config.generation import AUTO, LOCAL, Cluster
from probes.config.schema import Config
from probes.errors import UserError
from probes.execution import workers
from probes.execution.loop import Part
from probes.execution.processes import Tick, blocked_signals, key_of, open_once
from probes.runs.record import versions
from probes.runs.run import Run

RECORD = "cluster"  # of run.json, by stage
RETRIES = 3  # of a part whose worker was lost
WAIT = 60.0  # seconds without an answer, after which it is looked whether any machine has room
# libraries that have a say in the bytes of a part
_LIBRARIES = ("torch", "triptych", "diffusers", "transformers", "tokenizers", "numpy", "pillow", "pyarrow")
_STORE = 100 * 2**20  # bytes that a local Ray keeps for texts; its least is 75 MiB
_NONE_FOUND = re.compile("not find any running Ray")  # the one failure after which a Ray is started here
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # of a call that is given up nobody asks any more
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else it warns of a change to come
}


class RayWorkers:
    """Workers of the Ray cluster that this process is connected to, which run functions and make parts."""

    def __init__(self, options: Cluster, *, on_cpu: bool) -> None:
        """Take the resources of a worker from the options; `on_cpu`: no GPUs."""
        gpus = options.gpus_per_worker
        if gpus == AUTO:
            gpus = 1.0 if ray.cluster_resources().get("GPU") and not on_cpu else 0.0
        self._options, self._devices, self._waiting = options, list[str](), False
        self._most = Counter[str]()  # workers of a stage at one time
        self._needs = {"CPU": float(options.cpus_per_worker), "GPU": float(gpus)}
        needs = {"num_cpus": self._needs["CPU"], "num_gpus": self._needs["GPU"]}
        self._call = ray.remote(max_retries=RETRIES, scheduling_strategy="SPREAD", **needs)(_call_in)

    def available_workers(self) -> int:
        """Return how many workers the cluster has resources for: at least one, at most as many as configured."""
        there, most = ray.cluster_resources(), self._options.workers
        room = int(min(there.get(name, 0) / number for name, number in self._needs.items() if number))
        if room < 1 and not self._waiting:
            line = "cluster: no machine has room for a worker yet, waiting for one; Control-C ends the run"
            print(line, file=sys.stderr, flush=True)
            self._waiting = True
        return max(1, room if most == AUTO else min(room, most))

    def run_function(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return ``function(*arguments)``, computed by a worker of the cluster."""
        reference = self._call.remote(os.getcwd(), function, *arguments)
        while not ray.wait([reference], timeout=WAIT)[0]:
            self.available_workers()
        return self._get_result(reference)

    def make_parts(
        self, run: Run, stage: str, parts: Iterator[Part], work: Any, tick: Tick
    ) -> Iterator[tuple[Part, Iterable[tuple[str, bytes]]]]:
        """Yield each part, with (kind, Parquet bytes) of its files, when a worker has made it.

        A `UserError` of a worker ends the stage; any other failure is raised as one after all other parts are made.
        """
        shared, key, failed = ray.put(work), key_of(work), dict[int, str]()
        carried = getattr(work, "carried", lambda pieces: pieces)
        at_work = dict[Any, Part]()
        while True:
            room = self.available_workers()
            # one more for each, so that none waits for this process; where their number is limited, no more
            most = room * (2 if self._options.workers == AUTO else 1)
            while len(at_work) < most and (part := next(parts, None)):
                there = replace(part, pieces=carried(part.pieces))
                at_work[self._call.remote(os.getcwd(), _make_part, key, shared, there)] = part
            if not at_work:
                break
            self._most[stage] = max(self._most[stage], min(room, len(at_work)))
            for reference in ray.wait([*at_work], timeout=WAIT)[0]:
                part = at_work.pop(reference)
                try:
                    device, content = self._get_result(reference)
                except RayError as error:
                    failed[part.identity["part"]] = str(error).strip()
                    continue
                self._require_same_device(device)
                yield part, content.items()
                tick(part.images)
        entry = {"workers": self._most[stage], "devices": self._devices}
        run.write_meta(**{RECORD: {**(run.meta.get(RECORD) or {}), stage: entry}})
        if failed:
            first, *others = sorted(failed)
            print(failed[first], file=sys.stderr)
            more = f" and {len(others) - 4} more" if others[4:] else ""
            raise UserError(
                f"{stage}: expected every part, could not make {', '.join(map(str, [first, *others[:4]]))}{more}"
                f" ({failed[first].splitlines()[-1]:.160}): all others are there, run the same command again to try"
                " these once more"
            )

    def _get_result(self, reference: Any) -> Any:
        """Return the result of a remote call; UserError if its worker's libraries have other versions than ours."""
        try:
            host, libraries, result = ray.get(reference)
        except RayError as error:
            if isinstance(cause := getattr(error, "cause", None), UserError):
                raise cause from None
            raise
        ours = versions()
        for name in _LIBRARIES:
            if libraries.get(name) != ours.get(name):
                raise UserError(
                    f"cluster: expected {name} {ours.get(name)} on {host}, as on the driver, found"
                    f" {libraries.get(name) or 'none'}: install the same versions on all machines"
                )
        return result

    def _require_same_device(self, device: str) -> None:
        """Raise a UserError if a worker's device is of another kind than the first, unless kinds may be mixed."""
        if self._devices and device not in self._devices and not self._options.mixed_devices:
            raise UserError(
                f"cluster: expected workers on {self._devices[0]}, like the first, got {device}, whose images differ in"
                " their last bits: take machines of one kind, or set cluster.mixed_devices to true"
            )
        self._devices += [device] if device not in self._devices else []


# In a worker


def _call_in(folder: str, function: Callable[..., Any], *arguments: Any) -> tuple[str, dict[str, str], Any]:
    """Return host, versions of libraries and ``function(*arguments)``, called with this working directory."""
    with contextlib.suppress(OSError):
        os.chdir(folder)
    try:
        return socket.gethostname(), versions(), function(*arguments)
    except UserError as error:
        raise UserError(str(error)) from None  # its own kind may not bear pickling
    except Exception as error:
        raise RuntimeError("".join(traceback.format_exception(error))) from None


def _make_part(key: bytes, work: Any, part: Part) -> tuple[str, dict[str, bytes]]:
    """Make a part in this worker; return the device's name, and the Parquet bytes of the files by kind."""
    do = open_once(key, work)
    pieces = [do(piece, lambda images: None) for piece in part.pieces]
    return _device_name(work.device), {kind: bytes(data) for kind, data in part.file_contents(pieces)}


def _device_name(device: str) -> str:
    """Return the name of the GPU of this process, or "cpu with" its instruction set; other devices unchanged."""
    if device != "cpu" and not device.startswith("cuda"):
        return device
    import torch

    if device == "cpu":
        return f"cpu with {torch.backends.cpu.get_cpu_capability()}"
    return torch.cuda.get_device_name(torch.device(device))


# The connection


@contextlib.contextmanager
def connected(config: Config, *, progress: bool = True) -> Iterator[RayWorkers]:
    """Yield the workers of the configured Ray cluster, or of a Ray that runs here during the ``with`` block."""
    options = config.cluster
    assert options is not None
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with contextlib.ExitStack() as stack:
        # what Ray prints would tear the progress bar; its logs have it, too
        stack.enter_context(contextlib.redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
        stack.callback(_set_handlers, handlers)
        stack.callback(ray.shutdown)
        try:
            where = _connect(options)
        except SystemExit:  # how Ray takes a SIGTERM
            command_line.received.append(signal.SIGTERM)
            raise KeyboardInterrupt from None
        _set_handlers(handlers)  # Ray has put some of its own in their place
        if progress:
            there, nodes = ray.cluster_resources(), sum(node["Alive"] for node in ray.nodes())
            counts = [(nodes, "node"), (there.get("GPU", 0), "GPU"), (there.get("CPU", 0), "CPU")]
            listed = [f"{count:g} {what}{'s' if count != 1 else ''}" for count, what in counts if count]
            print(f"cluster: Ray {where}: {', '.join(listed)}", file=sys.stderr, flush=True)
        yield RayWorkers(options, on_cpu=config.generate.device == "cpu")


def _set_handlers(handlers: dict[signal.Signals, Any]) -> None:
    """Set the handlers of signals, given by number, if this is the main thread."""
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _connect(options: Cluster) -> str:
    """Connect to the configured Ray, or start one here; return "at ADDRESS" or "on this machine"."""
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    address = (os.environ.get("RAY_ADDRESS") if options.address == AUTO else None) or options.address
    if address != LOCAL:
        try:
            return f"at {ray.init(address=address, **quiet).address_info['gcs_address']}"
        except (ConnectionError, RuntimeError, ValueError, RayError) as error:
            if address != AUTO or not _NONE_FOUND.search(str(error)):
                raise UserError(
                    f"cluster.address: expected a running Ray at {address}, found none"
                    f" ({' '.join(str(error).split()):.160}): start one with `ray start`, or say --cluster local"
                ) from None
    # Ray's own is 15: on a machine that is busy they would starve
    os.environ.setdefault("RAY_worker_niceness", "0")
    wanted = 0 if options.workers == AUTO else options.workers * options.cpus_per_worker
    local = {"num_cpus": max(workers.core_count(), wanted), "object_store_memory": _STORE}
    try:
        with blocked_signals(signal.SIGTERM):  # of one to the whole group Ray would end before this process
            ray.init(address=LOCAL, include_dashboard=False, **local, **quiet)
    except Exception as error:  # Ray has no kind of its own for this
        raise UserError(
            "cluster: expected Ray to start on this machine, it did not"
            f" ({' '.join(str(error).split()):.160}): try again, or use --workers"
        ) from error
    return "on this machine"

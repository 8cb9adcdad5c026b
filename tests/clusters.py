"""Ray clusters of several machines on this one, as Ray's own tests have them, and what ends their workers."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import psutil

MEMORY = 80 * 2**20  # bytes of a machine's store; Ray's least is 75 MiB
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", "RAY_AUTH_TOKEN": "of-the-tests"}


@contextlib.contextmanager
def machines(workers: int, count: int, **system) -> Iterator[object]:
    """A head without room for workers, and so many machines with room for some; all end with the context."""
    before = {name: os.environ.get(name) for name in (*QUIET, "RAY_ADDRESS", "RAY_AUTH_MODE")}
    os.environ.update(QUIET, RAY_AUTH_MODE="token")
    from ray._raylet import Config
    from ray.cluster_utils import Cluster

    Config.initialize("")  # Ray may have been loaded already, and keeps what it read then
    cluster = Cluster()
    health = {"health_check_period_ms": 1000, "health_check_failure_threshold": 5}
    _started(cluster, num_cpus=0, include_dashboard=False, _system_config={**health, **system})
    os.environ["RAY_ADDRESS"] = cluster.address
    try:
        for _ in range(count):
            add(cluster, workers)
        yield cluster
    finally:
        import ray

        ray.shutdown()
        with contextlib.suppress(Exception):
            cluster.shutdown()
        for process in leftovers():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        Config.initialize("")


def add(cluster, workers: int) -> object:
    """Another machine with room for so many workers."""
    return _started(cluster, num_cpus=workers)


def _started(cluster, **options) -> object:
    """A machine; on one that is busy otherwise Ray may give up after half a minute, and is asked once more."""
    before = {process.pid for process in leftovers()}
    try:
        return cluster.add_node(object_store_memory=MEMORY, **options)
    except Exception:
        for process in leftovers():
            if process.pid not in before:
                kill(process)
    return cluster.add_node(object_store_memory=MEMORY, **options)


def actors() -> list[psutil.Process]:
    """The processes of workers that are placed on these machines, whatever they are at."""
    return [process for process in leftovers() if "ray::Actor" in _line(process)]


def machine_of(cluster, actor: psutil.Process) -> object:
    """The machine that a worker is on: its raylet has started it."""
    return next(
        node for node in cluster.worker_nodes if node.all_processes["raylet"][0].process.pid == actor.ppid()
    )


def leftovers() -> list[psutil.Process]:
    """Processes of Ray that this one has started and that are still there."""
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if any(name in _line(process) for name in ("ray::", "raylet", "gcs_server", "ray/_private"))
    ]


def _line(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def kill(process: psutil.Process) -> bool:
    """Kill a process at once; False where it has ended already."""
    try:
        os.kill(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True

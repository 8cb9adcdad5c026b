"""What a cluster's driver costs: shards of nothing, and workers that sleep.

``python -m tests.benchmarks.cluster [--shards N] [--seconds X] [--each N] [--out tests/benchmarks/results]``. A local
Ray; its workers make parts of nothing (no file, no model), or sleep for each. The bars: 100,000 empty shards in 60 s;
with 1, 2 and 4 workers that sleep an efficiency of 95 % in the steady state, and of 80 % with the start of workers.

Efficiency is the time that the shards sleep over the time that passed times the workers: with the start from the call
on, with Ray running; in the steady state from the moment that all are ready until no part is left to be given.
Prints JSON, and writes it to ``cluster.json`` with --out.
"""

import argparse
import datetime
import json
import os
import platform
import sys
import time
from pathlib import Path

from probes import command_line
from probes.config.cluster_options import Cluster
from probes.execution.cluster.pending import PartTask
from probes.execution.cluster.pool import Pool
from probes.execution.cluster.worker import libraries
from tests.probes.execution.cluster import light_stage

WORKERS = (1, 2, 4)


def timed(shards: int, seconds: float, workers: int) -> dict[str, float]:
    """Make so many shards by so many workers, each sleeping so long; wall seconds, also of the steady state alone."""
    from probes.execution.cluster import on_ray

    kind, _ = on_ray.actors(Cluster(workers=workers), on_cpu=True)
    pool = Pool(on_ray.ray, kind, workers, workers, versions=libraries())
    moments: list[tuple[float, int]] = []  # with all workers ready: when, and how many parts were there
    made: list[PartTask] = []

    def looked() -> None:
        if pool.ready == workers and len(made) < shards - 2 * workers:
            moments.append((time.monotonic(), len(made)))

    began = time.monotonic()
    job = light_stage.job(None, seconds)
    wanted = [light_stage.task_of(None, number) for number in range(shards)]
    planned = time.monotonic()
    failed = pool.make(f"{light_stage.HERE}:opened", job, wanted, made.append, looked)
    wall = time.monotonic() - planned
    assert not failed and len(made) == shards
    pool.close()
    (first, before), (last, after) = moments[0], moments[-1]
    return {
        "workers": workers,
        "shards": shards,
        "planning": round(planned - began, 2),
        "wall": round(wall, 2),
        "steady": round((after - before) * seconds / ((last - first) * workers), 4),
        "with_start": round(shards * seconds / (wall * workers), 4),
    }


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = command_line.Parser(
        prog="python -m tests.benchmarks.cluster", description=__doc__.split("\n")[0]
    )
    options.add_argument("--shards", type=command_line.whole(100, 1_000_000), default=100_000)
    options.add_argument("--seconds", type=command_line.number(0.01, 60), default=0.5)
    options.add_argument(
        "--each", type=command_line.whole(10, 10_000), default=120, help="sleeping shards a worker"
    )
    options.add_argument("--out", type=Path)
    return options


def benchmark(arguments: argparse.Namespace) -> None:
    """Measure and print."""
    from probes.execution.cluster.on_ray import connected

    out = sys.stdout
    with connected(Cluster(address="local", workers=max(WORKERS))):
        empty = timed(arguments.shards, 0.0, 2)
        sleeping = [timed(arguments.each * workers, arguments.seconds, workers) for workers in WORKERS]
    empty = {name: empty[name] for name in ("workers", "shards", "planning", "wall")}
    result = {
        "benchmark": "cluster",
        "date": datetime.date.today().isoformat(),
        "machine": platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
        "versions": {name: __import__(name).__version__ for name in ("ray",)},
        "empty": empty,
        "seconds": arguments.seconds,
        "sleeping": sleeping,
    }
    text = json.dumps(result, indent=1)
    print(text, file=out)
    if arguments.out:
        (arguments.out / "cluster.json").write_text(text + "\n", "utf-8")


def main(argv=None) -> int:
    """Run the benchmark."""
    return command_line.run(benchmark, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

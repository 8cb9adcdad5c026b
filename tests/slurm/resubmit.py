"""On the cluster of `two_nodes`: an array of shards is submitted, cancelled in the middle, and submitted again.

    python -m tests.slurm.resubmit TRIPLETS_YAML RUN PARTS

Prints, as JSON, how many parts there were when it was cancelled and in what state every job ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ARRAY = Path(__file__).with_name("array.sh")
PATIENCE = 1800  # seconds, also on a machine that is busy otherwise


def said(*command: object) -> str:
    """What a command writes, which is to succeed."""
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def submitted(yaml: Path, run: Path, shards: int) -> str:
    """Submit an array; gives its job number."""
    options = [f"--array=0-{shards - 1}", f"--output={run.parent}/%A_%a.out", f"--chdir={Path.cwd()}"]
    os.environ["PYTHON"] = sys.executable
    return said("sbatch", "--parsable", *options, ARRAY, yaml, "--out", run).strip()


def states(job: str) -> dict[str, str]:
    """The state of each task of a job, by its number in the array."""
    rows = said("squeue", "-h", "-r", "-t", "all", "-j", job, "-o", "%K %T").splitlines()
    return dict(sorted(row.split() for row in rows))


def wait(job: str, done) -> None:
    """Wait until a condition holds or no task of a job is left."""
    until = time.monotonic() + PATIENCE
    while not done() and said("squeue", "-h", "-j", job).strip():
        assert time.monotonic() < until, states(job)
        time.sleep(0.2)


def main(arguments: list[str]) -> None:
    """Submit four shards, cancel them when a number of parts is there, submit three."""
    yaml, run, number = Path(arguments[0]), Path(arguments[1]), int(arguments[2])
    first = submitted(yaml, run, 4)
    wait(first, lambda: len(list((run / "samples").glob("part-*.parquet"))) >= number)
    said("scancel", first)
    wait(first, lambda: False)
    there = {
        file.relative_to(run).as_posix()
        for kind in ("samples", "captures")
        for file in (run / kind).glob("part-*.parquet")
    }
    second = submitted(yaml, run, 3)
    wait(second, lambda: False)
    print(json.dumps({"cancelled": states(first), "there": sorted(there), "again": states(second)}))


if __name__ == "__main__":
    main(sys.argv[1:])

"""What do the stages measure and report need for a run of the paper's size? Time, memory and bytes, by triplets.

    python -m tests.benchmarks.measure_scale --triplets 51219 --out FOLDER

writes a made-up run to ``FOLDER/run-N``: N triplets of one seed and three indicators, the first of them by
`tests.analysis.synthetic_run` (46 sites with 50 steps each, 64-pixel pictures, 8 words an image, detections) and the
others copies of these with numbers of their own. It runs each stage in a process of its own, which measures in
`--processes` processes, and prints JSON. Seconds of the processor and memory are those of all processes of a stage
together, a page that they share counted once. The bars on two cores: 51,219 triplets measured in 20 minutes and
reported in 2.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.compute as pc

from probes.execution.workers import core_count
from probes.runs import parts
from probes.runs.run import Run
from tests.analysis import synthetic_run
from tests.analysis.synthetic_objects import add_objects

INDICATORS = dict(list(synthetic_run.DEFAULT_INDICATORS.items())[:3])
FIRST = 512  # triplets that differ
STAGES = ("measure", "report")


def write_run(path: Path, triplets: int, part_triplets: int) -> Path:
    """Write the run directory as the stages generate and observe leave it."""
    first = min(triplets, FIRST // part_triplets * part_triplets)
    plan = {
        "prompts": first,
        "seeds": 1,
        "steps": 50,
        "indicators": INDICATORS,
        "part_triplets": part_triplets,
    }
    add_objects(synthetic_run.write_run(path, **plan), **plan)
    run, count = Run.open(path), -(-triplets // part_triplets)
    for kind in ("samples", "captures", "words", "observed", "objects"):
        tables = [parts.read_part(file) for file in run.parts(kind)]
        for number in range(len(tables), count):
            copies, source = divmod(number, len(tables))
            table = _renumbered(tables[source], copies * first)
            table = table.filter(pc.less(table["triplet"], triplets))
            identity = parts.identity(number, {"plan": "synthetic"})
            parts.write_part(
                path / kind / f"part-{number:05d}.parquet", table.to_pylist(), table.schema, identity
            )
    resolved = {**run.resolved, "prompts": (run.resolved["prompts"] * -(-triplets // first))[:triplets]}
    resolved["measure"] |= {"bootstrap": 2000, "permutations": 10000}
    run.write_meta(parts=count, images=3 * triplets, config={"passed": {}, "resolved": resolved})
    return path


def _renumbered(table: pa.Table, shift: int) -> pa.Table:
    """The rows under triplets that much later."""
    triplets = pc.add(table["triplet"], shift).cast("int32")
    columns = {"triplet": triplets}
    if "sample_id" in table.column_names:
        keys = zip(triplets.to_pylist(), table["indicator"].to_pylist())
        columns["sample_id"] = pa.array([f"t{triplet:05d}-s0-{indicator}" for triplet, indicator in keys])
    if "prompt_id" in table.column_names:
        columns["prompt_id"] = pa.array([f"p{triplet:05d}" for triplet in triplets.to_pylist()])
    for name, values in columns.items():
        index = table.column_names.index(name)
        table = table.set_column(index, table.schema.field(index), values)
    return table


def stage(name: str, path: Path, processes: int) -> None:
    """Run one stage in this process, with its helpers."""
    run = Run.open(path)
    if name == "measure":
        from analysis.tables.stage import measure

        measure(run, processes=processes)
    else:
        from analysis.report.page import report

        report(run)


def timed(name: str, path: Path, processes: int) -> dict[str, float]:
    """Run one stage in a process of its own; seconds and memory of that process and its helpers."""
    command = [sys.executable, "-m", "tests.benchmarks.measure_scale", "--stage", name, "--out", str(path)]
    started, peak = time.monotonic(), 0
    process = subprocess.Popen([*command, "--processes", str(processes)])
    while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
        peak = max(peak, held_memory(process.pid))
        time.sleep(0.1)
    seconds = time.monotonic() - started
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{name} of {path}: exit status {process.returncode}")
    return {
        "wall_seconds": round(seconds, 1),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_memory_mib": round(max(peak, 1024 * usage.ru_maxrss) / 2**20),
    }


def held_memory(pid: int) -> int:
    """Bytes of memory that a process and its helpers hold now, each page once.

    On Linux helpers are forks, which share the pages of the libraries: the sum of their resident sizes counts these
    once for each process, the sum of their proportional sizes (PSS) once in all.
    """
    total = 0
    with contextlib.suppress(psutil.Error):  # one may have ended
        main = psutil.Process(pid)
        for process in (main, *main.children(recursive=True)):
            memory = process.memory_full_info()
            total += getattr(memory, "pss", memory.rss)
    return total


def case(triplets: int, out: Path, part_triplets: int, processes: int) -> dict:
    """Write a run of so many triplets, and measure and report it."""
    path, started = out / f"run-{triplets}", time.monotonic()
    if not (path / "run.json").exists():
        write_run(path, triplets, part_triplets)
    written = round(time.monotonic() - started, 1)
    result = {"triplets": triplets, "processes": processes, "write_seconds": written}
    result |= {name: timed(name, path, processes) for name in STAGES}
    tables = sum(file.stat().st_size for file in (path / "tables").iterdir())
    return result | {"tables_mib": round(tables / 2**20, 2)}


def main() -> int:
    """Run each number of triplets, smallest first."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--triplets", type=int, nargs="+", default=[1000], help="numbers of triplets")
    parser.add_argument("--part-triplets", type=int, default=8, help="triplets of a part file")
    parser.add_argument("--out", type=Path, required=True, help="folder for the runs and measure_scale.json")
    parser.add_argument(
        "--processes", type=int, default=core_count(), help="that measure; default: the cores"
    )
    parser.add_argument("--stage", choices=STAGES, help="one stage of the run --out, in this process")
    options = parser.parse_args()
    if options.stage:
        stage(options.stage, options.out, options.processes)
        return 0
    cases = [
        case(number, options.out, options.part_triplets, options.processes)
        for number in sorted(set(options.triplets))
    ]
    result = {
        "benchmark": "measure_scale",
        "date": datetime.date.today().isoformat(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "machine": platform.machine(),
        "cases": cases,
    }
    text = json.dumps(result, indent=1)
    (options.out / "measure_scale.json").write_text(text + "\n", "utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

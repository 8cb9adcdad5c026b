"""How long the default run takes and how much memory: ``python tests/benchmarks/default_run.py``.

Runs the README's command in a process of its own and prints wall time, processor time and peak memory.
"""

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run once and print one JSON line."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "probes.run", "triplets.yaml", "--out", str(out), "--quiet"]
        started = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        seconds = time.monotonic() - started
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            return done.returncode
        figures = {
            "wall_seconds": round(seconds, 1),
            "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
            "peak_memory_gib": round(usage.ru_maxrss / 2**20, 2),
            "run_mib": round(
                sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 2**20, 1
            ),
            "report_mib": round((out / "report.html").stat().st_size / 2**20, 1),
            "cores": os.cpu_count(),
            "machine": platform.machine(),
        }
        print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())

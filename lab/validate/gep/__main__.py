"""Hold GEP's estimates against the checker: ``python -m lab.validate.gep RUN [RUN ...] --out PAGE``.

Each run is an audit of one benchmark model by ``docs/validation/gep_audit.yaml``, which says how it is drawn; a
drawing that was cut off goes on where it stopped. The numbers of the runs are put into ``gep_audits.json`` beside the
page, where those of other benchmark models stay as they are, and the page is written from it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.validate.gep.page import page
from lab.validate.gep.result import audit_result
from probes import command_line
from probes.errors import UserError
from probes.runs.parts import write_bytes
from probes.runs.run import Run
from probes.toyworld import BENCHMARK_MODELS


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(prog="python -m lab.validate.gep", description=__doc__.split("\n\n")[0])
    main.add_argument(
        "runs",
        nargs="*",
        type=Path,
        help="observed runs, one a benchmark model (none: only the page is written anew)",
    )
    main.add_argument("--out", type=Path, default=Path("docs/validation/gep_audits.md"), help="page to write")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    stored = options.out.with_suffix(".json")
    command_line.writable(options.out)
    results = _read(stored)
    if not (results or options.runs):
        raise UserError(f"command line: expected runs, or results in {stored}, found neither: name a run")
    for run in [_audit(path) for path in options.runs]:
        results[run.config.model] = audit_result(run)
        results = {name: results[name] for name in BENCHMARK_MODELS if name in results}
        write_bytes(stored, (json.dumps(results, indent=None, separators=(",", ":")) + "\n").encode())
    write_bytes(options.out, page(results).encode())
    print(options.out)


def _audit(path: Path) -> Run:
    run = Run.open(path)
    if run.config.model not in BENCHMARK_MODELS:
        raise UserError(
            f"{path}: expected a run of a benchmark model ({', '.join(BENCHMARK_MODELS)}), got one of "
            f"{run.config.model}:"
            " name another run"
        )
    return run


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

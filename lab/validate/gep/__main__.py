"""Compare GEP's estimates with the checker: ``python -m lab.validate.gep RUN [RUN ...]``.

Each run is an observed audit of one benchmark model by ``docs/validation/gep_audit.yaml``, which says how it is made.
"""

from __future__ import annotations

import sys
from typing import Any

from lab.measured import MeasuredPage, Numbers
from lab.validate.gep.readings import CHECKER, ESTIMATES, READ, UNNAMED
from lab.validate.gep.result import OURS, PREDICTIONS, SHOWN, audit_result
from probes.errors import UserError
from probes.runs.run import Run
from probes.toyworld import BENCHMARK_MODELS

WORST = 3  # attributes that are named


def measure(run: str) -> dict[str, Any]:
    """`audit_result` of a run by its model; refused where that is no benchmark model."""
    audit = Run.open(run)
    if audit.config.model not in BENCHMARK_MODELS:
        raise UserError(
            f"{run}: expected a run of a benchmark model ({', '.join(BENCHMARK_MODELS)}), got one of "
            f"{audit.config.model}: name another run"
        )
    return {audit.config.model: audit_result(audit)}


def values(results: Numbers) -> dict[str, Any]:
    """What the page shows of `audit_result` by model."""
    first = next(iter(results.values()))
    areas = first["settings"][UNNAMED]["auc"][PREDICTIONS]
    named = {name: one["settings"]["explicit"]["frequencies"].values() for name, one in results.items()}
    return {
        **{name: first[name] for name in ("images", "steps", "dtype")},
        "drawn": {name: sum(map(sum, some)) / sum(map(len, some)) for name, some in named.items()},
        "cells": [(name, each, one["settings"][each]) for name, one in results.items() for each in READ],
        "sources": (CHECKER, *ESTIMATES, OURS),
        "shown": SHOWN,
        "worst": sorted((area[0], name) for name, area in areas.items())[:WORST],
    }


PAGE = MeasuredPage(
    "gep_audits",
    "lab.validate.gep",
    "Compare GEP's estimates of benchmark models with the checker.",
    values,
    measure,
)

if __name__ == "__main__":
    sys.exit(PAGE.main())

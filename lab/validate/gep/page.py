"""The page docs/validation/gep_audits.md, in Markdown, from the results of `lab.validate.gep.result`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.templates import render
from lab.validate.gep.readings import CHECKER, ESTIMATES, READ, UNNAMED
from lab.validate.gep.result import OURS, PREDICTIONS, SHOWN

WORST = 3  # attributes that are named
MEASURES = {
    "tau": "τ-b",
    "mcc": "MCC",
    "mcc_without_zeros": "MCC without zeros",
    "pearson": "Pearson",
    "auc": "AUC",
}


def page(results: Mapping[str, Any]) -> str:
    """Return the page from results by benchmark model, of `lab.validate.gep.result.audit_result`."""
    some = next(iter(results.values()))
    areas = some["settings"][UNNAMED]["auc"][PREDICTIONS]
    return render(
        "gep_audits",
        **{name: some[name] for name in ("images", "steps", "dtype")},
        drawn={name: _drawn(result) for name, result in results.items()},
        cells=[
            (name, setting, result["settings"][setting])
            for name, result in results.items()
            for setting in READ
        ],
        sources=(CHECKER, *ESTIMATES, OURS),
        measures=MEASURES,
        shown=SHOWN,
        worst=sorted((area[0], name) for name, area in areas.items())[:WORST],
    )


def _drawn(result: Mapping[str, Any]) -> float:
    """Return how often a model draws what its prompt names."""
    named = result["settings"]["explicit"]["frequencies"].values()
    return sum(map(sum, named)) / sum(map(len, named))

"""From stored observations to numbers, tables, figures and a report. Only `analysis.observe` needs torch.

>>> import analysis
>>> run = analysis.load_run("runs/first-light")  # doctest: +SKIP
>>> run.gap  # doctest: +SKIP

Everything is imported at first use. What is not named here stands in the rooms: `analysis.metrics`, `analysis.stats`,
`analysis.tables`, `analysis.report`, `analysis.studies`, `analysis.observe`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.loaded_run import LoadedRun, load_run
    from analysis.metrics.dependency import GROUPS, regroup
    from analysis.metrics.registry import headline_metrics
    from analysis.metrics.skin_tone import monk_colours, read_skin
    from analysis.report.figures import draw_bias_scores
    from analysis.report.finding import finding
    from analysis.report.wording_objects import chi_square_sentence, objects_opening, table_sentence
    from analysis.stats.power import prompts_for_gap
    from analysis.studies.compare.summary import write as compare_runs

_PLACES = {  # where a name stands, and what it is called there if otherwise
    "GROUPS": ("analysis.metrics.dependency",),
    "LoadedRun": ("analysis.loaded_run",),
    "chi_square_sentence": ("analysis.report.wording_objects",),
    "compare_runs": ("analysis.studies.compare.summary", "write"),
    "draw_bias_scores": ("analysis.report.figures",),
    "finding": ("analysis.report.finding",),
    "headline_metrics": ("analysis.metrics.registry",),
    "load_run": ("analysis.loaded_run",),
    "monk_colours": ("analysis.metrics.skin_tone",),
    "objects_opening": ("analysis.report.wording_objects",),
    "prompts_for_gap": ("analysis.stats.power",),
    "read_skin": ("analysis.metrics.skin_tone",),
    "regroup": ("analysis.metrics.dependency",),
    "table_sentence": ("analysis.report.wording_objects",),
}

__all__ = [
    "GROUPS",
    "LoadedRun",
    "chi_square_sentence",
    "compare_runs",
    "draw_bias_scores",
    "finding",
    "headline_metrics",
    "load_run",
    "monk_colours",
    "objects_opening",
    "prompts_for_gap",
    "read_skin",
    "regroup",
    "table_sentence",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, *there = _PLACES[name]
    return getattr(importlib.import_module(module), *(there or [name]))


def __dir__() -> list[str]:
    return sorted(__all__)

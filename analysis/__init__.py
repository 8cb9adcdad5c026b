"""From stored observations to numbers, tables, figures and a report. Needs no torch.

>>> import analysis
>>> run = analysis.load_run("runs/first-light")  # doctest: +SKIP
>>> run.gap  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.report.notebook import LoadedRun, load_run

__all__ = ["LoadedRun", "load_run"]


def __getattr__(name: str):
    # pandas, scipy and the rest are loaded with the first run, not with the package
    if name in __all__:
        from analysis.report import notebook as loaded

        return getattr(loaded, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

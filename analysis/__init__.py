"""From stored observations to numbers, tables, figures and a report. Only `analysis.observe` needs torch.

>>> import analysis
>>> run = analysis.load_run("runs/first-light")  # doctest: +SKIP
>>> run.gap  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.loaded_run import LoadedRun, load_run

__all__ = ["LoadedRun", "load_run"]


def __getattr__(name: str) -> Any:
    """Import what is public at its first use: it draws figures, and takes as long."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from analysis import loaded_run

    return getattr(loaded_run, name)


def __dir__() -> list[str]:
    return __all__

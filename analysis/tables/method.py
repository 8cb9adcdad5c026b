"""Contribution of a method to the stage measure: a row of `analysis.methods.registry` says where it stands.

No method is imported here: the rows name what they bring as text, which is loaded at first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal

from analysis.tables.spec import ROWS
from analysis.tables.table import Table

if TYPE_CHECKING:
    from analysis.tables.objects.detector_error import Checked
    from analysis.tables.sharing import Sharing
    from probes.config.schema import Config
    from probes.runs.run import Run


@dataclass(frozen=True)
class MeasuredMethod:
    """The tables of a method, and how they are filled.

    Attributes
    ----------
    tables : tuple of Table
    needs : mapping of str to str
        In words what must be there for its tables, by their ``needs``.
    require : callable, optional
        Refuses a run that lacks what it measures, before anything is measured.
    measure : callable, optional
        Writes its tables of a run, where this holds what it measures. It is given how the work is shared and, where
        objects were looked for, what the toyworld checker sees in the images. None: a command writes them.
    alone : callable, optional
        Whether runs of a configuration are of this method alone: then nothing else is measured, and of other runs
        `measure` is not asked.
    """

    tables: tuple[Table, ...]
    needs: Mapping[str, str] = field(default_factory=dict)
    require: Callable[[Run], None] | None = None
    measure: Callable[[Run, Sharing, Checked | None], None] | None = None
    alone: Callable[[Config], bool] | None = None


def measured_methods() -> list[MeasuredMethod]:
    """Return what the methods bring into the stage measure, in the order of their rows."""
    return parts_of_methods("measured")


def parts_of_methods(kind: Literal["measured", "reported", "people"]) -> list[Any]:
    """Return what the methods bring into a stage or a study, in the order of their rows."""
    return [resolve_name(place) for row in import_module(ROWS).METHODS if (place := getattr(row, kind))]

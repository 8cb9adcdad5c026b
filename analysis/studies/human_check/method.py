"""What a method brings into `triptych labels`: a row of `analysis.methods.registry` says where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

from analysis.tables.spec import ROWS
from probes.config.schema import Config
from probes.runs.run import Run


@dataclass(frozen=True)
class PeopleCheck:
    """What people are asked about the images of a method's runs, and what their answers are held against.

    ``alone`` tells whether runs of a configuration are of this method; ``sample`` writes ``sheet.html`` of a run into a
    folder, given the largest number of images, how much is asked beside what the prompt asks for (None: as usual) and a
    seed, and returns what there is to say; ``agreement`` writes the tables of a run from CSV files that the sheet
    exported, and yields what is printed.
    """

    alone: Callable[[Config], bool]
    sample: Callable[[Run, Path, int, int | None, int], str]
    agreement: Callable[[Run, Sequence[Path]], Iterator[str]]


def people_check(config: Config) -> PeopleCheck | None:
    """Return the check of the method that runs of a configuration are of; None where it is that of detected objects."""
    checks = [resolve_name(row.people) for row in import_module(ROWS).METHODS if row.people]
    return next((one for one in checks if one.alone(config)), None)

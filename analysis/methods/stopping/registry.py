"""The table of a run that stops, a row of `analysis.tables.registry`, and the measure stage of it."""

from __future__ import annotations

from analysis.methods.stopping.columns import COLUMNS, looks_table
from analysis.methods.stopping.looks import Looks
from analysis.methods.stopping.question import StopQuestion
from analysis.tables.method import MeasuredMethod
from analysis.tables.registry import write
from analysis.tables.table import Table
from probes.runs.record import REGISTERED
from probes.runs.run import Run

NAME = "stopping"
STOPPING = Table(
    NAME,
    "stopping",
    "a look of a run that stops by itself: the gap so far, with an interval that holds wherever it stops",
    COLUMNS,
)


def measure_stopping(run: Run) -> None:
    """Write the table of a run whose question was registered."""
    if (before := run.meta.get(REGISTERED)) is None:
        return
    looks = Looks(run, run.config, StopQuestion.stored(before))
    write(run, NAME, looks_table(looks.question, looks.path()))


MEASURED = MeasuredMethod(
    tables=(STOPPING,),
    needs={"stopping": "a run with `stop` in its configuration"},
    measure=lambda run, sharing, checked: measure_stopping(run),
)

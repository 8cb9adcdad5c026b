"""A kind of question to people about the images of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.run import Run

YES, NO, UNCLEAR = "yes", "no", "unclear"
TICKED = (YES, NO, UNCLEAR)
Read = Callable[[str, str, str], Any]


@dataclass(frozen=True)
class LabelKind:
    """A kind of question to people about images of a run, and the use of their labels."""

    name: str  # as ``--about`` has it
    table: str  # of the run, which keeps the labels
    question: str  # its column of what was asked
    label: str  # its column of the answer
    images: int  # to ask about, where nobody says how many
    instructions: str  # what the sheet tells people to do
    usual: Callable[[Config], bool]  # whether runs of a configuration are asked this, where nobody says what
    # given a run, a number of images, how much to ask beside the prompt (None: as usual) and a seed: ``sample_id``,
    # ``question``, ``asked`` (in words) and ``answers`` (a tuple), in the order in which they are shown
    ask: Callable[[Run, int, int | None, int], pd.DataFrame]
    reader: Callable[[Run], Read]  # the label as it is stored; a UserError says what was expected
    measure: Callable[
        [Run, pd.DataFrame], Iterator[str]
    ]  # writes tables from the labels; yields what is printed
    needs: str = ""  # what only some runs have; empty where any run can be asked


def ticked(label: str) -> str:
    """Yes, no or unclear, of a label that says one of them."""
    if label.casefold() not in TICKED:
        raise UserError(f"expected yes, no or unclear, got {label!r:.60}")
    return label.casefold()

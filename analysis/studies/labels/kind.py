"""What people can be asked about the images of a run: one record for each kind of question."""

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
    """What people are asked about images of a run, and what is made of their labels.

    Attributes
    ----------
    name : str
        As ``--about`` has it.
    table, question, label : str
        Table of the run that keeps the labels, and its columns of what was asked and of the answer.
    images : int
        Images to ask about, where nobody says how many.
    instructions : str
        What the sheet tells people to do.
    usual : callable
        Whether runs of a configuration are asked this, where nobody says what.
    ask : callable
        Of a run, a number of images, how much to ask beside the prompt (None: as usual) and a seed: ``sample_id``,
        ``question``, ``asked`` (in words) and ``answers`` (a tuple), in the order in which they are shown.
    reader : callable
        Of a run: a function of sample, question and label that returns the label as it is stored, or raises a
        `UserError` that says what was expected.
    measure : callable
        Writes the tables of a run from its stored labels; yields what is printed.
    needs : str
        Which runs can be asked; empty for any.
    """

    name: str
    table: str
    question: str
    label: str
    images: int
    instructions: str
    usual: Callable[[Config], bool]
    ask: Callable[[Run, int, int | None, int], pd.DataFrame]
    reader: Callable[[Run], Read]
    measure: Callable[[Run, pd.DataFrame], Iterator[str]]
    needs: str = ""


def ticked(label: str) -> str:
    """Yes, no or unclear, of a label that says one of them."""
    if label.casefold() not in TICKED:
        raise UserError(f"expected yes, no or unclear, got {label!r:.60}")
    return label.casefold()

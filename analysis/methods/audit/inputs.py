"""What an audit is made from: labels, what was read of each picture and the design, from a folder, a table, options."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from analysis.methods.audit.design import (
    WORLD,
    Design,
    choose_answer,
    read_reference,
    require_comparable,
    require_reader,
)
from analysis.methods.audit.labels import UNDECIDED, find_columns, join_answers, read_labels
from analysis.methods.audit.tables import name_of, read_texts
from probes.errors import UserError, nearest

Table = str | os.PathLike[str] | pd.DataFrame
Reference = float | Mapping[str, float] | Table


def read(
    pictures: Path,
    labels: Table,
    *,
    label: str | None = None,
    answer: str | None = None,
    undecided: Sequence[str] | None = None,
    factors: Sequence[str] = (),
    baseline: Sequence[str] = (),
    unit: str | None = None,
    against: Reference | None = None,
    merge: Mapping[str, str] | None = None,
    partial: bool = False,
    unlike: Sequence[str] = (),
    reader: str | None = None,
    **inference: float,
) -> tuple[pd.DataFrame, pd.DataFrame, Design]:
    """Return labels, one row per picture and annotator, what was read of each picture, and the design.

    Parameters
    ----------
    **inference
        ``level``, ``effect``, ``permutations`` and ``seed`` of the design; the others are those of
        `analysis.methods.audit.labelled_audit.audit`.

    Raises
    ------
    UserError
        Something does not fit, see the functions that read.
    """
    if not pictures.is_dir():
        raise UserError(f"{pictures}: expected a folder of pictures, found none: check the path")
    path, texts = name_of(labels), read_texts(labels)
    columns = find_columns(texts, path, label=label, factors=factors, unit=unit, reader=reader)
    rows = read_labels(path, pictures, columns, texts, merges=merge, partial=partial)
    readings = join_answers(rows)
    undecided = tuple(undecided or UNDECIDED)
    answer, answers = choose_answer(readings, path, answer, undecided)
    require_comparable(rows, readings, columns.factors, path, tuple(unlike))
    levels = {name: tuple(dict.fromkeys(readings[name])) for name in ("model", *columns.factors)}
    levels = _from_baseline(levels, columns.factors[1:], baseline)
    reference, sizes, said = _reference(against, columns.factors[0], levels[columns.factors[0]], len(answers))
    design = Design(
        *(answer, answers, undecided, columns.factors, levels, reference, sizes, bool(columns.unit), said),
        reader=columns.reader,
        **inference,
    )
    if columns.reader:
        require_reader(readings, path, design)
    return rows, readings, design


def _from_baseline(
    levels: dict[str, tuple[str, ...]], others: tuple[str, ...], baseline: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Levels with the baselines first."""
    ordered = dict(levels)
    known = [level for name in others for level in levels[name]]
    for one in baseline:
        if one not in known:
            raise UserError(f"--baseline: {nearest('level', one, known)}")
        for name in others:
            if one in levels[name]:
                ordered[name] = (one, *(level for level in levels[name] if level != one))
    return ordered


def _reference(
    against: Reference | None, by: str, levels: tuple[str, ...], answers: int
) -> tuple[dict[str, float], dict[str, int], str]:
    """The share that each level is held against, of how many it is, and what it is in words."""
    if against is None:
        return dict.fromkeys(levels, 1 / answers), {}, "one half" if answers == 2 else f"1/{answers}"
    if isinstance(against, Mapping):
        against = pd.DataFrame({by: list(against), WORLD[0]: list(against.values())})
    if isinstance(against, pd.DataFrame):
        return *read_reference(against, by, levels), "its share in the table"
    try:
        share = float(against)
    except (TypeError, ValueError):
        return *read_reference(Path(against), by, levels), f"its share in {Path(against).name}"
    if not 0 < share < 1:
        raise UserError(
            f"--against: expected a share between 0 and 1, or a table, got {against!r:.60}: mend it"
        )
    return dict.fromkeys(levels, share), {}, f"{share:g}"

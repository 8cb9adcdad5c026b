"""Audits of labelled pictures: ``triptych audit PICTURES --labels labels.csv``.

Writes ``audit.html`` and, as CSV and Parquet, ``pictures`` (what was read of each), ``shares``, ``between``,
``contrasts``, ``models``, ``ranks`` and ``agreement``. Their columns: ``columns.csv`` here.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import pandas as pd

from analysis.methods.audit.agreement import agreement_table
from analysis.methods.audit.claims import adjust_page, possible, sentences
from analysis.methods.audit.comparisons import contrast_table, model_table, rank_table
from analysis.methods.audit.design import (
    Design,
    cells,
    choose_answer,
    read_reference,
    require_comparable,
)
from analysis.methods.audit.labels import UNDECIDED, find_columns, join_answers, read_labels
from analysis.methods.audit.shares import Cells, between_table, share_table
from analysis.methods.audit.tables import merges_of, read_texts
from analysis.report.format import counted, listed
from probes import command_line
from probes.csv_text import csv_bytes
from probes.errors import UserError, nearest
from probes.runs.parts import write_bytes

PAGE = "audit.html"


def read(options: argparse.Namespace) -> tuple[pd.DataFrame, pd.DataFrame, Design]:
    """Return labels, one row per picture and annotator, what was read of each picture, and the design.

    Raises
    ------
    UserError
        Something does not fit, see the functions that read.
    """
    if not options.pictures.is_dir():
        raise UserError(f"{options.pictures}: expected a folder of pictures, found none: check the path")
    path, texts = options.labels, read_texts(options.labels)
    columns = find_columns(texts, path, label=options.label, factors=options.factors, unit=options.unit)
    rows = read_labels(
        path, options.pictures, columns, texts, merges=merges_of(options.merge), partial=options.partial
    )
    readings = join_answers(rows)
    undecided = tuple(options.undecided or UNDECIDED)
    answer, answers = choose_answer(readings, path, options.answer, undecided)
    require_comparable(rows, readings, columns.factors, path, tuple(options.unlike))
    levels = {name: tuple(dict.fromkeys(readings[name])) for name in ("model", *columns.factors)}
    levels = _from_baseline(levels, columns.factors[1:], options.baseline)
    reference, sizes, said = _reference(
        options.against, columns.factors[0], levels[columns.factors[0]], len(answers)
    )
    design = Design(
        *(answer, answers, undecided, columns.factors, levels, reference, sizes, bool(columns.unit), said),
        **{name: getattr(options, name) for name in ("level", "effect", "permutations", "seed")},
    )
    return rows, readings, design


def _from_baseline(
    levels: dict[str, tuple[str, ...]], others: tuple[str, ...], baseline: list[str]
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
    against: str | None, by: str, levels: tuple[str, ...], answers: int
) -> tuple[dict[str, float], dict[str, int], str]:
    """The share that each level is held against, of how many it is, and what it is in words."""
    if against is None:
        return dict.fromkeys(levels, 1 / answers), {}, "one half" if answers == 2 else f"1/{answers}"
    try:
        share = float(against)
    except ValueError:
        shares, sizes = read_reference(Path(against), by, levels)
        return shares, sizes, f"its share in {Path(against).name}"
    if not 0 < share < 1:
        raise UserError(f"--against: expected a share between 0 and 1, or a table, got {against!r}: mend it")
    return dict.fromkeys(levels, share), {}, f"{share:g}"


def measure(
    rows: pd.DataFrame, readings: pd.DataFrame, design: Design, *, resamples: int = 2000
) -> dict[str, pd.DataFrame]:
    """Return the tables of an audit by name."""
    agreement = agreement_table(rows, level=design.level, resamples=resamples, seed=design.seed)
    pictures = readings.assign(decided=readings["answer"].isin(design.answers))
    return {"pictures": pictures, **measure_cells(cells(readings, design), design), "agreement": agreement}


def measure_cells(found: Cells, design: Design) -> dict[str, pd.DataFrame]:
    """Return the tables of cells by name, adjusted over the page."""
    shares = share_table(found, design)
    tables = {
        "shares": shares,
        "ranks": rank_table(found, shares, design),
        "between": between_table(found, design),
        "contrasts": contrast_table(found, design),
        "models": model_table(found, design),
    }
    return adjust_page(tables, design)


def write(tables: dict[str, pd.DataFrame], out: Path) -> None:
    """Write the tables into a folder, each as CSV and Parquet."""
    for name, table in tables.items():
        write_bytes(out / f"{name}.csv", csv_bytes(table))
        stored = io.BytesIO()
        table.to_parquet(stored, index=False)
        write_bytes(out / f"{name}.parquet", stored.getvalue())


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    from analysis.methods.audit.page import render

    if options.level <= 0.5:
        raise UserError(f"--level: expected a level above 0.5, got {options.level}: choose another")
    command_line.writable(options.out, folder=True)
    if (options.out / PAGE).exists() and not options.overwrite:
        raise UserError(
            f"{options.out}: expected no audit yet, found one: name another --out, or --overwrite"
        )
    rows, readings, design = read(options)
    tables = measure(rows, readings, design, resamples=options.resamples)
    write(tables, options.out)
    text = render(
        tables, design, options.pictures, thumbnails=options.thumbnails, name=options.pictures.absolute().name
    )
    write_bytes(options.out / PAGE, text.encode())
    print(describe(tables, design))
    print(f"page and tables: {options.out / PAGE}")


def describe(tables: dict[str, pd.DataFrame], design: Design) -> str:
    """Return what an audit says, in lines."""
    pictures = tables["pictures"]
    models = listed(design.levels["model"])
    undecided = int((~pictures["decided"]).sum())
    head = (
        f"{counted(len(pictures), 'picture')} of {models}, {undecided} undecided; share of {design.answer} among"
        f" {listed(design.answers)}, against {design.against}"
    )
    said = [line for lines in sentences(tables, design).values() for line in lines]
    agreed = [
        f"annotators: Krippendorff's alpha {row.alpha:.3f} [{row.low:.3f}, {row.high:.3f}] over {row.pictures} pictures"
        for row in tables["agreement"].head(1).itertuples()
    ]
    return "\n".join([head, *agreed, *said, possible(tables, design)])

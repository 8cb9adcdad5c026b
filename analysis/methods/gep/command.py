"""Audits of attributes (GEP): ``triptych audit gep images FOLDER`` and ``compare``.

``images`` audits folders of images of other programs. ``compare`` draws the vectors and scores of several runs side by
side and writes the scores, a leaderboard with differences between models, and the paper's tables as LaTeX.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from analysis.methods.gep.leaderboard import leaderboard
from analysis.methods.gep.method import METHOD
from analysis.methods.gep.sources import ORDER, first_source
from analysis.report.figures.style import files
from analysis.report.section import documents, figures, measured
from analysis.studies.compare.summary import named
from analysis.tables.registry import read
from probes import command_line
from probes.csv_text import csv_bytes
from probes.errors import UserError
from probes.runs.missing import open_run
from probes.runs.parts import write_bytes
from probes.runs.run import Run

COMPARISON = "comparison"  # the folder in which several folders of images are compared
SCORE = ("score", "floor", "p_value", "debiased", "low", "high", "reason")  # printed


def compare(paths: Sequence[Path], out: Path, *, source: str | None) -> str:
    """Write figures, ``scores.csv`` and a leaderboard of several audits; return what they say in lines."""
    opened_runs = [open_run(path) for path in paths]
    runs = dict(zip(named(opened_runs), opened_runs))
    scores = {name: read(run, "gep_score") for name, run in runs.items()}
    chosen = source or first_source(*scores.values())
    common = [name for name in ORDER if all(name in set(score["source"]) for score in scores.values())]
    if chosen not in common:
        listed = ", ".join(common) or "none"
        raise UserError(
            f"--source: expected one that read all of these runs ({listed}), got {chosen}: choose another"
        )
    rows = pd.concat(
        [score[score["source"] == chosen].assign(run=name) for name, score in scores.items()],
        ignore_index=True,
    )
    write_bytes(out / "scores.csv", csv_bytes(rows))
    main = rows[rows["kind"] == "contrast"]
    pairs = list(main[["first", "second"]].drop_duplicates().itertuples(index=False, name=None))
    shown = measured(METHOD, runs)
    shown.words["source"] = chosen
    for name, text in documents(shown):
        write_bytes(out / f"{name}.tex", text.encode())
    for first, second in pairs:
        shown.words.update(first=first, second=second)
        for drawn in figures(shown).values():
            for name, data in files(drawn).items():
                write_bytes(out / f"{first}-{second}-{name}", data)
    lines = [_text(main, *SCORE)]
    if len(runs) > 1:
        board, differences = leaderboard(runs, pairs, chosen)
        for name, table in (("leaderboard", board), ("differences", differences)):
            write_bytes(out / f"{name}.csv", csv_bytes(table))
        lines.append(_text(board, "model", "score", "best_rank", "worst_rank"))
        lines.append(_text(differences, "model", "other", "difference", "low", "high", "n_contexts"))
    return "\n".join(lines)


def several(options: argparse.Namespace, audit: Callable[[argparse.Namespace], Run]) -> str:
    """Audit several folders of images, each a run in a folder of its name in ``out``; return what comparing them says.

    The comparison is written into the folder ``comparison`` there.
    """
    names = [folder.absolute().name for folder in options.folder]
    if twice := [name for name in names if names.count(name) > 1 or name == COMPARISON]:
        raise UserError(f"{twice[0]}: expected folders of different names, got it twice: rename one")
    if options.model:
        raise UserError(
            "--model: expected one folder of images, got several: leave it out, they have their names"
        )
    for name, folder in zip(names, options.folder):
        audit(argparse.Namespace(**vars(options) | {"folder": folder, "out": options.out / name}))
    return compare([options.out / name for name in names], options.out / COMPARISON, source=None)


def _text(table: pd.DataFrame, *names: str) -> str:
    """Columns of a table as lines of text, after those that say what a row is."""
    places = [name for name in ("run", "setting", "first", "second", "source") if name in table]
    return table[[*places, *names]].to_string(index=False, float_format="{:.4f}".format)


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    command_line.writable(options.out, folder=True)
    if options.command == "compare":
        print(compare(options.runs, options.out, source=options.source))
        print(f"figures and scores: {options.out}")
        return
    from analysis.methods.gep import images  # which runs the stages

    if len(options.folder) > 1:
        print(several(options, images.audit))
        return
    options.folder = options.folder[0]
    scores = images.audit(options).table("gep_score")
    own = scores[(scores["source"] == first_source(scores)) & (scores["kind"] == "contrast")]
    print(_text(own, *SCORE))
    print(f"report: {options.out / 'report.html'}")

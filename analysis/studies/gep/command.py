"""Audits of attributes (GEP): ``python -m analysis gep labels RUN labels.csv ...`` and ``compare RUN RUN ...``.

``labels`` reads what people say is in the images of a run and writes its tables ``gep_*`` anew, with them as a source.
``compare`` draws the vectors and scores of several runs side by side and writes the scores as a table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.report.figures.gep import draw_scores, draw_vectors
from analysis.report.figures.style import files
from analysis.report.format import interval, number, p_value
from analysis.report.gep import ORDER
from analysis.studies.compare.command import named
from analysis.tables.gep_readings import joined, read_labels
from analysis.tables.gep_stage import LABELS, checker_readings, measure_gep
from analysis.tables.registry import write
from probes import command_line
from probes.errors import UserError
from probes.parts import write_bytes
from probes.prompts.audit import places
from probes.store import Run


def label(path: Path, labels: Sequence[Path]) -> str:
    """Write ``tables/gep_labels`` of a run and its tables of attributes; return what there is to say about it.

    Raises
    ------
    UserError
        The run is no audit, or a file of labels is no good.
    """
    run = Run.open(path)
    if not places(run.config):
        raise UserError(f"{path}: expected a run whose prompts have contexts, found none: name an audit")
    table = pd.concat([read_labels(file, run) for file in labels], ignore_index=True)
    twice = table.duplicated(["sample_id", "attribute", "annotator"])
    if twice.any():
        name = table.loc[twice, "annotator"].iloc[0]
        raise UserError(
            f"{labels[-1]}: expected another annotator in each file, got {name!r} twice: rename one"
        )
    write(run, LABELS, table)
    measure_gep(run, checker_readings(run, None))
    said, alpha = joined(table)
    people = table["annotator"].nunique()
    agreed = f", Krippendorff's alpha {number(alpha)}" if people > 1 else ""
    undecided = int(said["value"].isna().sum())
    ties = f"; {undecided} undecided" if undecided else ""
    return f"{len(said)} labels by {people} annotator{'s' * (people > 1)}{agreed}{ties}: {path / 'tables'}"


def compare(paths: Sequence[Path], out: Path, *, source: str | None) -> str:
    """Write figures and ``scores.csv`` of several audits into a folder; return the scores, a line each.

    Raises
    ------
    UserError
        A run holds no tables of attributes, or they have no source in common.
    """
    runs = [Run.open(path) for path in paths]
    tables = {name: (run.table("gep_vector"), run.table("gep_score")) for name, run in zip(named(runs), runs)}
    common = set.intersection(*(set(score["source"]) for _, score in tables.values()))
    chosen = source or next((name for name in ORDER if name in common), None)
    if chosen not in common:
        listed = ", ".join(name for name in ORDER if name in common) or "none"
        raise UserError(
            f"--source: expected one that read all of these runs ({listed}), got {chosen}: choose another"
        )
    rows = pd.concat(
        [score[score["source"] == chosen].assign(run=name) for name, (_, score) in tables.items()],
        ignore_index=True,
    )
    write_bytes(out / "scores.csv", rows.to_csv(index=False, lineterminator="\n").encode())
    main = rows[rows["kind"] == "contrast"]
    for first, second in main[["first", "second"]].drop_duplicates().itertuples(index=False):
        for drawn in (
            draw_vectors({name: vector for name, (vector, _) in tables.items()}, first, second, chosen),
            draw_scores({name: score for name, (_, score) in tables.items()}, first, second, chosen),
        ):
            for name, data in files(drawn).items() if drawn else ():
                write_bytes(out / f"{first}-{second}-{name}", data)
    return "\n".join(_line(row, chosen) for row in main.to_dict("records"))


def _line(row: Mapping[str, Any], source: str) -> str:
    """A score as a line of text."""
    chance = f"floor {number(row['floor'], 4)}, {row['reason'] or p_value(row['p_value'])}"
    bare = f"{number(row['debiased'], 4)} {interval(row['low'], row['high'], 4)}"
    return (
        f"{row['run']}, {row['setting']}, {row['first']} against {row['second']}, by {source}: "
        f"{number(row['score'], 4)} ({chance}), without its own error {bare}"
    )


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(prog="python -m analysis gep", description="Audits of attributes (GEP).")
    which = main.add_subparsers(dest="command", required=True)
    read = which.add_parser("labels", help="take labels of people into a run")
    read.add_argument(
        "run", type=Path, help="folder of a measured run with prompts: {from: gep}, or the like"
    )
    read.add_argument(
        "labels",
        nargs="+",
        type=Path,
        help="CSV files with sample_id, attribute, label (yes, no) and annotator",
    )
    beside = which.add_parser("compare", help="several runs side by side")
    beside.add_argument("runs", nargs="+", type=Path, help="measured run directories")
    beside.add_argument(
        "--source", choices=ORDER, help="who read the images (default: the surest that read all)"
    )
    beside.add_argument("--out", type=Path, default=Path("gep"), help="folder to write to")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    if options.command == "labels":
        print(label(options.run, options.labels))
        return
    command_line.writable(options.out, folder=True)
    print(compare(options.runs, options.out, source=options.source))
    print(f"figures and scores: {options.out}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

"""Audits of attributes (GEP): ``triptych audit gep images FOLDER``, ``sheet``, ``labels`` and ``compare``.

``images`` audits folders of images of other programs. ``sheet`` writes what people are asked, of images chosen at
random; ``labels`` adds what they say and writes a run's tables ``gep_*`` anew, with them as a source. ``compare`` draws
the vectors and scores of several runs side by side and writes the scores, a leaderboard with differences between
models, how estimates follow the artificial sets of all runs together, and the paper's tables as LaTeX.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.methods.gep import sheet
from analysis.methods.gep.artificial import agreement_of_examples
from analysis.methods.gep.figures import draw_fit, draw_scores, draw_vectors
from analysis.methods.gep.latex import AttributeAudits, of_audits
from analysis.methods.gep.leaderboard import describe_leaderboard, leaderboard
from analysis.methods.gep.page_tests import first_source
from analysis.methods.gep.readings import joined, read_labels
from analysis.methods.gep.registry import GEP
from analysis.methods.gep.sources import ORDER
from analysis.methods.gep.stage import LABELS, checker_readings, measure_gep
from analysis.report.figures.style import files
from analysis.report.format import interval, number, p_value
from analysis.studies.compare.summary import named
from analysis.studies.opening import opened
from analysis.tables.registry import read, write
from probes import command_line
from probes.csv_text import csv_bytes
from probes.errors import UserError
from probes.prompts.audit import places
from probes.prompts.user_tables import require_annotators
from probes.runs.parts import write_bytes
from probes.runs.store import Run

COMPARISON = "comparison"  # the folder in which several folders of images are compared


def label(path: Path, labels: Sequence[Path], *, replace: bool = False) -> str:
    """Add answers to ``tables/gep_labels`` of a run and write its tables of attributes; return what there is to say.

    Answers that the run holds stay: those of another annotator are added, an annotator's own are completed. With
    `replace` an annotator's answers take the place of the same annotator's, of the same questions.

    Raises
    ------
    UserError
        The run is no audit, a file of labels is no good, or an annotator says something else than before.
    """
    run = opened(path)
    if not places(run.config):
        raise UserError(f"{path}: expected a run whose prompts have contexts, found none: name an audit")
    table = pd.concat([read_labels(file, run) for file in labels], ignore_index=True)
    twice = table.duplicated(["sample_id", "attribute", "annotator"])
    if twice.any():
        name = table.loc[twice, "annotator"].iloc[0]
        raise UserError(
            f"{labels[-1]}: expected another annotator in each file, got {name!r} twice: rename one"
        )
    if LABELS in run.tables():
        table = _added(run.table(LABELS), table, labels[-1], replace=replace)
    require_annotators(table["annotator"], labels[-1])
    write(run, LABELS, table)
    measure_gep(run, checker_readings(run, None))
    said, alpha, reason = joined(table)
    people = table["annotator"].nunique()
    known = f"no Krippendorff's alpha ({reason})" if reason else f"Krippendorff's alpha {number(alpha)}"
    agreed = f", {known}" if people > 1 else ""
    undecided = int(said["value"].isna().sum())
    ties = f"; {undecided} undecided" if undecided else ""
    return (
        f"{len(said)} labels by {people} annotator{'s' * (people > 1)}{agreed}{ties}: {path / 'tables'};"
        f" next: triptych report {path}"
    )


def _added(stored: pd.DataFrame, given: pd.DataFrame, file: Path, *, replace: bool) -> pd.DataFrame:
    """Stored answers with the ones given; an empty one gives way to an answer."""
    key = ["sample_id", "attribute", "annotator"]
    both = stored.merge(given, on=key, how="outer", suffixes=("", "_given"))
    other = both["value"].notna() & both["value_given"].notna() & (both["value"] != both["value_given"])
    if other.any() and not replace:
        sample, attribute, name = both.loc[other, key].iloc[0]
        raise UserError(
            f"{file}: expected the answers that {name or 'the annotator'!r} gave before, got another for {attribute} in"
            f" {sample}: name another annotator, or correct your own with --replace"
        )
    first, second = ("value_given", "value") if replace else ("value", "value_given")
    value = both[first].fillna(both[second])
    return both.assign(value=value)[[*key, "value"]]


def compare(paths: Sequence[Path], out: Path, *, source: str | None) -> str:
    """Write figures, ``scores.csv`` and a leaderboard of several audits; return what they say in lines."""
    runs = [opened(path) for path in paths]
    tables = {name: (read(run, "gep_vector"), read(run, "gep_score")) for name, run in zip(named(runs), runs)}
    fits = {
        name: read(run, "gep_clip_score")
        for name, run in zip(tables, runs)
        if "gep_clip_score" in run.tables()
    }
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
    write_bytes(out / "scores.csv", csv_bytes(rows))
    main = rows[rows["kind"] == "contrast"]
    _write_latex(dict(zip(tables, runs)), out)
    for first, second in main[["first", "second"]].drop_duplicates().itertuples(index=False):
        for drawn in (
            draw_vectors({name: vector for name, (vector, _) in tables.items()}, first, second, chosen),
            draw_scores({name: score for name, (_, score) in tables.items()}, first, second, chosen),
            draw_fit({name: score for name, (_, score) in tables.items()}, fits, first, second, chosen),
        ):
            for name, data in files(drawn).items() if drawn else ():
                write_bytes(out / f"{first}-{second}-{name}", data)
    lines = [_line(row, chosen) for row in main.to_dict("records")]
    if len(runs) > 1:
        pairs = list(main[["first", "second"]].drop_duplicates().itertuples(index=False, name=None))
        board, differences = leaderboard(dict(zip(tables, runs)), pairs, chosen)
        for name, table in (("leaderboard", board), ("differences", differences)):
            write_bytes(out / f"{name}.csv", csv_bytes(table))
        lines += describe_leaderboard(board, differences)
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


def _write_latex(runs: Mapping[str, Run], out: Path) -> None:
    """The paper's tables of several audits, and where all have artificial sets these as one, with a table of it."""
    models = {
        name: {row.name: read(run, row.name) for row in GEP if row.stage and row.name in run.tables()}
        for name, run in runs.items()
    }
    first, mixed = next(iter(runs.values())).config, None
    if len(models) > 1 and all("gep_artificial" in tables for tables in models.values()):
        examples = [tables["gep_artificial"].assign(model=name) for name, tables in models.items()]
        mixed = agreement_of_examples(pd.concat(examples, ignore_index=True), first.measure)
        write_bytes(out / "artificial.csv", csv_bytes(mixed))
    for name, text in of_audits(AttributeAudits(models, mixed), first.reference):
        write_bytes(out / f"{name}.tex", text.encode())


def _line(row: Mapping[str, Any], source: str) -> str:
    """A score as a line of text."""
    known = row["p_value"] == row["p_value"]
    said = ", ".join(filter(None, (p_value(row["p_value"]) if known else "", row["reason"])))
    chance = f"floor {number(row['floor'], 4)}, {said}"
    bare = f"{number(row['debiased'], 4)} {interval(row['low'], row['high'], 4)}"
    return (
        f"{row['run']}, {row['setting']}, {row['first']} against {row['second']}, by {source}: "
        f"{number(row['score'], 4)} ({chance}), without its own error {bare}"
    )


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    if options.command == "labels":
        print(label(options.run, options.labels, replace=options.replace))
        return
    if options.command == "sheet":
        command_line.writable(options.out, folder=True)
        asked = {"count": options.images, "seed": options.seed, "annotators": options.annotators}
        print(sheet.write(opened(options.run), options.out, **asked))
        return
    if options.command == "images":
        from analysis.methods.gep import images  # which runs the stages

        command_line.writable(options.out, folder=True)
        if len(options.folder) > 1:
            print(several(options, images.audit))
            return
        options.folder = options.folder[0]
        scores = images.audit(options).table("gep_score")
        source = first_source(scores)
        own = scores[(scores["source"] == source) & (scores["kind"] == "contrast")]
        print("\n".join(_line({**row, "run": options.out.name}, source) for row in own.to_dict("records")))
        print(f"report: {options.out / 'report.html'}")
        return
    command_line.writable(options.out, folder=True)
    print(compare(options.runs, options.out, source=options.source))
    print(f"figures and scores: {options.out}")

"""An audit of labelled pictures in Python and in a notebook: its tables, what it says, its figure and its page."""

from __future__ import annotations

import html
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.methods.audit.agreement import agreement_table
from analysis.methods.audit.claims import adjust_page, possible, sentences
from analysis.methods.audit.columns import FACTOR, TABLES, described
from analysis.methods.audit.comparisons import contrast_table, model_table, rank_table
from analysis.methods.audit.design import Design, cells, choose_answer, require_comparable, require_reader
from analysis.methods.audit.inputs import Reference, order_levels, reference_of
from analysis.methods.audit.labels import (
    MISSING,
    UNDECIDED,
    find_columns,
    join_answers,
    open_labels,
    read_labels,
)
from analysis.methods.audit.reader import confusion_table, corrected_table, remarks
from analysis.methods.audit.shares import Cells, between_table, share_table
from analysis.report.figures.style import Drawn, inline_svg
from analysis.report.format import counted, listed
from analysis.report.listed_texts import ListedTexts
from probes.csv_text import csv_bytes
from probes.errors import UserError, nearest
from probes.runs.parts import write_bytes
from probes.user_tables import Source

PAGE = "audit.html"


@dataclass(frozen=True, repr=False)
class LabelledAudit:
    """Labelled pictures of models: shares of an answer, what differs, and what that many pictures can say.

    A notebook shows the shares as dots and what the labels say.

    Attributes
    ----------
    folder : Path
        Of the pictures.
    design : Design
        Which answer is asked, of which factors, held against what.
    pictures : DataFrame
        One row per picture: ``image``, ``model``, its factors, ``answer``, ``decided`` ...
    shares : DataFrame
        One row per model and level of every factor: ``count`` of ``decided`` pictures, ``share`` with its interval,
        ``reference``, ``difference``, p-values, how many pictures more an effect takes.
    ranks : DataFrame
        One row per model: how far its shares lie from the reference, without what chance adds, and its rank.
    between : DataFrame
        Whether levels of the first factor (professions) differ, by model.
    contrasts : DataFrame
        What each level of the other factors changes against its baseline, and whether it overshoots.
    models : DataFrame
        How every two models differ on the same prompts.
    agreement : DataFrame
        Krippendorff's alpha of annotators; without rows where there is one.
    confusions : DataFrame
        What a machine reads in pictures of each label, by model and level; without rows where none reads.
    corrected : DataFrame
        Shares by the machine's readings of all pictures, set right by the labels of some, with intervals.
    notes : tuple of str
        Lines on files and columns that were not read or were taken for others, and on what was left out.
    """

    folder: Path
    design: Design
    pictures: pd.DataFrame
    shares: pd.DataFrame
    ranks: pd.DataFrame
    between: pd.DataFrame
    contrasts: pd.DataFrame
    models: pd.DataFrame
    agreement: pd.DataFrame
    confusions: pd.DataFrame
    corrected: pd.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables by name."""
        return {name: getattr(self, name) for name in TABLES}

    @property
    def findings(self) -> pd.DataFrame:
        """What the page says: ``question`` and ``sentence``, each held to the tests of the whole page."""
        said = sentences(self.tables, self.design)
        rows = [(question, line) for question, lines in said.items() for line in lines]
        return ListedTexts(rows, columns=["question", "sentence"])

    def columns(self, name: str) -> pd.DataFrame:
        """Return what every column of a table holds: ``column``, ``type``, ``unit``, ``meaning``.

        Raises
        ------
        UserError
            There is no such table; the line names the nearest.
        """
        if name not in TABLES:
            raise UserError(f"table: {nearest('table', name, TABLES)}")
        rows = ListedTexts([vars(column) for column in described(name)]).rename(columns={"name": "column"})
        rows["column"] = rows["column"].replace(FACTOR, ", ".join(self.design.factors))
        return ListedTexts(rows)

    def plot(self) -> Drawn:
        """Draw the share of every cell with its interval, a panel for each model."""
        from analysis.methods.audit.figure import draw_shares

        return draw_shares(self.shares, self.design)

    def report(self, *, thumbnails: int = 20) -> str:
        """Return the page as HTML in one file, with so many pictures of each cell.

        Raises
        ------
        UserError
            A picture cannot be read.
        """
        from analysis.methods.audit.page import render

        name = self.folder.absolute().name
        return render(
            self.tables, self.design, self.folder, thumbnails=thumbnails, name=name, notes=self.notes
        )

    def write(
        self, out: str | os.PathLike[str] = "audit", *, thumbnails: int = 20, overwrite: bool = False
    ) -> Path:
        """Write ``audit.html`` and every table as CSV and Parquet to a folder; return the path of the page.

        Parameters
        ----------
        out : path
        thumbnails : int
            Pictures behind each cell of the page.
        overwrite : bool
            Replace the audit that is in the folder.

        Raises
        ------
        UserError
            The folder holds an audit, or a picture cannot be read.
        """
        require_new(Path(out), overwrite)
        page = Path(out) / PAGE
        text = self.report(thumbnails=thumbnails)
        for name, table in self.tables.items():
            write_bytes(page.with_name(f"{name}.csv"), csv_bytes(table))
            stored = io.BytesIO()
            table.to_parquet(stored, index=False)
            write_bytes(page.with_name(f"{name}.parquet"), stored.getvalue())
        write_bytes(page, text.encode())
        return page

    def __repr__(self) -> str:
        design, undecided = self.design, int((~self.pictures["decided"]).sum())
        unlabelled = int((self.pictures["annotators"] == 0).sum()) if design.reader else 0
        undecided -= unlabelled
        head = (
            f"{counted(len(self.pictures), 'picture')} of {listed(design.levels['model'])}, {undecided} undecided"
            f"{f', {unlabelled} read by {design.reader} alone' if unlabelled else ''};"
            f" share of {design.answer} among {listed(design.answers)}, against {design.against}"
        )
        agreed = [
            f"annotators: no Krippendorff's alpha over {counted(row.pictures, 'picture')}: {row.reason}"
            if row.reason
            else f"annotators: Krippendorff's alpha {row.alpha:.3f} [{row.low:.3f}, {row.high:.3f}] over"
            f" {row.pictures} pictures"
            for row in self.agreement.head(1).itertuples()
        ]
        said = self.findings["sentence"], remarks(self.confusions, self.corrected, design)
        return "\n".join([*self.notes, head, *agreed, *said[0], possible(self.tables, design), *said[1]])

    def _repr_html_(self) -> str:
        said = f"<pre style='white-space: pre-wrap'>{html.escape(repr(self))}</pre>"
        return f"<div>{inline_svg(self.plot())}</div>{said}"


def require_new(out: Path, overwrite: bool) -> None:
    """Refuse a folder that holds an audit, unless it may be replaced."""
    if (out / PAGE).exists() and not overwrite:
        raise UserError(f"{out}: expected no audit yet, found one: name another --out, or --overwrite")


def audit(
    pictures: str | os.PathLike[str],
    labels: Source,
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
    effect: float = 0.2,
    level: float = 0.95,
    resamples: int = 2000,
    permutations: int = 10000,
    seed: int = 0,
) -> LabelledAudit:
    """Audit pictures of any models by the labels that people gave them; nothing is generated, and no run is needed.

    Parameters
    ----------
    pictures : path
        Folder of pictures, or of a folder for each model.
    labels : path or DataFrame
        A row for each label, with columns ``file`` (the picture, from the folder), ``label``, ``answer`` or
        ``read_as``, ``profession`` and, where there are any, ``model``, ``setting``, ``template``, ``prompt``,
        ``annotator``. CSV, TSV, JSONL, XLSX or Parquet.
    label : str, optional
        Column of labels, where it has another name.
    answer : str, optional
        Whose share is asked; of two the first in the alphabet, of more it must be named.
    undecided : sequence of str, optional
        Answers that decide nothing; by default *both*, *cannot tell*, *unclear* and the like.
    factors : sequence of str
        Columns of what pictures were made for: the first is tested between its levels, of the others each level is
        held against the baseline. By default ``profession``, ``setting`` and ``template``.
    baseline : sequence of str
        Levels that the others of their factor are held against; by default of each factor that of its first row.
    unit : str, optional
        Column of the noise or seed that pictures of a model share; by default every picture is by itself.
    against : float, mapping, path or DataFrame, optional
        The share that shares are held against, one for all or by profession; or a table with a ``share`` for each
        profession, and ``n``, of how many it is. By default as many as of each other answer.
    merge : mapping of str to str, optional
        Spellings to be taken for others: ``{"females": "female"}``.
    partial : bool
        Leave out labels without a picture, and pictures without a label.
    unlike : sequence of str
        ``"prompts"``, ``"readers"``: compare models though these differ.
    reader : str, optional
        Column of what a machine read in every picture. It is held against the labels, and labels of some pictures,
        chosen at random, set its shares right; the labels of the others stay empty.
    effect : float
        Difference of shares for which the tables say how many pictures it takes, within 0 to 0.5.
    level : float
        Of intervals, above 0.5; tests are at one less this.
    resamples, permutations, seed : int
        Of the bootstrap of annotators' agreement, and of the tests between professions.

    Raises
    ------
    UserError
        Labels and pictures are not of each other, a spelling is likely a slip, models have other prompts, or there is
        nothing to ask; the line names the row and the remedy.

    Examples
    --------
    >>> audit = triptych.audit("portraits", "portraits/labels.csv", answer="female")  # doctest: +SKIP
    >>> audit.shares[["model", "profession", "share", "low", "high", "p_page"]]  # doctest: +SKIP
    >>> audit.plot().save("shares.pdf")  # doctest: +SKIP
    """
    if not 0.5 < level < 1:
        raise UserError(f"--level: expected a level above 0.5 and below 1, got {level}: choose another")
    if not 0 < effect < 0.5:
        raise UserError(
            f"--effect: expected a difference above 0 and below 0.5, got {effect}: choose another"
        )
    folder = Path(pictures)
    if not folder.is_dir():
        raise UserError(f"{folder}: expected a folder of pictures, found none: check the path")
    table = open_labels(labels, [name for name in (label, *factors, unit, reader) if name])
    path, notes = table.path, list[str]()
    columns = find_columns(table, path, label=label, factors=factors, unit=unit, reader=reader)
    rows = read_labels(path, folder, columns, table, merges=merge, partial=partial, say=notes.append)
    readings = join_answers(rows)
    undecided = tuple(undecided or UNDECIDED)
    answer, answers = choose_answer(readings, path, answer, undecided)
    require_comparable(rows, readings, columns.factors, path, tuple(unlike))
    levels = {name: tuple(dict.fromkeys(readings[name])) for name in ("model", *columns.factors)}
    levels = order_levels(levels, columns.factors[1:], baseline)
    by = columns.factors[0]
    reference, sizes, said = reference_of(against, by, levels[by], len(answers))
    design = Design(
        *(answer, answers, undecided, columns.factors, levels, reference, sizes, bool(columns.unit), said),
        level=level,
        effect=effect,
        permutations=permutations,
        seed=seed,
        reader=columns.reader,
    )
    if columns.reader:
        require_reader(readings, path, design)
    tables = measure(rows, readings, design, resamples=resamples)
    return LabelledAudit(folder, design, **tables, notes=tuple(notes))


def measure(
    rows: pd.DataFrame, readings: pd.DataFrame, design: Design, *, resamples: int = 2000
) -> dict[str, pd.DataFrame]:
    """Return the tables of an audit by name."""
    agreement = agreement_table(rows, level=design.level, resamples=resamples, seed=design.seed)
    pictures = readings.assign(decided=readings["answer"].isin(design.answers))
    labelled = readings[readings["answer"] != MISSING] if design.reader else readings
    return {
        "pictures": pictures,
        **measure_cells(cells(labelled, design), design),
        "agreement": agreement,
        "confusions": confusion_table(pictures, design),
        "corrected": corrected_table(pictures, design),
    }


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

"""An audit of labelled pictures in Python and in a notebook: its tables, its sentences, its figure and its page."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.methods.audit import design as designs
from analysis.methods.audit.agreement import agreement_table
from analysis.methods.audit.claims import adjust_page, possible, sentences
from analysis.methods.audit.design import Design, Reference
from analysis.methods.audit.differences import difference_table
from analysis.methods.audit.labels import UNDECIDED, find_columns, join_answers, read_labels
from analysis.methods.audit.shares import between_table, rank_table, share_table
from analysis.report.figures.style import Drawn, inline_svg
from analysis.report.format import counted, listed
from analysis.report.listed_texts import ListedTexts
from analysis.studies.labels.form import open_labels
from probes.csv_text import csv_bytes
from probes.errors import UserError
from probes.runs.parts import write_bytes
from probes.user_tables import Source

PAGE = "audit.html"
TABLES = {  # by name: one row per
    "pictures": "picture",
    "shares": "model, level of every factor",
    "between": "model and level of the factors but the first",
    "differences": "question, two levels of a factor or two models, and level of the other factors",
    "ranks": "model and level of the factors but the first",
    "agreement": "model, and one of all",
}


@dataclass(frozen=True, repr=False)
class LabelledAudit:
    """Labelled pictures of models: shares of an answer, differences, and what that many pictures can say.

    A notebook shows the shares as dots and what the labels say.

    Attributes
    ----------
    folder : Path
        Of the pictures.
    design : Design
        Which answer is asked, of which factors, compared with what.
    tables : dict of str to DataFrame
        By the names of `TABLES`. Each is an attribute, too: ``audit.shares``.

        ``pictures``: one row per picture; ``shares``: the share of each model and level of every factor; ``between``:
        whether professions differ; ``differences``: what each level of a factor changes, and how every two models
        differ; ``ranks`` of models by their distance from the reference, as ranges; ``agreement`` of annotators.
    notes : tuple of str
        Lines on files and columns that were not read or were taken for others, and on what was left out.
    """

    folder: Path
    design: Design
    tables: dict[str, pd.DataFrame]
    notes: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> pd.DataFrame:
        if name not in TABLES:
            raise AttributeError(name)
        return self.tables[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *TABLES]

    @property
    def table(self) -> pd.DataFrame:
        """The shares."""
        return self.shares

    @property
    def findings(self) -> pd.DataFrame:
        """The sentences of the page: ``question`` and ``sentence``, from the adjusted tests of the whole page."""
        return ListedTexts(sentences(self.tables, self.design), columns=["question", "sentence"])

    @property
    def unlabelled(self) -> int:
        """Pictures without a label."""
        return int((self.pictures["annotators"] == 0).sum())

    @property
    def undecided(self) -> int:
        """Pictures whose labels decide nothing."""
        return int((~self.pictures["decided"]).sum())

    def plot(self) -> Drawn:
        """Draw the share of every cell with its interval, a panel for each model."""
        from analysis.methods.audit.figure import draw_shares

        return draw_shares(self.shares, self.design)

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
        from analysis.methods.audit.page import render

        require_new(Path(out), overwrite)
        page, text = Path(out) / PAGE, render(self, thumbnails)
        for name, table in self.tables.items():
            write_bytes(page.with_name(f"{name}.csv"), csv_bytes(table))
            write_bytes(page.with_name(f"{name}.parquet"), table.to_parquet(index=False))
        write_bytes(page, text.encode())
        return page

    def __repr__(self) -> str:
        design = self.design
        head = (
            f"{counted(len(self.pictures), 'picture')} of {listed(design.levels['model'])},"
            f" {self.undecided} undecided; share of {design.answer} among {listed(design.answers)},"
            f" against {design.against}"
        )
        agreed = [
            f"annotators: no Krippendorff's alpha over {counted(row.pictures, 'picture')}: {row.reason}"
            if row.reason
            else f"annotators: Krippendorff's alpha {row.alpha:.3f} [{row.low:.3f}, {row.high:.3f}] over"
            f" {row.pictures} pictures"
            for row in self.agreement.head(1).itertuples()
        ]
        lines = [*agreed, *self.findings["sentence"], possible(self.shares, design)]
        return "\n".join([*self.notes, head, *lines])

    def _repr_html_(self) -> str:
        text = f"<pre style='white-space: pre-wrap'>{html.escape(repr(self))}</pre>"
        return f"<div>{inline_svg(self.plot())}</div>{text}"


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
    against: Reference | None = None,
    merge: Mapping[str, str] | None = None,
    partial: bool = False,
    unlike: Sequence[str] = (),
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
        A row for each label, with columns ``image`` (the picture, from the folder), ``label``, ``profession`` and,
        where there are any, ``model``, ``setting``, ``template``, ``prompt``, ``annotator``. CSV, TSV, JSONL, XLSX or
        Parquet.
    label : str, optional
        Column of labels, where it has another name.
    answer : str, optional
        Whose share is asked; of two the first in the alphabet, of more it must be named.
    undecided : sequence of str, optional
        Answers that decide nothing; by default *both*, *cannot tell*, *unclear* and the like.
    factors, baseline : sequence of str
        Columns of what pictures were made for, and levels of all but the first that others are compared with.
    against : float, mapping, path or DataFrame, optional
        The share that shares are compared with, one for all or by profession; or a table with a ``share`` for each
        profession, and ``n``, of how many people it is. By default as many as of each other answer.
    merge : mapping of str to str, optional
        Spellings to be taken for others: ``{"females": "female"}``.
    partial : bool
        Leave out labels without a picture, and pictures without a label.
    unlike : sequence of str
        ``"prompts"``, ``"readers"``: compare models though these differ.
    effect : float
        Difference of shares for which the tables say how many pictures it takes, within 0 to 0.5.
    level, resamples, permutations, seed
        Of intervals, above 0.5, tests being at one less this; of the bootstrap of agreement; of tests of professions.

    Raises
    ------
    UserError
        Labels and pictures are not of each other, a spelling is likely a slip, models have other prompts, or there is
        nothing to ask; the line names the row and the remedy.

    Examples
    --------
    >>> audit = triptych.audit("portraits", "portraits/labels.csv", answer="female")  # doctest: +SKIP
    >>> audit.shares[["model", "profession", "share", "low", "high", "p_adjusted"]]  # doctest: +SKIP
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
    table = open_labels(labels, [name for name in (label, *factors) if name])
    path, notes = table.path, list[str]()
    factors, columns = find_columns(table, label=label, factors=factors)
    rows = read_labels(table, folder, factors, columns, merges=merge, partial=partial, say=notes.append)
    readings = join_answers(rows)
    undecided = tuple(undecided or UNDECIDED)
    answer, answers = designs.choose_answer(readings, path, answer, undecided)
    designs.require_comparable(rows, readings, factors, path, tuple(unlike))
    levels = {name: tuple(dict.fromkeys(readings[name])) for name in ("model", *factors)}
    levels = designs.order_levels(levels, factors[1:], baseline)
    by = factors[0]
    reference, sizes, words = designs.reference_of(against, by, levels[by], len(answers))
    design = Design(
        *(answer, answers, undecided, factors, levels, reference, sizes, words),
        level=level,
        effect=effect,
        permutations=permutations,
        seed=seed,
    )
    tables = {
        "pictures": readings.assign(decided=readings["answer"].isin(design.answers)),
        **measure_cells(designs.count_cells(readings, design), design),
        "agreement": agreement_table(rows, design, resamples),
    }
    return LabelledAudit(folder, design, tables, tuple(notes))


def measure_cells(cells: pd.DataFrame, design: Design) -> dict[str, pd.DataFrame]:
    """The tables of counted cells by name, adjusted over the page."""
    shares = share_table(cells, design)
    tables = {
        "shares": shares,
        "between": between_table(cells, design),
        "differences": difference_table(cells, design),
        "ranks": rank_table(shares, design),
    }
    return adjust_page(tables, design)

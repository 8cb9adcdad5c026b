"""Labels that people gave to pictures: which picture, of which model, made for what, and what each annotator said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.methods.audit.spellings import require_spellings
from analysis.report.format import counted
from analysis.tables.answer_sheets import require_named
from probes.errors import UserError, nearest
from probes.runs.images import KINDS, find_images, skipped_files_note
from probes.stages.external_images.table import IMAGE_COLUMNS
from probes.user_tables import Source, UserTable, find_file, open_table

LABELS = ("label", "answer", "read_as")  # columns looked for in this order where none is named
FACTORS = ("profession", "setting", "template")  # likewise, all that are there
UNDECIDED = ("both", "cannot tell", "can't tell", "unclear", "undecided", "unknown", "unsure")
OTHERS = ("model", "annotator", "prompt")
MISSING, TIE = "", "no majority"


@dataclass(frozen=True)
class LabelColumns:
    """Columns of a table of labels; empty where there is none."""

    image: str
    label: str
    factors: tuple[str, ...]
    model: str = ""
    annotator: str = ""
    prompt: str = ""
    unit: str = ""  # names what pictures share (their noise); empty where every picture is by itself
    reader: str = ""  # has what a machine read in the picture

    @property
    def used(self) -> list[str]:
        """The columns that are there, each once."""
        there = (self.image, self.label, *self.factors, self.model, self.annotator, self.prompt, self.unit)
        return list(dict.fromkeys(filter(None, (*there, self.reader))))


def open_labels(source: Source, named: Sequence[str] = ()) -> UserTable:
    """Return a table of labels, its columns by our names, or as the `named` ones are spelled."""
    return open_table(source, (*named, *IMAGE_COLUMNS, *LABELS, *FACTORS, *OTHERS))


def find_columns(
    table: UserTable,
    path: Path,
    *,
    label: str | None = None,
    factors: Sequence[str] = (),
    unit: str | None = None,
    reader: str | None = None,
) -> LabelColumns:
    """Which column holds what; a UserError where one is missing, or one that is named."""
    names = list(table.columns)
    named = {"--label": label, "--unit": unit, "--reader": reader}
    for option, name in [*named.items(), *(("--factors", one) for one in factors)]:
        if name is not None and name not in names:
            raise UserError(f"{path}: {option}: {nearest('column', name, names)}")
    image = next((name for name in IMAGE_COLUMNS if name in names), None)
    if image is None:
        wanted = ", ".join(IMAGE_COLUMNS)
        raise UserError(
            f"{path}: expected a column of images ({wanted}), found {', '.join(names)}: rename one"
        )
    said = label or next((name for name in LABELS if name in names), None)
    if said is None:
        raise UserError(
            f"{path}: expected a column of labels, found {', '.join(names)}: name it with --label"
        )
    chosen = tuple(factors) or tuple(name for name in FACTORS if name in names)
    if not chosen:
        raise UserError(
            f"{path}: expected a column of what was asked for ({FACTORS[0]}), found {', '.join(names)}: name it with"
            " --factors"
        )
    if len({*chosen}) < len(chosen) or said in chosen:
        raise UserError(
            f"{path}: --factors: expected other columns than {said!r}, each once, got {chosen}: mend it"
        )
    given = {name: name if name in names else "" for name in OTHERS}
    return LabelColumns(image, said, chosen, unit=unit or "", reader=reader or "", **given)


def read_labels(
    path: Path,
    pictures: Path,
    columns: LabelColumns,
    table: UserTable,
    *,
    merges: Mapping[str, str] | None = None,
    partial: bool = False,
    say: Callable[[str], object] = lambda line: None,
) -> pd.DataFrame:
    """One row per picture and annotator; the index names the row of the table.

    ``image`` is the path in the folder `pictures`, whose folders are the models where no column is; ``unit``,
    ``annotator``, ``answer`` and ``reading`` are empty where missing. `merges` says what a spelling is taken for;
    `partial` leaves out labels without a picture and pictures without a row; `say` takes a line on what was not read,
    or read as something else. A UserError where labels and pictures are not of each other, an annotator labelled a
    picture twice, two rows of a picture differ in what it is, a level is empty, or a spelling is likely a slip.
    """
    for line in table.notes(columns.used):
        say(line)
    table, merges = table.text_cells(columns.used), merges or {}
    if table.empty:
        raise UserError(f"{path}: expected a row for each label, found none: write them")
    images = table[columns.image].map(lambda text: _place(text, pictures, path.parent))
    files, others = find_images(pictures)
    if line := skipped_files_note(pictures, [file for file in others if file.resolve() != path.resolve()]):
        say(line)
    there = {file.relative_to(pictures).as_posix() for file in files}
    kept = {"prompt": columns.prompt, "unit": columns.unit, "annotator": columns.annotator}
    kept["reading"] = columns.reader
    rows = pd.DataFrame(
        {
            "image": images,
            "model": table[columns.model]
            if columns.model
            else images.map(lambda name: _folder(name, pictures)),
            **{name: table[name] for name in columns.factors},
            **{name: table[column] if column else "" for name, column in kept.items()},
            "answer": table[columns.label],
        }
    )
    checked = {"model": "model", "answer": "label", "reading": "reading"}
    for name, what in (checked | {name: name for name in (*columns.factors, "annotator")}).items():
        require_spellings(rows[name], what, path, merges, near=name != "annotator")
        rows[name] = rows[name].map(lambda text: merges.get(text, text)).str.strip()
    unused = [old for old in merges if not any((table[name] == old).any() for name in table)]
    if unused:
        raise UserError(f"--merge: expected a spelling of {path}, found none {unused[0]!r}: leave it out")
    require_named(rows["annotator"], path, rows["answer"] != MISSING)
    rows = _require_pictures(rows, there, path, pictures, partial=partial, say=say)
    _require_levels(rows, columns, path)
    _require_one_answer(rows, columns, path)
    return rows


def _place(text: str, pictures: Path, folder: Path) -> str:
    """The path of a picture in its folder; as it is written where nothing is there."""
    for start in (pictures, folder):
        file = find_file(text, "--labels", start)
        if file and file.resolve().is_relative_to(pictures.resolve()):
            return file.resolve().relative_to(pictures.resolve()).as_posix()
    return text.replace("\\", "/")


def _folder(name: str, pictures: Path) -> str:
    return name.partition("/")[0] if "/" in name else pictures.resolve().name


def _require_pictures(
    rows: pd.DataFrame,
    there: set[str],
    path: Path,
    pictures: Path,
    *,
    partial: bool,
    say: Callable[[str], object],
) -> pd.DataFrame:
    """Labels of pictures that are there, and of all of them."""
    if not there:
        raise UserError(f"{pictures}: expected pictures ({', '.join(KINDS)}), found none: check the path")
    gone = ~rows["image"].isin(there)
    if gone.any() and not partial:
        at, name = rows.index[gone][0], rows["image"][gone].iloc[0]
        found = "no image in it" if (pictures / name).is_file() else "none"
        raise UserError(
            f"{path}: {at}: expected a picture {name!r} in {pictures}, found {found}"
            f" ({gone.sum()} such rows): mend the path, or leave them out with --partial"
        )
    kept = rows[~gone]
    bare = sorted(there - {*kept["image"]})
    if bare and not partial:
        raise UserError(
            f"{pictures}: expected a label for every picture, found none for {bare[0]} ({len(bare)} such pictures):"
            f" label them in {path.name}, or leave them out with --partial"
        )
    if partial and (gone.any() or bare):
        labels = f"{counted(int(gone.sum()), 'label')} without a picture"
        say(f"left out: {labels}, {counted(len(bare), 'picture')} without a label")
    for name in rows.columns.drop(["image", "prompt", "unit", "annotator", "answer", "reading"]):
        lost = sorted({*rows[name]} - {*kept[name]})
        if lost:
            raise UserError(f"{path}: expected pictures of {name} {lost[0]!r}, found none: take its rows out")
    return kept


def _require_levels(rows: pd.DataFrame, columns: LabelColumns, path: Path) -> None:
    for name, column in [
        ("model", columns.model),
        *((one, one) for one in columns.factors),
        ("unit", columns.unit),
    ]:
        empty = rows[name].str.strip() == ""
        if column and empty.any():
            raise UserError(
                f"{path}: {rows.index[empty][0]}: expected a text in {column!r}, found none: write it"
            )


def _require_one_answer(rows: pd.DataFrame, columns: LabelColumns, path: Path) -> None:
    """One row per picture and annotator, and the same picture in all of them."""
    twice = rows.duplicated(["image", "annotator"])
    if twice.any():
        row = rows[twice].iloc[0]
        whose = f"of {row['annotator']!r} " if columns.annotator else ""
        remedy = (
            "leave one out"
            if columns.annotator
            else "leave one out, or say who gave it in a column annotator"
        )
        raise UserError(
            f"{path}: {rows.index[twice][0]}: expected one label {whose}for {row['image']}, got another: {remedy}"
        )
    for name in ("model", *columns.factors, "prompt", "unit", "reading"):
        first = rows.groupby("image", sort=False)[name].transform("first")
        other = rows[name] != first
        if other.any():
            place = rows.index[other][0]
            raise UserError(
                f"{path}: {place}: expected {name} {first[place]!r} as in another row of {rows['image'][place]}, got"
                f" {rows[name][place]!r}: mend one"
            )


def join_answers(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per picture: the answer of more than half of those who answered, else `TIE`, or `MISSING`.

    ``annotators`` is how many answered; the order is that of `rows`.
    """
    given = rows[rows["answer"] != MISSING]
    counts = given.groupby(["image", "answer"], sort=False).size().rename("n").reset_index()
    total = counts.groupby("image")["n"].sum()
    most = counts[counts["n"] * 2 > counts["image"].map(total)].set_index("image")["answer"]
    joined = rows.drop_duplicates("image").drop(columns=["annotator", "answer"]).reset_index(drop=True)
    answered = joined["image"].map(total).fillna(0).astype(int)
    answer = joined["image"].map(most).where(answered > 0, MISSING).fillna(TIE)
    return joined.assign(answer=answer, annotators=answered)

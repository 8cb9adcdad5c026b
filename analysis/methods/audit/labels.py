"""Labels that people gave to pictures: which picture, of which model, made for what, and what each annotator said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from analysis.report.format import counted
from analysis.studies.labels import form
from probes.errors import UserError, nearest
from probes.runs.images import KINDS, find_images, skipped_files_note
from probes.stages.external_images.table import IMAGE_COLUMNS
from probes.user_tables import UserTable, find_file

FACTORS = ("profession", "setting", "template")  # columns looked for, all that exist
UNDECIDED = ("both", "cannot tell", "can't tell", "unclear", "undecided", "unknown", "unsure")
OTHERS = ("model", "annotator", "prompt")
MISSING, TIE = "", "no majority"


def find_columns(
    table: UserTable,
    *,
    label: str | None = None,
    factors: Sequence[str] = (),
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The factors, and which column holds what else, empty for none; a UserError where one is missing."""
    names = list(table.columns)
    for option, name in [("--label", label), *(("--factors", one) for one in factors)]:
        if name is not None and name not in names:
            raise UserError(f"{table.path}: {option}: {nearest('column', name, names)}")
    image = form.find_column(table, IMAGE_COLUMNS, "images")
    label = label or form.find_column(table, form.LABELS, "labels", "name it with --label")
    chosen = tuple(factors) or tuple(name for name in FACTORS if name in names)
    if not chosen:
        form.find_column(table, FACTORS, "what was asked for", "name it with --factors")
    if len({*chosen}) < len(chosen) or label in chosen:
        raise UserError(
            f"{table.path}: --factors: expected other columns than {label!r}, each once, got {chosen}: mend it"
        )
    others = {name: name if name in names else "" for name in OTHERS}
    return chosen, {"image": image, "label": label, **others}


def read_labels(
    table: UserTable,
    pictures: Path,
    factors: Sequence[str],
    columns: Mapping[str, str],
    *,
    merges: Mapping[str, str] | None = None,
    partial: bool = False,
    say: Callable[[str], object] = lambda line: None,
) -> pd.DataFrame:
    """One row per picture and annotator; the index names file and row.

    ``image`` is the path in the folder `pictures`, whose folders are the models where no column is; ``annotator``,
    ``label`` are empty where missing. `merges` says what a spelling is taken for;
    `partial` leaves out labels without a picture and pictures without a row; `say` takes a line on what was not read.
    A UserError where labels and pictures are not of each other, an annotator labelled a picture twice, two rows of a
    picture differ in what it is, a level is empty, or a spelling is likely a slip.
    """
    path, merges, used = table.path, merges or {}, {name: name for name in factors} | dict(columns)
    for line in table.notes(filter(None, used.values())):
        say(line)
    rows = form.read_columns(table, used)
    rows["image"] = rows["image"].map(lambda text: _picture(text, pictures, path.parent))
    if not columns["model"]:
        rows["model"] = [
            name.partition("/")[0] if "/" in name else pictures.resolve().name for name in rows["image"]
        ]
    texts = [name for name, column in used.items() if column]
    unused = [old for old in merges if not any((rows[name] == old).any() for name in texts)]
    if unused:
        raise UserError(f"--merge: expected a spelling of {path}, found none {unused[0]!r}: leave it out")
    for name in ("model", "label", *factors, "annotator"):
        form.require_spellings(rows[name], name, merges, near=name != "annotator")
        rows[name] = rows[name].map(lambda text: merges.get(text, text)).str.strip()
    files, others = find_images(pictures)
    if line := skipped_files_note(pictures, [file for file in others if file.resolve() != path.resolve()]):
        say(line)
    existing = {file.relative_to(pictures).as_posix() for file in files}
    rows = _require_pictures(rows, existing, path, pictures, partial=partial, say=say)
    for name in ("model", *factors):
        empty = rows[name].str.strip() == ""
        if used[name] and empty.any():
            raise UserError(
                f"{rows.index[empty][0]}: expected a text in {used[name]!r}, found none: write it"
            )
    who = "leave one out" if columns["annotator"] else "leave one out, or add a column annotator"
    form.require_once(rows, ["image"], who)
    for name in ("model", *factors, "prompt"):
        first = rows.groupby("image", sort=False)[name].transform("first")
        if (other := rows[name] != first).any():
            row = rows.index[other][0]
            raise UserError(
                f"{row}: expected {name} {first[row]!r} as in another row of {rows['image'][row]}, got"
                f" {rows[name][row]!r}: mend one"
            )
    return rows


def _picture(text: str, pictures: Path, folder: Path) -> str:
    """The path of a picture in its folder; as it is written if there is none."""
    for start in (pictures, folder):
        file = find_file(text, "--labels", start)
        if file and file.resolve().is_relative_to(pictures.resolve()):
            return file.resolve().relative_to(pictures.resolve()).as_posix()
    return text.replace("\\", "/")


def _require_pictures(
    rows: pd.DataFrame,
    existing: set[str],
    path: Path,
    pictures: Path,
    *,
    partial: bool,
    say: Callable[[str], object],
) -> pd.DataFrame:
    """Labels of pictures that exist, and of all of them."""
    if not existing:
        raise UserError(f"{pictures}: expected pictures ({', '.join(KINDS)}), found none: check the path")
    missing = ~rows["image"].isin(existing)
    if missing.any() and not partial:
        name = rows["image"][missing].iloc[0]
        result = "no image in it" if (pictures / name).is_file() else "none"
        raise UserError(
            f"{rows.index[missing][0]}: expected a picture {name!r} in {pictures}, found {result}"
            f" ({missing.sum()} such rows): mend the path, or leave them out with --partial"
        )
    kept = rows[~missing]
    bare = sorted(existing - {*kept["image"]})
    if bare and not partial:
        raise UserError(
            f"{pictures}: expected a label for every picture, found none for {bare[0]} ({len(bare)} such pictures):"
            f" label them in {path.name}, or leave them out with --partial"
        )
    if missing.any() or bare:
        labels = f"{counted(int(missing.sum()), 'label')} without a picture"
        say(f"left out: {labels}, {counted(len(bare), 'picture')} without a label")
    for name in rows.columns.drop(["image", "prompt", "annotator", "label"]):
        lost = sorted({*rows[name]} - {*kept[name]})
        if lost:
            raise UserError(f"{path}: expected pictures of {name} {lost[0]!r}, found none: take its rows out")
    return kept


def join_answers(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per picture: the ``answer`` of more than half of those who answered, else `TIE`, or `MISSING`.

    ``annotators`` is how many answered; the order is that of `rows`.
    """
    given = rows[rows["label"] != MISSING]
    counts = given.groupby(["image", "label"], sort=False).size().rename("n").reset_index()
    total = counts.groupby("image")["n"].sum()
    most = counts[counts["n"] * 2 > counts["image"].map(total)].set_index("image")["label"]
    joined = rows.drop_duplicates("image").drop(columns=["annotator", "label"]).reset_index(drop=True)
    answered = joined["image"].map(total).fillna(0).astype(int)
    answer = joined["image"].map(most).where(answered > 0, MISSING).fillna(TIE)
    return joined.assign(answer=answer, annotators=answered)

"""Sheets on which people label images of a run, and their labels taken into the run: ``triptych labels``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import pandas as pd
from PIL import Image

from analysis.metrics.skin_tone import monk_colours
from analysis.report.environment import environment
from analysis.report.figures.dots import draw_dots
from analysis.report.figures.style import Drawn
from analysis.report.format import counted
from analysis.report.gallery import encode
from analysis.report.result import Result
from analysis.studies.labels.form import (
    ANNOTATOR,
    fingerprint,
    open_labels,
    read_columns,
    require_once,
    require_spellings,
)
from analysis.studies.labels.kind import TICKED, LabelKind
from analysis.studies.labels.objects import OBJECTS
from analysis.studies.labels.questions import QUESTIONS
from analysis.tables.registry import write
from analysis.tables.spec import ROWS
from probes.config.observation import TONE
from probes.errors import UserError, nearest
from probes.runs.parts import write_bytes
from probes.runs.run import Run

FORM = ("image", "about", "question", "label", "annotator", "fingerprint")
SHEET = "sheet.html"
LARGEST = 512  # pixels


def write_sheet(
    run: Run,
    out: Path,
    *,
    about: str | None = None,
    images: int | None = None,
    extra: int | None = None,
    seed: int = 0,
) -> Result:
    """Write questions about images chosen at random into a folder, as one page; return them, and what to do with it."""
    kind = choose_kind(run, about)
    if extra is not None and kind is not OBJECTS:
        raise UserError(f"--objects: expected a sheet about objects, got one about {kind.name}: leave it out")
    questions = kind.ask(run, images or kind.images, extra, seed)
    samples = list(dict.fromkeys(questions["sample_id"]))
    page = render_sheet(questions, dict(zip(samples, run.images(samples))), run.config.name, kind)
    path = out / SHEET
    write_bytes(path, page.encode())
    text = (
        f"{path}: {counted(len(questions), 'question')} about {counted(len(samples), 'image')}; open it in a browser,"
        f" export, then: triptych labels read {run.path} labels.csv"
    )
    return Result(text, questions, partial(_draw_counts, questions["question"], "Questions on the sheet"))


def render_sheet(
    questions: pd.DataFrame, images: Mapping[str, Image.Image], name: str, kind: LabelKind
) -> str:
    """The sheet as one page that needs no network and no other file.

    `questions` as `LabelKind.ask` returns them, `images` by ``sample_id``. What is answered by yes, no or unclear is
    ticked, the rest chosen from a list.
    """
    cards = []
    for sample, rows in questions.groupby("sample_id", sort=False):
        image = images[sample]
        source, (width, height) = encode(image, LARGEST), image.size
        asked = [
            {"key": key, "text": text, "answers": [] if tuple(answers) == TICKED else list(answers)}
            for key, text, answers in zip(rows["question"], rows["asked"], rows["answers"])
        ]
        card = {"id": sample, "print": fingerprint(image), "source": source, "width": width, "height": height}
        cards.append(card | {"questions": asked})
    identity = [name, kind.name, [(card["id"], card["print"], card["questions"]) for card in cards]]
    key = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
    tones = monk_colours() if (questions["question"] == TONE).any() else []
    return (
        environment()
        .get_template("label_sheet.html.j2")
        .render(
            name=name,
            instructions=kind.instructions,
            tones=["#{:02x}{:02x}{:02x}".format(*map(int, colour)) for colour in tones],
            count=counted(len(cards), "image"),
            data={"key": key, "about": kind.name, "columns": FORM, "cards": cards},
        )
    )


def choose_kind(run: Run, name: str | None = None) -> LabelKind:
    """The kind of a name, or the usual one of a run; a UserError where the run cannot be asked that."""
    of_methods = [resolve_name(row.people) for row in import_module(ROWS).METHODS if row.people]
    kinds = [*of_methods, QUESTIONS, OBJECTS]
    if name is None:
        return next(kind for kind in kinds if kind.usual(run.config))
    kind = next((kind for kind in kinds if kind.name == name), None)
    if kind is None:
        raise UserError(f"about: {nearest('kind of labels', name, [kind.name for kind in kinds])}")
    if kind.needs and not kind.usual(run.config):
        raise UserError(
            f"{run.path}: expected {kind.needs} for labels about {name}, found none: name another run"
        )
    return kind


def read_answers(run: Run, files: Sequence[Path], *, replace: bool = False) -> Result:
    """Store people's labels in a run, and measure them; return all that are stored, and what there is to say."""
    kind, rows = read_files(run, files)
    stored = store(run, kind, rows, replace=replace)
    draw = partial(_draw_counts, stored[kind.question], "Labels by question", stored[ANNOTATOR])
    return Result("\n".join(kind.measure(run, stored)), stored, draw)


def _draw_counts(names: pd.Series, title: str, series: pd.Series | None = None) -> Drawn:
    """How often each name stands in a column, by another column."""
    table = pd.DataFrame({"label": names.astype(str), "series": "" if series is None else series.astype(str)})
    counts = table.value_counts(sort=False).rename("value").reset_index()
    return draw_dots("labels", title, "How many there are of each.", counts, "number", noun="question")


def read_files(run: Run, files: Sequence[Path]) -> tuple[LabelKind, pd.DataFrame]:
    """The kind of labels in files, and their rows as they are stored: ``sample_id``, question, ``annotator`` and label.

    An empty label is none. Refused is what names no image or question of the run, cannot be read, or is of another
    run's images (`fingerprint`), and an annotator who answers twice or is spelled in two ways.
    """
    tables = []
    for path in files:
        table = open_labels(path, FORM)
        for name in FORM[:4]:
            table.require(name)
        columns = {name: name if name in table.columns else "" for name in FORM}
        table.print_notes(filter(None, columns.values()))
        tables.append(read_columns(table, columns))
    rows = pd.concat(tables)
    rows = rows[rows["label"].str.strip() != ""]
    if rows.empty:
        raise UserError(
            f"{files[-1]}: expected labels, got none: mark at least one image as done and export again"
        )
    try:
        kind = choose_kind(run, rows["about"].iloc[0])
    except UserError as error:
        raise UserError(f"{rows.index[0]}: {error}") from None
    read, samples, prints = kind.reader(run), set(run.samples(["sample_id"])["sample_id"]), dict[str, str]()
    values = []
    for place, row in zip(rows.index, rows.to_dict("records")):
        sample, problem = row["image"], ""
        if row["about"] != kind.name:
            problem = (
                f"expected labels about {kind.name}, got one about {row['about']}: give them by themselves"
            )
        elif sample in samples and row["fingerprint"] and sample not in prints:
            prints[sample] = fingerprint(run.image(sample))
        if sample not in samples or row["fingerprint"] not in ("", prints.get(sample)):
            problem = (
                f"expected an image of {run.path}, got another as {sample!r:.60}: name the run of the sheet"
            )
        if not problem:
            try:
                values.append(read(sample, row["question"], row["label"].strip()))
            except UserError as error:
                problem = f"{error}: correct it or take the row out"
        if problem:
            raise UserError(f"{place}: {problem}")
    require_spellings(rows[ANNOTATOR], ANNOTATOR)
    require_once(rows, ["image", "question"], "rename the annotator of one, or leave it out")
    names = {"image": "sample_id", "question": kind.question}
    rows = rows[["image", "question", ANNOTATOR]].rename(columns=names).assign(**{kind.label: values})
    return kind, rows


def store(run: Run, kind: LabelKind, rows: pd.DataFrame, *, replace: bool = False) -> pd.DataFrame:
    """Add labels to the table of a run; return the table.

    With `replace` an annotator's labels take the place of the same annotator's of the same; else one that differs from
    a stored one is refused. Those of other annotators stay.
    """
    key = ["sample_id", kind.question, ANNOTATOR]
    given = rows.reset_index(drop=True)
    if kind.table in run.tables():
        old = run.table(kind.table)
        both = old.merge(rows.rename_axis("place").reset_index(), on=key, suffixes=("", "_new"))
        other = both[both[kind.label].notna() & (both[kind.label] != both[f"{kind.label}_new"])]
        if len(other) and not replace:
            row = other.iloc[0]
            raise UserError(
                f"{row['place']}: expected the label that {row[ANNOTATOR] or 'the annotator'!r} gave before, got"
                f" another for {row[kind.question]} in {row['sample_id']}: name another annotator, or correct your own"
                " with --replace"
            )
        given = pd.concat([old, given]).drop_duplicates(key, keep="last", ignore_index=True)
        names = pd.concat(
            [old[ANNOTATOR].set_axis([f"{run.path}: {kind.table}"] * len(old)), rows[ANNOTATOR]]
        )
        require_spellings(names, ANNOTATOR)
    write(run, kind.table, given)
    return given

"""``audit.html``: models as rows, professions as columns, shares as dots with intervals, pictures behind each cell."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.methods.audit.claims import QUESTIONS, possible, sentences
from analysis.methods.audit.design import ALL, Design
from analysis.methods.audit.reader import UNDECIDED, remarks
from analysis.report.environment import environment
from probes.errors import UserError
from probes.runs.images import read_image

THUMBNAIL = 96  # pixels of the longer side
TITLES = {
    "reference": "Do shares differ from the reference?",
    "between": "Do {by} differ from each other?",
    "contrast": "What does each {others} change?",
    "distance": "Nearer to the reference, or farther?",
    "models": "Do models differ?",
    "ranks": "Whose shares lie nearer to the reference?",
}


def render(
    tables: Mapping[str, pd.DataFrame],
    design: Design,
    pictures: Path,
    *,
    thumbnails: int = 20,
    name: str = "",
    notes: Sequence[str] = (),
) -> str:
    """The page as HTML, in one file, with so many pictures of each cell."""
    said = sentences(tables, design)
    read = tables["pictures"]
    unread = int((read["annotators"] == 0).sum())
    title = {"by": design.plural, "others": " and ".join(design.others)}
    questions = [(TITLES[key].format(**title), said[key], key) for key in QUESTIONS if said[key]]
    return (
        environment()
        .get_template("analysis.methods.audit/page.html.j2")
        .render(
            name=name or "labels",
            notes=notes,
            design=design,
            pictures=len(read),
            undecided=int((~read["decided"]).sum()) - (unread if design.reader else 0),
            unread=unread,
            settings=_settings(design),
            rows=_rows(tables["shares"], read, design, pictures, thumbnails),
            questions=questions,
            possible=possible(tables, design),
            ranks=_by_setting(tables["ranks"], design),
            contrasts=tables["contrasts"].to_dict("records"),
            agreement=tables["agreement"].to_dict("records"),
            corrected=tables["corrected"].to_dict("records"),
            confusions=_confusions(tables["confusions"]),
            remarks=list(remarks(tables["confusions"], tables["corrected"], design)),
            all=ALL,
        )
    )


def _confusions(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Groups with the rows in which the machine says what people say, by what that is."""
    own = table[(table["label"] == table["reading"]) & (table["label"] != UNDECIDED)]
    groups = own.groupby(["by", "group"], sort=False)
    return [
        {"by": by, "group": group, "rights": rows.set_index("label").to_dict("index")}
        for (by, group), rows in groups
    ]


def _settings(design: Design) -> list[str]:
    """Names of what stands as dots in one cell: the levels of the other factors, crossed."""
    names = [""]
    for factor in design.others:
        names = [", ".join(filter(None, (one, level))) for one in names for level in design.levels[factor]]
    return names


def _setting(row: Mapping[str, Any], design: Design) -> str:
    return ", ".join(row[name] for name in design.others)


def _rows(
    shares: pd.DataFrame, read: pd.DataFrame, design: Design, folder: Path, thumbnails: int
) -> list[dict[str, Any]]:
    """Models with the dots and pictures of each of their cells."""
    keys = ["model", *design.factors]
    groups, settings = read.groupby(keys, sort=False)[["image", "answer"]], _settings(design)
    shown = {key: own[:thumbnails].itertuples(index=False) for key, own in groups}
    rows = []
    for model in design.levels["model"]:
        cells = []
        for level in design.levels[design.by]:
            own = shares[(shares["model"] == model) & (shares[design.by] == level)].to_dict("records")
            dots = [
                row
                | {
                    "setting": _setting(row, design),
                    "place": settings.index(_setting(row, design)),
                    "told": row["p_page"] <= design.alpha,
                    "thumbnails": [
                        {"source": thumbnail(folder / image), "answer": answer or "no label", "image": image}
                        for image, answer in shown[tuple(row[one] for one in keys)]
                    ],
                }
                for row in own
            ]
            cells.append({"level": level, "dots": dots})
        rows.append({"model": model, "cells": cells})
    return rows


def thumbnail(path: Path) -> str:
    """A picture as a small JPEG in a ``data:`` address."""
    try:
        image = read_image(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: expected a picture, got what cannot be read ({error}): mend it, or --thumbnails 0"
        ) from None
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    buffer = io.BytesIO()
    image.save(buffer, "jpeg", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def _by_setting(ranks: pd.DataFrame, design: Design) -> list[tuple[str, list[dict[str, Any]]]]:
    records = ranks.to_dict("records")
    return [(name, list(own)) for name, own in groupby(records, lambda row: _setting(row, design))]

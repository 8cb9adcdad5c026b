"""``audit.html``: models as rows, professions as columns, shares as dots with intervals, pictures behind each cell."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.methods.audit.claims import possible, question_rows, sentences
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
    labels = tables["pictures"]
    unlabelled = int((labels["annotators"] == 0).sum())
    title = {"by": design.plural, "others": " and ".join(design.others)}
    confusions = tables["confusions"]
    right = confusions[(confusions["label"] == confusions["reading"]) & (confusions["label"] != UNDECIDED)]
    return (
        environment()
        .get_template("analysis.methods.audit/page.html.j2")
        .render(
            name=name or "labels",
            notes=notes,
            design=design,
            pictures=len(labels),
            undecided=int((~labels["decided"]).sum()) - (unlabelled if design.reader else 0),
            unlabelled=unlabelled,
            settings=_settings(design),
            dots=_dots(tables["shares"], labels, design, pictures, thumbnails),
            questions=[
                (TITLES[key].format(**title), lines, key)
                for key, lines in sentences(tables, design).items()
                if lines
            ],
            possible=possible(tables["shares"], design),
            ranks=tables["ranks"].to_dict("records"),
            changes=question_rows(tables, "contrast").to_dict("records"),
            agreement=tables["agreement"].to_dict("records"),
            corrected=tables["corrected"].to_dict("records"),
            confusions=[
                {"by": by, "group": group, "rights": rows.set_index("label").to_dict("index")}
                for (by, group), rows in right.groupby(["by", "group"], sort=False)
            ],
            remarks=list(remarks(confusions, tables["corrected"], design)),
            all=ALL,
        )
    )


def _settings(design: Design) -> list[str]:
    """Names of the dots in one cell: the levels of the other factors, crossed."""
    return [", ".join(levels) for levels in product(*(design.levels[factor] for factor in design.others))]


def _dots(
    shares: pd.DataFrame, labels: pd.DataFrame, design: Design, folder: Path, thumbnails: int
) -> list[dict[str, Any]]:
    """The cells of models, with what their dots show and the pictures behind them."""
    keys, settings = ["model", *design.factors], _settings(design)
    shown = {key: group.head(thumbnails) for key, group in labels.groupby(keys, sort=False)}
    dots = []
    for row in shares.to_dict("records"):
        setting = ", ".join(row[name] for name in design.others)
        images = shown[tuple(row[name] for name in keys)]
        pictures = [
            {"source": thumbnail(folder / image), "answer": answer or "no label", "image": image}
            for image, answer in zip(images["image"], images["answer"])
        ]
        place = {"setting": setting, "place": settings.index(setting), "level": row[design.by]}
        dots.append(row | place | {"significant": row["p_adjusted"] <= design.alpha, "thumbnails": pictures})
    return dots


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

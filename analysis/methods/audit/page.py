"""``audit.html``: models as rows, professions as columns, shares as dots with intervals, pictures behind each cell."""

from __future__ import annotations

from itertools import groupby, product
from operator import itemgetter
from pathlib import Path
from typing import Any

from analysis.methods.audit.claims import QUESTIONS, possible, question_rows, sentences
from analysis.methods.audit.design import ALL
from analysis.report.environment import environment
from analysis.report.gallery import encode
from probes.errors import UserError
from probes.runs.images import read_image

THUMBNAIL = 96  # pixels of the longer side


def render(audit: Any, thumbnails: int) -> str:
    """The page of a `LabelledAudit` as HTML, in one file, with so many pictures of each cell."""
    tables, design = audit.tables, audit.design
    titles = {"by": design.plural, "others": " and ".join(design.others)}
    settings = [", ".join(one) for one in product(*(design.levels[name] for name in design.others))]
    return (
        environment()
        .get_template("analysis.methods.audit/page.html.j2")
        .render(
            name=audit.folder.absolute().name or "labels",
            notes=audit.notes,
            design=design,
            pictures=len(audit.pictures),
            undecided=audit.undecided,
            unlabelled=audit.unlabelled,
            settings=settings,
            dots=_dots(audit, settings, thumbnails),
            questions=[
                (QUESTIONS[key][0].format(**titles), [line for _, line in lines], key)
                for key, lines in groupby(sentences(tables, design), itemgetter(0))
            ],
            possible=possible(audit.shares, design),
            changes=question_rows(tables, "contrast").to_dict("records"),
            **{name: tables[name].to_dict("records") for name in ("ranks", "agreement")},
            all=ALL,
        )
    )


def _dots(audit: Any, settings: list[str], thumbnails: int) -> list[dict[str, Any]]:
    """The cells of models, with what their dots show and the pictures behind them."""
    design, dots = audit.design, []
    keys = ["model", *design.factors]
    pictures = {key: group.head(thumbnails) for key, group in audit.pictures.groupby(keys, sort=False)}
    for row in audit.shares.to_dict("records"):
        setting = ", ".join(row[name] for name in design.others)
        images = pictures[tuple(row[name] for name in keys)]
        shown = [
            {"source": thumbnail(audit.folder / image), "answer": answer or "no label", "image": image}
            for image, answer in zip(images["image"], images["answer"])
        ]
        place = {"setting": setting, "place": settings.index(setting), "level": row[design.by]}
        dots.append(row | place | {"significant": row["p_adjusted"] <= design.alpha, "thumbnails": shown})
    return dots


def thumbnail(path: Path) -> str:
    """A small picture in a ``data:`` address."""
    try:
        image = read_image(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: expected a picture, got what cannot be read ({error}): mend it, or --thumbnails 0"
        ) from None
    return encode(image, THUMBNAIL)

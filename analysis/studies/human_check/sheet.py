"""The labelling sheet: one HTML file with the images and a check box an object, which writes a CSV file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image

from analysis.report.format import counted
from analysis.report.gallery import encode
from analysis.studies.human_check.labels import LABELS, fingerprint

LARGEST = 512  # pixels
OBJECTS, STATEMENTS = "objects", "statements"  # what is ticked


def render_sheet(
    questions: pd.DataFrame, images: Mapping[str, Image.Image], name: str, *, kind: str = OBJECTS
) -> str:
    """Write the sheet as one page that needs no network and no other file.

    `questions` are of `analysis.studies.human_check.check.choose_questions`, `images` by ``sample_id``; `kind` is what
    ``object`` holds: names of objects, or whole statements about the image.
    """
    cards = []
    for sample, rows in questions.groupby("sample_id", sort=False):
        image = images[sample]
        source, (width, height) = encode(image, LARGEST), image.size
        card = {"id": sample, "print": fingerprint(image), "source": source, "width": width, "height": height}
        card["objects"] = list(rows["object"])
        cards.append(card)
    cards_asked = [(card["id"], card["print"], card["objects"]) for card in cards]
    key = hashlib.sha256(json.dumps([name, cards_asked]).encode()).hexdigest()[:16]
    data = json.dumps({"key": key, "name": name, "columns": LABELS, "cards": cards}, separators=(",", ":"))
    environment = Environment(
        loader=PackageLoader("analysis.report", "templates"), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("human_sheet.html.j2").render(
        name=name,
        statements=kind == STATEMENTS,
        count=counted(len(cards), "image"),
        data=data.replace("<", "\\u003c").replace("&", "\\u0026"),
    )

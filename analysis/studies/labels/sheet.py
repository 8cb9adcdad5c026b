"""The labelling sheet: one HTML file with images and what is asked of them, which writes a CSV file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image

from analysis.metrics.skin_tone import monk_colours
from analysis.report.format import counted
from analysis.report.gallery import encode
from analysis.studies.labels.form import fingerprint
from analysis.studies.labels.kind import TICKED, LabelKind
from probes.config.observation import TONE

FORM = ("image", "about", "question", "label", "annotator", "fingerprint")
LARGEST = 512  # pixels


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
    data = {"key": key, "about": kind.name, "columns": FORM, "cards": cards}
    environment = Environment(
        loader=PackageLoader("analysis.report", "templates"), autoescape=True, undefined=StrictUndefined
    )
    tones = monk_colours() if (questions["question"] == TONE).any() else []
    return environment.get_template("label_sheet.html.j2").render(
        name=name,
        instructions=kind.instructions,
        tones=["#{:02x}{:02x}{:02x}".format(*map(int, colour)) for colour in tones],
        count=counted(len(cards), "image"),
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c").replace("&", "\\u0026"),
    )

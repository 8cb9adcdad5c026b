"""The paged gallery: every triplet of a run, in ``gallery/`` beside the report, opened without a server.

``gallery/index.html`` reads two kinds of scripts (a page opened from disk may load scripts, but not JSON):
``index.js`` says of each triplet its prompt, gap and objects, so that it can be found and sorted, and a file for each
`TRIPLETS` triplets holds their images, word maps and outlines. A triplet of up to nine words takes at most `BUDGET`
bytes: outlines that leave too little for the images get fewer corners (`analysis.report.outlines`), the longest of
those that are still too many are left out, and images are stored in lower quality, or smaller.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import pandas as pd
from PIL import Image

from analysis.metrics.dependency import GROUPS
from analysis.report import gallery
from analysis.report.environment import environment
from analysis.report.outlines import fit, polygons
from analysis.report.overlays import DETECTED, NOT_GROUPED, overlays
from analysis.study import indicators
from analysis.tables.sharing import Call, Sharing

if TYPE_CHECKING:
    from probes.config.schema import Config
    from probes.runs.run import Run

FOLDER = "gallery"
TRIPLETS = 8  # triplets with one seed in a file
BUDGET = 40_000  # bytes of a triplet, as stored
SIDES = (192, 160, 128, 96)  # pixels of an image's longer side, tried in this order
QUALITIES = (
    (80, "4:4:4"),
    (80, "4:2:0"),
    (60, "4:2:0"),
    (40, "4:2:0"),
    (20, "4:2:0"),
)  # of JPEG, with how its colours are sampled
MAP_QUALITIES = (80, 60, 40, 10)  # of JPEG without colours
MAP_SIDE = 32  # pixels of a word map
MAPS = 12_000  # bytes of the budget that word maps may take
IMAGES = 9_000  # bytes that are kept for images, if need be by coarser outlines, or fewer
AT_ONCE = 128  # files made before they are written
COLUMNS = ("sample_id", "triplet", "seed", "indicator", "word", "prompt", "words", "image")
WORDS = ("sample_id", "word_index", "heat", "height", "width")
OBJECT = (
    "sample_id",
    "triplet",
    "seed",
    "indicator",
    "object",
    "label",
    "lemma",
    "group",
    "best_word_index",
    "coverage",
)


def write(
    run: Run,
    samples: pd.DataFrame,
    objects: pd.DataFrame | None,
    gaps: pd.DataFrame,
    directions: Mapping[str, int],
    sharing: Sharing,
) -> str:
    """Write ``gallery/`` of a measured run; return the path of its page within the run.

    `directions` holds for each contrast the sign of the gap that the report claims of the primary measure, 0 where it
    claims none; the bytes do not depend on the number of processes.
    """
    pieces = _pieces(run, samples, objects)
    names = [f"{FOLDER}/{number:05d}.js" for number in range(len(pieces))]
    page = f"{FOLDER}/index.html"
    files = [
        (number, place) for number, piece in enumerate(pieces) for place in range(len(piece.arguments[2]))
    ]
    texts = {
        f"{FOLDER}/index.js": _index(run.config, samples, objects, gaps, directions, files),
        page: environment()
        .get_template("gallery.html.j2")
        .render(name=run.config.name, compares=run.config.compares),
    }
    run.write_files([*names, *texts], _made(sharing, pieces, list(texts.values())))
    return page


def _made(sharing: Sharing, pieces: Sequence[Call], texts: Sequence[str]) -> Iterator[bytes]:
    for start in range(0, len(pieces), AT_ONCE):
        yield from sharing.results(pieces[start : start + AT_ONCE])
    yield from (text.encode() for text in texts)


def _pieces(run: Run, samples: pd.DataFrame, objects: pd.DataFrame | None) -> list[Call]:
    """Return a call for each file: of each part of the samples, so many draws at a time."""
    place = {sample: number for number, sample in enumerate(samples["sample_id"])}
    order = np.empty(0)
    if objects is not None:
        order = objects["sample_id"].map(place).to_numpy(float)
        objects, order = objects[[*OBJECT]].iloc[np.argsort(order, kind="stable")], np.sort(order)
    pieces: list[Call] = []
    end = 0
    for file, draws in _draws(run):
        for start in range(0, len(draws), TRIPLETS):
            own = draws[start : start + TRIPLETS]
            first, end = end, end + sum(map(len, own))
            low, high = np.searchsorted(order, [first, end])
            seen = None if objects is None else objects.iloc[low:high]
            number = len(pieces)
            pieces.append((triplets, file.name, number, own, seen))
    return pieces


def _draws(run: Run) -> Iterator[tuple[Path, list[list[str]]]]:
    """Yield each part of the samples with the samples of its draws."""
    for file, table in zip(
        run.parts("samples"), run.part_tables("samples", ["sample_id", "triplet", "seed"])
    ):
        draws = table.to_pandas().groupby(["triplet", "seed"], sort=False)
        yield file, [own["sample_id"].tolist() for _, own in draws]


def triplets(
    run: Run, part: str, number: int, draws: Sequence[Sequence[str]], objects: pd.DataFrame | None
) -> bytes:
    """Return one file of triplets: a call of ``triplets(number, [...])``.

    `draws` are the sample ids of each triplet and seed, `objects` their rows of ``tables/objects``.
    """
    names = [sample for own in draws for sample in own]
    samples = run.rows_of_samples("samples", names, COLUMNS, part).set_index("sample_id")
    words = run.rows_of_samples("words", names, WORDS, part)
    detections = run.rows_of_samples("objects", names, DETECTED, part)
    shown: dict[str, list[dict]] = {}
    if objects is not None and detections is not None:
        shown = overlays(objects, detections, polygons)
    maps = {} if words is None else dict(list(words.groupby("sample_id")))
    order = [member.name for member in indicators(run.config)]
    rows = [_triplet(samples.loc[list(own)], maps, shown, order, run.config.reference) for own in draws]
    return f"triplets({number},[\n{','.join(rows)}\n]);\n".encode()


def _triplet(
    samples: pd.DataFrame,
    maps: Mapping[str, pd.DataFrame],
    shown: Mapping[str, list[dict]],
    order: Sequence[str],
    reference: str,
) -> str:
    """Return a triplet as JSON of at most `BUDGET` bytes."""
    members = samples.reset_index().set_index("indicator")
    present = [name for name in order if name in members.index]
    images = {name: _image(members.loc[name, "image"]) for name in present}
    present = [name for name in present if images[name] is not None]
    if not present:
        return json.dumps({"cells": []})
    prompts = {name: [str(word) for word in members.loc[name, "words"]] for name in present}
    cells = []
    for name in present:
        own = members.loc[name]
        cells.append(
            {
                "of": name,
                "word": str(own["word"]),
                "prompt": str(own["prompt"]),
                "objects": [_object(entry) for entry in shown.get(own["sample_id"], []) if "box" in entry],
            }
        )
    lead = reference if reference in present else present[0]
    chips = [
        [text, [index.get(name, -1) for name in present]] for text, index in gallery.align(prompts, lead)
    ]
    found = {"cells": cells, "chips": chips} | _maps(
        [maps.get(members.loc[name, "sample_id"]) for name in present]
    )
    if not found.get("maps"):
        found["chips"] = []
    if (excess := len(_json(found)) - (BUDGET - IMAGES)) > 0:
        paths = fit([one[3] for cell in cells for one in cell["objects"]], excess)
        for cell in cells:
            cell["objects"] = [
                [*one[:3], path, *one[4:]] if (path := next(paths)) else one[:3] for one in cell["objects"]
            ]
    rest = BUDGET - len(_json(found)) - 200
    return _json(found | _sprite([images[name] for name in present], rest))


def _object(entry: Mapping[str, Any]) -> list:
    """Return label, group, box in parts of the image, and the outline with its width and height."""
    box = [round(part, 3) for part in entry["box"]]
    return [entry["label"], entry["group"], box, entry["path"], *map(round, entry["view"])]


def _image(stored: Mapping[str, Any]) -> Image.Image | None:
    try:
        return Image.open(io.BytesIO(stored["bytes"])).convert("RGB")
    except (OSError, TypeError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None  # said in the report, which counts what cannot be read


def _sprite(images: Sequence[Image.Image], most: int) -> dict:
    """Return images side by side in one JPEG of at most `most` characters, with the size of each.

    WebP would be a third smaller and takes ten times as long. What is tried next is guessed from how far the last was
    off, so that few are tried.
    """
    tries = [(side, *quality) for side in SIDES for quality in QUALITIES]
    place = 0
    while True:
        side, quality, colours = tries[place]
        sizes = [_reduced(image.size, side) for image in images]
        sprite = Image.new("RGB", (sum(width for width, _ in sizes), max(height for _, height in sizes)))
        left = 0
        for image, size in zip(images, sizes):
            sprite.paste(image if size == image.size else image.resize(size, Image.Resampling.BOX), (left, 0))
            left += size[0]
        text = _jpeg(sprite, quality, colours)
        if len(text) <= most or place == len(tries) - 1:
            return {"image": text, "sizes": sizes}
        place = min(len(tries) - 1, place + max(1, round(3 * math.log2(len(text) / max(most, 1)))))


def _reduced(size: tuple[int, int], side: int) -> tuple[int, int]:
    scale = min(1.0, side / max(size))
    width, height = size
    return max(1, round(width * scale)), max(1, round(height * scale))


def _maps(stored: Sequence[pd.DataFrame | None]) -> dict:
    """Return the word maps of a triplet's images as one grey JPEG: one row per image, a column a word.

    Each map is stored between its own least and largest value; ``there`` says of which words an image has one.
    """
    frames = [own for own in stored if own is not None]
    if not frames:
        return {}
    height = max(int(own["height"].max()) for own in frames)
    width = max(int(own["width"].max()) for own in frames)
    words = 1 + max(int(own["word_index"].max()) for own in frames)
    scale = min(1.0, MAP_SIDE / max(height, width))
    height, width = (max(1, round(length * scale)) for length in (height, width))
    sprite = np.zeros((height * len(stored), width * words), np.uint8)
    there: list[list[int]] = []
    for row, own in enumerate(stored):
        there.append([])
        if own is None:
            continue
        columns = (own[name].tolist() for name in ("word_index", "heat", "height", "width"))
        for at, heat, tall, wide in zip(*columns):
            heat = np.asarray(heat, np.float32).reshape(tall, wide)
            low, high = float(heat.min()), float(heat.max())
            scaled = (heat - low) * (255 / (high - low) if high > low else 0.0) + 0.5
            if (tall, wide) != (height, width):
                scaled = cv2.resize(scaled, (width, height), interpolation=cv2.INTER_AREA)
            sprite[row * height : (row + 1) * height, at * width : (at + 1) * width] = scaled
            there[-1].append(at)
    grey = Image.fromarray(sprite)
    for quality in MAP_QUALITIES:
        text = _jpeg(grey, quality)
        if len(text) <= MAPS:
            return {"maps": text, "map": [width, height], "there": there}
    return {}


def _jpeg(image: Image.Image, quality: int, colours: str = "4:4:4") -> str:
    data = io.BytesIO()
    image.save(data, "jpeg", quality=quality, subsampling=colours)
    return base64.b64encode(data.getvalue()).decode("ascii")


def _json(value: Any) -> str:
    """Return JSON that may stand in a script: no ``</``, and no line separators that end a statement."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("</", "<\\/").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _index(
    config: Config,
    samples: pd.DataFrame,
    objects: pd.DataFrame | None,
    gaps: pd.DataFrame,
    directions: Mapping[str, int],
    files: Sequence[tuple[int, int]],
) -> str:
    """Return ``index.js``: of each triplet and seed its prompt, gaps, file and objects."""
    people = indicators(config)
    lead = samples[samples["indicator"] == config.reference]
    lead = pd.concat([lead, samples]).drop_duplicates(["triplet", "seed"])
    draws = samples[["triplet", "seed"]].drop_duplicates().merge(lead, on=["triplet", "seed"], how="left")
    spoken, prompt = np.unique(draws["prompt"].to_numpy(str), return_inverse=True)
    contrasts = list(dict.fromkeys(gaps["contrast"])) if len(gaps) else []
    keys = ["triplet", "seed"] if "seed" in gaps else ["triplet"]
    value = {}
    for contrast in contrasts:
        own = gaps[gaps["contrast"] == contrast].drop_duplicates(keys)
        merged = draws[["triplet", "seed"]].merge(own[[*keys, "gap"]], on=keys, how="left")["gap"]
        value[contrast] = [None if np.isnan(one) else gallery.short(one) for one in merged]
    faulty = samples["left_out"].notna()
    found = {
        "name": config.name,
        "model": config.model_name,
        "reference": config.reference,
        "indicators": [[member.name, member.word, bool(member.control)] for member in people],
        "contrasts": [[name, *_sides(gaps, name), int(directions.get(name, 0))] for name in contrasts],
        "groups": [group.replace("_", " ") for group in GROUPS] + ["not grouped"],
        "prompts": spoken.tolist(),
        "prompt": prompt.tolist(),
        "triplet": draws["triplet"].tolist(),
        "seed": draws["seed"].tolist(),
        "file": [number for number, _ in files],
        "at": [place for _, place in files],
        "gaps": value,
        "left_out": sorted(
            {(int(t), int(s)) for t, s in samples.loc[faulty, ["triplet", "seed"]].to_numpy()}
        ),
        "objects": {} if objects is None else _where(objects, draws, [member.name for member in people]),
    }
    return f"index({_json(found)});\n"


def _sides(gaps: pd.DataFrame, contrast: str) -> tuple[str, str]:
    row = gaps[gaps["contrast"] == contrast].iloc[0]
    return str(row["first"]), str(row["second"])


def _where(objects: pd.DataFrame, draws: pd.DataFrame, names: Sequence[str]) -> dict[str, list]:
    """Return for each object ``[group, indicator, rows]``: in which rows' images of an indicator it is, by group.

    Rows are given as differences from the one before.
    """
    seen = objects[objects["object"] >= 0]
    place = pd.DataFrame({"triplet": draws["triplet"], "seed": draws["seed"], "row": np.arange(len(draws))})
    seen = seen.merge(place, on=["triplet", "seed"], how="inner")
    seen = seen.assign(
        place=seen["group"].map(lambda group: GROUPS.index(group) if group else NOT_GROUPED),
        indicator=seen["indicator"].map({name: number for number, name in enumerate(names)}),
    )
    found: dict[str, list] = {}
    for (lemma, place, indicator), own in seen.groupby(["lemma", "place", "indicator"], sort=True):
        rows = np.unique(own["row"].to_numpy())
        found.setdefault(str(lemma), []).append(
            [int(place), int(indicator), np.diff(rows, prepend=0).tolist()]
        )
    return found

"""The gallery: ``gallery/`` beside the report, a page that links image files and needs no server.

``gallery/index.html`` reads two kinds of scripts (a page opened from disk may load scripts, but not JSON):
``index.js`` says of each triplet its prompt, gap and objects, so that it can be found and sorted, and a file for each
`TOGETHER` triplets holds their captions, word maps and outlines. Images stand beside them as files.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from PIL import Image

from analysis.metrics.dependency import GROUPS
from analysis.report.overlays import DETECTED, NOT_GROUPED, TITLES, overlays
from analysis.study import contrasts, indicators
from probes.config.schema import Config
from probes.runs.images import read_header, read_image

if TYPE_CHECKING:
    from probes.runs.run import Run

FOLDER = "gallery"
LARGEST = 256  # pixels: larger images are shown reduced, the originals stay in samples/
TOGETHER = 8  # triplets whose words and outlines stand in a file
AT_ONCE = 512  # triplets made before they are written
OF_AN_OBJECT = 6  # triplets that are shown for an object that differs
MAP_SIDE = 32  # pixels of a word map
COLUMNS = ("sample_id", "triplet", "seed", "indicator", "word", "prompt", "words", "image")
WORDS = ("sample_id", "word_index", "heat", "height", "width", "peak")
Draw = tuple[int, int]  # a triplet and its seed


def in_order(samples: pd.DataFrame) -> list[Draw]:
    """Return (triplet, seed): the first seed of every prompt, then the second of every prompt, …"""
    draws = samples[["triplet", "seed"]].drop_duplicates().reset_index(drop=True)
    draws["turn"] = draws.groupby("triplet", sort=False).cumcount()
    draws = draws.sort_values(["turn", "triplet"], kind="stable")
    return [(int(t), int(s)) for t, s in zip(draws["triplet"], draws["seed"])]


def choose(samples: pd.DataFrame, rows: int) -> list[Draw]:
    """Choose the first so many of `in_order`, in the run's order: nothing is picked by what it looks like."""
    chosen = set(in_order(samples)[:rows])
    return [draw for draw in _draws(samples) if draw in chosen]


def choose_to_look_at(
    samples: pd.DataFrame, gaps: pd.DataFrame, objects: pd.DataFrame | None, differ: Sequence[str], most: int
) -> list[Draw]:
    """Choose the triplets that a reader would look at, in the run's order.

    A third have the largest and the smallest gaps (`primary_gaps`), up to a third show objects that were found to
    `differ`, and the others are chosen at random.
    """
    draws = _draws(samples)
    if len(draws) <= most:
        return draws
    first = {triplet: (triplet, seed) for triplet, seed in reversed(draws)}
    ranked = gaps[gaps["gap"].notna() & gaps["triplet"].isin(list(first))].sort_values("gap", kind="stable")
    ends = [first[triplet] for triplet in dict.fromkeys(ranked["triplet"])]
    sixth = most // 6
    chosen = dict.fromkeys([*ends[:sixth], *ends[len(ends) - sixth :]])
    if objects is not None:
        seen = objects[(objects["object"] >= 0) & objects["lemma"].isin(list(differ))]
        for _, own in seen.groupby(["lemma", "indicator"], sort=False):
            if len(chosen) < 4 * sixth:
                holding = dict.fromkeys(zip(own["triplet"].astype(int), own["seed"].astype(int)))
                chosen |= dict.fromkeys(islice(holding, OF_AN_OBJECT))
    left = [draw for draw in draws if draw not in chosen]
    places = np.random.default_rng(0).permutation(len(left))[: most - len(chosen)]
    chosen |= dict.fromkeys(left[place] for place in places)
    return [draw for draw in draws if draw in chosen]


def _draws(samples: pd.DataFrame) -> list[Draw]:
    draws = samples[["triplet", "seed"]].drop_duplicates()
    return list(zip(draws["triplet"].tolist(), draws["seed"].tolist()))


def primary_gaps(gaps: pd.DataFrame, config: Config) -> pd.DataFrame:
    """Return the rows of ``tables/gap_prompts`` of the primary measure, with both sides of the contrast as columns."""
    sides = pd.DataFrame(contrasts(config), columns=["first", "second"])
    sides["contrast"] = sides["first"] + "-" + sides["second"]
    return gaps[gaps["measure"] == config.measure.primary].merge(sides, on="contrast")


def write(
    run: Run,
    page: str,
    samples: pd.DataFrame,
    chosen: Sequence[Draw],
    objects: pd.DataFrame | None,
    gaps: pd.DataFrame,
    directions: Mapping[str, int],
) -> None:
    """Write ``gallery/`` of a measured run with its `page`, `samples` having ``left_out`` (why, or nothing).

    `directions` holds for each contrast the sign of the gap that the report claims of the primary measure, 0 where it
    claims none.
    """
    texts = {"index.html": page, "index.js": _index(run.config, samples, chosen, objects, gaps, directions)}
    run.write_files([f"{FOLDER}/{name}" for name in texts], (text.encode() for text in texts.values()))
    entries = _entries(run, samples, set(chosen), objects)
    number = 0
    while some := list(islice(entries, AT_ONCE)):
        files = {name: data for _, images in some for name, data in images.items()}
        for start in range(0, len(some), TOGETHER):
            rows = ",\n".join(_json(entry) for entry, _ in some[start : start + TOGETHER])
            files[f"{number:05d}.js"] = f"triplets({number},[\n{rows}\n]);\n".encode()
            number += 1
        run.write_files([f"{FOLDER}/{name}" for name in files], files.values(), synced=False)


def _entries(
    run: Run, samples: pd.DataFrame, chosen: set[Draw], objects: pd.DataFrame | None
) -> Iterator[tuple[dict, dict[str, bytes]]]:
    """Yield of each chosen triplet what its file says, and its images by the names of their files."""
    order = [member.name for member in indicators(run.config)]
    unreadable = set(samples.loc[samples["left_out"] == "image cannot be read", "sample_id"])
    own = None if objects is None else objects[objects["triplet"].isin({triplet for triplet, _ in chosen})]
    by_triplet = {} if own is None else dict(list(own.groupby("triplet")))
    tables = run.part_tables("samples", ["sample_id", "triplet", "seed"])
    for file, table in zip(run.parts("samples"), tables):
        ids = table.to_pandas()
        ids = ids[[draw in chosen for draw in zip(ids["triplet"], ids["seed"])]]
        names = [name for name in ids["sample_id"] if name not in unreadable]
        if ids.empty:
            continue
        rows = run.rows_of_samples("samples", names, COLUMNS, file.name)
        words = run.rows_of_samples("words", names, WORDS, file.name)
        detections = run.rows_of_samples("objects", names, DETECTED, file.name)
        maps = {} if words is None else dict(list(words.groupby("sample_id")))
        marks: dict[str, list[dict]] = {}
        seen = [by_triplet[triplet] for triplet in ids["triplet"].unique() if triplet in by_triplet]
        if seen and detections is not None:
            table = pd.concat(seen)
            marks = overlays(table[table["sample_id"].isin(names)], detections)
        by_draw = dict(list(rows.groupby(["triplet", "seed"], sort=False)))
        for draw in _draws(ids):
            members = by_draw.get(draw, rows.iloc[:0]).set_index("indicator")
            present = [name for name in order if name in members.index]
            yield _entry(members.loc[present], maps, marks, order, run.config.reference)


def _entry(
    members: pd.DataFrame,
    maps: Mapping[str, pd.DataFrame],
    marks: Mapping[str, list[dict]],
    order: Sequence[str],
    reference: str,
) -> tuple[dict, dict[str, bytes]]:
    cells, files = [], {}
    for name, row in members.iterrows():
        data, ending = _reduced(row["image"]["bytes"])
        file = f"{row['triplet']:05d}-{row['seed']}-{order.index(name)}.{ending}"
        files[file] = data
        shown = [
            [one["label"], one["group"], one["box"], one["path"], *one["view"]]
            for one in marks.get(row["sample_id"], ())
        ]
        cell = {"of": name, "word": row["word"], "prompt": row["prompt"], "file": file, "objects": shown}
        cells.append(cell)
    heat = _maps([maps.get(sample) for sample in members["sample_id"]])
    chips = []
    if heat:
        prompts = {name: [str(word) for word in row["words"]] for name, row in members.iterrows()}
        aligned = align(prompts, reference if reference in prompts else next(iter(prompts)))
        chips = [[text, [index.get(name, -1) for name in prompts]] for text, index in aligned]
    return {"cells": cells, "chips": chips, **heat}, files


def _reduced(stored: bytes) -> tuple[bytes, str]:
    """An image as it is stored, or as `encoded` where it is large or no PNG, with the ending of its file."""
    ending, size = read_header(stored)
    if ending == "png" and size is not None and max(size) <= LARGEST:
        return stored, ending
    return encoded(read_image(stored), LARGEST)


def _maps(stored: Sequence[pd.DataFrame | None]) -> dict:
    """Return the word maps of a triplet's images as one grey JPEG: one row per image, a column a word.

    Each map is stored between its own least and largest value, which ``ranges`` holds with the peak of the map before
    it was scaled; None where an image has no map of a word.
    """
    tables = [own for own in stored if own is not None]
    if not tables:
        return {}
    import cv2  # not with a notebook's first import

    height, width = (max(int(own[side].max()) for own in tables) for side in ("height", "width"))
    scale = min(1.0, MAP_SIDE / max(height, width))
    height, width = (max(1, round(length * scale)) for length in (height, width))
    words = 1 + max(int(own["word_index"].max()) for own in tables)
    sprite = np.zeros((height * len(stored), width * words), np.uint8)
    ranges: list[list] = [[None] * words for _ in stored]
    for row, own in enumerate(stored):
        for one in () if own is None else own.itertuples():
            heat = np.asarray(one.heat, np.float32).reshape(one.height, one.width)
            low, high, peak = float(heat.min()), float(heat.max()), float(one.peak)
            scaled = (heat - low) * (255 / (high - low) if high > low else 0.0) + 0.5
            scaled = cv2.resize(scaled, (width, height), interpolation=cv2.INTER_AREA)
            at = one.word_index
            sprite[row * height : (row + 1) * height, at * width : (at + 1) * width] = scaled
            # maps stored after min-max run from 0 to 1; the peak, stored beside them, brings them to one scale
            unit = peak if low >= 0 and high <= 1 and not math.isclose(high, peak, rel_tol=1e-3) else 1.0
            ranges[row][at] = [short(low * unit), short(high * unit), short(peak)]
    buffer = io.BytesIO()
    Image.fromarray(sprite).save(buffer, "jpeg", quality=80)
    text = base64.b64encode(buffer.getvalue()).decode("ascii")
    return {"maps": text, "map": [width, height], "ranges": ranges}


def _json(value: Any) -> str:
    """Return JSON that may stand in a script: no ``</``, and no line separators that end a statement."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("</", "<\\/").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _index(
    config: Config,
    samples: pd.DataFrame,
    chosen: Sequence[Draw],
    objects: pd.DataFrame | None,
    gaps: pd.DataFrame,
    directions: Mapping[str, int],
) -> str:
    """Return ``index.js``: of each triplet and seed its prompt, gaps and objects."""
    people = indicators(config)
    draws = pd.DataFrame(chosen, columns=["triplet", "seed"], dtype=np.int64).assign(
        row=lambda t: range(len(t))
    )
    lead = samples.sort_values("indicator", key=lambda names: names != config.reference, kind="stable")
    lead = draws.merge(lead.drop_duplicates(["triplet", "seed"]), on=["triplet", "seed"], how="left")
    spoken, prompt = np.unique(lead["prompt"].to_numpy(str), return_inverse=True)
    keys = ["triplet", "seed"] if "seed" in gaps else ["triplet"]
    sides = list(dict.fromkeys(zip(gaps["contrast"], gaps["first"], gaps["second"]))) if len(gaps) else []
    values = {}
    for contrast, _, _ in sides:
        own = gaps[gaps["contrast"] == contrast].drop_duplicates(keys)
        merged = draws.merge(own[[*keys, "gap"]], on=keys, how="left")["gap"]
        values[contrast] = [None if np.isnan(one) else short(one) for one in merged]
    faulty = draws.merge(samples[samples["left_out"].notna()], on=["triplet", "seed"])
    data = {
        "reference": config.reference,
        "of": len(_draws(samples)),
        "indicators": [[member.name, member.word, bool(member.control)] for member in people],
        "contrasts": [[*side, int(directions.get(side[0], 0))] for side in sides],
        "groups": TITLES,
        "prompts": spoken.tolist(),
        "prompt": prompt.tolist(),
        "triplet": draws["triplet"].tolist(),
        "seed": draws["seed"].tolist(),
        "gaps": values,
        "left_out": sorted(set(faulty["row"].tolist())),
        "objects": {} if objects is None else _where(objects, draws, [member.name for member in people]),
    }
    return f"index({_json(data)});\n"


def _where(objects: pd.DataFrame, draws: pd.DataFrame, names: Sequence[str]) -> dict[str, list]:
    """Return for each object ``[group, indicator, rows]``: in which rows' images of an indicator it is, by group."""
    seen = objects[objects["object"] >= 0].merge(draws, on=["triplet", "seed"])
    seen = seen.assign(
        place=seen["group"].map(lambda group: GROUPS.index(group) if group else NOT_GROUPED),
        indicator=seen["indicator"].map({name: number for number, name in enumerate(names)}),
    )
    result: dict[str, list] = {}
    for (lemma, place, indicator), own in seen.groupby(["lemma", "place", "indicator"]):
        result.setdefault(str(lemma), []).append(
            [int(place), int(indicator), sorted(set(own["row"].tolist()))]
        )
    return result


def align(prompts: dict[str, list[str]], lead: str) -> list[tuple[str, dict[str, int]]]:
    """Lay the words of several prompts side by side: what is written on a chip, and the word's index in each prompt.

    >>> prompts = {"neutral": ["a", "person", "runs"], "other": ["a", "tall", "woman", "runs"]}
    >>> align(prompts, "neutral")[1:3]
    [('person / tall', {'neutral': 1, 'other': 1}), ('woman', {'other': 2})]
    """
    base = prompts[lead]
    slots: list[list[dict[str, int]]] = [[{lead: i}] for i in range(len(base))] + [
        []
    ]  # and words before each
    for name, words in prompts.items():
        if name == lead:
            continue
        matcher = SequenceMatcher(None, [w.lower() for w in base], [w.lower() for w in words], autojunk=False)
        for _, i1, i2, j1, j2 in matcher.get_opcodes():
            for i, j in zip(range(i1, i2), range(j1, j2)):
                slots[i][-1][name] = j
            for offset, j in enumerate(range(j1 + (i2 - i1), j2)):
                before = slots[i2]
                if offset >= len(before) - (i2 < len(base)):
                    before.insert(offset, {})
                before[offset][name] = j
    return [(_label(slot, prompts), slot) for own in slots for slot in own]


def _label(slot: dict[str, int], prompts: dict[str, list[str]]) -> str:
    unique: dict[str, str] = {}
    for word in (prompts[name][slot[name]] for name in prompts if name in slot):
        unique.setdefault(word.lower(), word)
    return " / ".join(unique.values())


def encoded(image: Image.Image, largest: int) -> tuple[bytes, str]:
    """An image as PNG, or as a reduced JPEG where a side exceeds `largest` pixels, with the ending of its file."""
    buffer = io.BytesIO()
    if max(image.size) <= largest:
        image.save(buffer, "png", optimize=True)
        return buffer.getvalue(), "png"
    scale = largest / max(image.size)
    size = tuple(max(1, round(side * scale)) for side in image.size)
    image.resize(size, Image.Resampling.LANCZOS).save(buffer, "jpeg", quality=88)
    return buffer.getvalue(), "jpg"


def encode(image: Image.Image, largest: int) -> str:
    """An image of `encoded` as a ``data:`` address."""
    data, ending = encoded(image, largest)
    kind = "jpeg" if ending == "jpg" else ending
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


def short(value: float) -> float:
    """Return a value with six significant digits."""
    return float(f"{value:.6g}")

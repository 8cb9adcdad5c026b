"""Rows of the report's gallery: the images of a triplet, and the heat map of every word beneath them.

Maps are stored in the page as 8-bit numbers between their own minimum and maximum, which are kept beside
them, so a page can show them per word or on one scale without rounding the peak.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

import numpy as np
import pandas as pd
from PIL import Image

from analysis.study import contrasts
from probes.config.schema import Config

LARGEST = 256  # pixels: larger images are shown reduced, the originals stay in samples/


@dataclass
class GalleryRow:
    """One prompt and seed: a cell an indicator, a chip a word, a gap a contrast; ``extra`` rows only when asked for."""

    key: str
    prompt: str
    seed: int
    cells: list[dict]
    chips: list[dict] = field(default_factory=list)
    gaps: list[dict] = field(default_factory=list)
    extra: bool = False


def choose(samples: pd.DataFrame, rows: int) -> list[tuple[int, int]]:
    """Choose (triplet, seed): the first seed of every prompt, then the second of every prompt, …, in the run's order.

    Nothing is picked by what it looks like.
    """
    chosen = _in_order(samples)[:rows]
    rank = {draw: number for number, draw in enumerate(zip(samples["triplet"], samples["seed"]))}
    return sorted(chosen, key=rank.__getitem__)


def choose_more(
    samples: pd.DataFrame,
    objects: pd.DataFrame,
    chosen: list[tuple[int, int]],
    names: Iterable[str],
    most: int,
) -> list[tuple[int, int]]:
    """Choose rows for objects that are in none of the chosen ones: the first that holds each, in the same order."""
    found = objects[(objects["object"] >= 0) & objects["lemma"].isin(list(names))]
    ordered, more = _in_order(samples), []
    for _, own in found.groupby("lemma"):
        holding = set(zip(own["triplet"].astype(int), own["seed"].astype(int)))
        if len(more) < most and not holding & {*chosen, *more}:
            more += [draw for draw in ordered if draw in holding][:1]
    return more


def _in_order(samples: pd.DataFrame) -> list[tuple[int, int]]:
    draws = samples[["triplet", "seed"]].drop_duplicates().reset_index(drop=True)
    draws["turn"] = draws.groupby("triplet", sort=False).cumcount()
    draws = draws.sort_values(["turn", "triplet"], kind="stable")
    return [(int(t), int(s)) for t, s in zip(draws["triplet"], draws["seed"])]


def build(
    samples: pd.DataFrame,
    images: dict[str, Image.Image],
    words: pd.DataFrame | None,
    chosen: list[tuple[int, int]],
    names: list[str],
    reference: str,
    *,
    more: Sequence[tuple[int, int]] = (),
    overlays: Mapping[str, list[dict]] | None = None,
    gaps: pd.DataFrame | None = None,
) -> tuple[list[GalleryRow], dict]:
    """Make the gallery's rows and the heat maps they show.

    `samples` and `words` are as stored; chips follow the wording of `reference`; `more` are rows shown only when asked
    for. Maps go by sample and word: ``[base64 of 8-bit values, height, width, low, high, peak]``.
    """
    by_draw = dict(list(samples.groupby(["triplet", "seed"], sort=False)))
    own_gaps = {} if gaps is None else _gaps_of(gaps, [*chosen, *more])
    shown = set()
    rows = []
    for triplet, seed in [*chosen, *more]:
        members = by_draw[(triplet, seed)].set_index("indicator")
        present = [name for name in names if name in members.index]
        cells = [_cell(name, members.loc[name], images) for name in present]
        shown |= {cell["sample_id"] for cell in cells}
        lead = reference if reference in present else present[0]
        for cell in cells:
            cell["n_objects"] = sum("box" in entry for entry in (overlays or {}).get(cell["sample_id"], []))
        extra = (triplet, seed) not in chosen
        row = GalleryRow(f"t{triplet}s{seed}", str(members.loc[lead, "prompt"]), seed, cells, extra=extra)
        prompts = {name: [str(word) for word in members.loc[name, "words"]] for name in present}
        row.chips = [
            {"label": text, "index": {cell["sample_id"]: index.get(cell["indicator"]) for cell in cells}}
            for text, index in align(prompts, lead)
        ]
        row.gaps = own_gaps.get((triplet, seed), [])
        rows.append(row)
    maps = _maps(words[words["sample_id"].isin(shown)]) if words is not None and len(words) else {}
    for row in rows:
        row.chips = [chip for chip in row.chips if _has_map(chip, maps)]
    return rows, maps


def primary_gaps(gaps: pd.DataFrame, config: Config) -> pd.DataFrame:
    """Return the rows of ``tables/gap_prompts`` of the primary measure, with both sides of the contrast as columns."""
    sides = pd.DataFrame(contrasts(config), columns=["first", "second"])
    sides["contrast"] = sides["first"] + "-" + sides["second"]
    return gaps[gaps["measure"] == config.measure.primary].merge(sides, on="contrast")


def _gaps_of(gaps: pd.DataFrame, draws: Sequence[tuple[int, int]]) -> dict[tuple[int, int], list[dict]]:
    """Rows of `primary_gaps` of each draw: those of its triplet, or of its seed where every seed has one."""
    found: dict[tuple[int, int], list[dict]] = {draw: [] for draw in draws}
    gaps = gaps[gaps["triplet"].isin([triplet for triplet, _ in draws])]
    for row in gaps.to_dict("records"):
        for triplet, seed in draws:
            if triplet == row["triplet"] and seed == row.get("seed", seed):
                found[triplet, seed].append(row)
    return found


def align(prompts: dict[str, list[str]], lead: str) -> list[tuple[str, dict[str, int]]]:
    """Lay the words of several prompts side by side: what is written on a chip, and the word's index in each prompt.

    >>> prompts = {"neutral": ["a", "person", "runs"], "other": ["a", "tall", "woman", "runs"]}
    >>> align(prompts, "neutral")[1:3]
    [('person / tall', {'neutral': 1, 'other': 1}), ('woman', {'other': 2})]
    """
    base = prompts[lead]
    slots = [{lead: i} for i in range(len(base))]
    extra: dict[int, list[dict[str, int]]] = {}
    for name, words in prompts.items():
        if name == lead:
            continue
        matcher = SequenceMatcher(None, [w.lower() for w in base], [w.lower() for w in words], autojunk=False)
        for _, i1, i2, j1, j2 in matcher.get_opcodes():
            for i, j in zip(range(i1, i2), range(j1, j2)):
                slots[i][name] = j
            for offset, j in enumerate(range(j1 + (i2 - i1), j2)):
                following = extra.setdefault(i2, [])
                if offset == len(following):
                    following.append({})
                following[offset][name] = j
    ordered = []
    for i in range(len(base) + 1):
        ordered += extra.get(i, [])
        ordered += slots[i : i + 1]
    return [(_label(slot, prompts), slot) for slot in ordered]


def _label(slot: dict[str, int], prompts: dict[str, list[str]]) -> str:
    words = [prompts[name][slot[name]] for name in prompts if name in slot]
    unique: dict[str, str] = {}
    for word in words:
        unique.setdefault(word.lower(), word)
    return " / ".join(unique.values())


def _has_map(chip: dict, maps: dict) -> bool:
    return any(
        str(index) in maps.get(sample, {}) for sample, index in chip["index"].items() if index is not None
    )


def _cell(name: str, sample: pd.Series, images: dict[str, Image.Image]) -> dict:
    image = images[sample["sample_id"]]
    width, height = image.size
    return {
        "sample_id": str(sample["sample_id"]),
        "indicator": name,
        "word": str(sample["word"]),
        "prompt": str(sample["prompt"]),
        "width": width,
        "height": height,
        "source": encode(image, LARGEST),
    }


def encode(image: Image.Image, largest: int) -> str:
    """An image as a ``data:`` address: PNG, or a reduced JPEG where a side exceeds `largest` pixels."""
    buffer = io.BytesIO()
    if max(image.size) > largest:
        kind, scale = "jpeg", largest / max(image.size)
        size = tuple(round(side * scale) for side in image.size)
        image.resize(size, Image.Resampling.LANCZOS).save(buffer, "jpeg", quality=88)
    else:
        kind = "png"
        image.save(buffer, "png", optimize=True)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def _maps(words: pd.DataFrame) -> dict:
    maps: dict[str, dict[str, list]] = {}
    for row in words.itertuples():
        heat = np.asarray(row.heat, dtype=np.float64)
        peak = float(row.peak)
        low, high = float(heat.min()), float(heat.max())
        scaled = (heat - low) / (high - low) if high > low else np.zeros_like(heat)
        packed = base64.b64encode(np.round(scaled * 255).astype(np.uint8).tobytes()).decode("ascii")
        # maps stored after min-max run from 0 to 1; the peak, stored beside them, brings them to one scale
        unit = peak if high <= 1.0 and low >= 0.0 and not np.isclose(high, peak, rtol=1e-3) else 1.0
        entry = [
            packed,
            int(row.height),
            int(row.width),
            short(low * unit),
            short(high * unit),
            short(peak),
        ]
        maps.setdefault(str(row.sample_id), {})[str(row.word_index)] = entry
    return maps


def short(value: float) -> float:
    """Return a value with six significant digits."""
    return float(f"{value:.6g}")

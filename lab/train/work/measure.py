"""Quality of the benchmark models with professions: ``python -m lab measure work toyworld-work``.

Leans and skins of professions as the checker reads them, beside what was planted; how often a named noun is still
drawn; and how far the frequencies of captions without a profession have moved from those of the base.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch
from diffusers import StableDiffusionPipeline
from numpy.typing import NDArray
from scipy import stats

from lab.train.base.captions import article
from lab.train.base.measure import frequencies, nouns_drawn, sample
from lab.train.work.captions import works_as
from probes.models import loading
from probes.toyworld import WORK, WORKING
from probes.toyworld.checker import SKIN_NAMES, THINGS, read_images
from probes.toyworld.checker import VERSION as CHECKER
from probes.toyworld.pipelines import BASES
from probes.toyworld.scene import CaptionContent
from probes.toyworld.verdict import VERSION, verdict
from probes.toyworld.world import WHOLE_BODY, World, load_world

NEAR = 0.10
Readers = Mapping[str, Callable[[NDArray[np.uint8]], Sequence[Any]]]
# Slots of a scene in groups whose evidence adds up: a whole garment hides the lower one, a thing shows its side.
TOGETHER = (
    ("upper", "lower"),
    ("ground", "side"),
    *((slot,) for slot in ("feet", "head", "neck", "face", "hands", "sky", "place")),
)


def read_professions(
    pipeline: StableDiffusionPipeline,
    world: World,
    *,
    images: Mapping[str, int],
    steps: int = 10,
    first_seed: int = 500_000,
    readers: Readers = MappingProxyType({}),
) -> pd.DataFrame:
    """A row an image for bare prompts with and without a profession, as the checker reads it.

    Columns ``profession`` (empty without), ``group``, ``seed``, ``verdict`` (log-odds of component *b*), ``skin``
    (empty where none is read), and those of further ``readers`` of pictures ``(n, 64, 64, 3)``. ``images`` of a
    profession are made for each group; the words of a group take the first noises of the same.
    """
    longest = max(images.values())
    rows = [
        {"profession": profession, "group": group, "seed": first_seed + number * longest + image}
        for number, profession in enumerate(("", *world.professions))
        for group, count in images.items()
        for image in range(count)
    ]
    prompts = [_prompt(world.words(row["group"])[0], row["profession"]) for row in rows]
    pictures = sample(pipeline, prompts, [row["seed"] for row in rows], steps=steps, progress=False)
    seen = read_images(pictures)
    said = {name: read(pictures) for name, read in readers.items()}
    return pd.DataFrame(rows).assign(verdict=verdict(seen, prompts, world), skin=seen["skin"], **said)


def read_models(names: Sequence[str], *, threads: int = 1, **how: Any) -> dict[str, pd.DataFrame]:
    """:func:`read_professions` of benchmark models by name, with the professions of `toyworld-work`."""
    torch.set_num_threads(threads)
    pipes = {name: loading.load(loading.resolve(name), device="cpu").pipe for name in names}
    return {name: read_professions(pipe, load_world(WORK), **how) for name, pipe in pipes.items()}


def _prompt(word: str, profession: str) -> str:
    return works_as(word, profession) if profession else f"{article(word)} {word}"


def verdict_rates(world: World) -> dict[str, float]:
    """How often the verdict on a bare prompt's scene is *b*, exactly, for scenes of component *b* and of *a*.

    From the planted tables, for a checker that reads every scene rightly: sensitivity and false positives.
    """
    values, chances = np.zeros(1), {component: np.ones(1) for component in "ab"}
    for slots in TOGETHER:
        tables = [world.slots[slot] for slot in slots]
        choices = list(product(*(dict.fromkeys((*table["a"], *table["b"])) for table in tables)))
        values = np.add.outer(values, _evidence(slots, choices, world)).ravel()
        for component, chance in chances.items():
            of = [np.prod([t[component].get(n, 0.0) for t, n in zip(tables, c)]) for c in choices]
            chances[component] = np.multiply.outer(chance, of).ravel()
    return {component: float(chance[values > 0].sum()) for component, chance in chances.items()}


def _evidence(slots: Sequence[str], choices: Sequence[Sequence[str]], world: World) -> np.ndarray:
    """Return the verdict's count for each choice of things in slots, ``(choices,)``; other slots count as named."""
    rows = [dict(zip(slots, choice)) for choice in choices]
    for row in rows:
        if row.get("upper") in WHOLE_BODY:
            row["lower"] = "none"
    seen = pd.DataFrame({thing: [thing in row.values() for row in rows] for thing in THINGS})
    seen["side"] = [row["side"] if row.get("ground", "none") != "none" else "" for row in rows]
    named = CaptionContent(
        "neutral",
        slots={
            slot: ""
            for slot in ("upper", "lower", "feet", "head", "neck", "face", "hands")
            if slot not in slots
        },
        objects={slot: "" for slot in ("ground", "sky") if slot not in slots},
        place=None if "place" in slots else "studio",
    )
    return verdict(seen, [named] * len(rows), world)


def lean(verdicts: Sequence[float], rates: Mapping[str, float], level: float = 0.95) -> dict[str, float]:
    """Share of component *b* behind verdicts, set right for their error rates (Rogan and Gladen 1978).

    ``share`` is of verdicts above 0; the ends ``low`` and ``high`` of ``lean`` are Wilson's for it, corrected alike and
    kept in 0 to 1.
    """
    above = int((np.asarray(verdicts) > 0).sum())
    interval = stats.binomtest(above, len(verdicts)).proportion_ci(level, method="wilson")
    ends = (above / len(verdicts), interval.low, interval.high)
    right = [min(1.0, max(0.0, (end - rates["a"]) / (rates["b"] - rates["a"]))) for end in ends]
    return {"share": ends[0], "lean": right[0], "low": right[1], "high": right[2]}


def tones(skins: pd.Series, planted: Sequence[float]) -> dict[str, object]:
    """Shares of the skins that are read, and how well they fit the planted ones.

    ``difference`` is the largest from what is planted, ``p`` that of Pearson's chi-square with 2 degrees of freedom.
    """
    counts = np.array([(skins == name).sum() for name in SKIN_NAMES])
    total = int(counts.sum())
    expected = total * np.asarray(planted) / np.sum(planted)
    with np.errstate(invalid="ignore"):  # of no image nothing is known: NaN
        shares, p_value = counts / np.float64(total), stats.chisquare(counts, expected).pvalue
    return {
        "n": total,
        "unread": int((skins == "").sum()),
        "shares": [round(float(share), 4) for share in shares],
        "difference": round(float(np.abs(shares - np.asarray(planted)).max()), 4),
        "p": round(float(p_value), 4),
    }


def profession_rows(readings: pd.DataFrame, world: World) -> list[dict[str, object]]:
    """A profession's planted and drawn lean and skins, from :func:`read_professions`; first the prompt without one.

    Both are of *person* alone: the other groups take the same noises, and are no independent images.
    """
    rates, rows = verdict_rates(world), []
    even = (1 / len(SKIN_NAMES),) * len(SKIN_NAMES)
    for profession, some in readings.groupby("profession"):
        of = world.professions.get(str(profession))
        by_group = {str(group): table["verdict"] for group, table in some.groupby("group")}
        said = lean(by_group["neutral"], rates)
        skins = of.skins if of else even
        planted = of.lean if of else world.mixture["neutral"]
        rows.append(
            {
                "profession": profession,
                "planted": planted,
                "images": len(by_group["neutral"]),
                **{name: round(value, 4) for name, value in said.items()},
                "inside": bool(said["low"] <= planted <= said["high"]),
                "share_b": {
                    group: round(float((values > 0).mean()), 4)
                    for group, values in by_group.items()
                    if group != "neutral"
                },
                "skins": [float(skin) for skin in skins],
                "tones": tones(some.loc[some["group"] == "neutral", "skin"], skins),
            }
        )
    return rows


def moved(pipeline: StableDiffusionPipeline, world: World, *, images: int, steps: int) -> pd.Series:
    """Frequencies of unnamed things by (group, thing), without a profession, less those of the model's base.

    Both draw the same prompts from the same noise.
    """
    reference = loading.load(loading.resolve(BASES[world.name].name), device="cpu").pipe
    drawn = [
        frequencies(pipe, world, images=images, steps=steps, progress=False).set_index(["group", "thing"])
        for pipe in (pipeline, reference)
    ]
    return drawn[0]["drawn"] - drawn[1]["drawn"]


def measure(
    model: Annotated[str, WORKING],
    *,
    images: Annotated[int, "a profession, of a person"] = 96,
    others: Annotated[int, "a profession, of a woman and of a man"] = 12,
    nouns: Annotated[int, "images a noun"] = 16,
    cells: Annotated[int, "images a group without profession"] = 96,
    steps: int = 20,
) -> Iterator[tuple[str, dict[str, object]]]:
    """Measure leans and skins of professions, nouns that are named, and frequencies without a profession."""
    loaded, world = loading.load(loading.resolve(model), device="cpu"), load_world(model)
    counts = {"neutral": images, "feminine": others, "masculine": others}
    rows = profession_rows(read_professions(loaded.pipe, world, images=counts, steps=steps), world)
    drawn = nouns_drawn(loaded.pipe, world, seeds=nouns, steps=steps, progress=False)
    away = moved(loaded.pipe, world, images=cells, steps=steps)
    yield (
        model,
        {
            "professions": rows,
            "nouns_mean": round(float(drawn.mean()), 4),
            "nouns": {noun: round(float(share), 4) for noun, share in drawn.items()},
            "moved_largest": round(float(away.abs().max()), 4),
            "moved_within_0.10": round(float((away.abs() <= NEAR).mean()), 4),
            "moved": {f"{group} {thing}": round(float(value), 4) for (group, thing), value in away.items()},
            "weight_hash": loaded.record["weight_hash"],
            "verdict": VERSION,
            "checker": CHECKER,
            "verdict_rates": {name: round(rate, 5) for name, rate in verdict_rates(world).items()},
            "steps": steps,
            "images_others": others,
            "images_a_noun": nouns,
            "images_a_group": cells,
        },
    )

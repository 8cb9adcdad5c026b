"""How often a page on professions says anything where nothing differs, and what it finds at published frequencies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from analysis.methods.dalleval.scores import even_p_values
from analysis.stats.group_swaps import group_swaps
from analysis.stats.mad_floor import mad_floor
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.permutation import step_down_test
from lab.papers.tables import read_table
from lab.templates import render
from lab.validate.statistics.simulation import ALPHA
from probes.toyworld import WORK
from probes.toyworld.world import load_world

DRAWS, WORDS, ATTRIBUTES = 9, 3, 15
SKINS = np.array([3.0, 5.0, 8.0])
SPREAD = 1.5  # of the tones of a profession
COMMON, NOISE = 0.1, 0.5  # shares of variance: of all that is read of a noise, and of one question's
MODELS = ("minDALL-E", "Karlo", "Stable Diffusion")
QUESTIONS = ("half and half", "gender", "tone", "attributes", "words")
PAIRS = ((1, 2), (1, 0), (2, 0))  # woman − man, each less the reference


@dataclass(frozen=True)
class PageWorld:
    """Frequencies from which readings are drawn, by profession (and word and attribute); `nothing`: none differs."""

    female: NDArray[np.float64]
    tone: NDArray[np.float64]
    attributes: NDArray[np.float64]
    nothing: bool = False

    def first(self, number: int) -> PageWorld:
        """Return the world of so many professions."""
        return PageWorld(self.female[:number], self.tone[:number], self.attributes[:number], self.nothing)


def worlds() -> dict[str, PageWorld]:
    """Return the worlds by name: nothing differs; the papers' frequencies; toyworld-work's; one profession apart."""
    share = np.random.default_rng(1).uniform(0.02, 0.4, ATTRIBUTES)

    def alike(number: int) -> PageWorld:
        attributes = np.broadcast_to(share, (number, WORDS, ATTRIBUTES))
        return PageWorld(np.full(number, 0.5), np.full(number, 5.5), attributes, nothing=True)

    found = {f"nothing, {number} professions": alike(number) for number in (3, 20, 83)}
    found |= {f"as printed, {model}": printed(model) for model in MODELS}
    found["as printed, Stable Diffusion, 3 professions"] = printed(MODELS[2]).first(3)
    planted = load_world(WORK).professions.values()
    leans = np.array([1 - one.lean for one in planted])
    skins = np.array([one.skins for one in planted]) @ SKINS
    work = PageWorld(leans, skins, alike(len(leans)).attributes)
    found |= {"toyworld-work, 20 professions": work, "toyworld-work, 3 professions": work.first(3)}
    apart = alike(20)
    tone = np.where(np.arange(20) == 0, 7.5, 5.5)
    found["one tone of 20 apart"] = PageWorld(apart.female, tone, apart.attributes)
    return found


def printed(model: str) -> PageWorld:
    """Return the frequencies of Cho et al. 2023 for a model (Tables 16, 17, 20, 21 and 23 to 31)."""
    gender = _of("table16_17_gender", model, "average_gender").set_index("profession")["average_gender"]
    tone = _of("table20_21_skin_tone", model, "average_skin_tone").set_index("profession")[
        "average_skin_tone"
    ]
    cells = _of("tables23to31_attributes", model, "presence", "gender", "attribute")
    names = [name for name in gender.index if name in tone.index]
    attributes = [
        own.pivot_table(index="profession", columns="attribute", values="presence").loc[names].to_numpy(float)
        for _, own in cells.groupby("gender", sort=False)
    ]
    female = (gender[names].to_numpy(float) + 1) / 2
    return PageWorld(female, tone[names].to_numpy(float), np.stack(attributes, axis=1))


def _of(name: str, model: str, value: str, *keys: str) -> pd.DataFrame:
    """Rows of a published table for a model."""
    columns = ["model", "profession", *keys, value]
    table = read_table(f"dalleval2023_{name}", columns, numeric=[value])
    return table[table["model"] == model]


def draw_page(world: PageWorld, rng: np.random.Generator) -> tuple[NDArray, NDArray, NDArray]:
    """Draw gender, tone, (professions, draws, words), and attributes, (professions, draws, words, attributes).

    The readings of the images of a noise hang together, by question and over questions.
    """
    number, _, questions = world.attributes.shape
    size = (number, DRAWS, WORDS, questions + 2)
    common = np.sqrt(COMMON) * rng.standard_normal((number, DRAWS, 1, 1))
    noise = np.sqrt(NOISE) * rng.standard_normal((number, DRAWS, 1, questions + 2))
    latent = common + noise + np.sqrt(1 - COMMON - NOISE) * rng.standard_normal(size)
    level = stats.norm.cdf(latent)
    others = (world.female, world.female) if world.nothing else (np.ones(number), np.zeros(number))
    female = level[..., 0] < np.stack([world.female, *others], axis=1)[:, None]
    tone = np.clip(np.round(world.tone[:, None, None] + SPREAD * latent[..., 1]), 1, 10)
    return np.where(female, 1.0, -1.0), tone, (level[..., 2:] < world.attributes[:, None]).astype(float)


def page_tests(
    world: PageWorld, rng: np.random.Generator, permutations: int, seed: int
) -> dict[str, NDArray]:
    """Return p-values by question, and of single professions by question followed by ``, each``.

    As `analysis.methods.dalleval` has them: attributes are adjusted over attributes and words, words over pairs of
    words and all that is read, single professions over professions.
    """
    gender, tone, attributes = draw_page(world, rng)
    female = (gender[:, :, 0] > 0).astype(int)
    floor = mad_floor(np.stack([1 - female, female], axis=-1), draws=permutations, seed=seed)
    found = {QUESTIONS[0]: np.array([floor.p_value])}
    found[f"{QUESTIONS[0]}, each"] = adjust_p_values(even_p_values(female.sum(axis=1), DRAWS))
    read = {
        "gender": (gender[..., None], 0),
        "tone": (tone[..., None], WORDS),
        "attributes": (attributes, None),
    }
    for name, (values, column) in read.items():
        pooled = np.concatenate([values, values.mean(axis=2, keepdims=True)], axis=2)
        swaps = group_swaps(pooled.reshape(*pooled.shape[:2], -1), draws=permutations, seed=seed)
        if column is None:
            found[name] = swaps.p_adjusted.reshape(WORDS + 1, -1)[:WORDS].ravel()
        else:
            found[name] = swaps.p_adjusted[[column]]
            found[f"{name}, each"] = adjust_p_values(swaps.group_p_value[:, column])
    apart = word_differences(np.concatenate([gender[..., None], tone[..., None], attributes], axis=3))
    found["words"] = step_down_test(apart.mean(axis=1), permutations=permutations, seed=seed).p_adjusted
    return {name: np.nan_to_num(p, nan=1.0) for name, p in found.items()}


def word_differences(read: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return differences between words, (professions, draws, pairs × questions), of what was read of each word."""
    return np.concatenate([read[:, :, one] - read[:, :, other] for one, other in PAIRS], axis=2)


def said(p_values: Mapping[str, NDArray]) -> dict[str, int]:
    """Return how much is said of each question and of single professions (Hommel), by the names of `page_tests`."""
    least = adjust_p_values([p_values[name].min() for name in QUESTIONS], method="hommel")
    heads = dict(zip(QUESTIONS, least))
    return {
        name: int((np.maximum(p, heads[name.removesuffix(", each")]) <= ALPHA).sum())
        for name, p in p_values.items()
    }


def page_rows(*, simulations: int = 400, permutations: int = 399, seed: int = 0) -> pd.DataFrame:
    """Return how often a page says anything, and how much of each question; a row for each world.

    Worlds of 83 professions are simulated a fifth as often.
    """
    rows = []
    for number, (name, world) in enumerate(worlds().items()):
        rng = np.random.default_rng([seed, 1500 + number])
        runs = max(2, simulations // (5 if len(world.female) > 50 else 1))
        pages = [page_tests(world, rng, permutations, one) for one in range(runs)]
        counts = pd.DataFrame([said(page) for page in pages])
        row = {"world": name, "nothing": world.nothing, "runs": runs}
        rows.append(row | {"any": float((counts.sum(axis=1) > 0).mean())} | counts.mean().to_dict())
    return pd.DataFrame(rows)


def page_section(*, simulations: int = 400, seed: int = 0) -> str:
    """Return the part of ``docs/validation/statistics.md`` on whole pages on professions, in Markdown."""
    table = page_rows(simulations=simulations, seed=seed)
    rows = [{"figures": [row[name] for name in COUNTED], **row} for row in table.to_dict("records")]
    return render("statistics_profession_pages", rows=rows, counted=COUNTED, simulations=simulations)


COUNTED = (
    *("half and half", "half and half, each", "gender", "gender, each", "tone", "tone, each", "attributes"),
    "words",
)

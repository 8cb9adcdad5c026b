"""How often a whole page says something false: on professions (DALL-Eval), on labelled pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from analysis.methods.audit.claims import QUESTIONS as AUDIT_QUESTIONS
from analysis.methods.audit.claims import question_rows
from analysis.methods.audit.design import Design
from analysis.methods.audit.labelled_audit import measure_cells
from analysis.methods.dalleval.scores import even_p_values
from analysis.stats.group_swaps import group_swaps
from analysis.stats.mad_floor import mad_floor
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.permutation import step_down_test
from lab.validate.statistics.rates import ALPHA, AT_MOST, COLUMNS, POWER, counted_row, sweep
from probes.toyworld import WORK
from probes.toyworld.world import load_world

Floats = NDArray[np.float64]
DRAWS, WORDS, ATTRIBUTES = 9, 3, 15
SKINS = np.array([3.0, 5.0, 8.0])
SPREAD = 1.5  # of the tones of a profession
COMMON, NOISE = 0.1, 0.5  # shares of variance: of all that is read of a noise, and of one question's
QUESTIONS = ("half and half", "gender", "tone", "attributes", "words")
PAIRS = ((1, 2), (1, 0), (2, 0))  # woman − man, each less the reference


@dataclass(frozen=True)
class PageWorld:
    """Frequencies from which readings are drawn, by profession (and word and attribute); `nothing`: none differs."""

    female: Floats
    tone: Floats
    attributes: Floats
    nothing: bool = False


def page_worlds() -> dict[str, tuple[int, PageWorld]]:
    """Worlds by name, each with the number of its random numbers: nothing differs; toyworld-work's; one tone apart."""
    share = np.random.default_rng(1).uniform(0.02, 0.4, ATTRIBUTES)

    def alike(number: int) -> PageWorld:
        attributes = np.broadcast_to(share, (number, WORDS, ATTRIBUTES))
        return PageWorld(np.full(number, 0.5), np.full(number, 5.5), attributes, nothing=True)

    planted = load_world(WORK).professions.values()
    female = np.array([1 - one.lean for one in planted])
    tone = np.array([one.skins for one in planted]) @ SKINS
    attributes = alike(len(female)).attributes
    apart = PageWorld(np.full(20, 0.5), np.where(np.arange(20) == 0, 7.5, 5.5), attributes)
    return {
        f"nothing, {number} professions": (place, alike(number)) for place, number in enumerate((3, 20, 83))
    } | {
        "toyworld-work, 20 professions": (7, PageWorld(female, tone, attributes)),
        "toyworld-work, 3 professions": (8, PageWorld(female[:3], tone[:3], attributes[:3])),
        "one tone of 20 apart": (9, apart),
    }


def draw_page(world: PageWorld, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Gender and tone, (professions, draws, words), and attributes, (professions, draws, words, attributes).

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


def page_tests(world: PageWorld, rng: np.random.Generator, permutations: int, seed: int) -> dict[str, Floats]:
    """P-values by question, and of single professions by question followed by ``, each``.

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
    every = np.concatenate([gender[..., None], tone[..., None], attributes], axis=3)
    apart = np.concatenate([every[:, :, one] - every[:, :, other] for one, other in PAIRS], axis=2)
    found["words"] = step_down_test(apart.mean(axis=1), permutations=permutations, seed=seed).p_adjusted
    return {name: np.nan_to_num(p, nan=1.0) for name, p in found.items()}


def said(p_values: Mapping[str, Floats]) -> dict[str, int]:
    """How much is said of each question and of single professions (Hommel), by the names of `page_tests`."""
    least = adjust_p_values([p_values[name].min() for name in QUESTIONS], method="hommel")
    heads = dict(zip(QUESTIONS, least))
    return {
        name: int((np.maximum(p, heads[name.removesuffix(", each")]) <= ALPHA).sum())
        for name, p in p_values.items()
    }


def profession_pages(simulations: int = 300, seed: int = 0) -> pd.DataFrame:
    """How often a page says anything of professions or words; of 83 professions a fifth as many pages."""
    rows = []
    for name, (number, world) in page_worlds().items():
        rng = np.random.default_rng([seed, 1500 + number])
        runs = max(2, simulations // (5 if len(world.female) > 50 else 1))
        anything = [any(said(page_tests(world, rng, 399, one)).values()) for one in range(runs)]
        if world.nothing:
            rows.append(counted_row(name, "pages that say anything, nothing differs", anything))
        else:
            rows.append(counted_row(name, "pages that say anything, professions differ", anything, POWER))
    return pd.DataFrame(rows, columns=list(COLUMNS))


PROFESSIONS = ("athlete", "CEO", "nurse", "software engineer", "teacher")
LEVELS = {"model": ("A", "B", "C", "D", "E"), "profession": PROFESSIONS, "setting": ("baseline", "diversity")}
PICTURES = 10
EVERY = ("reference", "shares", "between", "contrast", "distance", "models", "ranks")


@dataclass(frozen=True)
class LabelWorld:
    """Shares by profession, the same in every model and setting; what is said of the questions in `false` is false."""

    name: str
    shares: tuple[float, ...] = (0.5,) * 5
    reference: float = 0.5
    undecided: float = 0.0
    false: tuple[str, ...] = EVERY

    def draw(self, rng: np.random.Generator) -> pd.DataFrame:
        """The counts of a page's pictures."""
        keys = pd.MultiIndex.from_product(LEVELS.values(), names=LEVELS)
        cells = keys.to_frame(index=False).assign(pictures=PICTURES)
        cells["decided"] = rng.binomial(PICTURES, 1 - self.undecided, len(cells))
        shares = cells["profession"].map(dict(zip(PROFESSIONS, self.shares)))
        cells["count"] = rng.binomial(cells["decided"], shares)
        return cells.assign(reference=self.reference, reference_n=0)

    def design(self, permutations: int = 1000, seed: int = 0) -> Design:
        """The design of the world's pages."""
        reference = dict.fromkeys(PROFESSIONS, self.reference)
        factors = ("both",), ("profession", "setting")
        return Design(
            *("female", ("female", "male"), *factors, LEVELS, reference), permutations=permutations, seed=seed
        )


LABELLED = (
    LabelWorld("nothing differs from one half"),
    LabelWorld("nothing differs, 15 % undecided", undecided=0.15),
    LabelWorld("nothing differs from 0.2, compared with 0.2", (0.2,) * 5, 0.2),
    LabelWorld(
        "professions differ, models and settings do not", (0.1, 0.95, 0.05, 0.9, 0.5), false=EVERY[3:]
    ),
    LabelWorld("all shares 0.9, professions do not differ", (0.9,) * 5, false=EVERY[2:]),
)


def claims(tables: Mapping[str, pd.DataFrame], design: Design) -> dict[str, int]:
    """How many results a page states, by question."""
    pages = {name: question_rows(tables, name) for name in AUDIT_QUESTIONS} | {"shares": tables["shares"]}
    return {name: int((rows["p_adjusted"] <= design.alpha).sum()) for name, rows in pages.items()}


def labelled_pages(
    simulations: int = 500,
    seed: int = 0,
    *,
    permutations: int = 1000,
    worlds: Sequence[LabelWorld] = LABELLED,
) -> pd.DataFrame:
    """How often a page of five models says anything false, and where professions differ, that they do."""

    def rows(world: LabelWorld, rng: np.random.Generator, _: int) -> Iterator[tuple]:
        designs = [world.design(permutations, one) for one in range(simulations)]
        found = pd.DataFrame([claims(measure_cells(world.draw(rng), one), one) for one in designs])
        yield counted_row(
            world.name, "pages that say anything false", found[list(world.false)].any(axis=1), AT_MOST
        )
        if "between" not in world.false:
            yield counted_row(world.name, "pages that say professions differ", found["between"] > 0, POWER)

    return sweep(worlds, rows, 1700, seed)

"""Rates of the default design, of rare changes, of a noise that prompts share, of one prompt, and of traces."""

from __future__ import annotations

import pandas as pd

from lab.validate.statistics.groups import group_rejections
from lab.validate.statistics.rare import design_gaps, rare_equivalence, rare_widths, shared_noise_rejections
from lab.validate.statistics.rates import ANY, COVERAGE, REJECTION, Rates
from lab.validate.statistics.readers import reader_coverage
from lab.validate.statistics.seeds import seed_coverage, seed_rejections
from lab.validate.statistics.shares import SIZES, floor_rejections, half_step_coverage, share_coverage
from lab.validate.statistics.words import (
    LEANING,
    ODD_LEANING,
    design_rejections,
    odd_rejections,
    spread_rejections,
)

POWER_SIZES = ((2, 2, 1), (3, 3, 1), (3, 3, 2), (3, 3, 3))


def default_design(*, simulations: int, resamples: int, seed: int) -> dict[str, Rates]:
    """Return rates of 24 prompts, one seed and three words a side, by the names that the page has for them."""
    options = {"simulations": simulations, "seed": seed}
    rejected, covered = design_gaps(resamples=resamples, **options)
    shown = rejected["test"] == "a warning is shown"
    return {
        "design": Rates(rejected[~shown], REJECTION),
        "warnings": Rates(rejected[shown], ANY),
        "design_coverage": Rates(covered, COVERAGE),
        "design_words": Rates(design_rejections(**options), REJECTION),
        "odd": Rates(odd_rejections(**options), REJECTION),
        "odd_power": Rates(odd_rejections(ODD_LEANING, **options), ANY),
        "spreads": Rates(spread_rejections(**options), REJECTION),
        "power": Rates(design_rejections(LEANING, sizes=POWER_SIZES, **options), ANY),
        "rare": Rates(rare_equivalence(resamples=resamples, **options), REJECTION),
        "shared": Rates(shared_noise_rejections(**options), REJECTION),
    }


def widths(*, simulations: int, resamples: int, seed: int) -> list[dict[str, float]]:
    """Return the widths of intervals where few prompts changed, a row for each number of them."""
    table: pd.DataFrame = rare_widths(simulations=simulations // 2, resamples=resamples, seed=seed)
    return table.to_dict("records")


def one_prompt(*, simulations: int, resamples: int, seed: int) -> dict[str, Rates]:
    """Return rates over the seeds of one prompt."""
    tables = max(1, simulations // 5)
    rejected = Rates(seed_rejections(simulations=simulations, tables=tables, seed=seed), REJECTION)
    covered = Rates(seed_coverage(simulations=simulations, resamples=resamples, seed=seed), COVERAGE)
    return dict(
        zip(
            ("seeds", "seeds_objects", "seeds_coverage", "seeds_objects_coverage"),
            (*rejected.split("objects"), *covered.split("objects")),
            strict=True,
        )
    )


def readers(*, simulations: int, seed: int) -> dict[str, Rates]:
    """Return rates of shares that are set right for a reader's errors."""
    return {"readers": Rates(reader_coverage(simulations=few(simulations), seed=seed), COVERAGE)}


def groups(*, simulations: int, seed: int) -> dict[str, Rates]:
    """Return rates of the test whether professions differ from one another."""
    return {"groups": Rates(group_rejections(simulations=few(simulations), seed=seed), REJECTION)}


def few(simulations: int) -> int:
    """Return how often what takes longest is simulated."""
    return max(2, simulations // 4)


def shares(*, simulations: int, resamples: int, seed: int) -> dict[str, Rates | list[Rates]]:
    """Return rates of shares of a total effect; those of traces by the number of prompts."""
    covered = Rates(share_coverage(simulations=simulations, resamples=resamples, seed=seed), COVERAGE)
    halves = half_step_coverage(simulations=few(simulations), resamples=resamples, seed=seed)
    return {
        "shares": [covered.among(f"{n} prompts") for n in SIZES],
        "half_steps": Rates(halves, COVERAGE),
        "floors": Rates(floor_rejections(maps=few(simulations), seed=seed), REJECTION),
    }

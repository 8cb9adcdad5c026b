"""Rates of the default design, of rare changes, of shared noise, of traces and probes."""

from __future__ import annotations

import pandas as pd

from lab.validate.statistics.probes import probe_coverage
from lab.validate.statistics.rare import design_gaps, rare_equivalence, rare_widths, shared_noise_rejections
from lab.validate.statistics.rates import ANY, COVERAGE, REJECTION, Rates
from lab.validate.statistics.shares import (
    floor_rejections,
    interplay_claims,
    largest_coverage,
    selected_coverage,
    share_coverage,
)
from lab.validate.statistics.side_shares import side_share_coverage
from lab.validate.statistics.words import (
    LEANING,
    ODD,
    ODD_LEANING,
    PICTURES,
    PICTURES_LEANING,
    design_rejections,
    spread_rejections,
)

SELECTED = (0.93, 1.0)  # what was selected is to be covered at least as often
ODD_SIZES = ((2, 2, 3), (3, 3, 3), (5, 5, 3))
POWER_SIZES = ((2, 2, 1), (3, 3, 1), (3, 3, 2), (3, 3, 3))


def default_design(*, simulations: int, resamples: int, seed: int) -> dict[str, Rates]:
    """Return rates of 24 prompts, one seed and three words a side, by the names that the page has for them."""
    options = {"simulations": simulations, "seed": seed}
    rejected, covered = design_gaps(resamples=resamples, **options)
    odd = {"sizes": ODD_SIZES, "stream": 980} | options
    pictures = {"sizes": ((3, 3, 3),), "stream": 1010} | options
    shown = rejected["test"] == "a warning is shown"
    return {
        "design": Rates(rejected[~shown], REJECTION),
        "warnings": Rates(rejected[shown], ANY),
        "design_coverage": Rates(covered, COVERAGE),
        "design_words": Rates(design_rejections(**options), REJECTION),
        "odd": Rates(design_rejections(ODD, **odd), REJECTION),
        "odd_power": Rates(design_rejections(ODD_LEANING, **odd), ANY),
        "pictures": Rates(design_rejections(PICTURES, **pictures), REJECTION),
        "pictures_power": Rates(design_rejections((LEANING[0], *PICTURES_LEANING), **pictures), ANY),
        "spreads": Rates(spread_rejections(**options), REJECTION),
        "power": Rates(design_rejections(LEANING, sizes=POWER_SIZES, **options), ANY),
        "rare": Rates(rare_equivalence(resamples=resamples, **options), REJECTION),
        "shared": Rates(shared_noise_rejections(**options), REJECTION),
    }


def widths(*, simulations: int, resamples: int, seed: int) -> list[dict[str, float]]:
    """Return the widths of intervals where few prompts changed, a row for each number of them."""
    table: pd.DataFrame = rare_widths(simulations=simulations // 2, resamples=resamples, seed=seed)
    return table.to_dict("records")


def side_shares(*, simulations: int, resamples: int, seed: int) -> dict[str, Rates]:
    """Return rates of gaps as shares of the distance between their sides."""
    options = {"simulations": few(simulations), "resamples": resamples // 2, "seed": seed}
    return {"side_shares": Rates(side_share_coverage(**options), COVERAGE)}


def few(simulations: int) -> int:
    """Return how often what takes longest is simulated."""
    return max(2, simulations // 4)


def fewer(simulations: int) -> int:
    """Return how often whole traces are simulated."""
    return max(2, simulations // 8)


def shares(*, simulations: int, resamples: int, seed: int) -> dict[str, Rates]:
    """Return rates of shares of a total effect."""
    columns, traces = few(simulations), fewer(simulations)
    drawing = {"resamples": max(2, resamples // 2), "seed": seed}
    covered = Rates(share_coverage(simulations=columns, resamples=resamples, seed=seed), COVERAGE)
    selected = Rates(selected_coverage(simulations=columns, **drawing), SELECTED)
    claims = Rates(
        interplay_claims(simulations=max(2, traces // 2), resamples=drawing["resamples"] // 2, seed=seed), ANY
    )
    return {
        "shares": covered,
        "selected": selected,
        "largest": Rates(largest_coverage(simulations=traces, **drawing), SELECTED),
        "floors": Rates(floor_rejections(maps=traces, seed=seed), REJECTION),
        "interplay": claims,
    }


def fitted_probes(simulations: int) -> int:
    """Return how often the probes of a world are fitted."""
    return max(2, simulations // 20)


def probes(
    *, simulations: int, resamples: int, seed: int
) -> tuple[dict[str, Rates], list[dict[str, float | str]]]:
    """Return rates of intervals of linear probes, and the widths of these by world."""
    options = {"simulations": fitted_probes(simulations), "resamples": resamples, "seed": seed}
    table, table_of_widths = probe_coverage(**options)
    return {"probes": Rates(table, COVERAGE)}, table_of_widths

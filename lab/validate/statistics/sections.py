"""Rates of the default design, of rare changes, of shared noise, of one prompt, of traces, readings and probes."""

from __future__ import annotations

import pandas as pd

from lab.validate.statistics.attributes import LEANING as ATTRIBUTES_LEANING
from lab.validate.statistics.attributes import attribute_rejections
from lab.validate.statistics.estimate_ratios import ratio_coverage
from lab.validate.statistics.groups import group_rejections
from lab.validate.statistics.probes import probe_coverage
from lab.validate.statistics.rare import design_gaps, rare_equivalence, rare_widths, shared_noise_rejections
from lab.validate.statistics.rates import ANY, COVERAGE, REJECTION, Rates
from lab.validate.statistics.readers import reader_coverage
from lab.validate.statistics.seeds import seed_coverage, seed_rejections
from lab.validate.statistics.shared_noise import shared_object_rejections
from lab.validate.statistics.shares import (
    SIZES,
    floor_rejections,
    half_step_coverage,
    interplay_claims,
    largest_coverage,
    selected_coverage,
    share_coverage,
)
from lab.validate.statistics.side_shares import side_share_coverage
from lab.validate.statistics.tones import tone_rejections
from lab.validate.statistics.word_tests import other_powers, other_rejections
from lab.validate.statistics.words import (
    LEANING,
    ODD_LEANING,
    design_rejections,
    odd_rejections,
    spread_rejections,
)

SELECTED = (0.93, 1.0)  # what was selected is to be covered at least as often
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
        "other_tests": Rates(other_rejections(**options), REJECTION),
        "other_powers": Rates(other_powers(**options), ANY),
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
    """Return rates of the tests whether professions differ from one another, and one's skin tones from the others'."""
    options = {"simulations": few(simulations), "seed": seed}
    return {
        "groups": Rates(group_rejections(**options), REJECTION),
        "tones": Rates(tone_rejections(**options), REJECTION),
    }


def attributes(*, simulations: int, seed: int) -> dict[str, Rates]:
    """Return rates of the test whether attributes differ between two words, and its power."""
    options = {"simulations": few(simulations), "seed": seed}
    return {
        "attributes": Rates(attribute_rejections(**options), REJECTION),
        "attributes_power": Rates(attribute_rejections(ATTRIBUTES_LEANING, **options), ANY),
    }


def shared_objects(*, simulations: int, seed: int) -> dict[str, Rates]:
    """Return rates of tests of objects that are refused where prompts share their noise."""
    return {
        "shared_objects": Rates(shared_object_rejections(simulations=few(simulations), seed=seed), REJECTION)
    }


def side_shares(*, simulations: int, resamples: int, seed: int) -> dict[str, Rates]:
    """Return rates of gaps as shares of the distance between their sides."""
    options = {"simulations": few(simulations), "resamples": resamples // 2, "seed": seed}
    return {"side_shares": Rates(side_share_coverage(**options), COVERAGE)}


def estimate_ratios(*, simulations: int, seed: int) -> dict[str, Rates]:
    """Return rates of how far an estimate of an attribute depends on the word."""
    table = ratio_coverage(simulations=fitted_probes(simulations), seed=seed)
    return {"estimate_ratios": Rates(table, COVERAGE)}


def few(simulations: int) -> int:
    """Return how often what takes longest is simulated."""
    return max(2, simulations // 4)


def fewer(simulations: int) -> int:
    """Return how often whole traces are simulated."""
    return max(2, simulations // 8)


def shares(*, simulations: int, resamples: int, seed: int) -> dict[str, Rates | list[Rates]]:
    """Return rates of shares of a total effect; those of traces by the number of prompts."""
    columns, traces = few(simulations), fewer(simulations)
    drawing = {"resamples": max(2, resamples // 2), "seed": seed}
    covered = Rates(share_coverage(simulations=columns, resamples=resamples, seed=seed), COVERAGE)
    selected = Rates(selected_coverage(simulations=columns, **drawing), SELECTED)
    claims = Rates(
        interplay_claims(simulations=max(2, traces // 2), resamples=drawing["resamples"] // 2, seed=seed), ANY
    )
    return {
        "shares": [covered.among(f"{n} prompts") for n in SIZES],
        "selected": [selected.among(name) for name in ("normal", "skewed")],
        "largest": Rates(largest_coverage(simulations=traces, **drawing), SELECTED),
        "half_steps": Rates(half_step_coverage(simulations=traces, **drawing), COVERAGE),
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

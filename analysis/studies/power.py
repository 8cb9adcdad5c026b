"""How many prompts, seeds and words a difference takes, for every combination of the values given."""

from __future__ import annotations

import argparse

import pandas as pd

from analysis.stats.power import GAP_COLUMNS, PRESENCE_COLUMNS, prompts_for_gap, prompts_for_presence
from analysis.stats.word_power import WORD_POWER_COLUMNS, prompts_for_words


def word_power_table(options: argparse.Namespace) -> pd.DataFrame:
    """Return the table of gaps beyond what the choice of words makes."""
    common = {"power": options.power, "alpha": options.alpha / options.family, "seed": options.seed}
    spread = {name: getattr(options, name) for name in ("sd_prompt", "sd_seed", "sd_word", "sd_reference")}
    rows = [
        prompts_for_words(
            gap, seeds=s, words=words, references=references, planned=options.prompts, **spread, **common
        )
        for gap in options.gap
        for s in options.seeds
        for words in options.words
        for references in options.references
    ]
    return pd.DataFrame(rows, columns=list(WORD_POWER_COLUMNS))


def power_table(options: argparse.Namespace) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables of gaps against 0 and of presence."""
    alpha = options.alpha / options.family
    common = {"power": options.power, "alpha": alpha}
    gaps = [
        prompts_for_gap(gap, sd_prompt=options.sd_prompt, sd_seed=options.sd_seed, seeds=s, **common)
        for gap in options.gap
        for s in options.seeds
    ]
    shared = {"noise": options.noise, "simulations": options.simulations, "seed": options.seed}
    objects = [
        prompts_for_presence(options.frequency, difference, seeds=s, **shared, **common)
        for difference in options.difference
        for s in options.seeds
    ]
    return pd.DataFrame(gaps, columns=list(GAP_COLUMNS)), pd.DataFrame(
        objects, columns=list(PRESENCE_COLUMNS)
    )

"""``triptych power [--out power.csv]``: how many prompts, seeds and words a difference takes."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from analysis.stats.power import GAP_COLUMNS, PRESENCE_COLUMNS, prompts_for_gap, prompts_for_presence
from analysis.stats.word_power import WORD_POWER_COLUMNS, prompts_for_words
from probes import command_line
from probes.csv_text import csv_bytes
from probes.errors import UserError
from probes.runs.parts import write_bytes


def word_power_table(options: argparse.Namespace) -> pd.DataFrame:
    """Table of the gaps beyond what the choice of words makes."""
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
    """Tables of gaps against 0 and of presence."""
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


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="triptych power",
        description="How many prompts and seeds a difference of a given size needs.",
    )
    add, number, probability = main.add_argument, command_line.number, command_line.probability
    add("--gap", type=number(), nargs="+", default=[0.2, 0.5, 1.0], help="mean gaps, in the units of the sd")
    add("--sd-prompt", type=number(0), default=1.0, help="standard deviation of the gap between prompts")
    add("--sd-seed", type=number(0), default=1.0, help="standard deviation between seeds of a prompt")
    add("--frequency", type=probability, default=0.2, help="share of one word's images that have the object")
    add(
        "--difference",
        type=number(-1, 1, ends=False),
        nargs="+",
        default=[0.05, 0.1, 0.2],
        help="how much more the other's have",
    )
    add(
        "--noise",
        type=number(0, 0.6),
        default=0.2,
        help="share of the variance that the words of a triplet share by noise; prompts share the rest",
    )
    whole = command_line.whole
    add("--seeds", type=whole(1, 10_000), nargs="+", default=[1, 2, 4], help="seeds of each prompt")
    add(
        "--words",
        type=whole(1, 100),
        nargs="+",
        default=[2, 3],
        help="words of each side, with the indicator",
    )
    add("--references", type=whole(1, 100), nargs="+", default=[1, 3], help="words that stand as reference")
    add("--sd-word", type=number(0), default=0.2, help="standard deviation between the words of a side")
    add("--sd-reference", type=number(0), default=0.2, help="that of the gap between reference words")
    add("--prompts", type=whole(2, 1_000_000), default=24, help="prompts whose power against words is told")
    add("--power", type=probability, default=0.8, help="probability to find the difference")
    add("--alpha", type=probability, default=0.05)
    add(
        "--family", type=command_line.count, default=1, help="tests adjusted together: alpha is divided by it"
    )
    add("--simulations", type=command_line.count, default=2000, help="of the presence of an object")
    add("--seed", type=command_line.seed, default=0, help="of the simulation")
    add("--out", type=Path, help="CSV to write, the tables one below the other")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    for difference in options.difference:
        if not 0 < options.frequency + difference < 1:
            raise UserError(
                f"--difference: expected frequency + difference between 0 and 1, got "
                f"{options.frequency + difference:g}: lower it"
            )
    if options.out:
        command_line.writable(options.out)
    (gaps, objects), words = power_table(options), word_power_table(options)
    if options.out:
        tables = {"gap": gaps, "gap against words": words, "presence": objects}
        every = pd.concat([table.assign(quantity=name) for name, table in tables.items()])
        first = ["quantity", *every.columns.drop("quantity")]
        write_bytes(options.out, csv_bytes(every[first]))
    print(f"A gap, power {options.power:g} at alpha {options.alpha:g} over {options.family} tests:")
    print(gaps.to_string(index=False, float_format="{:.3g}".format))
    print("\nA gap beyond what the choice of words makes (`ceiling`: with endlessly many prompts):")
    print(words.to_string(index=False, float_format="{:.3g}".format))
    print("\nPresence of an object, exact paired test:")
    print(objects.to_string(index=False, float_format="{:.3g}".format))

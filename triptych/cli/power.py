"""``triptych power [--out power.csv]``: how many prompts, seeds and words a difference takes."""

from __future__ import annotations

import argparse
from typing import Any

from probes import command_line
from probes.errors import UserError


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(
        prog="triptych power",
        description="Say how many prompts, seeds and words it takes to find a difference of a given size, for every"
        " combination of the values given.",
        examples={
            "triptych power --gap 0.1 0.2 --seeds 1 4 --words 3": "prompts that find a gap of 0.1 or 0.2"
        },
    )
    number, whole, probability = command_line.number, command_line.whole, command_line.probability

    def add(title: str, *rows: tuple[str, Any, Any, str, str]) -> None:
        group = main.add_argument_group(title)
        for flag, kind, default, metavar, text in rows:
            several = "+" if isinstance(default, list) else None
            group.add_argument(flag, type=kind, nargs=several, default=default, metavar=metavar, help=text)

    add(
        "the gap between two words",
        ("--gap", number(), [0.2, 0.5, 1.0], "X", "mean gaps, in the unit of the standard deviations"),
        ("--sd-prompt", number(0), 1.0, "X", "standard deviation of the gap between prompts"),
        ("--sd-seed", number(0), 1.0, "X", "standard deviation of the gap between seeds of a prompt"),
        ("--words", whole(1, 100), [2, 3], "N", "synonyms on each side, the indicator's word included"),
        ("--references", whole(1, 100), [1, 3], "N", "synonyms of the reference, its own word included"),
        ("--sd-word", number(0), 0.2, "X", "standard deviation between the synonyms of a side"),
        ("--sd-reference", number(0), 0.2, "X", "standard deviation of the gap between reference words"),
        ("--prompts", whole(2, 1_000_000), 24, "N", "prompts at which to give the power against words"),
    )
    add(
        "the presence of an object",
        ("--frequency", probability, 0.2, "P", "share of the images of one word that show the object"),
        (
            "--difference",
            number(-1, 1, ends=False),
            [0.05, 0.1, 0.2],
            "P",
            "how much larger the other word's share is",
        ),
        (
            "--noise",
            number(0, 0.6),
            0.2,
            "P",
            "share of the variance that the images of a triplet have in common since they start from the same noise",
        ),
        ("--simulations", command_line.count, 2000, "N", "simulated data sets for each number of prompts"),
    )
    add(
        "the test",
        ("--seeds", whole(1, 10_000), [1, 2, 4], "N", "seeds of each prompt"),
        ("--power", probability, 0.8, "P", "probability of finding the difference"),
        ("--alpha", probability, 0.05, "P", "level of significance of the tests together"),
        ("--family", command_line.count, 1, "N", "number of tests, by which alpha is divided (Bonferroni)"),
    )
    main.add_seed("the simulations")
    main.add_out(what="CSV file to write, the tables one below the other (default: none)")
    return main


def work(options: argparse.Namespace) -> None:
    """Run the command with its parsed arguments."""
    for difference in options.difference:
        if not 0 < options.frequency + difference < 1:
            raise UserError(
                f"--difference: expected frequency + difference between 0 and 1, got "
                f"{options.frequency + difference:g}: lower it"
            )
    if options.out:
        command_line.writable(options.out)
    import pandas as pd

    from analysis.studies.power import power_table, word_power_table
    from probes.csv_text import csv_bytes
    from probes.runs.parts import write_bytes

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

"""``triptych power [RUN] [--out power.csv]``: how many prompts, seeds and words a difference takes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from probes import command_line

if TYPE_CHECKING:
    from analysis.report.result import Result

OF_RUN = {  # what a run tells, and what is taken without one
    "--gap": [0.2, 0.5, 1.0],
    "--sd-prompt": 1.0,
    "--sd-seed": 1.0,
    "--words": [2, 3],
    "--references": [1, 3],
    "--sd-word": 0.2,
    "--sd-reference": 0.2,
    "--prompts": 24,
    "--frequency": 0.2,
    "--seeds": [1, 2, 4],
}


def parser() -> command_line.Parser:
    """Return the argument parser of ``triptych power``."""
    main = command_line.Parser(
        prog="triptych power",
        description="Say how many prompts, seeds and words it takes to find a difference of a given size, for every"
        " combination of the values given, or those of a run.",
        examples={
            "triptych power runs/first-light": "what another run like this one would find",
            "triptych power --gap 0.1 0.2 --seeds 1 4 --words 3": "prompts that find a gap of 0.1 or 0.2",
        },
    )
    main.add_run(
        "directory of a measured run, whose primary measure and first contrast tell the spread, the numbers of prompts,"
        " seeds and words, and the gaps: the smallest that matters, half and all of the spread (default: none)",
        nargs="?",
    )
    number, whole, probability = command_line.number, command_line.whole_number, command_line.probability

    def add_group(title: str, *rows: tuple[str, Any, Any, str, str]) -> None:
        """Add a group of options, of (flag, type, default, metavar, help) each."""
        group = main.add_argument_group(title)
        for flag, kind, default, metavar, text in rows:
            usual = OF_RUN.get(flag, default)
            if flag in OF_RUN:
                listed = " ".join(map(str, usual)) if isinstance(usual, list) else usual
                text += f" (default: {listed}, or that of RUN)"
            several = "+" if isinstance(usual, list) else None
            group.add_argument(flag, type=kind, nargs=several, default=default, metavar=metavar, help=text)

    add_group(
        "the gap between two words",
        ("--gap", number(), None, "X", "mean gaps, in the unit of the standard deviations"),
        ("--sd-prompt", number(0), None, "X", "standard deviation of the gap between prompts"),
        ("--sd-seed", number(0), None, "X", "standard deviation of the gap between seeds of a prompt"),
        ("--words", whole(1, 100), None, "N", "synonyms on each side, the indicator's word included"),
        ("--references", whole(1, 100), None, "N", "synonyms of the reference, its own word included"),
        ("--sd-word", number(0), None, "X", "standard deviation between the synonyms of a side"),
        ("--sd-reference", number(0), None, "X", "standard deviation of the gap between reference words"),
        ("--prompts", whole(2, 1_000_000), None, "N", "prompts at which to give the power against words"),
    )
    add_group(
        "the presence of an object",
        ("--frequency", probability, None, "P", "share of the images of one word that show the object"),
        (
            "--difference",
            number(-1, 1, closed=False),
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
    add_group(
        "the test",
        ("--seeds", whole(1, 10_000), None, "N", "seeds of each prompt"),
        ("--power", probability, 0.8, "P", "probability of finding the difference"),
        ("--alpha", probability, 0.05, "P", "level of significance of the tests together"),
        ("--family", command_line.count, 1, "N", "number of tests, by which alpha is divided (Bonferroni)"),
    )
    main.add_seed("the simulations")
    main.add_out(help="CSV file to write, the tables one below the other (default: none)")
    return main


def result(options: argparse.Namespace) -> Result:
    """Return the tables of statistical power that the options ask for."""
    from analysis.studies.power import power
    from probes.runs.missing import open_run

    defaults = {flag[2:].replace("-", "_"): value for flag, value in OF_RUN.items()}
    return power(open_run(options.run) if options.run else None, vars(options), defaults)


def work(options: argparse.Namespace) -> None:
    """Print tables of statistical power, and write them with ``--out``; UserError for a wrong or missing input."""
    if options.out:
        command_line.writable(options.out)
    found = result(options)
    if options.out:
        from probes.csv_text import csv_bytes
        from probes.runs.parts import write_bytes

        write_bytes(options.out, csv_bytes(found.table))
    print(found)

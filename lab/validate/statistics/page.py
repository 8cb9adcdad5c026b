"""The page on error rates of tests and coverage of intervals.

``python -m lab.validate.statistics.page --out docs/validation/statistics.md`` writes it. Every number of the page is
simulated when it is made.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.templates import render
from lab.validate.statistics import (
    audits,
    labelled_audits,
    labelled_corrections,
    profession_pages,
    sections,
)
from lab.validate.statistics import objects as statistics_objects
from lab.validate.statistics.contexts import page_section as contexts_section
from lab.validate.statistics.rates import ANY, COVERAGE, REJECTION, Rates
from lab.validate.statistics.shares import PLACES
from lab.validate.statistics.simulation import (
    gap_coverage,
    gap_rejections,
    object_coverage,
    object_rejections,
)
from lab.validate.statistics.words import HOSTILE, LEANING, ODD, WORD_WORLDS, word_rejections
from lab.validate.statistics.worlds import COVERAGE_WORLDS, OBJECT_WORLDS
from probes import command_line
from probes.runs.parts import write_bytes


def page(
    *,
    columns: int = 4000,
    tables: int = 800,
    families: int = 600,
    resamples: int = 1000,
    runs: int = 200,
    seed: int = 0,
) -> str:
    """The page in Markdown."""
    simulations, cover = columns // 2, COVERAGE_WORLDS[0]
    options = {"simulations": simulations, "seed": seed}
    intervals = {**options, "resamples": resamples}
    objects = Rates(object_coverage(objects=simulations, seed=seed), COVERAGE)
    of_objects, of_odds = objects.split("odds")
    of_probes, probe_widths = sections.probes(**intervals)
    rates = {
        "objects": Rates(object_rejections(objects=columns, tables=tables, seed=seed), REJECTION),
        "gaps": Rates(gap_rejections(simulations=columns, families=families, seed=seed), REJECTION),
        "gap_coverage": Rates(gap_coverage(**intervals), COVERAGE),
        "words": Rates(word_rejections(**options), REJECTION),
        "leaning": Rates(word_rejections(LEANING, **options), ANY),
        "object_coverage": of_objects,
        "odds_coverage": of_odds,
        **sections.default_design(**intervals),
        **sections.shares(**intervals),
        **of_probes,
        **sections.side_shares(**intervals),
    }
    return render(
        "statistics",
        rates=rates,
        claims=statistics_objects.page_section(simulations=runs, seed=seed),
        audits=audits.page_section(simulations=runs, seed=seed),
        widths=sections.widths(**intervals),
        **{"columns": columns, "tables": tables, "families": families, "resamples": resamples},
        **{"seed": seed, "simulations": simulations, "few": sections.few(simulations), "cover": cover},
        **{"fewer": sections.fewer(simulations)},
        **{
            "first": OBJECT_WORLDS[0],
            "object_worlds": OBJECT_WORLDS,
            "word_worlds": (*WORD_WORLDS, *LEANING),
        },
        **{"hostile": HOSTILE, "odd": ODD},
        contexts=contexts_section(simulations=runs, seed=seed),
        profession_pages=profession_pages.page_section(simulations=runs, seed=seed),
        labelled_audits=labelled_audits.page_section(simulations=5 * runs // 2, seed=seed),
        labelled_corrections=labelled_corrections.page_section(simulations=2 * runs, seed=seed),
        places=PLACES,
        **{"probe_widths": probe_widths, "fitted_probes": sections.fitted_probes(simulations)},
    )


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.statistics.page",
        description="Simulate how often tests reject and intervals cover, and write the page.",
    )
    add, whole = main.add_argument, command_line.whole
    add("--columns", type=whole(2, 1_000_000), default=4000, help="simulations of a test or interval")
    add("--tables", type=command_line.count, default=800, help="simulations of a test of a whole table")
    add("--families", type=command_line.count, default=600, help="simulations of an adjustment over a family")
    add("--resamples", type=command_line.count, default=1000, help="of each bootstrap")
    add(
        "--runs",
        type=command_line.count,
        default=200,
        help="simulated runs a world of claims about objects, and audits a world",
    )
    add("--seed", type=command_line.seed, default=0)
    add("--out", type=Path, help="page to write; printed if not given")
    return main


def work(arguments: argparse.Namespace) -> None:
    """Do what the command line asks."""
    options = vars(arguments)
    out = options.pop("out")
    if out:
        command_line.writable(out)
    text = page(**options)
    if out:
        write_bytes(out, text.encode())
    print(out or text, end="\n" if out else "")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

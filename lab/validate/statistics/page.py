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
from lab.validate.statistics import audits, contexts, labelled_audits, profession_pages
from lab.validate.statistics import objects as statistics_objects
from lab.validate.statistics.probes import probe_coverage
from lab.validate.statistics.rare import design_gaps, rare_equivalence, shared_noise_rejections
from lab.validate.statistics.rates import ANY, COVERAGE, REJECTION, Rates
from lab.validate.statistics.shares import (
    PLACES,
    floor_rejections,
    interplay_claims,
    largest_coverage,
    selected_coverage,
    share_coverage,
)
from lab.validate.statistics.side_shares import side_share_coverage
from lab.validate.statistics.simulation import (
    gap_coverage,
    gap_rejections,
    object_coverage,
    object_rejections,
)
from lab.validate.statistics.words import (
    HOSTILE,
    LEANING,
    ODD,
    ODD_LEANING,
    PICTURES,
    PICTURES_LEANING,
    WORD_WORLDS,
    spread_rejections,
    word_rejections,
)
from lab.validate.statistics.worlds import COVERAGE_WORLDS, OBJECT_WORLDS
from probes import command_line
from probes.runs.parts import write_bytes

SELECTED = (0.93, 1.0)  # what was selected is to be covered at least as often
WORDS = {"sizes": ((2, 2, 1), (3, 3, 1), (3, 3, 3), (5, 5, 1)), "prompts": (24, 100), "stream": 500}
ODD_WORDS = {"sizes": ((2, 2, 3), (3, 3, 3), (5, 5, 3)), "stream": 980}
PICTURE_WORDS = {"sizes": ((3, 3, 3),), "stream": 1010}
POWER_SIZES = ((2, 2, 1), (3, 3, 1), (3, 3, 2), (3, 3, 3))


def page(
    *,
    columns: int = 4000,
    tables: int = 800,
    families: int = 600,
    resamples: int = 1000,
    runs: int = 200,
    seed: int = 0,
) -> str:
    """The page in Markdown; what takes longest is simulated less often."""
    simulations = columns // 2
    few, traces, fits = (max(2, simulations // part) for part in (4, 8, 20))
    options = {"simulations": simulations, "seed": seed}
    intervals, half = options | {"resamples": resamples}, {"resamples": max(2, resamples // 2), "seed": seed}
    of_probes, probe_widths = probe_coverage(simulations=fits, resamples=resamples, seed=seed)
    rejected, covered = design_gaps(**intervals)
    shown = rejected["test"] == "a warning is shown"
    rejections = {
        "objects": object_rejections(objects=columns, tables=tables, seed=seed),
        "gaps": gap_rejections(simulations=columns, families=families, seed=seed),
        "words": word_rejections(WORD_WORLDS, **WORDS, **options),
        "design": rejected[~shown],
        "design_words": word_rejections(**options),
        "odd": word_rejections(ODD, **ODD_WORDS, **options),
        "pictures": word_rejections(PICTURES, **PICTURE_WORDS, **options),
        "spreads": spread_rejections(**options),
        "rare": rare_equivalence(**intervals),
        "shared": shared_noise_rejections(**options),
        "floors": floor_rejections(maps=traces, seed=seed),
    }
    powers = {
        "leaning": word_rejections(LEANING, **WORDS, **options),
        "warnings": rejected[shown],
        "odd_power": word_rejections(ODD_LEANING, **ODD_WORDS, **options),
        "pictures_power": word_rejections((LEANING[0], *PICTURES_LEANING), **PICTURE_WORDS, **options),
        "power": word_rejections(LEANING, sizes=POWER_SIZES, **options),
        "interplay": interplay_claims(
            simulations=max(2, traces // 2), resamples=half["resamples"] // 2, seed=seed
        ),
    }
    coverage = {
        "gap_coverage": gap_coverage(**intervals),
        "object_coverage": object_coverage(objects=simulations, seed=seed),
        "design_coverage": covered,
        "side_shares": side_share_coverage(simulations=few, **half),
        "shares": share_coverage(simulations=few, resamples=resamples, seed=seed),
        "probes": of_probes,
    }
    selected = {
        "selected": selected_coverage(simulations=few, **half),
        "largest": largest_coverage(simulations=traces, **half),
    }
    kinds = ((rejections, REJECTION), (powers, ANY), (coverage, COVERAGE), (selected, SELECTED))
    rates = {name: Rates(table, bounds) for kind, bounds in kinds for name, table in kind.items()}
    return render(
        "statistics",
        rates=rates,
        claims=statistics_objects.page_section(simulations=runs, seed=seed),
        audits=audits.page_section(simulations=runs, seed=seed),
        contexts=contexts.page_section(simulations=runs, seed=seed),
        profession_pages=profession_pages.page_section(simulations=runs, seed=seed),
        labelled_audits=labelled_audits.page_section(simulations=5 * runs // 2, seed=seed),
        probe_widths=probe_widths,
        **{"columns": columns, "tables": tables, "families": families, "resamples": resamples},
        **{"seed": seed, "simulations": simulations, "few": few, "fewer": traces, "fitted_probes": fits},
        **{"first": OBJECT_WORLDS[0], "object_worlds": OBJECT_WORLDS, "cover": COVERAGE_WORLDS[0]},
        **{"word_worlds": (*WORD_WORLDS, *LEANING), "hostile": HOSTILE, "odd": ODD, "places": PLACES},
    )


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.statistics.page",
        description="Simulate how often tests reject and intervals cover, and write the page.",
    )
    add, whole = main.add_argument, command_line.whole_number
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

"""The page on error rates of tests and coverage of intervals.

``python -m lab.validate.statistics.page --scale tests/benchmarks/results/statistics_scale.json --out
docs/validation/statistics.md`` writes it. Every number of the page is simulated when it is made, as
`lab.validate.statistics.simulation` and `lab.validate.statistics.words` say, but for those on time and memory, which
are those of the file given.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from lab.templates import render
from lab.validate.statistics import (
    audits,
    labelled_audits,
    labelled_corrections,
    profession_pages,
    profession_words,
    sections,
)
from lab.validate.statistics import objects as statistics_objects
from lab.validate.statistics.contexts import page_section as contexts_section
from lab.validate.statistics.estimate_ratios import FREQUENCIES
from lab.validate.statistics.rates import ANY, COVERAGE, REJECTION, Rates
from lab.validate.statistics.readers import LABELLED
from lab.validate.statistics.seeds import PROMPTS
from lab.validate.statistics.shares import ENTRIES, PLACES, STEPS
from lab.validate.statistics.simulation import (
    gap_coverage,
    gap_rejections,
    object_coverage,
    object_rejections,
)
from lab.validate.statistics.words import HOSTILE, LEANING, ODD, WORD_WORLDS, word_rejections
from lab.validate.statistics.worlds import COVERAGE_WORLDS, OBJECT_WORLDS
from probes import command_line
from probes.errors import UserError
from probes.runs.parts import write_bytes

SIZES = ("triplets", "images", "detections", "labels", "prompts", "words", "columns")


def scale(result: dict) -> str:
    """The figures of `tests.benchmarks.statistics_scale`."""
    return render("statistics_scale", result=result, first=result["cases"][0], sizes=SIZES)


def _measured(path: Path) -> dict:
    """Read the figures of `tests.benchmarks.statistics_scale`."""
    remedy = "make it by python -m tests.benchmarks.statistics_scale"
    try:
        result = json.loads(path.read_text("utf-8"))
        scale(result)
    except OSError as error:
        raise UserError(f"--scale: {path}: cannot be read ({error.strerror}): {remedy}") from None
    except (ValueError, KeyError, TypeError, IndexError, jinja2.TemplateError) as error:
        raise UserError(
            f"--scale: {path}: expected the figures of a measurement, got another file "
            f"({type(error).__name__}): {remedy}"
        ) from None
    return result


def page(
    *,
    columns: int = 4000,
    tables: int = 800,
    families: int = 600,
    resamples: int = 1000,
    runs: int = 200,
    seed: int = 0,
    scale_file: Path | None = None,
) -> str:
    """The page in Markdown."""
    measured = scale(_measured(scale_file)) if scale_file else None  # a fault is said before the simulations
    simulations, cover = columns // 2, COVERAGE_WORLDS[0]
    options = {"simulations": simulations, "seed": seed}
    intervals = {**options, "resamples": resamples}
    objects = Rates(object_coverage(objects=simulations, resamples=resamples, seed=seed), COVERAGE)
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
        **sections.one_prompt(**intervals),
        **sections.shares(**intervals),
        **sections.readers(**options),
        **of_probes,
        **sections.groups(**options),
        **sections.attributes(**options),
        **sections.shared_objects(**options),
        **sections.side_shares(**intervals),
        **sections.estimate_ratios(**options),
    }
    return render(
        "statistics",
        rates=rates,
        missed=_missed(rates, objects),
        measured=measured,
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
        **{"hostile": HOSTILE, "odd": ODD, "prompts_of_world": PROMPTS},
        contexts=contexts_section(simulations=runs, seed=seed),
        profession_pages=profession_pages.page_section(simulations=runs, seed=seed),
        profession_words=profession_words.word_section(simulations=3 * runs // 2, seed=seed),
        labelled_audits=labelled_audits.page_section(simulations=5 * runs // 2, seed=seed),
        labelled_corrections=labelled_corrections.page_section(simulations=2 * runs, seed=seed),
        ratio_frequencies=FREQUENCIES,
        **{"steps": STEPS, "entries": len(ENTRIES), "places": PLACES, "labelled": LABELLED},
        **{"probe_widths": probe_widths, "fitted_probes": sections.fitted_probes(simulations)},
    )


def _missed(rates: dict[str, Any], objects: Rates) -> dict[str, Rates]:
    """Return the tables whose misses are listed, by the name under which they are."""
    shares, selected = (pd.concat([one.table for one in rates[name]]) for name in ("shares", "selected"))
    return {
        "Rejections, objects": rates["objects"],
        "Rejections, gaps": rates["gaps"],
        "Rejections, words": rates["words"],
        "Coverage, gaps": rates["gap_coverage"],
        "Coverage, objects": objects,
        "Default design, gaps": rates["design"],
        "Default design, words": rates["design_words"].and_those_of(rates["spreads"]),
        "Words of one side odder": rates["odd"],
        "Pictures": rates["other_tests"],
        "Equivalence where few prompts change": rates["rare"],
        "Noise that prompts share": rates["shared"],
        "Rejections over seeds of one prompt": rates["seeds"].and_those_of(rates["seeds_objects"]),
        "Coverage over seeds of one prompt": rates["seeds_coverage"].and_those_of(
            rates["seeds_objects_coverage"]
        ),
        "Shares of a total effect": Rates(shares, COVERAGE).and_those_of(rates["half_steps"]),
        "Shares that were selected": Rates(selected, sections.SELECTED).and_those_of(rates["largest"]),
        "Beyond the floor": rates["floors"],
        "Shares set right for a reader's errors": rates["readers"],
        "Linear probes": rates["probes"],
        "Professions that do not differ": rates["groups"],
        "Skin tones of professions that do not differ": rates["tones"],
        "Attributes of words that do not differ": rates["attributes"],
        "Gaps as shares of the distance between the sides": rates["side_shares"],
        "How far an estimate depends on the word": rates["estimate_ratios"],
    }


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
    add("--scale", type=command_line.file, dest="scale_file", help="statistics_scale.json")
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

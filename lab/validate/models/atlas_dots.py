"""Hold the atlas's dots against a large run, place by place: ``python -m lab.validate.models.atlas_dots RUN ...``.

A section of the calibration page says how many dots point the other way than the images, and how many of these other
than their own place does (`lab.validate.models.places`). With ``--reference RUN`` the places of a run are stored.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.study import contrasts
from analysis.tables.registry import read
from lab.templates import render
from lab.validate.models.claims import ATLAS, Truth, of_dots
from lab.validate.models.places import PLACES, places_of, store, stored_places
from lab.validate.models.repeated import put_section
from lab.validate.runs import whole_run
from probes import command_line
from probes.errors import UserError
from probes.runs.parts import write_bytes
from probes.runs.store import Run

TITLE = "## Dots of the atlas, place by place"


def counted_dots(run: Run) -> dict:
    """Return of a run's atlas how many dots are filled, point the other way than the images, and contradict places."""
    dots = [claim for claim in of_dots(read(run, "gap"), run.config, Truth(run)) if claim.kind == ATLAS]
    other = [claim for claim in dots if claim.side != claim.images]
    sites: dict[str, list[int]] = {}
    for claim in other:
        site, _, step = claim.about.split(" ")
        sites.setdefault(site, []).append(int(step))
    return {
        "run": run.path.name,
        "seeds": ", ".join(map(str, run.config.seeds)),
        "dots": len(dots),
        "other": len(other),
        "open": sum(claim.planted is None for claim in dots),
        "false": sum(claim.false for claim in dots),
        "where": "; ".join(f"`{site}`, steps {_range(steps)}" for site, steps in sites.items()),
    }


def _range(steps: Sequence[int]) -> str:
    """Steps in words; those in a row by the first and the last.

    >>> _range([4, 5, 6]), _range([2]), _range([2, 5])
    ('4 to 6', '2', '2, 5')
    """
    if len(steps) > 1 and list(steps) == list(range(steps[0], steps[-1] + 1)):
        return f"{steps[0]} to {steps[-1]}"
    return ", ".join(map(str, steps))


def places_section(runs: Sequence[Run]) -> str:
    """Return the section of the calibration page, in Markdown.

    Raises
    ------
    UserError
        Nothing is known of a run's places.
    """
    rows = []
    for run in runs:
        places = stored_places(run.config)
        if places is None:
            raise UserError(
                f"{run.path}: expected a run of the model and steps of {PLACES.name}, got {run.config.model} with "
                f"{run.config.sampler.steps} steps: write a reference by --reference"
            )
        rows.append(counted_dots(run))
    lean = Truth(run).nearer(contrasts(run.config)[0], run.config.reference)
    turned = [key for key in places.ends if places.direction(*key) == -lean]
    sites = {site: [step for one, step in turned if one == site] for site, _ in turned}
    table = pd.DataFrame(rows)
    return render(
        "calibration_dots",
        title=TITLE,
        places=places,
        cells=len(places.ends),
        turned=len(turned),
        undecided=sum(places.direction(*key) is None for key in places.ends),
        sites="; ".join(f"`{site}`, steps {_range(steps)}" for site, steps in sites.items()),
        rows=rows,
        total=table[["dots", "other", "open", "false"]].sum().to_dict(),
        runs_other=int((table["other"] > 0).sum()),
        runs_false=int((table["false"] > 0).sum()),
    )


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.models.atlas_dots", description=__doc__.split("\n\n")[0]
    )
    add = main.add_argument
    add(
        "runs",
        nargs="*",
        type=command_line.run_directory,
        help="measured runs that are held against the reference",
    )
    add(
        "--reference",
        type=command_line.run_directory,
        metavar="RUN",
        help="a measured run whose places are stored",
    )
    add(
        "--out",
        type=Path,
        default=Path("docs/validation/calibration.md"),
        help="page whose section is written anew",
    )
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    if not (options.runs or options.reference):
        raise UserError("command line: expected run directories, or --reference with one: name one")
    if options.reference:
        store(places_of(whole_run(options.reference)))
        print(PLACES)
    if options.runs:
        command_line.writable(options.out)
        section = places_section([whole_run(path) for path in options.runs])
        before = options.out.read_text("utf-8") if options.out.is_file() else ""
        write_bytes(options.out, put_section(before, section).encode())
        print(options.out)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

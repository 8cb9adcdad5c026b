"""Image-text alignment and image quality of a run: ``triptych audit alignment RUN --reference FOLDER``.

Writes tables ``alignment_*`` into the run: R-precision by its CLIP; with a reference FID and KID on its features; where
its images have captions BLEU, CIDEr, METEOR and SPICE. ``--stage report`` shows them.
"""

from __future__ import annotations

import argparse
from functools import partial

import pandas as pd

from analysis.methods.alignment.method import METHOD
from analysis.methods.alignment.tables import (
    CAPTIONS,
    CLIPS,
    VECTORS,
    captions_table,
    quality_table,
    retrieval_table,
)
from analysis.report import section
from analysis.tables.registry import TABLES, write
from probes.errors import UserError
from probes.runs.missing import open_run
from probes.runs.run import Run


def measure(options: argparse.Namespace) -> dict[str, pd.DataFrame]:
    """Return the tables that a command line asks for, by name."""
    run, made = open_run(options.run), {}
    if not run.parts("samples"):
        raise UserError(f"{options.run}: expected a run with images, found none: run --stage generate")
    names = [name for name in VECTORS if run.parts(f"features/{name}")]
    from analysis.methods.alignment import observe  # loads torch
    from analysis.observe.quality import fidelity, require

    if options.reference is not None:
        if not names:
            raise UserError(
                f"{options.run}: expected features of its images, found none: name some (`observe: {{features:"
                " [clip]}`) and run --stage observe"
            )
        require()
        made["alignment_quality"] = quality_table(
            run,
            observe.references(run, names, options.reference, seed=options.seed),
            partial(fidelity, seed=options.seed),
            seed=options.seed,
        )
    if clips := [name for name in CLIPS if name in names]:
        tables = [
            retrieval_table(run, name, observe.prompt_vectors(run, name), seed=options.seed) for name in clips
        ]
        made["alignment_retrieval"] = pd.concat(tables, ignore_index=True)
    if run.parts(CAPTIONS):
        made["alignment_captions"] = captions_table(run)
    if not made:
        raise UserError(
            f"{options.run}: expected features `clip`, found none, no captions and no --reference: run --stage observe"
        )
    made = {name: table.reindex(columns=TABLES[name].names) for name, table in made.items()}
    for name, table in made.items():
        write(run, name, table)
    return made


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    measure(options)
    run = Run.open(options.run)
    shown = section.measured(METHOD, {run.config.model_name: run})
    for line in (line for spec in METHOD.tables for line in section.sentences(shown, spec)):
        print(line)
    print(f"tables: {options.run / 'tables'}; triptych report {options.run} shows them")

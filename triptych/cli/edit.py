"""``triptych edit RUN``: the smallest edit that a trace suggests, as a configuration to run.

The run's ``triplets.yaml`` is written anew with an ``edit:`` of the reference word at the fewest places that are enough
for the effect of the words (`analysis.methods.tracing.smallest`), and without its ``trace:``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from probes import command_line


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(
        prog="triptych edit",
        description="Write the configuration of the smallest edit that a trace suggests: the reference word moved"
        " towards another, at the fewest places that are enough for the effect. It has no `trace:`: the edited model"
        " is not traced again. Run it, and compare with `triptych mitigate`. Edits are for models with a U-Net.",
        examples={
            "triptych edit runs/traced --towards woman": "writes edited.yaml; then: triptych run edited.yaml"
        },
    )
    main.add_run("directory of a run with a trace")
    main.add_argument(
        "--towards", required=True, metavar="WORD", help="word that the reference word moves towards"
    )
    main.add_argument(
        "--share", type=float, default=0.5, metavar="X", help="how far: 1 is all of the way (default: 0.5)"
    )
    main.add_argument(
        "--out", type=Path, default=Path("edited.yaml"), help="file to write (default: edited.yaml)"
    )
    main.add_argument("--overwrite", action="store_true", help="replace the file if there is one")
    return main


def work(options: argparse.Namespace) -> None:
    """Run the command with its parsed arguments."""
    from pydantic import ValidationError

    from analysis.methods.tracing.smallest import ENOUGH, MOST, smallest_set
    from analysis.methods.tracing.stored import read_trace
    from analysis.studies.opening import opened
    from probes.config.edit_options import Edit
    from probes.config.messages import HINT, first_fault
    from probes.config.yaml import read_yaml, without_keys, yaml_text
    from probes.errors import UserError, printable
    from probes.runs.parts import write_bytes

    path = command_line.writable(options.out)
    if path.exists() and not options.overwrite:
        raise UserError(
            f"{path}: expected no file yet, found one: name another, or replace it with --overwrite"
        )
    run = opened(options.run)
    traced = read_trace(run)
    if traced is None:
        raise UserError(
            f"{run.path}: expected a measured trace, found none: run `triptych trace`, then `--stage measure`"
        )
    config = run.config
    if config.edit is not None:
        raise UserError(
            f"{run.path}: expected a model without an edit, got {config.edit.summary}: trace it without"
        )
    donors = {config.indicators[name].word: name for name in traced.both.split("-")}
    if options.towards not in donors:
        raise UserError(
            f"--towards: expected a word whose effect was traced ({' or '.join(donors)}), got {options.towards!r:.60}:"
            " name one of them"
        )
    total, shares = (
        table[table["donor"] == donors[options.towards]]
        for table in (traced.shown(name, every_donor=True) for name in ("trace_total", "trace_shares"))
    )
    found = smallest_set(shares, ENOUGH) if total["told_from_0"].all() else None
    if found is None or not found.at_once:
        raise UserError(
            f"{run.path}: expected places that are enough for {MOST:g} of the effect of {options.towards!r:.60} when"
            " patched at once, found none told: trace more prompts, or pairs of places (`trace.pairs`)"
        )
    if not found.editable:
        raise UserError(
            f"{run.path}: expected cross-attentions of a U-Net to edit, got {', '.join(found.sites)}: trace another"
            " model, or the cross-attentions"
        )
    words = list(dict.fromkeys(one.word for one in config.indicators.values() if not one.control))
    reference = config.indicators[config.reference].word
    try:
        edit = Edit(
            words={reference: {options.towards: options.share}},
            keep=[word for word in words if word != reference],
            sites=list(found.sites),
        )
    except ValidationError as error:
        raise UserError(f"command line: {first_fault(error, Edit)[1].replace(HINT, '')}") from None
    source = without_keys(read_yaml(run.path / "triplets.yaml"), ("edit", "trace")).rstrip("\n")
    block = yaml_text({"edit": edit.model_dump(mode="json", exclude_defaults=True)})
    write_bytes(path, f"{source}\n\n{block}".encode())
    print(printable(edit.summary))
    print(printable(f"wrote {path}, without `trace:`; next: triptych run {path} --out FOLDER"))

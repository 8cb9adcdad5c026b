"""Have people check the detected objects: ``triptych human-check sample RUN``, then ``agreement RUN labels.csv``.

Of a run whose prompts ask for skills they check what the skill is: the object, its number, the relation.

``sample`` writes a page that opens in any browser, without network; its button exports a CSV file.
``agreement`` reads one or more of these back and says how far the detector saw what people see, for each indicator.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.report.format import counted, interval, number
from analysis.stats.rates import ALL
from analysis.studies.human_check.check import (
    AGREED,
    annotator_agreement,
    choose_questions,
    human_counts,
    labelled_items,
    read_labels,
    together,
)
from analysis.studies.human_check.method import people_check
from analysis.studies.human_check.nouns import noun_agreement, noun_summary
from analysis.studies.human_check.sheet import render_sheet
from analysis.studies.opening import opened
from analysis.study import contrasts, indicators
from analysis.tables.objects.objects import observed_images
from analysis.tables.registry import read, write
from probes import command_line
from probes.runs.parts import write_bytes
from probes.runs.store import Run

EXTRA = 8  # objects asked about beside the nouns of a prompt
KEYS = ["sample_id", "triplet", "seed", "indicator"]


def sample(run: Run, out: Path, *, images: int, extra: int, seed: int) -> str:
    """Write ``sheet.html`` into `out`; return what there is to say about it."""
    names = [member.name for member in indicators(run.config) if not member.control]
    questions = choose_questions(
        observed_images(run),
        read(run, "nouns"),
        read(run, "objects"),
        indicators=names,
        images=images,
        extra=extra,
        seed=seed,
    )
    chosen = list(dict.fromkeys(questions["sample_id"]))
    page = render_sheet(questions, dict(zip(chosen, run.images(chosen))), run.config.name)
    path = out / "sheet.html"
    write_bytes(path, page.encode())
    triplets = len(chosen) // len(names)
    return (
        f"{path}: {counted(len(chosen), 'image')} ({counted(triplets, 'triplet')} of {len(names)}), "
        f"{counted(len(questions), 'question')}; open it in a browser, export, then: "
        f"triptych human-check agreement {run.path} labels.csv"
    )


def check(run: Run, files: Sequence[Path]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Write tables ``human_check``, ``human_nouns`` and ``human_counts`` of a run from labels; return the first two.

    The third corrects the objects of the run for what the detector misses, when it is measured again.
    """
    labels = together([read_labels(path, run) for path in files], files[-1])
    samples, nouns, objects = run.samples(KEYS), read(run, "nouns"), read(run, "objects")
    items = labelled_items(labels, samples, nouns, objects)
    if run.config.unit == "seed":
        items = items.assign(prompt=items["seed"])
    options = run.config.measure
    names = [member.name for member in indicators(run.config)]
    table = annotator_agreement(
        items,
        indicators=[name for name in names if name in set(items["indicator"])],
        contrasts=contrasts(run.config),
        level=options.level,
        resamples=options.bootstrap,
        seed=options.seed,
    )
    write(run, "human_check", table)
    of_nouns = noun_agreement(labels, samples, nouns, objects)
    write(run, "human_nouns", of_nouns)
    write(run, "human_counts", human_counts(items, samples, nouns, objects))
    return table, of_nouns


def summary(table: pd.DataFrame) -> str:
    """The main rows of ``human_check`` as lines of text."""
    main = table[(table["object"] == ALL) & (table["quantity"] != "seen")]
    main = main[(main["asked"] == ALL) | (main["indicator"] == ALL)]
    rows = [
        {
            "annotator": row.annotator,
            "quantity": row.quantity,
            "objects": {
                "prompt": "nouns of the prompt",
                "found": "found nearby",
                "other": "found nowhere",
            }.get(row.asked, ALL),
            "images": row.indicator,
            "value": number(row.value),
            "interval": interval(row.low, row.high),
            "bootstrap": interval(row.bootstrap_low, row.bootstrap_high),
            "n": row.n,
            "prompts": row.n_prompts,
            "reason": row.reason,
        }
        for row in main.itertuples()
    ]
    return pd.DataFrame(rows).to_string(index=False)


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(
        prog="triptych human-check", description="Have people check the objects that the detector found."
    )
    which = main.add_subparsers(dest="command", required=True)
    text = "write a page on which people say which objects they see in images of a run"
    sheet = which.add_parser("sample", help=text, description=f"{text.capitalize()}.")
    sheet.add_run("directory of a measured run")
    sheet.add_argument(
        "--images",
        type=command_line.count,
        default=100,
        metavar="N",
        help="largest number of images; triplets stay whole, skills have as many each",
    )
    sheet.add_argument(
        "--objects",
        type=command_line.whole(0, 1000),
        metavar="N",
        help="objects asked about in an image, beside the nouns of its prompt (8), or statements beside that of its"
        " prompt where it asks for a skill (3)",
    )
    sheet.add_seed("the choice of images and objects")
    sheet.add_out(what="folder for sheet.html", required=True)
    text = "compare people's answers with the detector's, and store them in the run"
    read = which.add_parser("agreement", help=text, description=f"{text.capitalize()}.")
    read.add_run("directory of the run that the page was made from")
    read.add_argument(
        "labels", nargs="+", type=Path, help="CSV files that the page exported, one per annotator"
    )
    return main


def work(options: argparse.Namespace) -> None:
    """Run the command with its parsed arguments."""
    if options.command == "sample":
        command_line.writable(options.out, folder=True)
        run = opened(options.run)
        of_method = people_check(run.config)
        if of_method:
            print(of_method.sample(run, options.out, options.images, options.objects, options.seed))
            return
        extra = EXTRA if options.objects is None else options.objects
        print(sample(run, options.out, images=options.images, extra=extra, seed=options.seed))
        return
    run = opened(options.run)
    if of_method := people_check(run.config):
        print(*of_method.agreement(run, options.labels), sep="\n")
        return
    table, of_nouns = check(run, options.labels)
    print(summary(table))
    print(noun_summary(of_nouns))
    if AGREED in set(table["annotator"]):
        print(f"“{AGREED}”: only what every annotator answered, with equal answers")
    print(f"wrote {run.path / 'tables' / 'human_check.csv'}; `--stage report` puts it on the page")

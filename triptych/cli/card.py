"""Say of a model what a run found: ``triptych card RUN`` writes prose for its model card and evaluation records."""

from __future__ import annotations

import argparse

from analysis.export.registry import NOT_STATED, RELATIONSHIPS
from probes import command_line


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    main = command_line.Parser(
        prog="triptych card",
        description="Write what a finished run says of its model: model-card.md (Bias, Risks, and Limitations) and "
        "every-eval-ever.json; on demand results for the Hugging Face Hub. Never a number without interval, noise "
        "floor, smallest effect, words, prompts, reader's error and the hash of the weights.",
        examples={
            "triptych card runs/first-light --organization 'My lab' --relationship third_party": (
                "model-card.md and every-eval-ever.json, in cards/"
            )
        },
    )
    main.add_run("directory of a finished run with two or more words a side")
    main.add_out("cards")
    main.add_argument(
        "--model-id",
        default="",
        metavar="OWNER/NAME",
        help="model as on the Hub (default: as the run names it)",
    )
    main.add_argument("--organization", default=NOT_STATED, metavar="NAME", help="who evaluated")
    main.add_argument(
        "--relationship", choices=RELATIONSHIPS, default="other", help="of the evaluator to the model"
    )
    main.add_argument(
        "--benchmark",
        default="",
        metavar="OWNER/NAME",
        help="dataset of the Hub that is a benchmark: writes .eval_results/triptych.yaml as well (default: none)",
    )
    main.add_argument("--task", default="default", metavar="ID", help="with --benchmark: its task")
    main.add_argument(
        "--url",
        default="",
        metavar="URL",
        help="with --benchmark: address of the run (default: none)",
    )
    main.add_argument(
        "--model-index", action="store_true", help="put the scores into the metadata of model-card.md as well"
    )
    return main


def work(arguments: argparse.Namespace) -> None:
    """Run the command with its parsed arguments."""
    from analysis.export.cards.writing import write_cards

    options = vars(arguments)
    run, out = options.pop("run"), options.pop("out")
    options.pop("stages")
    command_line.writable(out, folder=True)
    for path in write_cards(run, out, **options):
        print(path)

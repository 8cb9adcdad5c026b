"""Compare methods of localisation with benchmark models: ``python -m lab.validate.tracing --models [MODEL ...]``.

Draws what each method needs of each model and stores the numbers of every prompt in ``tracing.json`` beside the page,
model by model, where those of others stay as they are; the page is written from it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.validate.tracing.certificates import PROMPTS, SEEDS, STEPS
from lab.validate.tracing.methods import templates
from lab.validate.tracing.page import page
from lab.validate.tracing.ranking import rank, rank_structure
from probes import command_line
from probes.models import loading
from probes.runs.parts import write_bytes
from probes.toyworld.places import known_places

CAPTIONS, SEED = 12, 1  # of located models
MODELS = (*known_places("located"), *known_places("structures"))


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(prog="python -m lab.validate.tracing", description=__doc__.split("\n\n")[0])
    add = main.add_argument
    add("--models", nargs="+", choices=MODELS, default=[], help="none: only the page is written anew")
    add("--out", type=Path, default=Path("docs/validation/tracing.md"), help="page, beside its tracing.json")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    stored = options.out.with_suffix(".json")
    command_line.writable(options.out)
    results = json.loads(stored.read_text(encoding="utf-8")) if stored.is_file() else {}
    for name in options.models:
        pipe = loading.load(loading.resolve(name), device="cpu").pipe
        pipe.set_progress_bar_config(disable=True)
        if name in known_places("structures"):
            results[name] = rank_structure(pipe, known_places("structures")[name], PROMPTS, SEEDS, STEPS)
        else:
            results[name] = rank(pipe, known_places("located")[name], templates(CAPTIONS, seed=SEED), STEPS)
        results = {one: results[one] for one in MODELS if one in results}
        write_bytes(stored, (json.dumps(results, separators=(",", ":")) + "\n").encode())
        print(name, file=sys.stderr, flush=True)
    write_bytes(options.out, page(results).encode())
    print(options.out)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

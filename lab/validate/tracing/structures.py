"""Hold methods against causal structures: ``python -m lab.validate.tracing.structures [MODEL ...]``.

Draws what each method needs of each structure and stores the numbers of every prompt in ``structures.json`` beside the
page, structure by structure, where those of others stay as they are; the page is written from it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.validate.tracing.certificates import PROMPTS, SEEDS, STEPS
from lab.validate.tracing.options import require_known
from lab.validate.tracing.structure_page import page
from lab.validate.tracing.structure_scores import Trial, as_json, scores
from probes import command_line
from probes.errors import UserError
from probes.models import loading
from probes.runs.parts import write_bytes
from probes.toyworld import STRUCTURES
from probes.toyworld.structures.truth import structures


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.tracing.structures", description=__doc__.split("\n\n")[0]
    )
    main.add_argument(
        "models", nargs="*", help="names (none: only the page is written anew from what is stored)"
    )
    main.add_argument("--prompts", type=command_line.count, default=PROMPTS, help="(default: %(default)s)")
    main.add_argument(
        "--seeds", type=command_line.count, default=SEEDS, help="a prompt (default: %(default)s)"
    )
    main.add_argument(
        "--steps", type=command_line.count, default=STEPS, help="of an image (default: %(default)s)"
    )
    main.add_argument("--out", type=Path, default=Path("docs/validation/structures.md"), help="page to write")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    require_known(options.models, STRUCTURES, "causal structures")
    stored = options.out.with_suffix(".json")
    command_line.writable(options.out)
    results = json.loads(stored.read_text(encoding="utf-8")) if stored.is_file() else {}
    if not (results or options.models):
        raise UserError(
            f"command line: expected causal structures, or results in {stored}, found neither: name a structure"
        )
    for name in options.models:
        pipe = loading.load(loading.resolve(name), device="cpu").pipe
        pipe.set_progress_bar_config(disable=True)
        asked = {"prompts": options.prompts, "seeds": options.seeds, "steps": options.steps}
        trial = Trial.of(pipe, structures()[name], **asked)
        found = scores(trial, lambda text, name=name: print(f"{name}: {text}", file=sys.stderr, flush=True))
        results[name] = {**asked, "sites": list(trial.sites), "methods": as_json(found, options.seeds)}
        results = {one: results[one] for one in STRUCTURES if one in results}
        write_bytes(stored, (json.dumps(results, separators=(",", ":")) + "\n").encode())
    write_bytes(options.out, page(results).encode())
    print(options.out)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

"""Hold methods of localisation against located benchmark models: ``python -m lab.validate.tracing [MODEL ...]``.

Draws what each method needs of each benchmark model and stores the numbers of every prompt in ``tracing.json`` beside
the page, benchmark model by benchmark model, where those of others stay as they are; the page is written from it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.validate.tracing.coverage import templates
from lab.validate.tracing.options import require_known
from lab.validate.tracing.page import page
from lab.validate.tracing.ranking import rank
from probes import command_line
from probes.errors import UserError
from probes.runs.parts import write_bytes
from probes.toyworld.located.truth import located_models

PROMPTS, STEPS, SEED = 12, 5, 1


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(prog="python -m lab.validate.tracing", description=__doc__.split("\n\n")[0])
    main.add_argument(
        "models",
        nargs="*",
        help="names, or `all` (none: only the page is written anew from what is stored)",
    )
    main.add_argument(
        "--prompts",
        type=command_line.count,
        default=PROMPTS,
        help="captions of toyworld (default: %(default)s)",
    )
    main.add_argument(
        "--steps", type=command_line.count, default=STEPS, help="of an image (default: %(default)s)"
    )
    main.add_argument("--out", type=Path, default=Path("docs/validation/tracing.md"), help="page to write")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    chosen = _chosen(options.models)
    stored = options.out.with_suffix(".json")
    command_line.writable(options.out)
    results = json.loads(stored.read_text(encoding="utf-8")) if stored.is_file() else {}
    if not (results or chosen):
        raise UserError(
            f"command line: expected benchmark models, or results in {stored}, found neither: name a benchmark model"
        )
    texts = templates(options.prompts, seed=SEED)
    for name in chosen:
        results[name] = rank(_pipeline(name), located_models()[name], texts, steps=options.steps, say=_say)
        results = {one: results[one] for one in located_models() if one in results}
        write_bytes(stored, (json.dumps(results, separators=(",", ":")) + "\n").encode())
    covered = options.out.with_name("tracing_coverage.json")
    rows = json.loads(covered.read_text(encoding="utf-8")) if covered.is_file() else []
    write_bytes(options.out, page(results, rows).encode())
    print(options.out)


def _chosen(names: Sequence[str]) -> list[str]:
    known = list(located_models())
    if list(names) == ["all"]:
        return known
    require_known(names, known, "located benchmark models", " or `all`")
    return list(dict.fromkeys(names))


def _pipeline(name: str) -> Any:
    from probes.models import loading

    pipe = loading.load(loading.resolve(name), device="cpu").pipe
    pipe.set_progress_bar_config(disable=True)
    return pipe


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

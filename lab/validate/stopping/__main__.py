"""Do audits that stop by themselves keep their promises? ``python -m lab.validate.stopping prompts words …``.

Audits look at their images again and again and stop once the question is answered. They are compared with fixed
designs, with a group-sequential one and with naive peeking, on the same data: in worlds of differences of prompts
(``prompts``), of several seeds a prompt (``seeds``) and of seeds of given prompts (``given``), of vectors of words
(``words``), of paired presence of objects (``objects``), under other questions (``questions``), and in long runs of
benchmark models whose prompts come in random orders (``runs``). ``stakes`` compares other stakes with the project's
own, and ``--fresh`` reads audits of images of their own (`lab.validate.stopping.fresh`). With no part named only the
page and the figure are written anew from ``stopping.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from analysis.methods.stopping.gaps import SequentialGap
from analysis.methods.stopping.question import DIRECTION, INTERVAL, OPEN
from analysis.report.figures import files
from lab.validate.stopping.designs import question
from lab.validate.stopping.fresh import answered_fresh
from lab.validate.stopping.objects import PAIR_WORLDS
from lab.validate.stopping.page import FIGURE, draw_stopping, page
from lab.validate.stopping.pools import MEASURES, ORDERS, configurations, path_of, replayed, stored_pool
from lab.validate.stopping.simulation import (
    ASKED_WORDS,
    GIVEN_WORLDS,
    PROMPT_WORLDS,
    SEED_WORLDS,
    WORD_LEANING,
    WORD_WORLDS,
    WORDS_DELTA,
    of_given,
    of_pairs,
    of_prompts,
    of_question,
    of_seeds,
    of_words,
)
from lab.validate.stopping.stakes import of_stakes
from probes import command_line
from probes.errors import UserError
from probes.runs.parts import write_bytes

PARTS = ("prompts", "seeds", "given", "words", "questions", "objects", "runs", "fresh", "stakes")
SHOWN = ("toyworld-dit", "toyworld-dit-null")  # pools of which the figure shows an audit
FRESH = "fresh"
MEASURED = [part for part in PARTS if part != FRESH]  # what can be named
Result = dict[str, Any]


def measured(part: str, result: Result, audits: int, orders: int) -> Iterator[dict[str, Any]]:
    """Yield the row of each world of a part."""
    if part == "prompts":
        for prompt_world in PROMPT_WORLDS.values():
            yield of_prompts(prompt_world, audits)
    elif part == "seeds":
        for seed_world in SEED_WORLDS.values():
            yield of_seeds(seed_world, audits)
    elif part == "given":
        for given_world in GIVEN_WORLDS.values():
            yield of_given(given_world, audits)
    elif part == "objects":
        for pair_world in PAIR_WORLDS.values():
            yield of_pairs(pair_world, audits)
    elif part == "questions":
        for kind in (DIRECTION, INTERVAL):
            for name in (*PROMPT_WORLDS, *ASKED_WORDS):
                yield of_question(name, kind, audits if name in PROMPT_WORLDS else audits // 5)
    elif part == "stakes":
        yield from of_stakes(result["pools"])
    elif part == "words":
        for world in WORD_WORLDS.values():  # half as many where something leans, which takes longer
            yield of_words(world, audits // 2 if world in WORD_LEANING else audits)
    else:
        for name, pool in result["pools"].items():
            for measure in MEASURES:
                yield replayed(name, pool, measure, orders)


def paths(pools: Result) -> Result:
    """Return the first audit of each pool that the figure shows: what it finds at each look, and where it stops."""
    found = {}
    for name in SHOWN:
        if name in pools:
            looks = path_of(pools[name], "z0", 0)
            asked = question(WORDS_DELTA, looks[-1][0])
            stops = (
                n
                for n, gap, low, high in looks
                if asked.answer(SequentialGap(n, gap, low, high, low, high, 0.0, 0.0)) != OPEN
            )
            found[name] = {"looks": looks, "stopped": next(stops, None)}
    return found


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.stopping",
        description="Compare audits that stop themselves with other designs, and write the page.",
    )
    add = main.add_argument
    add(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"what is measured: {', '.join(MEASURED)} (none: only the page)",
    )
    add(
        "--audits",
        type=command_line.whole(2, 1_000_000),
        default=1000,
        help="of a world (default: %(default)s)",
    )
    add("--orders", type=command_line.count, default=ORDERS, help="of a long run (default: %(default)s)")
    add(
        "--pool",
        nargs="+",
        action="append",
        default=[],
        metavar=("NAME", "RUN"),
        help="a long run, or several of other seeds, by a name of its own (default: those that are stored)",
    )
    add(
        "--fresh",
        type=command_line.file,
        nargs="+",
        default=[],
        metavar="FILE",
        help="audits with images of their own, as lab.validate.stopping.fresh writes them, in place of the stored",
    )
    add(
        "--configure",
        type=command_line.file,
        metavar="WORDS",
        help="only write the configurations of the long runs beside this one, with its words (triplets.yaml)",
    )
    add("--out", type=Path, default=Path("docs/validation/stopping.md"), help="page to write")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    if options.configure:
        for name, one in configurations(yaml.safe_load(options.configure.read_text("utf-8"))).items():
            file = options.configure.with_name(f"{name}.yaml")
            write_bytes(file, yaml.safe_dump(one, sort_keys=False).encode())
            print(file)
        return
    for part in options.parts:
        if part not in MEASURED:
            raise UserError(f"command line: expected {', '.join(MEASURED)}, got {part!r}: name one of them")
    stored = options.out.with_suffix(".json")
    command_line.writable(options.out)
    result = json.loads(stored.read_text("utf-8")) if stored.is_file() else {"pools": {}, "rows": []}
    if options.fresh:
        rows = [answered_fresh(file) for file in options.fresh]
        result["rows"] = in_order([*(row for row in result["rows"] if row["part"] != FRESH), *rows])
    if not (result["rows"] or options.parts):
        raise UserError(f"command line: expected {', '.join(MEASURED)}, or results in {stored}: name a part")
    for name, *runs in options.pool:
        if not runs:
            raise UserError(
                f"--pool {name}: expected a name and finished runs, got a name alone: add a folder"
            )
        result["pools"][name] = stored_pool([Path(run) for run in runs])
    for part in options.parts:
        kept = [row for row in result["rows"] if row["part"] != part]
        new = []
        for row in measured(part, result, options.audits, options.orders):
            new.append(row)
            print(f"{part}: {row['world']}", file=sys.stderr, flush=True)
        result["rows"] = in_order([*kept, *new])
        if part == "runs":
            result["paths"] = paths(result["pools"])
        write_bytes(stored, text_of(result).encode())
    write_bytes(stored, text_of(result).encode())
    write_bytes(options.out, page(result).encode())
    write_bytes(options.out.with_name(f"{FIGURE}.png"), files(draw_stopping(result))[f"{FIGURE}.png"])
    print(options.out)


def in_order(rows: Iterable[Result]) -> list[Result]:
    """Return rows in the order of `PARTS`."""
    return sorted(rows, key=lambda row: PARTS.index(row["part"]))


def text_of(result: Result) -> str:
    """Return what is stored, with one row on each line."""
    fields = [f'"{name}": {json.dumps(result[name])}' for name in result if name != "rows"]
    rows = ",\n".join(json.dumps(row) for row in result["rows"])
    return "{\n" + ",\n".join([*fields, f'"rows": [\n{rows}\n]']) + "\n}\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

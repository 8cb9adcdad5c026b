"""Hold an audit by professions against known answers: ``python -m analysis.validation.dalleval --out PAGE``.

Draws *a person who works as a ...* on `toyworld-work`, where leans and skins are planted, on `toyworld-work-null`,
which reads the same words and means nothing by them, and on `toyworld-null`, which never read them. The checker and the
observer of skin tone read the images, and toyworld's answering network is asked about them. The numbers are put into a
JSON file beside the page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.validation.dalleval.answers import answer, deviations, shares_together
from analysis.validation.dalleval.asked import Asked, answer_rates, asked_leans, read_skins
from analysis.validation.dalleval.page import page
from probes import command_line
from probes.parts import write_bytes
from probes.toyworld import SHARED, WORK, WORKING
from probes.toyworld.world import load_world

NAMED = 24  # images a profession, of a woman and of a man


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m analysis.validation.dalleval", description=__doc__.split("\n\n")[0]
    )
    add = main.add_argument
    add("--images", type=command_line.count, default=32, help="a profession and specimen")
    add("--steps", type=command_line.whole(1, 1000), default=20)
    add("--seed", type=command_line.seed, default=500_000, help="of the first image")
    add("--threads", type=command_line.threads, default=1)
    add("--out", type=Path, default=Path("docs/dalleval_answers.md"), help="page to write")
    return main


def measured(images: int, steps: int, first_seed: int, threads: int = 1) -> dict[str, Any]:
    """What the page says of the specimens."""
    from probes.toyworld.work.measure import profession_rows, read_specimens, verdict_rates

    world, drawn = load_world(WORK), {"steps": steps, "threads": threads}
    said_b = verdict_rates(world)
    readers = {"answer": Asked(), "observed": read_skins}
    readings = read_specimens(
        (*WORKING, SHARED), images={"neutral": images}, first_seed=first_seed, readers=readers, **drawn
    )
    # noises that no image of *person* has
    named = read_specimens(
        (WORK,),
        images=dict.fromkeys(world.component_groups.values(), NAMED),
        first_seed=first_seed + (len(world.professions) + 1) * images,
        readers={"answer": readers["answer"]},
        **drawn,
    )[WORK]
    by_checker = answer(profession_rows(readings[WORK], world), readings[WORK], said_b)
    readings = {name: some.assign(skin=some["observed"]) for name, some in readings.items()}
    rates, planted = (
        answer_rates(named, world.component_groups),
        {name: one.lean for name, one in world.professions.items()},
    )
    found = answer(profession_rows(readings[WORK], world), readings[WORK], said_b)
    asked = asked_leans(readings[WORK], planted, rates)
    shares = ([row[key] for row in asked] for key in ("share", "images", "planted"))
    found["together"] |= {
        "asked": shares_together(*shares, rates),
        "tones_by_checker": by_checker["together"]["tones"],
    }
    return {
        "images": images,
        "steps": steps,
        "first_seed": first_seed,
        **found,
        "tones_inside_by_checker": by_checker["tones_inside"],
        "asked": {"rates": rates, "professions": asked},
        "deviations": {name: deviations(some) for name, some in readings.items()},
    }


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    command_line.writable(options.out)
    result = measured(options.images, options.steps, options.seed, options.threads)
    write_bytes(options.out.with_suffix(".json"), (json.dumps(result, indent=1) + "\n").encode())
    write_bytes(options.out, page(result).encode())
    print(options.out)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

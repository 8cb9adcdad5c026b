"""Hold an audit by professions against known answers: ``python -m lab.validate.dalleval --out PAGE``.

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

import pandas as pd

from lab.train.base.truth import component_groups
from lab.validate.dalleval.answers import deviations
from lab.validate.dalleval.coverage import answers, covered
from lab.validate.dalleval.network_readings import GenderQuestion, answer_rates, read_skins
from lab.validate.dalleval.page import page
from probes import command_line
from probes.runs.parts import write_bytes
from probes.toyworld import SHARED, WORK, WORKING
from probes.toyworld.world import load_world

NAMED = 24  # images a profession, of a woman and of a man


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(prog="python -m lab.validate.dalleval", description=__doc__.split("\n\n")[0])
    add = main.add_argument
    add("--images", type=command_line.count, default=48, help="a profession and benchmark model")
    add("--audits", type=command_line.count, default=5, help="of toyworld-work, each with noises of its own")
    add("--steps", type=command_line.whole_number(1, 1000), default=20)
    add("--seed", type=command_line.seed, default=700_000, help="of the first image of toyworld-work")
    add("--null-seed", type=command_line.seed, default=600_000, help="of the first image of the other two")
    add("--threads", type=command_line.threads, default=1)
    add("--out", type=Path, default=Path("docs/validation/dalleval_answers.md"), help="page to write")
    return main


def measured(
    images: int, steps: int, first_seed: int, null_seed: int, threads: int = 1, audits: int = 1
) -> dict[str, Any]:
    """Return the numbers of the page on benchmark models; `toyworld-work` is audited several times, with other noises.

    Its seeds are to be such as it was not calibrated on (``history`` in its ``recipe.json``).
    """
    from lab.train.work.measure import profession_rows, read_models, verdict_rates

    world, drawn = load_world(WORK), {"steps": steps, "threads": threads}
    readers = {"answer": GenderQuestion(), "observed": read_skins}
    an_audit = (len(world.professions) + 1) * images  # noises
    of_work = [
        read_models(
            (WORK,),
            images={"neutral": images},
            first_seed=first_seed + number * an_audit,
            readers=readers,
            **drawn,
        )[WORK]
        for number in range(audits)
    ]
    others = [name for name in (*WORKING, SHARED) if name != WORK]
    readings = {WORK: of_work[0]} | read_models(
        others, images={"neutral": images}, first_seed=null_seed, readers=readers, **drawn
    )
    # noises that no image of *person* has
    named = read_models(
        (WORK,),
        images=dict.fromkeys(component_groups(world).values(), NAMED),
        first_seed=first_seed + audits * an_audit,
        readers={"answer": readers["answer"]},
        **drawn,
    )[WORK]
    of_verdicts = verdict_rates(world)
    rates = answer_rates(named, component_groups(world), of_verdicts)

    def found(of_audit: pd.DataFrame) -> dict[str, Any]:
        rows = profession_rows(of_audit, world)
        return answers(rows, of_audit, of_verdicts, rates)

    return {
        "images": images,
        "steps": steps,
        "first_seed": first_seed,
        "null_seed": null_seed,
        "audits": [covered(found(one)) for one in of_work],
        "rates": rates,
        **found(pd.concat(of_work)),
        "deviations": {
            name: deviations(some.assign(skin=some["observed"])) for name, some in readings.items()
        },
    }


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    command_line.writable(options.out)
    result = measured(
        options.images, options.steps, options.seed, options.null_seed, options.threads, options.audits
    )
    write_bytes(options.out.with_suffix(".json"), (json.dumps(result, indent=1) + "\n").encode())
    write_bytes(options.out, page(result).encode())
    print(options.out)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

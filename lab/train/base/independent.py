"""Independent sample of a benchmark model's images: ``python -m lab.train.base.independent toyworld --out FILE``.

A sample of fresh prompts, in the form of the papers' and made at random from the toy world's grammar, each drawn with
the three words from one noise and read by the checker. A study's figures, from other prompts and seeds, are held
against it (`lab.validate.models.calibrate --scores`).
"""

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from lab.train.base.captions import article, random_caption
from lab.train.base.measure import add_arguments, load, sample
from probes import command_line
from probes.runs.parts import write_bytes
from probes.toyworld.checker import THINGS, read_images
from probes.toyworld.world import GROUPS, World, load_world

FIRST_SEED = 700_000


def fresh_prompts(world: World, images: int, seed: int = 70_001) -> pd.DataFrame:
    """Prompts at random, each with every group's first word; ``images`` of each group, a noise ``seed`` a triplet."""
    rng, rows = np.random.default_rng(seed), []
    while len(rows) < images * len(GROUPS):
        caption = random_caption(world, rng)[0].removeprefix("a photo of ")
        first, _, *rest = caption.split()
        if first == "two":  # the words stand in the singular
            continue
        triplet = len(rows) // len(GROUPS)
        for group in GROUPS:
            word = world.words(group)[0]
            prompt = " ".join([article(word), word, *rest])
            rows.append(
                {"triplet": triplet, "seed": FIRST_SEED + triplet, "indicator": group, "prompt": prompt}
            )
    return pd.DataFrame(rows)


def independent_sample(pipeline, world: World, images: int, **sampling) -> pd.DataFrame:
    """`fresh_prompts` with what the checker sees: a bool column a thing."""
    table = fresh_prompts(world, images)
    seen = read_images(sample(pipeline, table["prompt"].tolist(), table["seed"].tolist(), **sampling))
    return pd.concat([table, seen[list(THINGS)].reset_index(drop=True)], axis=1)


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.train.base.independent", description=__doc__.split("\n\n")[0]
    )
    add_arguments(main, steps=10)
    main.add_argument("--images", type=command_line.count, default=2000, help="of each indicator")
    main.add_argument("--out", type=Path, required=True, help="Parquet file to write")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    command_line.writable(options.out)
    pipeline, sampling = load(options)
    table = independent_sample(pipeline, load_world(options.model), options.images, **sampling)
    table.attrs = {"model": options.model, **sampling}
    file = io.BytesIO()
    table.to_parquet(file, index=False)
    write_bytes(options.out, file.getvalue())
    print(options.out)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

"""Independent sample of a benchmark model's images: ``python -m lab measure independent toyworld --out FILE``.

A sample of fresh prompts, in the form of the papers' and made at random from the toy world's grammar, each drawn with
the three words from one noise and read by the checker. A study's figures, from other prompts and seeds, are compared
with it (`lab.validate.models.calibrate --scores`).
"""

import io
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import torch

from lab.train.base.captions import article, random_caption
from lab.train.base.measure import benchmark_pipeline, sample
from probes import command_line
from probes.runs.parts import write_bytes
from probes.toyworld import BENCHMARK_MODELS, TRANSFORMERS, WEIGHTS
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


def measure(
    model: Annotated[str, (*BENCHMARK_MODELS, *TRANSFORMERS)],
    *,
    out: Annotated[Path, "Parquet file to write"] = Path("independent.parquet"),
    images: Annotated[int, "of each indicator"] = 2000,
    steps: int = 10,
    threads: int = 1,
) -> None:
    """Write `fresh_prompts` with what the checker sees: a bool column a thing."""
    command_line.writable(out)
    torch.set_num_threads(threads)
    pipeline, scale = benchmark_pipeline(WEIGHTS / model)
    sampling, table = {"steps": steps, "guidance_scale": scale}, fresh_prompts(load_world(model), images)
    seen = read_images(sample(pipeline, table["prompt"].tolist(), table["seed"].tolist(), **sampling))
    table = pd.concat([table, seen[list(THINGS)].reset_index(drop=True)], axis=1)
    table.attrs = {"model": model, **sampling}
    file = io.BytesIO()
    table.to_parquet(file, index=False)
    write_bytes(out, file.getvalue())
    print(out)

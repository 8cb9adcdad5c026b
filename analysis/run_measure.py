"""The measure stage: from stored captures and pictures to ``tables/``. Needs no model and no GPU."""

from __future__ import annotations

import pandas as pd

from analysis.disparity import disparity, gap
from analysis.naming import contrasts, indicators
from analysis.pairs import capture_pairs, concatenate, image_pairs
from probes.store import Run


def measure(run: Run) -> None:
    """Write ``tables/pairs``, ``tables/disparity`` and ``tables/gap`` of a generated run.

    Each is written as CSV and Parquet; the same parts and configuration give the same bytes.

    Raises
    ------
    UserError
        If the run holds no samples, a part is damaged, or its pictures cannot be compared.
    """
    options = run.config["measure"]
    sampling = {"level": options["level"], "resamples": options["bootstrap"], "seed": options["seed"]}
    pairs = pair_table(run)
    run.write_table("pairs", pairs)
    run.write_table("disparity", disparity(pairs, **sampling))
    members = indicators(run.config)
    gaps = gap(
        pairs,
        indicators=[member.name for member in members],
        reference=run.config["reference"],
        contrasts=contrasts(run.config),
        controls=[member.name for member in members if member.control],
        permutations=options["permutations"],
        **sampling,
    )
    run.write_table("gap", gaps)


def pair_table(run: Run) -> pd.DataFrame:
    """Return every similarity that a run holds, with the columns of `analysis.pairs.COLUMNS`.

    A run without captures, such as pictures of a closed model, gives those of its pictures.
    """
    columns = ["sample_id", "triplet", "seed", "indicator"]
    names = [member.name for member in indicators(run.config)]
    tables = [capture_pairs(run.captures())] if run.parts("captures") else []
    return concatenate([*tables, image_pairs(run.samples(columns), run.images, names)])

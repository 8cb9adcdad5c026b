"""The measure stage: from stored captures and pictures to ``tables/``. Needs no model and no GPU."""

from __future__ import annotations

import pandas as pd

from analysis.detector_error import detector_error
from analysis.disparity import disparity, gap
from analysis.naming import contrasts, indicators
from analysis.object_measure import measure_objects
from analysis.pairs import capture_pairs, concatenate, image_pairs
from probes.errors import UserError
from probes.store import Run


def measure(run: Run) -> None:
    """Write ``tables/pairs``, ``tables/disparity`` and ``tables/gap`` of a generated run.

    Where objects were looked for, ``tables/nouns``, ``tables/objects`` and the paper's tables of objects as well
    (`analysis.object_measure`), and where it is known what the detector misses, ``tables/detector_error``. Each is
    written as CSV and Parquet; the same parts and configuration give the same bytes.

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
    deltas = options.get("equivalence") or {}
    unknown = [name for name in deltas if name not in set(pairs["metric"])]
    if unknown:
        known = ", ".join(sorted(set(pairs["metric"])))
        raise UserError(
            f"measure.equivalence: expected metrics of this run ({known}), got `{unknown[0]}`: rename it"
        )
    gaps = gap(
        pairs,
        indicators=[member.name for member in members],
        reference=run.config["reference"],
        contrasts=contrasts(run.config),
        controls={member.name: member.control for member in members if member.control},
        deltas=deltas,
        permutations=options["permutations"],
        **sampling,
    )
    run.write_table("gap", gaps)
    if run.parts("objects"):
        measure_objects(run)
        error = detector_error(run)
        if error is not None:
            run.write_table("detector_error", error)


def pair_table(run: Run) -> pd.DataFrame:
    """Return every similarity that a run holds, with the columns of `analysis.pairs.COLUMNS`.

    A run without captures, such as pictures of a closed model, gives those of its pictures. A picture that cannot be
    read makes no pair.
    """
    columns = ["sample_id", "triplet", "seed", "indicator"]
    names = [member.name for member in indicators(run.config)]
    try:
        tables = [capture_pairs(run.captures())] if run.parts("captures") else []
    except ValueError as error:  # parts made elsewhere may name sites and metrics that there are not
        raise UserError(f"{run.path / 'captures'}: {error}: mend or delete the column") from None
    samples = run.samples(columns)
    readable = samples[~samples["sample_id"].isin(run.unreadable())]
    return concatenate([*tables, image_pairs(readable, run.images, names)])

"""The measure stage: from stored captures and pictures to ``tables/``. Needs no model and no GPU."""

from __future__ import annotations

import pandas as pd

from analysis.detector_error import detector_error
from analysis.disparity import disparity, gap
from analysis.naming import contrasts, headline_metrics, indicators
from analysis.object_measure import measure_objects
from analysis.pairs import capture_pairs, concatenate, image_pairs
from analysis.paper_latex import disparity_table
from analysis.paper_tables import comparison
from probes.errors import UserError
from probes.parts import write_bytes
from probes.store import Run


def measure(run: Run) -> None:
    """Write ``tables/pairs``, ``tables/disparity`` and ``tables/gap`` of a generated run, and the paper's Table 5.

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
    table05 = disparity(pairs, **sampling)
    run.write_table("disparity", table05)
    write_bytes(run.path / "tables" / "table05_disparity.tex", disparity_latex(run.config, table05).encode())
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


def disparity_latex(config: dict, table: pd.DataFrame) -> str:
    """Table 5 of Wu et al. 2025 as LaTeX, from ``tables/disparity``."""
    metrics = headline_metrics(config["measure"]["text_readout"])
    return disparity_table(table, metrics, comparison(config), str(config["model"]), str(config["name"]))


def pair_table(run: Run) -> pd.DataFrame:
    """Return every similarity that a run holds, with the columns of `analysis.pairs.COLUMNS`.

    A run without captures, such as pictures of a closed model, gives those of its pictures. A picture that cannot be
    read makes no pair.
    """
    columns = ["sample_id", "triplet", "seed", "indicator"]
    names = [member.name for member in indicators(run.config)]
    tables = [capture_pairs(run.captures())] if run.parts("captures") else []
    samples = run.samples(columns)
    readable = samples[~samples["sample_id"].isin(run.unreadable())]
    return concatenate([*tables, image_pairs(readable, run.images, names)])

"""The measure stage: from stored captures and pictures to ``tables/``. Needs no model and no GPU."""

from __future__ import annotations

import pandas as pd

from analysis.detector_error import detector_error
from analysis.disparity import SMALLEST_EFFECT, disparity, gap, shares_noise
from analysis.findings import findings_table, summaries
from analysis.naming import contrasts, headline_metrics, indicators
from analysis.object_measure import measure_objects
from analysis.pairs import capture_pairs, concatenate, image_pairs
from analysis.paper_latex import disparity_table
from analysis.paper_tables import comparison
from analysis.tables.agreement import agreement
from analysis.tables.specifications import specifications
from probes.errors import UserError
from probes.store import Run


def measure(run: Run) -> None:
    """Write ``tables/pairs``, ``tables/disparity`` and ``tables/gap`` of a generated run, and what is said of them.

    ``tables/table05_disparity.tex`` is the paper's Table 5. ``tables/specifications`` moves the choices behind the
    headline gaps, ``tables/agreement`` says how far the headline measures say one thing, and ``tables/findings`` holds
    the sentences of the report with what licenses them.
    Where objects were looked for, ``tables/nouns``, ``tables/objects`` and the paper's tables of objects as well
    (`analysis.object_measure`), and where it is known what the detector misses, ``tables/detector_error``. Each is
    written as CSV and Parquet; the same parts and configuration give the same bytes. Tables that an earlier measuring
    wrote and this one does not, such as those of another contrast, are removed.

    Raises
    ------
    UserError
        If the run holds no samples, a part is damaged, or its pictures cannot be compared.
    """
    with run.writing("measure"):
        _measure(run)


def _measure(run: Run) -> None:
    options = run.config["measure"]
    sampling = {"level": options["level"], "resamples": options["bootstrap"], "seed": options["seed"]}
    pairs = pair_table(run)
    run.write_table("pairs", pairs)
    sampling["shared_noise"] = shares_noise(run.config)
    table05 = disparity(pairs, **sampling)
    run.write_table("disparity", table05)
    run.write_file("tables/table05_disparity.tex", disparity_latex(run.config, table05).encode())
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
        smallest_effect=options.get("smallest_effect", SMALLEST_EFFECT),
        permutations=options["permutations"],
        **sampling,
    )
    run.write_table("gap", gaps)
    headline = {
        "indicators": {member.name: member.word for member in members},
        "reference": run.config["reference"],
        "contrasts": contrasts(run.config),
        "text_readout": options["text_readout"],
    }
    controls = {member.name: member.control for member in members if member.control}
    moved = specifications(
        pairs, **headline, controls=controls, level=options["level"], shared_noise=sampling["shared_noise"]
    )
    together = agreement(pairs, **headline)
    run.write_table("specifications", moved)
    run.write_table("agreement", together)
    run.write_table("findings", findings_table(summaries(gaps, moved, together, run.config)))
    if run.parts("objects") and run.config.get("observe", {}).get("objects", True):
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
    try:
        tables = [capture_pairs(run.captures())] if run.parts("captures") else []
    except ValueError as error:  # parts made elsewhere may name sites and metrics that there are not
        raise UserError(f"{run.path / 'captures'}: {error}: mend or delete the column") from None
    samples = run.samples(columns)
    readable = samples[~samples["sample_id"].isin(run.unreadable())]
    return concatenate([*tables, image_pairs(readable, run.images, names)])

"""The measure stage: from stored captures and pictures to ``tables/``. Needs no model and no GPU."""

from __future__ import annotations

import pandas as pd

from analysis.study import contrasts, indicators
from analysis.tables.agreement import agreement
from analysis.tables.detector_error import detector_error
from analysis.tables.disparity import SMALLEST_EFFECT, disparity, gap, shares_noise
from analysis.tables.objects import measure_objects
from analysis.tables.similarities import capture_pairs, concatenate, image_pairs
from analysis.tables.specifications import specifications
from probes.errors import UserError
from probes.store import Run


def measure(run: Run) -> None:
    """Write ``tables/pairs``, ``tables/disparity`` and ``tables/gap`` of a generated run.

    ``tables/specifications`` moves the choices behind the headline gaps, and ``tables/agreement`` says how far the
    headline measures say one thing. The sentences of the report and the LaTeX are the report stage's
    (`analysis.report.page`); those of an earlier measuring are removed.
    Where objects were looked for, ``tables/nouns``, ``tables/objects`` and the paper's tables of objects as well
    (`analysis.tables.objects`), and where it is known what the detector misses, ``tables/detector_error``. Each is
    written as CSV and Parquet; the same parts and configuration give the same bytes. Tables that an earlier measuring
    wrote and this one does not, such as those of another contrast, are removed.

    Raises
    ------
    UserError
        If the run holds no samples, a part is damaged, or its pictures cannot be compared.
    """
    with run.writing("measure"):
        _measure(run)
        for name in run.written("report"):
            if name.startswith("tables/"):  # made of the tables before these
                run.remove_file(name)


def _measure(run: Run) -> None:
    options = run.config["measure"]
    sampling = {"level": options["level"], "resamples": options["bootstrap"], "seed": options["seed"]}
    pairs = pair_table(run)
    run.write_table("pairs", pairs)
    sampling["shared_noise"] = shares_noise(run.config)
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
    if run.parts("objects") and run.config.get("observe", {}).get("objects", True):
        measure_objects(run)
        error = detector_error(run)
        if error is not None:
            run.write_table("detector_error", error)


def pair_table(run: Run) -> pd.DataFrame:
    """Return every similarity that a run holds, with the columns of `analysis.tables.similarities.COLUMNS`.

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

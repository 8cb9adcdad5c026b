"""The measure stage: from stored captures and pictures to ``tables/``. Needs no model and no GPU."""

from __future__ import annotations

import pandas as pd

from analysis.study import contrasts, indicators
from analysis.tables.agreement import agreement
from analysis.tables.disparity import DISPARITY_COLUMNS, family_disparity
from analysis.tables.families import shares_noise, stacked
from analysis.tables.gap import GAP_COLUMNS, GapChoices, family_gap
from analysis.tables.objects import measure_objects
from analysis.tables.registry import write
from analysis.tables.specifications import specifications
from analysis.tables.stored_similarities import (
    IMAGE_TABLE,
    TIMESTEP_TABLE,
    StoredSimilarities,
    image_similarities,
)
from probes.errors import UserError
from probes.store import Run


def measure(run: Run) -> None:
    """Write ``tables/disparity`` and ``tables/gap`` of a generated run, from matrices of one family at a time.

    ``tables/specifications`` moves the choices behind the headline gaps, and ``tables/agreement`` says how far the
    headline measures say one thing. The sentences of the report and the LaTeX are the report stage's
    (`analysis.report.page`); those of an earlier measuring are removed.
    ``tables/image_similarities`` keeps the similarities of the pictures for later stages, as Parquet alone, and
    ``tables/timesteps`` the timestep of each step.
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
    options = run.config.measure
    sampling = {"level": options.level, "resamples": options.bootstrap, "seed": options.seed}
    sampling["shared_noise"] = shares_noise(run.config)
    images = picture_table(run)
    pairs = StoredSimilarities(run, images)
    write(run, IMAGE_TABLE, images)
    times = {"step": list(pairs.timesteps), "timestep": list(pairs.timesteps.values())}
    write(run, TIMESTEP_TABLE, pd.DataFrame(times).astype({"step": "int32", "timestep": "float32"}))
    members = indicators(run.config)
    controls = {member.name: member.control for member in members if member.control}
    choices = GapChoices(
        indicators=[member.name for member in members],
        reference=run.config.reference,
        contrasts=contrasts(run.config),
        controls=controls,
        deltas=_deltas(options.equivalence, pairs.metrics),
        smallest_effect=options.smallest_effect,
        permutations=options.permutations,
        **sampling,
    )
    means, gaps = [], []
    for family in pairs.families():  # one in memory at a time
        means.append(family_disparity(family, **sampling))
        gaps.append(family_gap(family, choices))
    write(run, "disparity", stacked(means, DISPARITY_COLUMNS))
    write(run, "gap", stacked(gaps, GAP_COLUMNS))
    headline = {
        "indicators": {member.name: member.word for member in members},
        "reference": run.config.reference,
        "contrasts": contrasts(run.config),
        "text_readout": options.text_readout,
    }
    moved = specifications(
        pairs, **headline, controls=controls, level=options.level, shared_noise=sampling["shared_noise"]
    )
    write(run, "specifications", moved)
    write(run, "agreement", agreement(pairs, **headline))
    if run.parts("objects") and run.config.observe.objects:
        measure_objects(run)


def _deltas(deltas: dict[str, float], metrics: list[str]) -> dict[str, float]:
    """The differences δ of the configuration, once each is of a metric of the run."""
    unknown = [name for name in deltas if name not in metrics]
    if unknown:
        raise UserError(
            f"measure.equivalence: expected metrics of this run ({', '.join(metrics)}), got `{unknown[0]}`: rename it"
        )
    return deltas


def picture_table(run: Run) -> pd.DataFrame:
    """Return the similarities of a run's pictures, see `image_similarities`; an unreadable picture makes no pair."""
    samples = run.samples(["sample_id", "triplet", "seed", "indicator"])
    readable = samples[~samples["sample_id"].isin(run.unreadable())]
    return image_similarities(readable, run.images, [member.name for member in indicators(run.config)])

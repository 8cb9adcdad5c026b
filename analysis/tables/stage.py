"""The measure stage: from stored captures and pictures to ``tables/``. Needs no model and no GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from itertools import islice

import pandas as pd

from analysis.metrics.registry import computed_from, require_primary
from analysis.study import contrasts, indicators
from analysis.tables.method import measured_methods
from analysis.tables.not_measured import not_measured
from analysis.tables.object_shares import joined, object_shares
from analysis.tables.object_tables import Objects, measure_objects
from analysis.tables.objects.detector_error import Checked, checked_images
from analysis.tables.prompts import prompt_table
from analysis.tables.registry import write, write_method
from analysis.tables.sharing import Piece, Sharing, cut
from analysis.tables.similarities.agreement import agreement
from analysis.tables.similarities.disparity import DISPARITY_COLUMNS, family_disparity
from analysis.tables.similarities.families import shares_noise, stacked
from analysis.tables.similarities.gap import GAP_COLUMNS, GapChoices, GapColumns, gap_columns, joined_gap
from analysis.tables.similarities.gap_prompts import gap_prompts
from analysis.tables.similarities.pictures import (
    IMAGE_TABLE,
    feature_similarities,
    image_similarities,
    part_names,
    stored_features,
    with_features,
)
from analysis.tables.similarities.specifications import specifications
from analysis.tables.similarities.stored import TIMESTEP_TABLE, FamilyPlan, StoredSimilarities
from analysis.tables.spec import method_specs
from probes.errors import UserError
from probes.execution.processes import Helpers
from probes.runs.run import Run

SHARES, PICTURE_SHARES = 4, 24  # of a family with steps, and of the pictures; no result depends on them


def measure(run: Run, *, helpers: Helpers | None = None, processes: int = 1) -> None:
    """Write ``tables/disparity`` and ``tables/gap`` of a generated run, from matrices of one family at a time.

    ``tables/gap_prompts`` holds the headline gaps of each triplet, ``tables/specifications`` moves the choices behind
    them, and ``tables/agreement`` says how far the headline measures say one thing. The sentences of the report and the
    LaTeX are the report stage's (`analysis.report.page`); those of an earlier measuring are removed.
    ``tables/image_similarities`` keeps the similarities of the pictures for later stages, as Parquet alone, and
    ``tables/timesteps`` the timestep of each step. Where objects were looked for, ``tables/nouns``, ``tables/objects``
    and the paper's tables of objects as well (`analysis.tables.object_tables`). Where it is known what the detector
    misses, ``tables/detector_error``. Then come the tables of the methods that the run holds something of
    (`analysis.methods.registry`); of a run that is of one method alone there are that method's and no others. Of a run
    of one indicator nothing is compared: ``tables/not_measured`` names what it lacks. Each is written as CSV and
    Parquet; the same parts and configuration give the same bytes. Tables that an earlier measuring wrote and this one
    does not, such as those of another contrast, are removed.
    """
    with contextlib.ExitStack() as stack, run.writing("measure"):
        helpers = helpers or stack.enter_context(Helpers())
        _measure(run, Sharing(run, helpers, processes))
        for name in run.written("report"):
            if name.startswith("tables/"):  # made of the tables before these
                run.remove_files([name])


def _measure(run: Run, sharing: Sharing) -> None:
    specs = method_specs()
    for spec in specs:
        if spec.inputs and spec.alone and spec.alone(run.config):
            write_method(run, spec, spec.inputs(run, sharing, None))
            return
    specs = [spec for spec in specs if not spec.alone]
    methods = measured_methods()
    for method in methods:
        if method.alone and method.measure and method.alone(run.config):
            method.measure(run, sharing, None)
            return
    beside = [method for method in methods if not method.alone]
    for method in (*beside, *specs):
        if method.require:
            method.require(run)
    if (absent := not_measured(run.config)) is not None:
        write(run, "not_measured", absent)
    if (named := prompt_table(run.config)) is not None:
        write(run, "prompts", named)
    if run.config.compares:
        objects = _pairs(run, sharing)
    else:
        objects = _image_similarities(sharing, _looked_for(run), [])[1]
    if objects:
        measure_objects(run, sharing, objects)
    for method in beside:
        if method.measure:
            method.measure(run, sharing, objects[1] if objects else None)
    for spec in specs:
        if spec.inputs:
            write_method(run, spec, spec.inputs(run, sharing, objects[1] if objects else None))


def _looked_for(run: Run) -> bool:
    return bool(run.parts("objects")) and run.config.observe.objects


def _pairs(run: Run, sharing: Sharing) -> tuple[Objects, Checked] | None:
    """Write the tables of images that are compared; gives their objects, where these were looked for."""
    options = run.config.measure
    primary = require_primary(options.primary, "measure.primary", opened=run.config.images is None)
    if primary.needs == "features" and not run.parts(f"features/{primary.metric}"):
        raise UserError(
            f"measure.primary: expected a measure that {run.path} holds, got {options.primary!r}, of which it holds no"
            " features: choose another, or run --stage observe where its weights are"
        )
    sampling = {"level": options.level, "resamples": options.bootstrap, "seed": options.seed}
    sampling["shared_noise"] = shares_noise(run.config)
    samples = run.samples(["sample_id", "triplet", "seed", "indicator", "prompt_id", "fault"])
    images, objects = _image_similarities(sharing, _looked_for(run), picture_shares(run, samples))
    images = with_features(images, _features(sharing))
    single = StoredSimilarities(run, images, samples)
    pairs = single.by_unit()
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
    headline = {
        "indicators": {member.name: member.word for member in members},
        "reference": run.config.reference,
        "contrasts": contrasts(run.config),
        "text_readout": options.text_readout,
    }
    plans = [plan.shares(SHARES) for plan in pairs.plans()]
    families = [Piece(_columns, (pairs.only_for(share), share, choices)) for plan in plans for share in plan]
    moved = headline | {"level": options.level, "controls": controls, "shared_noise": choices.shared_noise}
    of_prompts = headline | {"prompt_ids": dict(zip(samples["triplet"], samples["prompt_id"]))}
    of_prompts |= {"indicators": choices.indicators, "each_seed": run.config.unit == "seed"}
    others = [
        Piece(specifications, (pairs.apart(),), moved),
        Piece(agreement, (pairs.apart(),), headline),
        Piece(gap_prompts, (single.apart(),), of_prompts),
    ]
    *found, moved, agreed, by_prompt = sharing.results([*families, *others])
    means, gaps = _joined(found, plans)
    write(run, "disparity", stacked(means, DISPARITY_COLUMNS))
    write(run, "gap", stacked(gaps, GAP_COLUMNS))
    write(run, "gap_prompts", by_prompt)
    write(run, "specifications", moved)
    write(run, "agreement", agreed)
    return objects


Columns = tuple[pd.DataFrame, GapColumns]


def _columns(pairs: StoredSimilarities, plan: FamilyPlan, choices: GapChoices) -> Columns | None:
    """Rows of ``disparity`` and columns of ``gap`` of a family, or of a share of one; None where it has no value."""
    family = pairs.read(plan)
    if family is None:
        return None
    means = family_disparity(family, shared_noise=choices.shared_noise, **choices.sampling)
    return means, gap_columns(family, choices)


def _joined(
    found: Sequence[Columns | None], plans: Sequence[Sequence[FamilyPlan]]
) -> tuple[list[pd.DataFrame], list[pd.DataFrame]]:
    """Both tables of each family from those of its shares."""
    means, gaps, shares = [], [], iter(found)
    for plan in plans:
        there = [share for share in islice(shares, len(plan)) if share is not None]
        if there:
            means += [mean for mean, _ in there]
            gaps.append(joined_gap([columns for _, columns in there]))
    return means, gaps


def _deltas(deltas: dict[str, float], metrics: list[str]) -> dict[str, float]:
    """The differences δ of the configuration, once each is of a metric of the run."""
    unknown = [name for name in deltas if name not in metrics]
    if unknown:
        raise UserError(
            f"measure.equivalence: expected metrics of this run ({', '.join(metrics)}), got `{unknown[0]}`: rename it"
        )
    return deltas


def _image_similarities(
    sharing: Sharing, looked_for: bool, pictures: list[Piece]
) -> tuple[pd.DataFrame, tuple[Objects, Checked] | None]:
    """The similarities of the pictures and, where objects were looked for, these with what the checker sees."""
    if not looked_for:
        return pd.concat(sharing.results(pictures), ignore_index=True) if pictures else pd.DataFrame(), None
    checker, *others = sharing.results(
        [Piece(checked_images, of_run=True), *pictures, *object_shares(sharing.run)]
    )
    images = pd.concat(others[: len(pictures)], ignore_index=True) if pictures else pd.DataFrame()
    return images, (joined(sharing.run, others[len(pictures) :]), checker)


def _features(sharing: Sharing) -> list[pd.DataFrame]:
    """Return the similarity of the images of a run by each feature that it holds."""
    run = sharing.run
    names, words = stored_features(run), [member.name for member in indicators(run.config)]
    pieces = [
        [Piece(feature_similarities, (name, number, words), of_run=True) for number in part_names(run, name)]
        for name in names
    ]
    made = iter(sharing.results([piece for of_one in pieces for piece in of_one]))
    return [pd.concat(islice(made, len(of_one)), ignore_index=True) for of_one in pieces]


def picture_shares(run: Run, samples: pd.DataFrame) -> list[Piece]:
    """Cut the comparison of a run's pictures by triplets and seeds; at least one share, which may be empty.

    Pictures that no seed pairs are not compared.
    """
    samples, left_out = samples[["sample_id", "triplet", "seed", "indicator"]], run.left_out()
    if run.config.images is not None and not run.config.paired:
        samples = samples.iloc[:0]
    group = samples.groupby(["triplet", "seed"], sort=False).ngroup().to_numpy()
    names = [member.name for member in indicators(run.config)]
    metrics = computed_from("pictures", run.config.measure.pictures)
    shares = cut(int(group.max(initial=-1)) + 1, PICTURE_SHARES) or [slice(0, 0)]
    return [
        Piece(
            _compared,
            (samples[(group >= share.start) & (group < share.stop)], names, metrics, left_out),
            of_run=True,
        )
        for share in shares
    ]


def _compared(
    run: Run,
    samples: pd.DataFrame,
    names: Sequence[str],
    metrics: Sequence[str],
    left_out: Mapping[str, str],
) -> pd.DataFrame:
    return image_similarities(samples, run.images, names, metrics, left_out)

"""The measure stage: from stored captures and pictures to ``tables/``. Needs no model and no GPU."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.metrics.registry import computed_from, require_primary
from analysis.study import contrasts, indicators
from analysis.tables.not_measured import not_measured
from analysis.tables.object_tables import (
    ObservedObjects,
    joined_objects,
    measure_objects,
    object_calls,
    similarity_rows,
)
from analysis.tables.objects.detector_error import Checked, checked_images
from analysis.tables.objects.left_open import prompts_alone
from analysis.tables.prompts import prompt_table
from analysis.tables.registry import TABLES, write, write_method
from analysis.tables.sharing import Call, Sharing, cut
from analysis.tables.similarities.gap import GapChoices, adjusted_gap, disparity, gap_rows
from analysis.tables.similarities.headline import headline_places, headline_tables
from analysis.tables.similarities.pictures import (
    IMAGE_TABLE,
    feature_similarities,
    image_similarities,
    part_names,
    stored_features,
    with_features,
)
from analysis.tables.similarities.similarities import Similarities, from_table, shares_noise
from analysis.tables.similarities.stored import TIMESTEP_TABLE, Key, StoredSimilarities
from analysis.tables.similarities.word_gap import adjusted_words, word_rows
from analysis.tables.spec import method_specs
from hooks.architectures.addresses import has_steps
from probes.errors import UserError
from probes.execution.processes import Helpers
from probes.runs.run import Run

SITE_SHARES, PICTURE_SHARES = 8, 24  # no result depends on them


def measure(run: Run, *, helpers: Helpers | None = None, processes: int = 1) -> None:
    """Write the result tables of a generated run, as `analysis.tables.registry` describes them.

    Each is written as CSV and Parquet, those that grow with the pictures as Parquet alone; the same parts and
    configuration give the same bytes. Tables of objects are there where objects were looked for, those of a method
    where the run holds something of it; of a run that is of one method alone there are that method's and no others. Of
    a run of one indicator nothing is compared: ``tables/not_measured`` names what it lacks. The sentences of the report
    and the LaTeX are the report stage's (`analysis.report.page`); those of an earlier measuring are removed, as are its
    tables that this one does not write.
    """
    with contextlib.ExitStack() as stack, run.writing("measure"):
        helpers = helpers or stack.enter_context(Helpers())
        _measure(run, Sharing(run, helpers, processes))
        for name in run.written("report"):
            if name.startswith("tables/"):  # made of the tables before these
                run.remove_files([name])


def _measure(run: Run, sharing: Sharing) -> None:
    methods = method_specs()
    if (absent := not_measured(run.config)) is not None:
        write(run, "not_measured", absent)
    for method in methods:
        if method.inputs and method.alone and method.alone(run.config):
            write_method(run, method, method.inputs(run, sharing, None))
            return
    methods = [method for method in methods if not method.alone]
    for method in methods:
        if method.require:
            method.require(run)
    if (named := prompt_table(run.config)) is not None:
        write(run, "prompts", named)
    objects, checked = _compared(run, sharing) if run.config.compares else _looked_at(sharing, [])[1:]
    if objects:
        measure_objects(sharing, objects, checked)
    for method in methods:
        if method.inputs:
            write_method(run, method, method.inputs(run, sharing, checked))


def _looked_at(
    sharing: Sharing, pictures: list[Call]
) -> tuple[pd.DataFrame, ObservedObjects | None, Checked | None]:
    """The similarities of the pictures and, where objects were looked for, these and what the checker sees."""
    run = sharing.run
    found = object_calls(run) if run.parts("objects") and run.config.observe.objects else []
    results = sharing.results([*([(checked_images,)] if found else []), *pictures, *found])
    checked = results.pop(0) if found else None
    images = pd.concat(results[: len(pictures)], ignore_index=True) if pictures else pd.DataFrame()
    return images, joined_objects(results[len(pictures) :]) if found else None, checked


def _compared(run: Run, sharing: Sharing) -> tuple[ObservedObjects | None, Checked | None]:
    """Write the tables of images that are compared; give their objects, if looked for, and what the checker sees."""
    options, members = run.config.measure, indicators(run.config)
    primary = require_primary(options.primary, "measure.primary", opened=run.config.images is None)
    if primary.needs == "features" and not run.parts(f"features/{primary.metric}"):
        raise UserError(
            f"measure.primary: expected a measure that {run.path} holds, got {options.primary!r}, of which it holds no"
            " features: choose another, or run --stage observe where its weights are"
        )
    samples = run.samples(["sample_id", "triplet", "seed", "indicator", "prompt_id", "fault"])
    images, objects, checked = _looked_at(sharing, picture_calls(run, samples))
    images = with_features(images, _features(sharing))
    stored = StoredSimilarities(run, images, samples)
    write(run, IMAGE_TABLE, images)
    times = {"step": list(stored.timesteps), "timestep": list(stored.timesteps.values())}
    write(run, TIMESTEP_TABLE, pd.DataFrame(times).astype({"step": "int32", "timestep": "float32"}))
    metrics = sorted({metric for _, _, metric in stored.keys})
    if unknown := [name for name in options.equivalence if name not in metrics]:
        raise UserError(
            f"measure.equivalence: expected metrics of this run ({', '.join(metrics)}), got `{unknown[0]}`: rename it"
        )
    choices = GapChoices(
        indicators=[member.name for member in members],
        reference=run.config.reference,
        contrasts=contrasts(run.config),
        controls={member.name: member.control for member in members if member.control},
        deltas=options.equivalence,
        smallest_effect=options.smallest_effect,
        shared_noise=shares_noise(run.config),
        level=options.level,
        resamples=options.bootstrap,
        permutations=options.permutations,
        seed=options.seed,
    )
    prompt_ids = dict(zip(samples["triplet"], samples["prompt_id"]))
    headline, *shares = sharing.results(
        [
            (_headline, stored, choices, prompt_ids),
            *((_stored_tables, stored, keys, choices) for keys in _site_shares(stored.keys)),
        ]
    )
    found = [tables for share in shares for tables in share]
    pairs = similarity_rows(run.config, objects) if objects and not prompts_alone(run) else pd.DataFrame()
    counted = from_table(pairs) if len(pairs) else []
    found += [family_tables(family.over_units(run.config), choices) for family in counted]
    for name, table in (joined_tables(found) | headline).items():
        write(run, name, table)
    return objects, checked


def _site_shares(keys: Sequence[Key]) -> list[list[Key]]:
    """Cut what is stored into sites that are read and tested together; last, metrics of no site with steps."""
    stepped = {(space, metric) for space, site, metric in keys if has_steps(site)}
    ordered = sorted(keys, key=lambda key: (key[0], key[2]) not in stepped)
    return [ordered[part] for part in cut(len(ordered), SITE_SHARES)]


def _headline(
    run: Run, stored: StoredSimilarities, choices: GapChoices, prompt_ids: Mapping[int, str]
) -> dict[str, pd.DataFrame]:
    families = stored.families(headline_places(run.config.measure.text_readout))
    return headline_tables(families, choices, run.config, prompt_ids)


FamilyTables = tuple[
    pd.DataFrame, list[tuple], list[pd.DataFrame]
]  # disparity; `gap_rows`, `word_rows` by contrast


def _stored_tables(
    run: Run, stored: StoredSimilarities, keys: Collection[Key], choices: GapChoices
) -> list[FamilyTables]:
    return [family_tables(family.over_units(run.config), choices) for family in stored.families(keys)]


def family_tables(family: Similarities, choices: GapChoices) -> FamilyTables:
    """Return what the tables say of one metric in one space, before p-values are adjusted over its sites."""
    gaps, words = (
        [rows(family, contrast, choices) for contrast in choices.contrasts] for rows in (gap_rows, word_rows)
    )
    return disparity(family, choices), gaps, words


def joined_tables(found: Sequence[FamilyTables]) -> dict[str, pd.DataFrame]:
    """Return ``disparity``, ``gap``, ``equivalence`` and ``word_gap`` with p-values adjusted over sites."""
    families: dict[tuple[str, str], list[FamilyTables]] = defaultdict(list)
    for share in found:
        families[tuple(share[0].iloc[0][["space", "metric"]])].append(share)
    tables = {name: [] for name in ("disparity", "gap", "equivalence", "word_gap")}
    for shares in families.values():
        disparities, gaps, words = zip(*shares)
        tables["disparity"] += disparities
        tables["word_gap"] += [adjusted_words(of_contrast) for of_contrast in zip(*words)]
        for of_contrast in zip(*gaps):
            gap, equivalence, flips = zip(*of_contrast)
            tables["gap"].append(adjusted_gap(gap, flips))
            tables["equivalence"] += equivalence
    none = {name: pd.DataFrame(columns=list(TABLES[name].columns)) for name in tables}
    return {name: pd.concat(own, ignore_index=True) if own else none[name] for name, own in tables.items()}


def _features(sharing: Sharing) -> list[pd.DataFrame]:
    """Return the similarity of the images of a run by each feature that it holds."""
    run, words = sharing.run, [member.name for member in indicators(sharing.run.config)]
    names = [(name, number) for name in stored_features(run) for number in part_names(run, name)]
    made = sharing.results([(feature_similarities, name, number, words) for name, number in names])
    tables: dict[str, list[pd.DataFrame]] = defaultdict(list)
    for (name, _), table in zip(names, made):
        tables[name].append(table)
    return [pd.concat(own, ignore_index=True) for own in tables.values()]


def picture_calls(run: Run, samples: pd.DataFrame) -> list[Call]:
    """Cut the comparison of a run's pictures by triplets and seeds; at least one call, which may be empty.

    Pictures that no seed pairs are not compared.
    """
    samples, left_out = samples[["sample_id", "triplet", "seed", "indicator"]], run.left_out()
    if run.config.images is not None and not run.config.paired:
        samples = samples.iloc[:0]
    group = samples.groupby(["triplet", "seed"], sort=False).ngroup().to_numpy()
    names = [member.name for member in indicators(run.config)]
    metrics = computed_from("pictures", run.config.measure.pictures)
    return [
        (compared_pictures, samples[(group >= part.start) & (group < part.stop)], names, metrics, left_out)
        for part in cut(int(group.max(initial=-1)) + 1, PICTURE_SHARES) or [slice(0, 0)]
    ]


def compared_pictures(run: Run, samples: pd.DataFrame, *options: Any) -> pd.DataFrame:
    """Return `image_similarities` of some samples of a run."""
    return image_similarities(samples, run.images, *options)

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
from analysis.tables.objects.looked_for import prompts_alone
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

SITE_SHARES, PICTURE_SHARES = 4, 24  # of a metric with steps, and of the pictures; no result depends on them


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
    for method in methods:
        if method.inputs and method.alone and method.alone(run.config):
            write_method(run, method, method.inputs(run, sharing, None))
            return
    methods = [method for method in methods if not method.alone]
    for method in methods:
        if method.require:
            method.require(run)
    if (absent := not_measured(run.config)) is not None:
        write(run, "not_measured", absent)
    if (named := prompt_table(run.config)) is not None:
        write(run, "prompts", named)
    if run.config.compares:
        objects, checked, pairs = _compared(run, sharing)
    else:
        (_, objects, checked), pairs = _looked_at(sharing, []), pd.DataFrame()
    if objects:
        measure_objects(sharing, objects, checked, pairs)
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


def _compared(run: Run, sharing: Sharing) -> tuple[ObservedObjects | None, Checked | None, pd.DataFrame]:
    """Write the tables of images that are compared.

    Gives their objects, where these were looked for, what the checker sees, and how similar the objects of pairs are.
    """
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
    pairs = similarity_rows(run.config, objects) if objects else pd.DataFrame()
    counted = [] if pairs.empty or prompts_alone(run) else from_table(pairs)
    counted = [family.over_units(run.config) for family in counted]
    prompt_ids = dict(zip(samples["triplet"], samples["prompt_id"]))
    *shares, rest = _site_shares(stored.keys)
    (headline, of_rest), *found = sharing.results(
        [
            (_headline_and_rest, stored, rest, choices, prompt_ids),
            *((_stored_tables, stored, keys, choices) for keys in shares),
        ]
    )
    found = [tables for some in (*found, of_rest) for tables in some]
    found += [family_tables(family, choices) for family in counted]
    for name, table in (joined_tables(found) | headline).items():
        write(run, name, table)
    return objects, checked, pairs


FamilyTables = dict[str, list]  # disparity; of every contrast gap, its sign flips, equivalence and word_gap


def _site_shares(keys: Sequence[Key]) -> list[list[Key]]:
    """What is read and tested together: some sites of a metric with steps, which are many; last, all without steps."""
    places: dict[tuple[str, str], list[Key]] = {}
    for key in keys:
        places.setdefault((key[0], key[2]), []).append(key)
    shares, rest = [], []
    for own in places.values():
        if any(has_steps(site) for _, site, _ in own):
            shares += [own[part] for part in cut(len(own), SITE_SHARES)]
        else:
            rest += own
    return [*shares, rest]


def _stored_tables(
    run: Run, stored: StoredSimilarities, keys: Collection[Key], choices: GapChoices
) -> list[FamilyTables]:
    return [family_tables(family.over_units(run.config), choices) for family in stored.families(keys)]


def _headline_and_rest(
    run: Run,
    stored: StoredSimilarities,
    keys: Collection[Key],
    choices: GapChoices,
    prompt_ids: Mapping[int, str],
) -> tuple[dict[str, pd.DataFrame], list[FamilyTables]]:
    """The tables of the headline measures, and what the others say of sites without steps, from one reading."""
    places = headline_places(run.config.measure.text_readout)
    families = stored.families({*keys, *places})
    own = [one for one in families if (one.space, one.columns["site"][0], one.metric) in keys]
    tables = [family_tables(family.over_units(run.config), choices) for family in own]
    return headline_tables(families, choices, run.config, prompt_ids), tables


def family_tables(family: Similarities, choices: GapChoices) -> FamilyTables:
    """Return what the tables say of one metric in one space, before p-values are adjusted over its sites."""
    tables: FamilyTables = {"disparity": [disparity(family, choices)], "words": []}
    tables |= {"gap": [], "flips": [], "equivalence": []}
    for contrast in choices.contrasts:
        for name, found in zip(("gap", "equivalence", "flips"), gap_rows(family, contrast, choices)):
            tables[name].append(found)
        tables["words"].append(word_rows(family, contrast, choices))
    return tables


def joined_tables(found: Sequence[FamilyTables]) -> dict[str, pd.DataFrame]:
    """Return ``disparity``, ``gap``, ``equivalence`` and ``word_gap`` with p-values adjusted over sites."""
    families: dict[tuple[str, str], list[FamilyTables]] = {}
    for tables in found:
        place = tables["disparity"][0].iloc[0]
        families.setdefault((place["space"], place["metric"]), []).append(tables)
    tables = {name: [] for name in ("disparity", "gap", "equivalence", "word_gap")}
    for shares in families.values():
        tables["disparity"] += [share["disparity"][0] for share in shares]
        for contrast in range(len(shares[0]["gap"])):
            gap, flips, words = (
                [share[name][contrast] for share in shares] for name in ("gap", "flips", "words")
            )
            tables["gap"].append(adjusted_gap(gap, flips))
            tables["word_gap"].append(adjusted_words(words))
            tables["equivalence"] += [share["equivalence"][contrast] for share in shares]
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

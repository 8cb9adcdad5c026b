"""Objects in the measure stage: nouns, dependency groups and the paper's tables of an observed run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from analysis.metrics.cooccurrence import (
    ALL,
    INCLUDED,
    LEFT_OUT,
    amounts,
    cooccurrence,
    counted,
    presence,
)
from analysis.metrics.dependency import dependency_groups
from analysis.stats.object_counts import ObjectTable
from analysis.study import comparison, indicators
from analysis.tables.objects.claims import DetectorCounts, claim_table, sides_of
from analysis.tables.objects.detector_error import Checked, count_errors, detector_error, is_checker
from analysis.tables.objects.left_open import leave_open, leave_untested, prompts_alone
from analysis.tables.objects.nouns import PROMPT_COLUMNS, noun_table
from analysis.tables.objects.statistics import object_statistics, table_statistics
from analysis.tables.objects.wu import (
    OBJECT_SITES,
    chi_square,
    figure_objects,
    figure_scores,
    similarity_pairs,
)
from analysis.tables.registry import TABLES, write
from analysis.tables.sharing import Call, Sharing, cut
from analysis.tables.similarities.similarities import by_unit, shares_noise
from probes.config.schema import Config
from probes.errors import UserError
from probes.prompts.grammar.nouns import human_words
from probes.runs.run import Run

KEYS = ("sample_id", "triplet", "seed", "indicator")
WORDS = ("sample_id", "word", "word_index", "heat", "height", "width", "definition")
PART_SHARES = 24  # no result depends on it


class ObservedObjects(NamedTuple):
    """The tables ``nouns`` and ``objects``, and the images in which objects were looked for."""

    nouns: pd.DataFrame
    objects: pd.DataFrame
    images: pd.DataFrame


class SomeParts(Run):
    """A run of which some part files alone are read."""

    def __init__(self, run: Run, names: Sequence[str]):
        super().__init__(run.path, run.meta)
        self._names = frozenset(names)

    def parts(self, kind: str) -> list[Path]:
        """Return the part files of a kind that were chosen, in order."""
        return [file for file in super().parts(kind) if file.name in self._names]


def object_calls(run: Run) -> list[Call]:
    """Cut `objects_of` a run by part files; all at once where the kinds have parts of different names."""
    samples, *others = (
        [file.name for file in run.parts(kind)] for kind in ("samples", "objects", "words", "observed")
    )
    if any(names != samples for names in others if names):
        return [(objects_of, sorted({*samples, *(name for names in others for name in names)}))]
    return [(objects_of, samples[part]) for part in cut(len(samples), PART_SHARES)]


def joined_objects(shares: Sequence[ObservedObjects]) -> ObservedObjects:
    """Return the tables from those of some part files each; a prompt in several of them has its nouns once."""
    nouns, objects, images = (pd.concat(tables, ignore_index=True) for tables in zip(*shares))
    return ObservedObjects(nouns.drop_duplicates(ignore_index=True), objects, images)


def objects_of(run: Run, names: Sequence[str]) -> ObservedObjects:
    """Return the tables of some part files of a run."""
    options, words = run.config.measure, [member.word for member in indicators(run.config)]
    own = SomeParts(run, names)
    human = human_words(words, choice=options.human_words, backend=options.nouns)
    samples = own.samples([*dict.fromkeys([*KEYS, "fault", *PROMPT_COLUMNS])])
    images = observed_images(own, samples)
    nouns = noun_table(samples, backend=options.nouns, compounds=options.compounds, human=human)
    detections = own.read("objects", ["sample_id", "object", "label", "mask", "height", "width"])
    _require_images(own, "objects", detections["sample_id"], samples["sample_id"])
    objects = dependency_groups(
        images,
        detections,
        nouns,
        _word_parts(own, samples["sample_id"]),
        human=human,
        backend=options.nouns,
        mask_words=options.mask_words,
        theta=options.theta,
        sigma=options.sigma,
        sigma_human=options.sigma_human,
    )
    return ObservedObjects(nouns, objects, images)


def _word_parts(run: Run, samples: pd.Series) -> Iterator[pd.DataFrame]:
    """The word maps of a run, part by part: together they may not fit into memory."""
    for table in run.part_tables("words", list(WORDS)) if run.parts("words") else ():
        words = table.to_pandas()
        _require_images(run, "words", words["sample_id"], samples)
        yield words


def _require_images(run: Run, kind: str, rows: pd.Series, samples: pd.Series) -> None:
    """Refuse a row of an image that is not in the part file of the same name."""
    elsewhere = rows[~rows.isin(samples)]
    if len(elsewhere):
        raise UserError(
            f"{run.path / kind}: expected rows of the images of samples/ in parts of the same names, got"
            f" {elsewhere.iloc[0]!r:.60} in another: delete the part that does not belong here"
        )


def observed_images(run: Run, samples: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the images of a run in which objects were looked for, in their order; `samples` if they were read."""
    images = run.samples([*KEYS, "fault"]) if samples is None else samples
    images = images.loc[images["fault"].isna(), list(KEYS)]
    if run.parts("observed"):
        seen = run.read("observed", ["sample_id", "status"])
        images = images[images["sample_id"].isin(seen.loc[seen["status"] == "ok", "sample_id"])]
    return images.reset_index(drop=True)


def similarity_rows(config: Config, made: ObservedObjects) -> pd.DataFrame:
    """Return how similar the objects of every two images of a triplet are, with persons and without."""
    chosen = comparison(config)
    rest = made.objects[~made.objects["lemma"].isin(chosen.individuals)]
    return pd.concat(
        [
            similarity_pairs(made.images, own, chosen.names, site=OBJECT_SITES[name])
            for name, own in ((INCLUDED, made.objects), (LEFT_OUT, rest))
        ],
        ignore_index=True,
    )


def measure_objects(sharing: Sharing, made: ObservedObjects, checked: Checked | None) -> None:
    """Write ``tables/nouns``, ``tables/objects``, the paper's tables, and what is known of the detector's errors.

    What cannot be known, since it was not looked for, is NaN with its reason (`analysis.tables.objects.left_open`).
    """
    run, objects = sharing.run, made.objects
    write(run, "nouns", made.nouns)
    write(run, "objects", objects)
    if checked:
        write(run, "detector_error", detector_error(run, objects, checked))
    alone, shared = prompts_alone(run), shares_noise(run.config)
    for name, table in object_tables(sharing, made, checked).items():
        table = leave_untested(name, table) if shared else table
        write(run, name, leave_open(name, table) if alone else table)


def error_counts(run: Run, objects: pd.DataFrame, checked: Checked | None) -> DetectorCounts | None:
    """Return what is known of the detector's errors on a run's images: from the checker, else from people.

    Of the checker itself, which is its own truth, that it makes none.
    """
    if is_checker(run):
        return DetectorCounts(pd.DataFrame(), exact=True)
    if checked:
        return DetectorCounts(count_errors(checked[0], objects, checked[1], backend=run.config.measure.nouns))
    return DetectorCounts(run.table("human_counts")) if "human_counts" in run.tables() else None


def object_tables(
    sharing: Sharing, made: ObservedObjects, checked: Checked | None
) -> dict[str, pd.DataFrame]:
    """Return the tables of the paper's section 6, and of a run of several words tests and claims."""
    config, (nouns, objects, images) = sharing.run.config, made
    options, chosen = config.measure, comparison(config)
    human = objects.loc[objects["human"], "lemma"].unique()
    table12, table13 = amounts(images, objects, nouns, chosen.main)
    count = partial(counted, by_unit(images, config), by_unit(objects, config))
    # the paper's tables know its prompt sets alone: a control that could not be read takes nothing from them
    others = count(chosen.main, without=chosen.individuals)
    tables = {
        "cooccurrence": cooccurrence(count(chosen.names), human),
        "figure06_group_objects": figure_objects(others),
        "table11_presence": presence(images, objects, chosen.main, chosen.individuals),
        "table12_amounts": table12,
        "table13_intersection": table13,
    }
    if not config.compares:
        return tables
    everything = count(chosen.main)
    with_controls = count(chosen.names, without=chosen.individuals)
    tested = [
        (group, *pieces)
        for group in others
        for pieces in (
            (others[group], chosen.sets, chosen.leaning),
            (with_controls[group], chosen.beside, chosen.beside),
        )
        if pieces[1]
    ]
    found = {
        "object_tests": [
            object_statistics(table, pairs, level=options.level) for _, table, _, pairs in tested
        ],
        "table_tests": sharing.results([(_table_tests, table, sets) for _, table, sets, _ in tested]),
    }
    for name, own in found.items():
        groups = (table.assign(group=group) for (group, *_), table in zip(tested, own))
        tables[name] = pd.concat(groups, ignore_index=True)[list(TABLES[name].columns)]
    counts, sides = error_counts(sharing.run, objects, checked), sides_of(indicators(config))
    claims = claim_table(with_controls[ALL], chosen.leaning, sides, counts, level=options.level)
    pooled = [chi_square(others, chosen.sets, LEFT_OUT), chi_square(everything, chosen.sets, INCLUDED)]
    scores = figure_scores(
        everything,
        chosen.leaning,
        individuals=chosen.individuals,
        least=options.min_count,
        level=options.level,
    )
    tables |= {"table07_chi_square": pd.concat(pooled, ignore_index=True), "figure04_bias_scores": scores}
    return tables | {"object_claims": claims}


def _table_tests(run: Run, table: ObjectTable, sets: Sequence[Sequence[str]]) -> pd.DataFrame:
    options = run.config.measure
    return table_statistics(table, sets, permutations=options.permutations, seed=options.seed)

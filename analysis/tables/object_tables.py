"""Objects in the measure stage: nouns, dependency groups and the paper's tables of an observed run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

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
from analysis.study import Comparison, comparison, indicators
from analysis.tables.objects.claims import CLAIM_COLUMNS, DetectorCounts, claim_table, sides_of
from analysis.tables.objects.detector_error import Checked, detector_counts, detector_error, is_checker
from analysis.tables.objects.looked_for import leave_open, prompts_alone
from analysis.tables.objects.nouns import PROMPT_COLUMNS, noun_table
from analysis.tables.objects.shared_noise import leave_untested
from analysis.tables.objects.statistics import object_statistics, table_statistics
from analysis.tables.objects.wu import chi_square, figure_objects, figure_scores, similarity_pairs
from analysis.tables.registry import TABLES, write
from analysis.tables.sharing import Piece, Sharing
from analysis.tables.similarities.disparity import disparity
from analysis.tables.similarities.families import by_unit, shares_noise, stacked
from analysis.tables.similarities.gap import gap
from analysis.tables.similarities.similarities import pair_name
from probes.config.schema import Measure
from probes.prompts.grammar.nouns import human_words
from probes.runs.run import Run

KEYS = ("sample_id", "triplet", "seed", "indicator")
Objects = tuple[pd.DataFrame, pd.DataFrame]  # tables ``nouns`` and ``objects``
WORDS = ("sample_id", "word", "word_index", "heat", "height", "width", "definition")


def measure_objects(run: Run, sharing: Sharing, made: tuple[Objects, Checked]) -> None:
    """Write ``tables/nouns``, ``tables/objects``, the paper's tables, and what is known of the detector's errors.

    What cannot be known, since it was not looked for, is NaN with its reason (`analysis.tables.objects.looked_for`).
    """
    (nouns, objects), checked = made
    write(run, "nouns", nouns)
    write(run, "objects", objects)
    counts, images = error_counts(run, checked), observed_images(run)
    alone, shared = prompts_alone(run), shares_noise(run.config)
    for name, table in tables(sharing, images, nouns, objects, counts):
        table = leave_untested(name, table) if shared else table
        write(run, name, leave_open(name, table) if alone else table)
    error = detector_error(run, checked)
    if error is not None:
        write(run, "detector_error", error)


def error_counts(run: Run, checked: Checked) -> DetectorCounts | None:
    """Return what is known of the detector's errors on a run's images: from the checker, else from people.

    Of the checker itself, which is its own truth, that it makes none.

    Those from the checker are written to ``tables/detector_counts``; people's stand in ``tables/human_counts``.
    """
    if is_checker(run):
        return DetectorCounts(pd.DataFrame(), exact=True)
    counts = detector_counts(run, checked)
    if counts is not None:
        write(run, "detector_counts", counts)
        return DetectorCounts(counts)
    labelled = (run.path / "tables" / "human_counts.parquet").exists()
    return DetectorCounts(run.table("human_counts")) if labelled else None


def observed_images(run: Run) -> pd.DataFrame:
    """The images of a run in which objects were looked for, in their order."""
    images = run.samples([*KEYS, "fault"])
    images = images.loc[images["fault"].isna(), list(KEYS)]
    if run.parts("observed"):
        seen = run.read("observed", ["sample_id", "status"])
        images = images[images["sample_id"].isin(seen.loc[seen["status"] == "ok", "sample_id"])]
    return images.reset_index(drop=True)


def objects_of(run: Run, options: Measure) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables ``nouns`` and ``objects`` of a run."""
    backend, words = options.nouns, [member.word for member in indicators(run.config)]
    prompts = run.samples(PROMPT_COLUMNS)
    human = human_words(words, choice=options.human_words, backend=backend)
    nouns = noun_table(prompts, backend=backend, compounds=options.compounds, human=human)
    objects = dependency_groups(
        observed_images(run),
        run.read("objects", ["sample_id", "object", "label", "mask", "height", "width"]),
        nouns,
        word_parts(run),
        human=human,
        backend=backend,
        mask_words=options.mask_words,
        theta=options.theta,
        sigma=options.sigma,
        sigma_human=options.sigma_human,
    )
    return nouns, objects


def word_parts(run: Run) -> Iterator[pd.DataFrame]:
    """The word maps of a run, part by part: together they may not fit into memory."""
    for table in run.part_tables("words", list(WORDS)) if run.parts("words") else ():
        yield table.to_pandas()


def tables(
    sharing: Sharing,
    images: pd.DataFrame,
    nouns: pd.DataFrame,
    objects: pd.DataFrame,
    counts: DetectorCounts | None,
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Every table of the paper's sections 5 to 7 by name; of a run of one indicator those that compare no words."""
    config = sharing.run.config
    options, chosen = config.measure, comparison(config)
    # the paper's tables know its prompt sets alone: a control that could not be read takes nothing from them
    observed, seen = by_unit(images, config), by_unit(objects, config)
    others = counted(observed, seen, chosen.main, without=chosen.individuals)
    human = objects.loc[objects["human"], "lemma"].unique()
    yield "cooccurrence", cooccurrence(counted(observed, seen, chosen.names), human)
    yield "figure06_group_objects", figure_objects(others)
    yield "table11_presence", presence(images, objects, chosen.main, chosen.individuals)
    table12, table13 = amounts(images, objects, nouns, chosen.main)
    yield "table12_amounts", table12
    yield "table13_intersection", table13
    if not config.compares:
        return
    sampling = {"level": options.level, "resamples": options.bootstrap, "seed": options.seed}
    rest = objects[~objects["lemma"].isin(chosen.individuals)]
    everything = counted(observed, seen, chosen.main)
    with_controls = counted(observed, seen, chosen.names, without=chosen.individuals)

    pairs = pd.concat(
        [
            similarity_pairs(observed, own, chosen.names, site=site)
            for site, own in ((INCLUDED, objects), (LEFT_OUT, rest))
        ],
        ignore_index=True,
    )
    within = {pair_name(first, second, chosen.names) for first, second in chosen.pairs}
    shared = sampling | {"shared_noise": shares_noise(config)}
    drawn = {"permutations": options.permutations, "seed": options.seed}
    shown = {"individuals": chosen.individuals, "least": options.min_count, "level": options.level}
    slow = {
        "table_tests": _tests(table_statistics, others, chosen.sets, with_controls, chosen.beside, drawn),
        "object_tests": _tests(
            object_statistics,
            others,
            chosen.leaning,
            with_controls,
            chosen.beside,
            {"level": options.level},
        ),
        "object_claims": [
            Piece(
                claim_table,
                (with_controls[ALL], [pair], sides_of(indicators(config)), counts),
                {"level": options.level},
            )
            for pair in chosen.leaning
        ],
        "table06_gap": [Piece(_gaps, (pairs, chosen, shared | {"permutations": options.permutations}))],
        "figure04_bias_scores": [Piece(figure_scores, (everything, chosen.leaning), shown)],
        "table06_similarity": [Piece(_similarity, (pairs[pairs["pair"].isin(within)], chosen, shared))],
    }
    results = iter(sharing.results([piece for pieces in slow.values() for piece in pieces]))
    made = {name: list(islice(results, len(pieces))) for name, pieces in slow.items()}

    yield "table06_similarity", made["table06_similarity"][0]
    yield "table06_gap", made["table06_gap"][0]
    table07 = pd.concat(
        [chi_square(others, chosen.sets, LEFT_OUT), chi_square(everything, chosen.sets, INCLUDED)],
        ignore_index=True,
    )
    yield "table07_chi_square", table07
    yield "figure04_bias_scores", made["figure04_bias_scores"][0]
    for name in ("object_tests", "table_tests"):
        each = len(made[name]) // len(others)
        rows = [
            pd.concat(made[name][at : at + each], ignore_index=True) for at in range(0, len(made[name]), each)
        ]
        yield name, pd.concat(rows, keys=list(others), names=["group", None]).reset_index("group")
    claims = made["object_claims"]
    yield "object_claims", stacked(claims, CLAIM_COLUMNS)


def _tests(
    statistics: Callable[..., pd.DataFrame],
    tables: Mapping[str, ObjectTable],
    sets: Sequence[Sequence[str]],
    with_controls: Mapping[str, ObjectTable],
    beside: Sequence[Sequence[str]],
    settings: dict[str, Any],
) -> list[Piece]:
    """Statistics of every group, and of the words beside it where there are any, group by group."""
    return [
        Piece(statistics, (own[group], chosen), settings)
        for group in tables
        for own, chosen in ((tables, sets), (with_controls, beside))
        if own is tables or beside
    ]


def _similarity(pairs: pd.DataFrame, chosen: Comparison, sampling: dict[str, Any]) -> pd.DataFrame:
    """Table 6 with intervals, from the similarities of single images."""
    table = disparity(pairs, **sampling).rename(columns={"site": "individuals", "mean": "value"})
    named = {f"{first}-{second}": (first, second) for first in chosen.names for second in chosen.names}
    both = [named[str(pair)] for pair in table["pair"]]
    undefined = pairs[pairs["value"].isna()].groupby(["site", "pair"]).size()
    keys = zip(table["individuals"].astype(str), table["pair"].astype(str))
    table = table.assign(first=[a for a, _ in both], second=[b for _, b in both])
    table["undefined"] = [int(undefined.get(key, 0)) for key in keys]
    return table[list(TABLES["table06_similarity"].columns)]


def _gaps(pairs: pd.DataFrame, chosen: Comparison, sampling: dict[str, Any]) -> pd.DataFrame:
    """Return how much more similar the reference's objects are to one indicator's than to another's."""
    table = gap(
        pairs,
        indicators=list(chosen.names),
        reference=chosen.reference,
        contrasts=chosen.contrasts,
        controls=chosen.controls,
        **sampling,
    )
    return table.rename(columns={"site": "individuals"}).drop(columns=["space", "step"])

"""The tables and figures of Wu et al. 2025, sections 5 to 7, as tidy tables: objects by indicator and dependency group.

Everything starts from table ``objects`` (`analysis.dependency`). Objects are told apart by their lemma. Counts compare
images of one prompt and seed, so a (prompt, seed) counts where every indicator has an image that was looked at;
presence, amounts and intersections (Tables 11 to 13) take all images.

Controls never enter a table of the paper: its prompt sets are those of the reference and of the other indicators.

What the paper leaves open: whether individuals ("person", "woman" …) are among the objects compared. Section 6.3.1
leaves them out of Figure 6, and p-values near 1 of explicit objects can only come of leaving them out of Tables 7 to 9,
since "woman" stands in the feminine prompts alone. Eq. 3 to 5 leave nothing out: Table 6, Figures 4, 7 and 8 and
Tables 11 to 13 have them in. Where it matters both are given, and each says which it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import sparse

from analysis.dependency import GROUPS
from analysis.naming import contrasts, indicators
from analysis.nouns import INDIVIDUALS, person_lemmas
from analysis.object_tables import ObjectTable, object_table
from analysis.pairs import COLUMNS, NO_STEP, definition, pair_name
from analysis.table_tests import chi_square_test

ALL = "all"
LEFT_OUT, INCLUDED = "left out", "included"
NO_OBJECT = "no object in one of the two images"
NOT_GROUPED = "no image whose objects could be grouped"
NO_IMAGES = "no image was looked at"
EMPTY_GROUP = "no object in this group"
CHI_SQUARE_COLUMNS = (
    *("group", "individuals", "comparison", "statistic", "dof", "p_value", "cramers_v", "smallest_expected"),
    *("expected_below_5", "cells", "detections_per_image", "n_objects", "n_prompts", "n_images"),
    *("reason", "warnings"),
)


@dataclass(frozen=True)
class Comparison:
    """What is compared with what.

    Attributes
    ----------
    names : tuple of str
        All indicators.
    main : tuple of str
        Those that are no controls: the prompt sets of the paper's tables. All, where only the reference is none.
    reference : str
    pairs : tuple of (str, str)
        The reference with every other of `main`, then those with one another.
    sets : tuple of tuples of str
        `pairs`, and `main` where it has more than two.
    leaning : tuple of (str, str)
        Pairs of bias scores: (second, first) of each contrast within `main`, so that 1 is an object of the contrast's
        first indicator; then the reference with every other of `main`.
    beside : tuple of (str, str)
        Pairs that are tested and stand in no table of the paper: contrasts of controls, and the reference with each.
    contrasts : tuple of (str, str)
        Those of the configuration.
    controls : dict
        The controls by name, as the configuration has them.
    individuals : frozenset of str
        Lemmas of the paper's list of individuals and of this run's indicator words.
    """

    names: tuple[str, ...]
    main: tuple[str, ...]
    reference: str
    pairs: tuple[tuple[str, str], ...]
    sets: tuple[tuple[str, ...], ...]
    leaning: tuple[tuple[str, str], ...]
    beside: tuple[tuple[str, str], ...]
    contrasts: tuple[tuple[str, str], ...]
    controls: dict[str, bool | str]
    individuals: frozenset[str]


def comparison(config: dict, *, backend: str = "lemminflect") -> Comparison:
    """Read from a resolved configuration what is to be compared."""
    members, reference = indicators(config), str(config["reference"])
    names = tuple(member.name for member in members)
    controls = {member.name: member.control for member in members if member.control}
    main = tuple(name for name in names if name not in controls)
    main = main if len(main) > 1 else names  # nothing else is there to compare the reference with
    around = tuple((reference, name) for name in main if name != reference)
    among = tuple(combinations([name for name in main if name != reference], 2))
    turned = tuple((second, first) for first, second in contrasts(config))
    words = (*INDIVIDUALS, *(member.word for member in members))
    return Comparison(
        names=names,
        main=main,
        reference=reference,
        pairs=around + among,
        sets=around + among + ((main,) if len(main) > 2 else ()),
        leaning=(*(pair for pair in turned if set(pair) <= set(main)), *around),
        beside=(
            *(pair for pair in turned if not set(pair) <= set(main)),
            *((reference, name) for name in names if name not in main),
        ),
        contrasts=tuple(contrasts(config)),
        controls=controls,
        individuals=frozenset().union(*(person_lemmas(word, backend=backend) for word in words)),
    )


def of_group(objects: pd.DataFrame, group: str) -> pd.DataFrame:
    """Rows of table ``objects`` in a group; those of all groups are the detections, without the hidden nouns."""
    return objects[objects["object"] >= 0] if group == ALL else objects[objects["group"] == group]


def counted(
    images: pd.DataFrame, objects: pd.DataFrame, names: Sequence[str], without: Iterable[str] = ()
) -> dict[str, ObjectTable]:
    """Count the objects of every group by prompt and indicator: C(o, P) of Eq. 3 and C_g(o, P) of section 6.3.

    Parameters
    ----------
    images : DataFrame
        The images looked at: ``triplet``, ``seed``, ``indicator``.
    objects : DataFrame
        Table ``objects``.
    names : sequence of str
        Indicators.
    without : iterable of str
        Lemmas to leave out.

    Returns
    -------
    dict of str to ObjectTable
        By group, ``all`` first.
    """
    images = images.rename(columns={"triplet": "prompt"})
    objects = objects[~objects["lemma"].isin(list(without))]
    objects = objects.rename(columns={"triplet": "prompt"}).assign(lemma=objects["lemma"].astype(str))
    tables = {}
    for group in (ALL, *GROUPS):
        rows = of_group(objects, group)[["prompt", "seed", "indicator", "lemma"]]
        tables[group] = object_table(images, rows.rename(columns={"lemma": "object"}), indicators=names)
    return tables


def cooccurrence(tables: dict[str, ObjectTable], human: Iterable[str]) -> pd.DataFrame:
    """C(o, P) and C_g(o, P): how often each object was detected, and in how many images.

    Parameters
    ----------
    tables : dict of str to ObjectTable
        Of `counted`, individuals included.
    human : iterable of str
        Lemmas that refer to humans, as table ``objects`` says.

    Source
    ------
    Wu et al. 2025, Eq. 3 and section 6.3.
    """
    human, parts = set(human), []
    for group, table in tables.items():
        k, names = len(table.indicators), np.repeat(table.objects, len(table.indicators))
        parts.append(
            pd.DataFrame(
                {
                    "group": group,
                    "object": names.astype(object),
                    "human": np.array([name in human for name in names], bool),
                    "indicator": np.tile(np.array(table.indicators, object), len(table.objects)),
                    "detections": table.totals("detections").reshape(len(table.objects) * k),
                    "images": table.totals().reshape(len(table.objects) * k),
                    "n_images": table.n_images,
                    "n_prompts": len(table.prompts),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def similarity_pairs(
    images: pd.DataFrame, objects: pd.DataFrame, names: Sequence[str], *, site: str = "objects"
) -> pd.DataFrame:
    r"""Cosine of the object counts of two images, for every pair of a triplet and seed.

    The mean over prompts is the co-occurrence similarity :math:`s_O` (`analysis.disparity`). An image without any
    object has no direction: NaN, with a reason, and left out of the mean (the paper does not say).

    Returns
    -------
    DataFrame
        With the columns of `analysis.pairs.COLUMNS`; 0 to 1, 1 for counts in the same proportions.

    Source
    ------
    Wu et al. 2025, Eq. 4.

    Examples
    --------
    >>> images = pd.DataFrame({"triplet": 0, "seed": 0, "indicator": ["f", "m"], "sample_id": ["a", "b"]})
    >>> objects = pd.DataFrame(
    ...     {"sample_id": ["a", "a", "b"], "lemma": ["hat", "cup", "hat"], "object": [0, 1, 0]}
    ... )
    >>> f"{similarity_pairs(images, objects, ['f', 'm'])['value'][0]:.3f}"
    '0.707'
    """
    rows = of_group(objects, ALL)
    image = pd.Index(images["sample_id"]).get_indexer(rows["sample_id"])
    what, kinds = pd.factorize(rows["lemma"])
    counts = sparse.csr_array((np.ones(len(rows)), (image, what)), shape=(len(images), max(len(kinds), 1)))
    counts.sum_duplicates()
    length = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).ravel())
    place = images.assign(row=np.arange(len(images))).pivot(
        index=["triplet", "seed"], columns="indicator", values="row"
    )
    parts = []
    for first, second in combinations([name for name in names if name in place], 2):
        both = place[[first, second]].dropna().astype(int)
        a, b = both[first].to_numpy(), both[second].to_numpy()
        dot = np.asarray(counts[a].multiply(counts[b]).sum(axis=1)).ravel()
        with np.errstate(invalid="ignore"):
            value = np.where(length[a] * length[b] > 0, dot / (length[a] * length[b]), np.nan)
        keys = {name: both.index.get_level_values(name) for name in ("triplet", "seed")}
        columns = {
            "space": "image",
            "site": site,
            "step": NO_STEP,
            "timestep": np.nan,
            "metric": "cooccurrence",
        }
        pair = {"pair": pair_name(first, second, names), "value": np.minimum(value, 1).astype(np.float32)}
        reason = np.where(np.isnan(value), NO_OBJECT, "")
        parts.append(pd.DataFrame({**columns, **keys, **pair, "reason": reason}))
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))
    return table.assign(version=definition("cooccurrence").version)


def chi_square(
    tables: dict[str, ObjectTable], sets: Sequence[Sequence[str]], individuals: str
) -> pd.DataFrame:
    """Chi-square tests of object counts for all objects (section 5.3) and every group (Tables 7 to 9).

    As in the paper, on pooled detections; ``warnings`` says where the p-value does not hold, and `table_tests` gives
    one that does. Cramér's V is the size of the effect.

    Parameters
    ----------
    tables : dict of str to ObjectTable
        Of `counted`.
    sets : sequence of sequences of str
        Indicators to compare: pairs, and the triplet.
    individuals : {"left out", "included"}
        Which `tables` these are.

    Source
    ------
    Wu et al. 2025, section 5.2 (1); `scipy.stats.chi2_contingency` without correction.
    """
    rows = []
    for group, table in tables.items():
        for names in sets:
            own = table.select(list(names))
            test = chi_square_test(own, of="detections")
            seen = int((own.totals("detections").sum(axis=1) > 0).sum())
            rows.append((
                *(group, individuals, "-".join(names), test.statistic, test.dof, test.p_value, test.cramers_v),
                *(test.smallest_expected, test.expected_below_5, test.cells, test.detections_per_image),
                *(seen, len(own.prompts), own.n_images, test.reason, "; ".join(test.warnings)),
            ))  # fmt: skip
    return pd.DataFrame(rows, columns=list(CHI_SQUARE_COLUMNS))


def presence(
    images: pd.DataFrame, objects: pd.DataFrame, names: Sequence[str], individuals: Iterable[str] = ()
) -> pd.DataFrame:
    """Percent of the images that hold a group (Table 11), of all indicators' together and of each one's.

    Between indicators only the rows without individuals compare: a detector that calls every figure "person" finds what
    was asked for with "person" and never with "woman".

    Parameters
    ----------
    images, objects : DataFrame
        The images looked at, and table ``objects``.
    names : sequence of str
        Indicators; ``all`` takes theirs together.
    individuals : iterable of str
        Lemmas of individuals.

    Returns
    -------
    DataFrame
        A row a group, indicator (``all`` first) and treatment of individuals. Images with an object that could not be
        grouped are left out of ``n_images``.
    """
    images = images[images["indicator"].isin(list(names))]
    unknown = objects.loc[objects["group"] == "", "sample_id"].unique()
    known = images[~images["sample_id"].isin(unknown)]
    reason = NO_IMAGES if images.empty else NOT_GROUPED
    others = objects[~objects["lemma"].isin(list(individuals))]
    rows = []
    for treatment, chosen in ((INCLUDED, objects), (LEFT_OUT, others)):
        for group in GROUPS:
            has = known["sample_id"].isin(chosen.loc[chosen["group"] == group, "sample_id"])
            for name in (ALL, *names):
                own = has if name == ALL else has[known["indicator"] == name]
                n, count = len(own), int(own.sum())
                percent = 100 * count / n if n else np.nan
                rows.append((treatment, group, name, percent, count, n, "" if n else reason))
    columns = ["individuals", "group", "indicator", "percent_of_images", "images", "n_images", "reason"]
    return pd.DataFrame(rows, columns=columns)


def amounts(
    images: pd.DataFrame, objects: pd.DataFrame, nouns: pd.DataFrame, names: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Distinct objects of each group and distinct nouns (Table 12), and what the groups have in common (Table 13).

    Returns
    -------
    amounts : DataFrame
        A row a group (and ``nouns``) and indicator; ``all`` takes those of `names` together.
    intersections : DataFrame
        A row two groups: ``percent`` of the objects of ``over_group`` that are in ``group`` too, of all indicators
        together; NaN, with a reason, over an empty group.
    """
    images, objects = (rows[rows["indicator"].isin(list(names))] for rows in (images, objects))
    spoken = nouns.merge(images[["triplet", "indicator"]].drop_duplicates(), on=["triplet", "indicator"])
    rows, whole = [], {}
    for name in (ALL, *names):
        own = objects if name == ALL else objects[objects["indicator"] == name]
        said = spoken if name == ALL else spoken[spoken["indicator"] == name]
        sets = {group: set(own.loc[own["group"] == group, "lemma"]) for group in GROUPS}
        sets["nouns"] = set(said["lemma"])
        whole = whole or sets
        rows += [(group, name, len(found)) for group, found in sets.items()]
    common = [
        (over, group, 100 * len(own & other) / len(own) if own else np.nan, len(own & other), len(own))
        for over, own in whole.items()
        for group, other in whole.items()
    ]
    columns = ["over_group", "group", "percent", "common", "amount"]
    shared = pd.DataFrame(common, columns=columns).assign(reason="")
    shared.loc[shared["amount"] == 0, "reason"] = EMPTY_GROUP
    return pd.DataFrame(rows, columns=["group", "indicator", "amount"]), shared

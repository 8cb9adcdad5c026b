"""How alike are the images of a triplet by their features? From ``features/`` to columns beside the pictures' metrics.

What the observe stage stored of a feature is a vector of each image, or, of split-product, a number for two images. It
is read part file by part file.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from analysis.metrics.registry import computed_from
from analysis.metrics.vectors import cosines
from analysis.tables.similarities.stored import INDEX
from probes.errors import UserError
from probes.runs.parts import read_part
from probes.runs.schemas import FEATURE_PAIRS
from probes.runs.selection import KEY
from probes.runs.store import Run

NO_VECTOR = "feature without a direction"


def stored_features(run: Run) -> list[str]:
    """Metrics whose features the run holds and its configuration asks for, in the order of the registry.

    Raises
    ------
    UserError
        Some images were looked at and others not.
    """
    asked = run.config.observe.features
    found = []
    for name in computed_from("features"):
        files = run.parts(f"features/{name}")
        if not files or (isinstance(asked, list) and name not in asked):
            continue
        there, wanted = ({file.name for file in some} for some in (files, run.parts("samples")))
        if wanted - there and not run.meta.get(KEY):
            raise UserError(
                f"{run.path / 'features' / name}: expected {min(wanted - there)}, found none: run --stage observe first"
            )
        found.append(name)
    return found


def feature_similarities(run: Run, name: str, number: str, indicators: Sequence[str]) -> pd.DataFrame:
    """Compare the images of each triplet and seed of a part file, two by two, by one feature.

    Parameters
    ----------
    run : Run
    name : str
        Of the feature, which is that of its metric.
    number : str
        Name of the part file.
    indicators : sequence of str
        In the order that names the pairs.

    Returns
    -------
    DataFrame
        A row a (triplet, seed, pair) of two images that could be read, with the columns ``triplet``, ``seed``,
        ``pair`` and the metric's name in float32: the cosine, NaN where a vector is zero.
    """
    table = read_part(run.path / "features" / name / number)
    if set(FEATURE_PAIRS.names) <= set(table.column_names):
        return table.select(FEATURE_PAIRS.names).to_pandas().rename(columns={"value": name})
    rows = table.filter(table["vector"].is_valid())
    keys = rows.select(["triplet", "seed", "indicator"]).to_pandas()
    width = len(rows["vector"][0]) if len(rows) else 0
    vectors = rows["vector"].combine_chunks().flatten().to_numpy().reshape(len(rows), width)
    unit = keys.groupby(["triplet", "seed"], sort=False).ngroup().to_numpy()
    members = {}
    for indicator in indicators:
        at = np.flatnonzero(keys["indicator"] == indicator)
        members[indicator] = np.full(int(unit.max(initial=-1)) + 1, -1)
        members[indicator][unit[at]] = at
    pairs, values, there = [], [np.empty(0, np.float32)], [np.empty(0, int)]
    for first, second in combinations(indicators, 2):
        both = np.flatnonzero((members[first] >= 0) & (members[second] >= 0))
        there.append(members[first][both])
        values.append(cosines(vectors[there[-1]], vectors[members[second][both]]))
        pairs += [f"{first}-{second}"] * len(both)
    found = keys.loc[np.concatenate(there), ["triplet", "seed"]].reset_index(drop=True)
    types = {"triplet": "int32", "seed": "int64", "pair": "str", name: "float32"}
    return found.assign(pair=pairs, **{name: np.concatenate(values)}).astype(types)


def with_features(images: pd.DataFrame, features: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the similarities of pictures with those by features as further columns.

    Parameters
    ----------
    images : DataFrame
        Of `analysis.tables.similarities.stored.image_similarities`.
    features : sequence of DataFrame
        Of `feature_similarities`, each all rows of one feature.
    """
    for table in features:
        name = next(column for column in table if column not in INDEX)
        images = images.merge(table, on=list(INDEX), how="left", validate="one_to_one")
        missing = images[name].isna().to_numpy()
        if missing.any():
            why = np.where(
                images["reason"] == "", f"{name}: {NO_VECTOR}", images["reason"] + f"; {name}: {NO_VECTOR}"
            )
            images["reason"] = np.where(missing, why, images["reason"])
    last = [name for name in images if name != "reason"]
    return images[[*last, "reason"]]


def part_names(run: Run, name: str) -> list[str]:
    """Names of the part files of a feature, in order: those of a run's samples, or of fewer in one not finished."""
    there = {file.name for file in run.parts(f"features/{name}")}
    return [file.name for file in run.parts("samples") if file.name in there]

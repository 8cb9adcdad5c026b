"""How alike are the images of a triplet, by their pixels and by their features? Table ``image_similarities``.

A row is a (triplet, seed, pair), with one column per metric. What compares pictures is a function that the registry
names.
What the observe stage stored of a feature (``features/``) is a vector of each image, or, of split-product, a number for
two images; it is read part file by part file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType

import numpy as np
import pandas as pd
from PIL import Image

from analysis.metrics import pixels
from analysis.metrics.registry import METRICS, computed_from, definition
from analysis.metrics.vectors import cosines
from analysis.tables.similarities.rows import INDEX
from probes.errors import UserError
from probes.runs.parts import read_part
from probes.runs.run import Run
from probes.runs.schemas import FEATURE_PAIRS

IMAGE_TABLE = "image_similarities"
IMAGE_METRICS = computed_from("pictures")
OPTIONAL_METRICS = tuple(name for name, row in METRICS.items() if row.needs == "pictures" and row.optional)
FEATURE_METRICS = computed_from("features")  # further columns of `IMAGE_TABLE`, where the run holds them
IMAGE_SITE = "image"
NO_VECTOR = "feature without a direction"


def image_types(metrics: Sequence[str] = IMAGE_METRICS) -> dict[str, str]:
    """Columns and types of the table `IMAGE_TABLE` with these metrics, in order."""
    index = {"triplet": "int32", "seed": "int64", "pair": "str"}
    return {**index, **dict.fromkeys(metrics, "float32"), "reason": "str"}


def image_similarities(
    samples: pd.DataFrame,
    load: Callable[[Sequence[str]], Sequence[Image.Image]],
    indicators: Sequence[str],
    metrics: Sequence[str] = IMAGE_METRICS,
    left_out: Mapping[str, str] = MappingProxyType({}),
) -> pd.DataFrame:
    """Compare the pictures of each triplet and seed, two by two, by metrics of pictures in the registry.

    `load` gives the pictures of sample ids; `left_out` says of ids whose picture is not compared why: what is compared
    with one is NaN. An indicator without a picture makes no pair. One row per (triplet, seed, pair), with
    `image_types`: each metric under its name (``ssim``: at most 1, no difference; ``diff_pix``: percent, 0 no
    difference), and ``reason`` why one is NaN.
    """
    types = image_types(metrics)
    rows: list[tuple] = []
    measures = [getattr(pixels, definition(metric).function) for metric in metrics]
    draws: dict[tuple[int, int], dict[str, str]] = {}
    for *draw, indicator, sample in zip(
        *(samples[name].tolist() for name in ("triplet", "seed", "indicator", "sample_id"))
    ):
        draws.setdefault((draw[0], draw[1]), {})[indicator] = sample
    for (triplet, seed), ids in draws.items():
        present = [name for name in indicators if name in ids]
        fine = [name for name in present if ids[name] not in left_out]
        pictures = dict(zip(fine, map(pixels.grey, load([ids[name] for name in fine])))) if fine else {}
        for first, second in combinations(present, 2):
            why = [left_out[ids[name]] for name in (first, second) if ids[name] in left_out]
            if why:
                undefined = (np.nan for _ in measures)
                rows.append((triplet, seed, f"{first}-{second}", *undefined, "; ".join(dict.fromkeys(why))))
                continue
            pair = pixels.PicturePair(pictures[first], pictures[second])
            try:
                scores = [measure(pair) for measure in measures]
            except ValueError as error:
                raise UserError(f"samples: {ids[first]}, {ids[second]}: {error}: store them alike") from None
            reasons = "; ".join(dict.fromkeys(score.reason for score in scores if score.reason))
            rows.append((triplet, seed, f"{first}-{second}", *(score.value for score in scores), reasons))
    return pd.DataFrame(rows, columns=[*types]).astype(types)


def stored_features(run: Run) -> list[str]:
    """Metrics whose features the run holds and its configuration asks for, in the order of the registry."""
    asked = run.config.observe.features
    found = []
    for name in computed_from("features"):
        files = run.parts(f"features/{name}")
        if not files or (isinstance(asked, list) and name not in asked):
            continue
        there, wanted = ({file.name for file in some} for some in (files, run.parts("samples")))
        if wanted - there:
            raise UserError(
                f"{run.path / 'features' / name}: expected {min(wanted - there)}, found none: run --stage observe first"
            )
        found.append(name)
    return found


def feature_similarities(run: Run, name: str, number: str, indicators: Sequence[str]) -> pd.DataFrame:
    """Compare the images of each triplet and seed of a part file, two by two, by one feature.

    One row per (triplet, seed, pair) of two images that could be read; the metric's name holds the cosine in float32,
    NaN where a vector is zero.
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
    """Return the similarities of pictures with those by features as further columns."""
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

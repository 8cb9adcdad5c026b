"""Tables of image-text alignment and image quality (DALL-Eval, Cho et al. 2023, appendix D), from a run's features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.alignment import quality
from analysis.methods.alignment.scores import R_PRECISION_VERSION, r_precision
from analysis.methods.dalleval.tables import bounded_interval
from analysis.stats.proportions import linearised
from analysis.study import indicators
from probes.runs.run import Run

ALL = "all"  # the row of every indicator together
VECTORS = (
    "clip",
    "clip_vit_l_14",
    "resnet50",
    "resnet50_logits",
    "dino",
    "inception",
)  # features that are vectors
RETRIEVAL_COLUMNS = (
    *("indicator", "features", "pool", "r_precision", "low", "high", "expected", "chance", "negatives"),
    *("captions", "tied", "n_images", "n_missing", "n_prompts", "level", "reason", "version"),
)
QUALITY_COLUMNS = (
    *("indicator", "features", "reference", "measure", "value", "low", "high", "dimension", "n_images"),
    *("n_missing", "n_reference", "n_prompts", "level", "package", "reason", "version"),
)
CURVE_COLUMNS = ("indicator", "features", "reference", *quality.CURVE, "version")
Fidelity = Callable[[NDArray[np.float64], NDArray[np.float64]], tuple[dict[str, float], str]]


@dataclass(frozen=True)
class Reference:
    """Features of reference images: ``renderings``, or of a folder by its name; vectors (n, d).

    Of renderings ``samples`` is the sample whose prompt each one is drawn from; else each word is compared with all
    images.
    """

    name: str
    vectors: NDArray[np.float64]
    samples: Sequence[str] | None = None


def with_stored(run: Run, stored: pd.DataFrame) -> pd.DataFrame:
    """Return a run's samples with what is stored of each, and ``unit``, the prompt or seed that images share."""
    samples = run.samples(["sample_id", "triplet", "seed", "indicator", "prompt"])
    table = samples.merge(stored, on="sample_id", how="left")
    return table.assign(unit=table["triplet" if run.config.unit == "prompt" else "seed"])


def embedded(run: Run, feature: str) -> pd.DataFrame:
    """Return a run's samples with their vectors of a feature: None where there is none or the image is left out."""
    stored = run.read(f"features/{feature}", ["sample_id", "vector"])
    return with_stored(run, stored[~stored["sample_id"].isin(list(run.left_out()))])


def retrieval_table(
    run: Run,
    feature: str,
    texts: Mapping[str, NDArray],
    *,
    negatives: int = 99,
    pool: str = "word",
    seed: int = 0,
) -> pd.DataFrame:
    """Return R-precision of each indicator's images and of all, with intervals over prompts.

    `texts` are embeddings of all its prompts by the same CLIP. With the `pool` ``word`` negatives are the other prompts
    with the image's word, so that a hit is of what else a prompt says; with ``run`` all others of the run, among which
    those of its triplet differ by the word alone.
    """
    table = embedded(run, feature)
    there = table["vector"].notna()
    names = ["hit", "expected", "chance", "drawn", "ties", "captions"]
    table[names] = np.nan
    for _, own in table.groupby("indicator" if pool == "word" else lambda _: 0, sort=False):
        captions, seen = list(dict.fromkeys(own["prompt"])), own[there.loc[own.index]]
        if seen.empty:
            continue
        found = r_precision(
            np.stack(seen["vector"].to_list()),
            captions,
            np.stack([texts[caption] for caption in captions]),
            seen["prompt"].to_list(),
            negatives=negatives,
            seed=seed,
        )
        numbers = (found.hit, found.expected, found.chance, found.negatives, found.tied > 0)
        table.loc[seen.index, names] = np.column_stack([*numbers, np.full(len(seen), len(captions))])
    rows = [
        {"indicator": name, "features": feature, "pool": pool, **_retrieved(own, run)}
        for name, own in by_indicator(table, run)
    ]
    return pd.DataFrame(rows, columns=list(RETRIEVAL_COLUMNS))


def by_indicator(table: pd.DataFrame, run: Run) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield a table of images whole, and its rows of each indicator."""
    yield ALL, table
    for member in indicators(run.config):
        yield member.name, table[table["indicator"] == member.name]


def _retrieved(own: pd.DataFrame, run: Run) -> dict[str, object]:
    """The numbers of a row: means over images, and the interval over prompts."""
    measure, seen = run.config.measure, own[own["hit"].notna()]
    value, low, high, reason = interval(seen["hit"], seen["unit"], run)
    if seen.empty:
        reason = "no observed image, or a single caption"
    return {
        "r_precision": value,
        "low": low,
        "high": high,
        "expected": seen["expected"].mean(),
        "chance": seen["chance"].mean(),
        "negatives": seen["drawn"].min(),
        "captions": seen["captions"].min(),
        "tied": int(seen["ties"].sum()),
        "n_images": len(seen),
        "n_missing": len(own) - len(seen),
        "n_prompts": seen["unit"].nunique(),
        "level": measure.level,
        "reason": reason,
        "version": R_PRECISION_VERSION,
    }


def interval(
    values: pd.Series, units: pd.Series, run: Run, ends: tuple[float, float] = (0.0, 1.0)
) -> tuple[float, float, float, str]:
    """Return the mean over images with its bootstrap interval over prompts, within `ends`, or why there is none."""
    sums = values.astype(float).groupby(units.to_numpy()).agg(["sum", "size"])
    mean, each = linearised(*sums.to_numpy().T)
    if len(each) < 2:
        return float(mean), float("nan"), float("nan"), "fewer than two prompts"
    _, low, high = bounded_interval(each[:, None], ends, run.config.measure)
    return float(mean), float(low[0]), float(high[0]), ""


def quality_tables(
    run: Run, references: Mapping[str, Reference], fidelity: Fidelity, *, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return FID and KID of each indicator's images and of all, and FID over the sample size."""
    rows, curves = [], []
    for feature, reference in references.items():
        table = embedded(run, feature)
        for name, own in by_indicator(table, run):
            seen = own[own["vector"].notna()]
            samples = _samples(seen, table, reference)
            fixed = {"indicator": name, "features": feature, "reference": reference.name}
            counts = {
                "dimension": reference.vectors.shape[1],
                "n_images": len(seen),
                "n_missing": len(own) - len(seen),
                "n_reference": len(samples.second),
                "n_prompts": seen["unit"].nunique(),
                "level": run.config.measure.level,
                "version": quality.QUALITY_VERSION,
            }
            made, curve = _measured(samples, fidelity, run.config.measure.level, seed)
            rows += [{**fixed, **counts, **one} for one in made]
            curves.append(curve.assign(**fixed, version=quality.QUALITY_VERSION))
    return (
        pd.DataFrame(rows, columns=list(QUALITY_COLUMNS)),
        pd.concat(curves, ignore_index=True)[list(CURVE_COLUMNS)],
    )


def _samples(seen: pd.DataFrame, table: pd.DataFrame, reference: Reference) -> quality.Samples:
    """The vectors of both sides with their prompts; of renderings those of the same samples."""
    width = reference.vectors.shape[1]
    first = np.stack(seen["vector"].to_list()).astype(float) if len(seen) else np.empty((0, width))
    if reference.samples is None:
        each = np.arange(len(reference.vectors))
        return quality.Samples(first, reference.vectors, seen["unit"].to_numpy(), each, False)
    chosen = np.isin(np.asarray(reference.samples, object), seen["sample_id"].to_numpy(object))
    unit = table.set_index("sample_id")["unit"]
    prompts = unit.loc[np.asarray(reference.samples, object)[chosen]].to_numpy()
    return quality.Samples(first, reference.vectors[chosen], seen["unit"].to_numpy(), prompts, True)


def _measured(
    samples: quality.Samples, fidelity: Fidelity, level: float, seed: int
) -> tuple[list[dict[str, object]], pd.DataFrame]:
    """Rows of the measures, and the curve over the sample size."""
    if min(len(samples.first), len(samples.second)) < 2:
        reason = "fewer than two images on a side"
        return [{"measure": "fid", "value": np.nan, "reason": reason}], pd.DataFrame(columns=CURVE_COLUMNS)
    values, package = fidelity(samples.first, samples.second)
    curve = quality.size_curve(quality.frechet_distance, samples, seed=seed)
    fid, kid = (
        quality.jackknifed(distance, samples, level=level, seed=seed)
        for distance in (quality.frechet_distance, quality.kernel_distance)
    )
    half = (fid.high - fid.low) / 2
    biased = "biased upward by the sample size: see fid_infinity"
    ends = {"low": curve.infinite - half, "high": curve.infinite + half}
    rows = [
        {"measure": "fid", "value": values["fid"], "package": package, "reason": biased},
        {"measure": "fid_infinity", "value": curve.infinite, **ends, "reason": curve.reason or fid.reason},
        {"measure": "fid_jackknife", **vars(fid), "reason": fid.reason or curve.reason},
        {"measure": "kid", "value": values["kid"], "package": package, "reason": ""},
        {"measure": "kid_jackknife", **vars(kid)},
    ]
    return rows, curve.points

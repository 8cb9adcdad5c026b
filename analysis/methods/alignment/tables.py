"""Tables of image-text alignment and image quality (DALL-Eval, Cho et al. 2023, appendix D), from a run's features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.alignment import quality
from analysis.methods.alignment.captions import (
    BLEU,
    CAPTIONS_VERSION,
    OTHERS,
    CaptionScore,
    bleu,
    bleu_counts,
    other_scores,
)
from analysis.methods.alignment.scores import R_PRECISION_VERSION, r_precision
from analysis.methods.dalleval.tables import bounded_interval
from analysis.stats.proportions import linearised
from analysis.stats.resampling import resample_counts
from analysis.study import indicators
from probes.runs.run import Run

ALL = "all"  # the row of every indicator together
CAPTIONS = "attributes/captions"
SCALE = 100  # of captions, as Table 19 prints them
ONE_PROMPT = "fewer than two prompts"
CLIPS = ("clip", "clip_vit_l_14")
# features of which FID and KID are; the first that there is stands in Table 19
VECTORS = ("inception", *CLIPS, "resnet50", "dino", "resnet50_logits")
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
    """Return a run's samples with what is stored of each that can be read, and ``unit``, the prompt or seed."""
    samples = run.samples(["sample_id", "triplet", "seed", "indicator", "prompt"])
    stored = stored[~stored["sample_id"].isin(list(run.left_out()))]
    table = samples.merge(stored, on="sample_id", how="left")
    return table.assign(unit=table["triplet" if run.config.unit == "prompt" else "seed"])


def by_indicator(
    table: pd.DataFrame, value: str, run: Run
) -> Iterator[tuple[dict[str, object], pd.DataFrame]]:
    """Yield the rows of all images that have a value, and those of each indicator, with what a table says of each."""
    for name in (ALL, *(member.name for member in indicators(run.config))):
        own = table if name == ALL else table[table["indicator"] == name]
        seen = own[own[value].notna()]
        numbers = {
            "n_images": len(seen),
            "n_missing": len(own) - len(seen),
            "level": run.config.measure.level,
        }
        yield {"indicator": name, **numbers, "n_prompts": seen["unit"].nunique()}, seen


def retrieval_table(run: Run, feature: str, texts: Mapping[str, NDArray], *, seed: int = 0) -> pd.DataFrame:
    """Return R-precision of each indicator's images and of all, with intervals over prompts.

    `texts` are embeddings of all its prompts by the same CLIP. Negatives are other prompts with the image's word, so
    that a hit is of what else a prompt says.
    """
    table = with_stored(run, run.read(f"features/{feature}", ["sample_id", "vector"]))
    table[["hit", "negatives"]] = np.nan
    for _, own in table.groupby("indicator", sort=False):
        captions, seen = list(dict.fromkeys(own["prompt"])), own[own["vector"].notna()]
        if seen.empty:
            continue
        hits, drawn = r_precision(
            np.stack(seen["vector"].to_list()),
            captions,
            np.stack([texts[caption] for caption in captions]),
            seen["prompt"].to_list(),
            seed=seed,
        )
        table.loc[seen.index, "hit"], table.loc[seen.index, "negatives"] = hits, drawn
    rows = []
    for about, own in by_indicator(table, "hit", run):
        mean, low, high, reason = interval(own["hit"], own["unit"], run)
        chance = (1 / (1 + own["negatives"])).mean()
        numbers = {"r_precision": mean, "low": low, "high": high, "chance": chance}
        reason = "no observed image, or a single caption" if own.empty else reason
        rows.append({**about, **numbers, "negatives": own["negatives"].min(), "reason": reason})
    return pd.DataFrame(rows).assign(features=feature, version=R_PRECISION_VERSION)


def interval(
    values: pd.Series, units: pd.Series, run: Run, ends: tuple[float, float] = (0.0, 1.0)
) -> tuple[float, float, float, str]:
    """Return the mean over images with its bootstrap interval over prompts, within `ends`, or why there is none."""
    sums = values.astype(float).groupby(units.to_numpy()).agg(["sum", "size"])
    mean, each = linearised(*sums.to_numpy().T)
    if len(each) < 2:
        return float(mean), float("nan"), float("nan"), ONE_PROMPT
    _, low, high = bounded_interval(each[:, None], ends, run.config.measure)
    return float(mean), float(low[0]), float(high[0]), ""


def quality_table(
    run: Run, references: Mapping[str, Reference], fidelity: Fidelity, *, seed: int = 0
) -> pd.DataFrame:
    """Return FID and KID of each indicator's images and of all, on every feature."""
    rows = []
    for feature, reference in references.items():
        table = with_stored(run, run.read(f"features/{feature}", ["sample_id", "vector"]))
        for about, seen in by_indicator(table, "vector", run):
            samples = _samples(seen, table, reference)
            sizes = {"dimension": reference.vectors.shape[1], "n_reference": len(samples.second)}
            about |= {"features": feature, "reference": reference.name, **sizes}
            rows += [
                {**about, **one} for one in _distances(samples, fidelity, run.config.measure.level, seed)
            ]
    return pd.DataFrame(rows).assign(version=quality.QUALITY_VERSION)


def _samples(seen: pd.DataFrame, table: pd.DataFrame, reference: Reference) -> quality.Samples:
    """The vectors of both sides with their prompts; of renderings those of the same samples."""
    width = reference.vectors.shape[1]
    first = np.stack(seen["vector"].to_list()).astype(float) if len(seen) else np.empty((0, width))
    if reference.samples is None:
        each = np.arange(len(reference.vectors))
        return quality.Samples(first, reference.vectors, seen["unit"].to_numpy(), each, False)
    samples = pd.Index(reference.samples)
    chosen = samples.isin(seen["sample_id"])
    prompts = table.set_index("sample_id")["unit"].loc[samples[chosen]].to_numpy()
    return quality.Samples(first, reference.vectors[chosen], seen["unit"].to_numpy(), prompts, True)


def _distances(
    samples: quality.Samples, fidelity: Fidelity, level: float, seed: int
) -> list[dict[str, object]]:
    """Rows of the measures."""
    if min(len(samples.first), len(samples.second)) < 2:
        return [{"measure": "fid", "value": np.nan, "reason": "fewer than two images on a side"}]
    values, package = fidelity(samples.first, samples.second)
    rows: list[dict[str, object]] = []
    for name, distance in (("fid", quality.frechet_distance), ("kid", quality.kernel_distance)):
        biased = "biased upward by the sample size: see fid_jackknife" if name == "fid" else ""
        unbiased = quality.jackknifed(distance, samples, level=level, seed=seed)
        rows.append({"measure": name, "value": values[name], "package": package, "reason": biased})
        rows.append({"measure": f"{name}_jackknife", **unbiased})
    return rows


def captions_table(run: Run) -> pd.DataFrame:
    """Return BLEU, CIDEr, METEOR and SPICE of each indicator's captions and of all, times 100, against the prompts.

    BLEU is of all captions of a row together, with percentile intervals over prompts; the others are means over
    captions, METEOR of all captions the package's aggregate. An image without a caption is counted as missing; an
    empty caption is a caption.
    """
    table = with_stored(run, run.read(CAPTIONS, ["sample_id", "caption"]))
    captions = table[table["caption"].notna()].reset_index(names="row")
    texts = captions["caption"].to_list(), captions["prompt"].to_list()
    counts, others, rows = bleu_counts(*texts), other_scores(*texts), []
    for about, own in by_indicator(table, "caption", run):
        places = captions.index[captions["row"].isin(own.index)]
        scores = _bleu(counts[places], own["unit"], run)
        scores += [_other(name, others[name], places, own["unit"], run) for name in OTHERS]
        rows += [{**about, **one} for one in scores]
    captioner = run.meta.get(CAPTIONS, {}).get("captioner", "")
    return pd.DataFrame(rows).assign(captioner=captioner, version=CAPTIONS_VERSION)


def _bleu(counts: NDArray[np.float64], units: pd.Series, run: Run) -> list[dict[str, object]]:
    """BLEU-1 to BLEU-4 of some captions, intervals by resampling prompts."""
    if not len(counts):
        return [{"metric": name, "value": np.nan, "reason": "no captions"} for name in BLEU]
    measure = run.config.measure
    sums = pd.DataFrame(counts).groupby(units.to_numpy(), sort=False).sum().to_numpy()
    low = high = np.full(len(BLEU), np.nan)
    if len(sums) > 1:
        drawn = bleu(resample_counts(len(sums), measure.bootstrap, measure.seed).astype(float) @ sums)
        low, high = np.quantile(drawn, [(1 - measure.level) / 2, (1 + measure.level) / 2], axis=0)
    ends = zip(BLEU, *(SCALE * one for one in (bleu(sums.sum(axis=0)), low, high)))
    reason = "" if len(sums) > 1 else ONE_PROMPT
    return [dict(zip(("metric", "value", "low", "high"), row), reason=reason) for row in ends]


def _other(name: str, score: CaptionScore, places: pd.Index, units: pd.Series, run: Run) -> dict[str, object]:
    """Another metric of some captions, with its interval over prompts, or why there is none."""
    about = {"metric": name, "package": score.package}
    if score.reason:
        return {**about, "value": np.nan, "reason": score.reason}
    mean, *ends, reason = interval(pd.Series(score.each[places]), units, run, (0.0, OTHERS[name]))
    value = score.value if len(places) == len(score.each) else mean
    # METEOR of all captions is not the mean of theirs, and has their error over prompts
    low, high = np.clip(np.array(ends) + (value - mean), 0.0, OTHERS[name])
    return {**about, "value": SCALE * value, "low": SCALE * low, "high": SCALE * high, "reason": reason}

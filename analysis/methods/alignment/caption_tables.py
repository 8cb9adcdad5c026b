"""The table of captions against prompts (DALL-Eval, Cho et al. 2023, appendix D.1)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.alignment.captions import (
    BLEU,
    CAPTIONS_VERSION,
    OTHERS,
    CaptionScore,
    bleu,
    bleu_counts,
    other_scores,
)
from analysis.methods.alignment.tables import by_indicator, interval, with_stored
from analysis.stats.resampling import resample_counts
from probes.errors import UserError
from probes.runs.run import Run

KIND = "attributes/captions"
SCALE = 100  # as Table 19 prints them
COLUMNS = (
    *(
        "indicator",
        "captioner",
        "metric",
        "value",
        "low",
        "high",
        "n_images",
        "n_missing",
        "n_prompts",
        "level",
    ),
    *("package", "reason", "version"),
)


def captions_table(run: Run) -> pd.DataFrame:
    """Return BLEU, CIDEr, METEOR and SPICE of each indicator's captions and of all, times 100, against the prompts.

    BLEU is of all captions of a row together, with percentile intervals over prompts; the others are means over
    captions, METEOR of all captions the package's aggregate. An image without a caption is counted as missing; an
    empty caption is a caption.
    """
    wanted = ["sample_id", "caption"]
    stored = run.read(KIND, wanted)
    if not {*wanted} <= {*stored.columns}:
        raise UserError(
            f"{run.path / KIND}: expected columns {' and '.join(wanted)}, got {', '.join(stored.columns) or 'none'}:"
            " run --stage observe --overwrite"
        )
    table = with_stored(run, stored)
    seen = table[table["caption"].notna() & ~table["sample_id"].isin(list(run.left_out()))]
    seen = seen.reset_index(drop=True)
    texts = seen["caption"].to_list(), seen["prompt"].to_list()
    counts, others = bleu_counts(*texts), other_scores(*texts)
    fixed = {"captioner": run.meta.get(KIND, {}).get("captioner", ""), "level": run.config.measure.level}
    rows = []
    for name, own in by_indicator(seen, run):
        whole = len(table) if len(own) == len(seen) else int((table["indicator"] == name).sum())
        numbers = {"n_images": len(own), "n_missing": whole - len(own), "n_prompts": own["unit"].nunique()}
        both = [*_bleu_rows(counts[own.index], own["unit"], run), *_other_rows(others, own, len(seen), run)]
        rows += [{"indicator": name, **fixed, **numbers, **one, "version": CAPTIONS_VERSION} for one in both]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _bleu_rows(counts: NDArray[np.float64], units: pd.Series, run: Run) -> list[dict[str, object]]:
    """BLEU-1 to BLEU-4 of some captions, intervals by resampling prompts."""
    if not len(counts):
        return [{"metric": name, "value": np.nan, "reason": "no captions"} for name in BLEU]
    measure = run.config.measure
    sums = pd.DataFrame(counts).groupby(units.to_numpy(), sort=False).sum().to_numpy()
    low = high = np.full(len(BLEU), np.nan)
    reason = "fewer than two prompts"
    if len(sums) > 1:
        drawn = bleu(resample_counts(len(sums), measure.bootstrap, measure.seed).astype(float) @ sums)
        low, high = np.quantile(drawn, [(1 - measure.level) / 2, (1 + measure.level) / 2], axis=0)
        reason = ""
    values = bleu(sums.sum(axis=0))
    ends = zip(BLEU, SCALE * values, SCALE * low, SCALE * high)
    return [dict(zip(("metric", "value", "low", "high"), row), reason=reason) for row in ends]


def _other_rows(
    others: dict[str, CaptionScore], own: pd.DataFrame, whole: int, run: Run
) -> list[dict[str, object]]:
    """The other metrics of some captions, with intervals over prompts, or why there is none."""
    rows = []
    for name, largest in OTHERS.items():
        score = others[name]
        if score.reason:
            rows.append({"metric": name, "value": np.nan, "package": score.package, "reason": score.reason})
            continue
        each = pd.Series(score.each[own.index.to_numpy()])
        mean, low, high, reason = interval(each, own["unit"], run, (0.0, largest))
        value = score.value if len(own) == whole else mean
        # METEOR of all captions is not the mean of theirs, and has their error over prompts
        ends = np.clip(np.array([low, high]) + (value - mean), 0.0, largest)
        scaled = dict(zip(("value", "low", "high"), SCALE * np.array([value, *ends])))
        rows.append({"metric": name, **scaled, "package": score.package, "reason": reason})
    return rows

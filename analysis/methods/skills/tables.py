"""Tables of visual skills (PaintSkills): what each image shows, and how often what was asked for.

Rows of `analysis.tables.registry`; `analysis.methods.skills.scores` has the definitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.methods.skills.scores import (
    ACCURACY,
    TASKS,
    VERSION,
    DetectedObjects,
    chances,
    judge,
)
from analysis.stats.proportions import effective, wilson_interval
from analysis.stats.resampling import ONE_PROMPT
from probes.config.measurement import Skills
from probes.prompts.paintskills import AXES, SkillRequest

ALL = "all"
LEVELS = ("skill", "template", "object", "count", "object_b", "relation")
COUNTS = ("n", "n_prompts", "left_out", "without_image")
CHANCE, SHUFFLED = "chance", "shuffled "  # of an image
AVERAGE = "average"  # in the place of a skill: the mean of the three
NOTHING = "no image could be judged"
NO_IMAGE = "no prompt of these has an image"


@dataclass(frozen=True)
class ScoredImages:
    """Images and by what they are judged; samples, requests, detections and reasons are of each image, in one order.

    A reason says why an image cannot be judged (empty where it can); ``absent`` are the requests of prompts without an
    image.
    """

    samples: pd.DataFrame
    requests: Sequence[SkillRequest]
    seen: DetectedObjects
    reasons: Sequence[str]
    rules: Skills
    threshold: float
    detector: str
    absent: Sequence[SkillRequest] = ()


def image_table(scored: ScoredImages) -> pd.DataFrame:
    """Return what was asked for of each image and, as 1 or 0, whether it is there (``skills_images``).

    NaN where a task is of another skill, and where the image cannot be judged, for the ``reason``. Beside it how often
    a random image of its skill fits the prompt, by task, and `CHANCE` likewise.
    """
    can = np.array([reason == "" for reason in scored.reasons], bool)
    requests = [one for one, judged in zip(scored.requests, can) if judged]
    correct, shares = judge(requests, scored.seen.of(can), scored.rules)
    columns = {
        **correct,
        **{SHUFFLED + task: share for task, share in shares.items()},
        CHANCE: chances(requests),
    }
    numbers = pd.DataFrame(columns, index=np.flatnonzero(can)).reindex(range(len(can)))
    table = pd.concat([scored.samples.reset_index(drop=True), _levels(scored.requests), numbers], axis=1)
    return table.assign(detected=scored.seen.total, reason=list(scored.reasons))


def _levels(requests: Sequence[SkillRequest]) -> pd.DataFrame:
    """`LEVELS` of some prompts; empty where one is another skill's."""
    levels = [one.levels for one in requests]
    return pd.DataFrame({name: [one.get(name, "") for one in levels] for name in LEVELS}, dtype=object)


def accuracy_table(scored: ScoredImages, level: float) -> pd.DataFrame:
    """Return ``skills_accuracy``: how often images show what was asked for, by skill, task and split.

    ``shuffled`` is the accuracy of images that are dealt out at random to the prompts of their skill, of those of the
    split; ``chance`` the same of images that show exactly what was asked for. Intervals are Wilson's with the effective
    size over prompts (`analysis.stats.proportions.effective`), at `level`. The average of the skills (as in the paper's
    Table 2) has no interval. ``without_image`` counts prompts that have no image, which are in no other number.
    """
    images, rows = pd.concat([image_table(scored), _levels(scored.absent)]), []
    for skill, tasks in TASKS.items():
        for split, value, prompts in _splits(images[images["skill"] == skill], skill):
            some = prompts[prompts["sample_id"].notna()]
            for task in tasks:
                rows.append(
                    {
                        **{"skill": skill, "split": split, "level": value, "task": task},
                        **rate(some, task, level),
                        "without_image": len(prompts) - len(some),
                        "shuffled": some[SHUFFLED + task].mean(),
                        "chance": some[CHANCE].mean() if task == ACCURACY else np.nan,
                        "rule": getattr(scored.rules, skill),
                    }
                )
    rows += _average(rows)
    table = pd.DataFrame(rows)
    table = table.astype(dict.fromkeys(COUNTS, "int64"))
    return table.assign(threshold=scored.threshold, detector=scored.detector, version=VERSION)


def _splits(images: pd.DataFrame, skill: str) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """All images of a skill, then those of each level of each of its axes, in the order of the prompts."""
    if images.empty:
        return
    yield ALL, ALL, images
    for axis in dict.fromkeys((*AXES[skill][::-1], "template")):
        levels = images[axis].unique()
        for value in filter(None, sorted(levels) if axis == "count" else levels):
            yield axis, value, images[images[axis] == value]


def rate(images: pd.DataFrame, task: str, level: float) -> dict[str, object]:
    """Return the share of images for which a task (1, 0; NaN of another's) holds, with its interval over prompts."""
    can = images[images[task].notna()]
    by_prompt = can.groupby("triplet")[task].agg(["sum", "size"]).to_numpy(float)
    rate, size, _ = effective(by_prompt[:, :1], by_prompt[:, 1:])
    (low,), (high,) = wilson_interval(rate, size, level)
    nothing = NOTHING if len(images) else NO_IMAGE
    reason = nothing if not len(can) else ONE_PROMPT if len(by_prompt) < 2 else ""
    return {
        "value": float(rate[0]),
        "low": float(low),
        "high": float(high),
        "n": len(can),
        "n_prompts": len(by_prompt),
        "left_out": len(images) - len(can),
        "reason": reason,
    }


def _average(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """The mean of the skills, where all three are there."""
    table = pd.DataFrame([row for row in rows if row["split"] == ALL and row["task"] == ACCURACY])
    if len(table) < len(TASKS):
        return []
    missing = table.loc[table["value"].isna(), "reason"]
    return [
        {
            **{"skill": AVERAGE, "split": ALL, "level": ALL, "task": ACCURACY, "rule": "mean of the skills"},
            **table[["value", "shuffled", "chance"]].mean(skipna=False),
            **table[list(COUNTS)].sum(),
            "reason": "no interval of a mean of skills" if missing.empty else missing.iloc[0],
        }
    ]

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
    CLASSES,
    NUMBER,
    NUMBER_AND_CLASS,
    TASKS,
    VERSION,
    DetectedObjects,
    chances,
    dealt,
    judge,
)
from analysis.stats.proportions import effective, wilson_interval
from analysis.stats.resampling import ONE_PROMPT
from analysis.tables.interval_columns import with_ends
from analysis.tables.table import Latex, Table
from probes.config.measurement import Skills
from probes.prompts.paintskills import AXES, SkillRequest

ALL = "all"
LEVELS = ("skill", "template", "object", "count", "object_b", "relation")
ANSWERS = (ACCURACY, NUMBER, NUMBER_AND_CLASS, CLASSES)
IMAGE_COLUMNS = ("sample_id", "triplet", "seed", *LEVELS, "detected", *ANSWERS, "reason")
ACCURACY_COLUMNS = (
    *("skill", "split", "level", "task", "value", "low", "high", "n", "n_prompts", "left_out"),
    *("without_image", "shuffled", "chance", "rule", "threshold", "detector", "version", "reason"),
)
PEOPLE_COLUMNS = (
    *("annotator", "skill", "asked", *with_ends("people"), "detector", *with_ends("same"), "kappa"),
    *("n", "n_prompts", "unclear", "not_judged", "reason", "version"),
)
COUNTS = ("n", "n_prompts", "left_out", "without_image")
CHANCE = "chance"
OWN = "prompt"  # a statement or question of what the image's own prompt asks for
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
    """Return ``skills_images``: one row per image, with what was asked for and, as 1 or 0, whether it is there.

    NaN where a task is of another skill, and where the image cannot be judged, for the ``reason``.
    """
    answers = judge(scored.requests, scored.seen, scored.rules).astype({"right": float})
    wide = answers.pivot(index="image", columns="task", values="right").reindex(columns=list(ANSWERS))
    wide = wide.reindex(range(len(scored.requests)))
    reasons = np.array(scored.reasons, dtype=object)
    wide[reasons != ""] = np.nan
    table = pd.concat([scored.samples.reset_index(drop=True), _levels(scored.requests), wide], axis=1)
    return table.assign(detected=scored.seen.total, reason=reasons)[list(IMAGE_COLUMNS)]


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
    images, absent, rows = image_table(scored), _levels(scored.absent), []
    can = images["reason"] == ""
    baselines = _baselines(scored, can.to_numpy())
    for skill, tasks in TASKS.items():
        of_skill = [table[table["skill"] == skill] for table in (images, absent)]
        for split, value, some, missing in _splits(*of_skill, skill):
            for task in tasks:
                about = {"skill": skill, "split": split, "level": value, "task": task}
                chance = _mean(baselines[CHANCE], some.index) if task == ACCURACY else np.nan
                known = {"shuffled": _mean(baselines[task], some.index), "chance": chance}
                found = {**rate(some, task, level), "without_image": missing, **known}
                rows.append({**about, **found, "rule": getattr(scored.rules, skill)})
    rows += _average(rows)
    table = pd.DataFrame(rows, columns=list(ACCURACY_COLUMNS))
    table = table.astype(dict.fromkeys(COUNTS, "int64"))
    return table.assign(threshold=scored.threshold, detector=scored.detector, version=VERSION)


def _baselines(scored: ScoredImages, can: np.ndarray) -> dict[str, np.ndarray]:
    """Return for every image, by task, how often a random image of its skill fits its prompt; `CHANCE` likewise."""
    requests = [one for one, fine in zip(scored.requests, can) if fine]
    found = {**dealt(requests, scored.seen.of(can), scored.rules), CHANCE: chances(requests)}
    baselines = {task: np.full(len(can), np.nan) for task in found}
    for task, shares in found.items():
        baselines[task][can] = shares
    return baselines


def _mean(shares: np.ndarray, rows: pd.Index) -> float:
    known = shares[rows][~np.isnan(shares[rows])]
    return float(known.mean()) if len(known) else float("nan")


def _splits(
    images: pd.DataFrame, absent: pd.DataFrame, skill: str
) -> Iterator[tuple[str, str, pd.DataFrame, int]]:
    """All images of a skill, then those of each level of each of its axes, and how many prompts there have none.

    Levels stand in the order of the prompts, those without an image last.
    """
    if not len(images) + len(absent):
        return
    yield ALL, ALL, images, len(absent)
    for axis in dict.fromkeys((*AXES[skill][::-1], "template")):
        there = [*images[axis], *absent[axis]]
        for value in dict.fromkeys(sorted(there) if axis == "count" else there):
            if value:
                yield axis, value, images[images[axis] == value], int((absent[axis] == value).sum())


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
    whole = [row for row in rows if row["split"] == ALL and row["task"] == ACCURACY]
    if len(whole) < len(TASKS):
        return []
    table = pd.DataFrame(whole)
    means = {name: float(table[name].mean(skipna=False)) for name in ("value", "shuffled", "chance")}
    sums = {name: int(table[name].sum()) for name in COUNTS}
    missing = "" if np.isfinite(means["value"]) else str(table.loc[table["value"].isna(), "reason"].iloc[0])
    about = {"skill": AVERAGE, "split": ALL, "level": ALL, "task": ACCURACY, "rule": "mean of the skills"}
    reason = missing or "no interval of a mean of skills"
    return [{**about, **means, **sums, "low": np.nan, "high": np.nan, "reason": reason}]


SKILLS = (
    Table(
        "skills_images",
        "skills",
        "an image: what its prompt asks for, and whether it is there by each task of the skill",
        IMAGE_COLUMNS,
    ),
    Table(
        "skills_accuracy",
        "skills",
        "a skill, split, level and task: how often images show what was asked for, with interval, shuffled and chance",
        ACCURACY_COLUMNS,
        printed=(
            Latex(
                "skills_table02",
                "skills",
                "Accuracy of visual skills of {model}, by {detector}, in percent.",
                "Shuffled: the mean over all ways to deal the images out to the prompts of their skill. Chance: the"
                " same of images that all show what was asked for.",
            ),
        ),
    ),
    Table(
        "skills_answers",
        "skills",
        "an annotator and skill: people's answers to open questions (`triptych labels`) beside the detector",
        PEOPLE_COLUMNS,
    ),
    Table(
        "skills_people",
        "labels",
        "an annotator, skill and kind of statement: what people say (`triptych labels`) beside the detector",
        PEOPLE_COLUMNS,
        stage="",
    ),
)

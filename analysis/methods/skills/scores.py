"""Object, count and spatial accuracy from detections (PaintSkills).

**Object**: a detection over the threshold is of the class that was asked for. **Count**: as many detections are of the
class as were asked for. **Spatial**: both classes are detected, and the direction from the centre of one box to that of
the other is the relation: the longer of its horizontal and its vertical part decides, the horizontal one where they are
equal, and no relation holds between centres that coincide. Of two objects of one class either may be the one that the
prompt means.

Where the paper's formulas leave a choice open, `probes.config.measurement.Skills` holds it. Beside them stand the
tasks of its Figure 5 (b): the number alone and the number with the class, both classes without their relation.

Source: Cho et al. 2023 (DALL-Eval), section 4.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from probes.config.measurement import Skills
from probes.prompts.paintskills import SkillRequest

VERSION = "paintskills/1"
INVERSE = {"above": "below", "below": "above", "left": "right", "right": "left"}
ACCURACY, NUMBER, NUMBER_AND_CLASS, CLASSES = "accuracy", "number", "number_and_class", "classes"
TASKS = {
    "object": (ACCURACY,),
    "count": (ACCURACY, NUMBER, NUMBER_AND_CLASS),
    "spatial": (ACCURACY, CLASSES),
}
COLUMNS = ("image", "label", "score", "x0", "y0", "x1", "y1")  # of a table of detections


@dataclass(frozen=True)
class DetectedObjects:
    """Detections over a threshold, by the classes that prompts ask for.

    ``counts`` (n_images, n_classes), ``total`` (n_images,) of any class; ``surest`` (2, n_images) the class of the
    surest detection and of the next, -1 where it is another, or there is none; ``centres`` (n_images, n_classes, 2, 2)
    x (to the right) and y (down) of the centres of the two surest boxes of a class in pixels, NaN where there is none.
    """

    classes: tuple[str, ...]
    counts: NDArray[np.int64]
    total: NDArray[np.int64]
    surest: NDArray[np.int64]
    centres: NDArray[np.float64]

    def of(self, rows: Sequence[int] | NDArray) -> DetectedObjects:
        """Return what was detected in some images, by their numbers or a mask."""
        return DetectedObjects(
            self.classes, self.counts[rows], self.total[rows], self.surest[:, rows], self.centres[rows]
        )


def seen(
    detections: pd.DataFrame, n_images: int, classes: Sequence[str], threshold: float = 0.0
) -> DetectedObjects:
    """Return what was detected with a score above a threshold, from a row per detection (`COLUMNS`; ``image`` from 0).

    >>> rows = [(0, "dog", 0.9, 0, 0, 4, 4), (0, "dog", 0.2, 8, 0, 12, 4), (1, "cat", 0.8, 0, 0, 2, 2)]
    >>> found = seen(pd.DataFrame(rows, columns=COLUMNS), 2, ["dog"], 0.5)
    >>> found.counts.tolist(), found.total.tolist(), found.surest.tolist()
    ([[1], [0]], [1, 1], [[0, -1], [-1, -1]])
    """
    kept = detections[detections["score"] > threshold].astype({"image": "int64"})
    kept = kept.sort_values(["image", "score"], ascending=[True, False], kind="stable")
    which = pd.Index(list(classes)).get_indexer(kept["label"])
    kept = kept.assign(which=which, rank=kept.groupby("image").cumcount())
    two = kept[kept["rank"] < 2]
    surest = np.full((2, n_images), -1, np.int64)
    surest[two["rank"], two["image"]] = two["which"]
    total = np.bincount(kept["image"], minlength=n_images)
    kept = kept[kept["which"] >= 0]
    counts = np.zeros((n_images, len(classes)), np.int64)
    np.add.at(counts, (kept["image"], kept["which"]), 1)
    kept = kept.assign(rank=kept.groupby(["image", "which"]).cumcount()).query("rank < 2")
    centres = np.full((*counts.shape, 2, 2), np.nan)
    for axis, name in enumerate("xy"):
        centres[kept["image"], kept["which"], kept["rank"], axis] = (kept[f"{name}0"] + kept[f"{name}1"]) / 2
    return DetectedObjects(tuple(classes), counts, total, surest, centres)


def relation(offset: NDArray[np.float64]) -> NDArray[np.str_]:
    """Return the relation that an offset ``(..., 2)`` in pixels (x to the right, y down) is; empty of 0 or NaN.

    >>> relation(np.array([[3.0, -2.0], [0.0, 5.0], [-4.0, 4.0]])).tolist()
    ['right', 'below', 'left']
    """
    x, y = offset[..., 0], offset[..., 1]
    side = np.where(x > 0, "right", "left")
    side = np.where(np.abs(x) >= np.abs(y), side, np.where(y > 0, "below", "above"))
    return np.where(np.isnan(x) | ((x == 0) & (y == 0)), "", side)


def right(
    request: SkillRequest, images: DetectedObjects, rules: Skills | None = None
) -> dict[str, NDArray[np.bool_]]:
    """Return of every image whether it shows what is asked for, shape (n_images,), by the `TASKS` of its skill."""
    rules = rules or Skills()
    place = images.classes.index(request.object)
    number = images.counts[:, place]
    if request.skill == "object":
        return {ACCURACY: number > 0 if rules.object == "any" else images.surest[0] == place}
    if request.skill == "count":
        exact, whole = number == request.count, images.total == request.count
        enough = exact if rules.count == "exact" else number >= request.count
        return {ACCURACY: enough, NUMBER: whole, NUMBER_AND_CLASS: exact & whole}
    other = images.classes.index(request.object_b)
    both = number > 1 if other == place else (number > 0) & (images.counts[:, other] > 0)
    if rules.spatial == "surest":
        both = (np.sort(images.surest, axis=0) == np.sort([place, other])[:, None]).all(axis=0)
    wanted = [request.relation]
    if place == other:  # nobody says which of the two is meant
        wanted.append(INVERSE[request.relation])
    offset = images.centres[:, other, int(place == other)] - images.centres[:, place, 0]
    return {ACCURACY: both & np.isin(relation(offset), wanted), CLASSES: both}


def judge(
    requests: Sequence[SkillRequest], images: DetectedObjects, rules: Skills | None = None
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]]]:
    r"""Return by task whether each image shows what its prompt asks for, and the share of its skill's images that do.

    Both ``(n_images,)``, NaN where a task is another skill's. The mean of the shares over n prompts,
    :math:`\frac{1}{n^2} \sum_i \sum_j \mathbf{1}(\text{image } j \text{ is right for } i)`, is the accuracy of images
    that are dealt out to the prompts of their skill at random (over all permutations, so nothing is drawn).
    """
    tasks = dict.fromkeys(task for tasks in TASKS.values() for task in tasks)
    correct, shares = ({task: np.full(len(requests), np.nan) for task in tasks} for _ in range(2))
    skills = np.array([one.skill for one in requests])
    members: dict[SkillRequest, list[int]] = {}
    for index, one in enumerate(requests):
        members.setdefault(replace(one, template=""), []).append(index)
    for one, own in members.items():
        for task, of_skill in right(one, images.of(skills == one.skill), rules).items():
            shares[task][own] = of_skill.mean()
        for task, of_own in right(one, images.of(own), rules).items():
            correct[task][own] = of_own
    return correct, shares


def chances(requests: Sequence[SkillRequest]) -> NDArray[np.float64]:
    """Return for each prompt the share of its skill's prompts that the same images fulfil, ``(n_prompts,)``.

    It is the share of `judge` for a detector without error where images show exactly what their prompts ask for. With K
    objects equally often its mean is 1 / K for objects, 1 / K M with M counts, and 2 / 4 K² for four relations of two
    objects: a scene with *b left of a* is one with *a right of b*.
    """
    scenes = [(one.skill, scene_of(one)) for one in requests]
    repeats, total = Counter(scenes), Counter(one.skill for one in requests)
    return np.array([repeats[scene] / total[scene[0]] for scene in scenes])


def scene_of(request: SkillRequest) -> tuple:
    """Return what is there to be seen: the same for prompts that the same images fulfil."""
    if request.skill != "spatial":
        return (request.object, request.count)
    turned = (request.object_b, request.object, INVERSE[request.relation])
    return min((request.object, request.object_b, request.relation), turned)

"""Images of a run whose prompts ask for skills, with what its detector found in them, whatever observed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.methods.skills.scores import COLUMNS, seen
from analysis.methods.skills.tables import ScoredImages
from probes.config.schema import Config
from probes.errors import UserError
from probes.prompts import sets
from probes.prompts.paintskills import SkillRequest, requested_skills
from probes.runs.run import Run

DETR, DETR_THRESHOLD = "detr", 0.7
NOT_LOOKED_FOR, NOT_LOOKED_AT = "the detector did not look for it", "no detector observed it"


def read_scored_images(run: Run) -> ScoredImages:
    """Return a run's images with what was detected in them, whatever observed them."""
    if not run.parts("observed") or not run.config.observe.objects:
        raise UserError(
            f"{run.path}: expected detections to judge its images by, found none: run --stage observe with a detector"
            " (observe: {engine: detr}; of toyworld's images: {engine: toyworld-scenes})"
        )
    config, samples = run.config, run.samples(["sample_id", "triplet", "seed"])
    of_prompt = requested_skills(config)
    of_image, there = [of_prompt[triplet] for triplet in samples["triplet"]], set(samples["triplet"])
    names = labels(config)
    classes = list(dict.fromkeys(name for one in of_prompt for name in (one.object, one.object_b) if name))
    found = run.read("objects", ["sample_id", "label", "score", "x0", "y0", "x1", "y1"])
    number = pd.Series(range(len(samples)), index=samples["sample_id"])
    found = found.assign(
        image=found["sample_id"].map(number), label=found["label"].map(lambda label: names.get(label, label))
    )
    threshold, observer = config.skills.threshold, run.meta.get("observer") or {}
    if threshold is None:
        threshold = DETR_THRESHOLD if config.observe.engine == DETR else 0.0
    return ScoredImages(
        samples,
        of_image,
        seen(found[list(COLUMNS)], len(samples), classes, threshold),
        reasons(run, samples, of_image, names),
        config.skills,
        threshold,
        str(observer.get("detector") or observer.get("engine") or "unknown"),
        [one for number, one in enumerate(of_prompt) if number not in there],
    )


def labels(config: Config) -> dict[str, str]:
    """Return what prompts call an object, by what a detector calls it."""
    known: dict[str, str] = {}
    for content in map(sets.read, sets.names()):
        objects = content["objects"] if "skills" in content else {}
        known |= {label: name for name, label in objects.items() if label != name}
    return {**known, **{label: name for name, label in config.skills.labels.items()}}


def reasons(
    run: Run, samples: pd.DataFrame, of_image: Sequence[SkillRequest], names: Mapping[str, str]
) -> list[str]:
    """Return why an image (``sample_id``) cannot be judged by what is asked of it; empty where it can."""
    observed = run.read("observed", ["sample_id", "status", "reason", "tags"]).set_index("sample_id")
    left_out, found = run.left_out(), []
    for sample, one in zip(samples["sample_id"], of_image):
        if sample in left_out:
            found.append(left_out[sample])
        elif sample not in observed.index:
            found.append(NOT_LOOKED_AT)
        elif observed.at[sample, "status"] != "ok":
            found.append(str(observed.at[sample, "reason"]))
        else:
            asked = {names.get(tag, tag) for tag in observed.at[sample, "tags"]}
            found.append("" if {one.object, one.object_b} - {""} <= asked else NOT_LOOKED_FOR)
    return found

"""Quality of toyworld's detectors: ``python -m lab measure detectors sam grounding-dino ram``.

On unseen renderings everything is known; on generated images the checker is the truth. The detectors are loaded and
asked by the engines of the observe stage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from torchvision.ops import box_iou

from analysis.observe.objects.engines.grounded import OWN_NMS
from analysis.observe.objects.models.grounded_sam import GroundedEngine
from analysis.observe.objects.models.grounding_dino import GroundingDino
from analysis.observe.objects.models.segment_anything import SegmentAnything
from analysis.observe.objects.models.toyworld_checker import ToyworldChecker
from analysis.observe.objects.tags.ram import RamTagger, ram_files
from analysis.observe.objects.tags.tag_captions import BERT_LIMIT
from analysis.observe.objects.tags.tag_captions import captions as tag_captions
from analysis.stats.proportions import wilson_interval
from analysis.stats.rates import ALL, detection_rates
from lab.train.base.captions import random_caption
from lab.train.base.measure import benchmark_pipeline, sample
from lab.train.detectors.pictures import LABELS, Pictures, boxes_of, make_pictures
from lab.train.detectors.tagged_images import RARE_DTYPE, RARE_STEPS, checked, renderings
from lab.train.detectors.tagged_images import drawn as drawn_images
from lab.train.pages import INDICATORS
from probes import command_line
from probes.errors import UserError
from probes.toyworld import BENCHMARK_MODELS, WEIGHTS
from probes.toyworld.checker import TAGS
from probes.toyworld.draw import SIZE
from probes.toyworld.world import group_of_words, load_world

CPU = torch.device("cpu")
UNSEEN = 70_001  # seed of renderings that no training draws
UNSEEN_DRAWN = 600_000  # and of images by the benchmark models
UNSEEN_RARE = 700_000  # and of those from captions that name everything
BOX_THRESHOLD = 0.25  # as a run's, and the next
TEXT_THRESHOLD = 0.2
LEAST_IOU = 0.5


def generated(model: str, count: int, *, steps: int = 20, seed: int = 400_000) -> pd.DataFrame:
    """Images of ``count`` captions with each of the three indicators, from the same noise; a row each."""
    rng, world, rows = np.random.default_rng(seed), load_world(model), []
    known = "|".join(group_of_words())
    while len(rows) < 3 * count:
        caption, named = random_caption(world, rng)
        if named.plural:
            continue
        for indicator, word in INDICATORS.items():
            text = re.sub(rf"\ban? ({known})\b", f"a {word}", caption, count=1)
            rows.append({"prompt": len(rows) // 3, "indicator": indicator, "caption": text})
    frame = pd.DataFrame(rows)
    pipeline, scale = benchmark_pipeline(WEIGHTS / model)
    options = {"steps": steps, "guidance_scale": scale}
    images = sample(pipeline, frame["caption"], seed + frame["prompt"], progress=False, **options)
    return frame.assign(image=list(images))


def mask_iou(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> NDArray[np.float64]:
    """IoU ``(n,)`` of masks ``(n, h, w)``, pair by pair; NaN where both are empty."""
    union = (first | second).sum((1, 2))
    return np.divide((first & second).sum((1, 2)), union, out=np.full(len(first), np.nan), where=union > 0)


def mask_agreement(
    segmenter: SegmentAnything,
    images: Sequence[NDArray],
    masks: Sequence[NDArray[np.bool_]],
    labels: Sequence,
) -> pd.DataFrame:
    """IoU of the mask for the tight box of each true mask; one row per object: ``image``, ``label``, ``iou``."""
    segmented = segmenter.segment(images, [boxes_of(true) for true in masks])
    rows = []
    for number, (guess, true, names) in enumerate(zip(segmented, masks, labels)):
        rows += [(number, label, iou) for label, iou in zip(names, mask_iou(guess, true))]
    return pd.DataFrame(rows, columns=["image", "label", "iou"])


def sam_quality(segmenter: SegmentAnything, pictures: Pictures, images: pd.DataFrame) -> dict[str, Any]:
    """Mean mask IoU with true boxes on renderings, and with the checker's boxes and masks on generated images."""
    seen = [pictures.seen(row) for row in range(len(pictures))]
    labels = [[LABELS[number] for number in numbers] for numbers, _ in seen]
    rendered = mask_agreement(segmenter, pictures.images, [masks for _, masks in seen], labels)
    shown = list(images["image"])
    checked = [result.detections for result in ToyworldChecker().detect(shown, [()] * len(shown))]
    masks = [np.stack([d.mask for d in one]) if one else np.zeros((0, SIZE, SIZE), bool) for one in checked]
    made = mask_agreement(segmenter, shown, masks, [[d.label for d in one] for one in checked])
    made["indicator"] = images["indicator"].to_numpy()[made["image"]]
    by_indicator = made.groupby("indicator")["iou"].mean().round(4).to_dict()
    return {
        "renderings": {"images": len(pictures), **_ious(rendered)},
        "generated": {"images": len(images), **_ious(made), "by_indicator": by_indicator},
    }


def _ious(table: pd.DataFrame) -> dict[str, Any]:
    by_label = table.groupby("label")["iou"].agg(["mean", "count"])
    return {
        "objects": len(table),
        "mean_iou": _number(table["iou"].mean()),
        "by_label": {
            label: {"iou": _number(row["mean"]), "n": int(row["count"])} for label, row in by_label.iterrows()
        },
    }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)


def detections(detector: GroundingDino, images: Sequence[NDArray], batch: int = 32) -> pd.DataFrame:
    """Every query's score for every tag, all of `TAGS` asked for at once; scores under 0.01 are left out."""
    (text,) = tag_captions(TAGS, detector.tokenizer, BERT_LIMIT)
    words = [[token for word in text.words[tag] for token in word] for tag in TAGS]
    parts = []
    for start in range(0, len(images), batch):
        some = images[start : start + batch]
        boxes, chances = detector.ground(some, [text.text] * len(some))
        scores = np.stack([chances[..., tokens].amax(-1).numpy() for tokens in words], -1)
        image, query, label = np.nonzero(scores > 0.01)
        centre, size = np.split(boxes.numpy()[image, query] * some[0].shape[0], 2, axis=1)
        corners = np.concatenate([centre - size / 2, centre + size / 2], 1).clip(0, some[0].shape[0])
        table = pd.DataFrame(corners, columns=["x0", "y0", "x1", "y1"])
        parts.append(
            table.assign(image=start + image, label=np.array(TAGS)[label], score=scores[image, query, label])
        )
    return pd.concat(parts, ignore_index=True)


def average_precision(scores: ArrayLike, hits: ArrayLike, objects: int) -> float:
    """Area under the curve of precision over recall of detections of one class, matched or not; NaN without objects.

    Source: Lin et al. 2014 (COCO) for the matching (best score first, each object once) and the precision made to fall;
    the area is exact rather than read at 101 points.
    """
    if objects == 0:
        return float("nan")
    right = np.asarray(hits, dtype=bool)[np.argsort(-np.asarray(scores, dtype=float), kind="stable")]
    precision = right.cumsum() / np.arange(1, len(right) + 1)
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    return float(falling[right].sum() / objects)


def matched(scores: ArrayLike, overlaps: ArrayLike, minimum: float = 0.5) -> NDArray[np.bool_]:
    """Which detections of one class in one image are matched, best score first, to an object not yet taken.

    ``overlaps`` is the IoU ``(m, n)`` with the objects of that class.
    """
    overlaps = np.array(overlaps, dtype=float)
    hits = np.zeros(len(overlaps), dtype=bool)
    for number in np.argsort(-np.asarray(scores, dtype=float), kind="stable"):
        if overlaps.shape[1] and overlaps[number].max() >= minimum:
            hits[number] = True
            overlaps[:, overlaps[number].argmax()] = -1.0
    return hits


def ap_by_label(detected: pd.DataFrame, truth: pd.DataFrame) -> pd.Series:
    """Average precision at IoU 0.5 for each label of ``truth`` (``image``, ``label`` and box)."""
    values = {}
    box = ["x0", "y0", "x1", "y1"]
    for label, there in truth.groupby("label"):
        of_label = detected[detected["label"] == label]
        boxes = dict(iter(there.groupby("image")))
        scores, hits = [], []
        for image, some in of_label.groupby("image"):
            true = boxes[image][box].to_numpy() if image in boxes else np.zeros((0, 4))
            scores.append(some["score"].to_numpy())
            hits.append(matched(scores[-1], _ious_of_boxes(some[box], true), LEAST_IOU))
        joined = (np.concatenate(scores), np.concatenate(hits)) if scores else ([], [])
        values[label] = average_precision(*joined, len(there))
    return pd.Series(values)


def _ious_of_boxes(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    return box_iou(*(torch.from_numpy(np.asarray(boxes, float)) for boxes in (first, second))).numpy()


def rates(detected: pd.DataFrame, truth: pd.DataFrame, images: pd.DataFrame, min_iou: float) -> pd.DataFrame:
    """Recall and precision by label and indicator: a label counts by image, at ``min_iou`` or more with the true box.

    A detection is a label whose best box scores above `BOX_THRESHOLD`.
    """
    box, key = ["x0", "y0", "x1", "y1"], ["image", "label"]
    detected = detected[detected["score"] > BOX_THRESHOLD].sort_values("score", ascending=False)
    asked = images[["prompt", "indicator"]].assign(image=range(len(images)))
    items = asked.merge(pd.DataFrame({"label": TAGS}), how="cross")
    items = items.merge(truth[[*key, *box]], "left", on=key)
    items = items.merge(detected.drop_duplicates(key)[[*key, *box]], "left", on=key, suffixes=("", "_found"))
    items = items.assign(object=items["label"], truth=items["x0"].notna(), detected=items["x0_found"].notna())
    both = items[items["truth"] & items["detected"]]
    found = both[[f"{side}_found" for side in box]]
    near = _ious_of_boxes(found, both[box]).diagonal() >= min_iou
    away = both[~near]  # one missed and one made up
    items = pd.concat(
        [items.drop(away.index), away.assign(detected=False), away.assign(truth=False)], ignore_index=True
    )
    return detection_rates(items, indicators=list(INDICATORS), contrasts=[("masculine", "feminine")])


def as_in_a_run(
    detector: GroundingDino, segmenter: SegmentAnything, images: Sequence[NDArray]
) -> pd.DataFrame:
    """Return detections that a run of a benchmark model keeps, after thresholds and suppression of overlaps."""
    thresholds = {"box_threshold": BOX_THRESHOLD, "text_threshold": TEXT_THRESHOLD, "nms_iou": OWN_NMS}
    engine = GroundedEngine(detector, segmenter, **thresholds, batch=12)
    rows = []
    for start in range(0, len(images), 12):
        some = images[start : start + 12]
        for number, result in enumerate(engine.detect(some, [TAGS] * len(some))):
            rows += [(start + number, d.label, d.score, *d.box) for d in result.detections]
    return pd.DataFrame(rows, columns=["image", "label", "score", "x0", "y0", "x1", "y1"])


def dino_quality(
    detector: GroundingDino, segmenter: SegmentAnything, pictures: Pictures, images: pd.DataFrame
) -> dict[str, Any]:
    """AP50 on renderings, and recall and precision on generated images against the checker."""
    truth = []
    for row in range(len(pictures)):
        labels, masks = pictures.seen(row)
        truth += [(row, LABELS[label], *box) for label, box in zip(labels, boxes_of(masks))]
    columns = ["image", "label", "x0", "y0", "x1", "y1"]
    ap = ap_by_label(detections(detector, list(pictures.images)), pd.DataFrame(truth, columns=columns))
    checked = ToyworldChecker().detect(list(images["image"]), [()] * len(images))
    there = [(number, d.label, *d.box) for number, one in enumerate(checked) for d in one.detections]
    detected = detections(detector, list(images["image"]))
    result: dict[str, Any] = {
        "renderings": {
            "images": len(pictures),
            "ap50_over_labels": _number(ap.mean()),
            "by_label": {label: _number(value) for label, value in ap.items()},
        }
    }
    kept = as_in_a_run(detector, segmenter, list(images["image"]))
    for name, chosen, min_iou in (
        ("presence", detected, 0.0),
        ("iou_0.5", detected, LEAST_IOU),
        ("run_presence", kept, 0.0),
        ("run_iou_0.5", kept, LEAST_IOU),
    ):
        table = rates(chosen, pd.DataFrame(there, columns=columns), images, min_iou)
        table = table[(table["object"] == ALL) | table["indicator"].isin(list(INDICATORS))]
        numbers = table[["value", "low", "high"]].map(_number)
        columns_kept = (
            table[["quantity", "object", "indicator"]].join(numbers).assign(n=table["n"].astype(int))
        )
        result[f"generated_{name}"] = {
            "images": len(images),
            "box_threshold": BOX_THRESHOLD,
            **({"text_threshold": TEXT_THRESHOLD, "nms_iou": OWN_NMS} if name.startswith("run") else {}),
            "rates": columns_kept.astype(object).replace({np.nan: None}).to_dict("records"),
        }
    return result


def says(tagger: RamTagger, images: NDArray[np.uint8], batch: int = 32) -> NDArray[np.bool_]:
    """Return what the tagger says of pictures ``(n, 64, 64, 3)``: ``(n, tags)``, in the order of its list."""
    limits = np.array(tagger.files.thresholds)
    chunks = (tagger.probabilities(images[start : start + batch]) for start in range(0, len(images), batch))
    return np.concatenate([chunk > limits for chunk in chunks])


def agreement(said: NDArray[np.bool_], truth: NDArray[np.bool_], tags: tuple[str, ...]) -> dict[str, Any]:
    """Recall and precision of each tag ``(n, tags)`` against the checker's, and of all taken together.

    Intervals are Wilson's (95 %). A recall of a tag that is in no image, or a precision of one never said, is None.
    """
    both, seen, named = ((table).sum(0) for table in (said & truth, truth, said))
    by_tag = {
        tag: {
            "recall": _share(both[number], seen[number]),
            "precision": _share(both[number], named[number]),
            "recall_interval": _interval(both[number], seen[number]),
            "precision_interval": _interval(both[number], named[number]),
            "seen": int(seen[number]),
            "said": int(named[number]),
        }
        for number, tag in enumerate(tags)
    }
    lowest = {
        f"lowest_{name}": min((row[name] for row in by_tag.values() if row[name] is not None), default=None)
        for name in ("recall", "precision")
    }
    pooled = {"recall": _share(both.sum(), seen.sum()), "precision": _share(both.sum(), named.sum())}
    return {"images": len(said), **pooled, **lowest, "by_tag": by_tag}


def _interval(part: int, whole: int) -> list[float] | None:
    if not whole:
        return None
    return [round(float(end), 4) for end in wilson_interval(np.float64(part / whole), int(whole), 0.95)]


def _share(part: int, whole: int) -> float | None:
    return round(float(part / whole), 4) if whole else None


def ram_quality(weights: Path, count: int, drawn_each: int, rare: int, steps: int) -> dict[str, Any]:
    """Compare the tagger with the checker on renderings and on generated images."""
    images = (
        drawn_images(drawn_each, UNSEEN_DRAWN, steps=steps)
        if drawn_each
        else np.zeros((0, SIZE, SIZE, 3), np.uint8)
    )
    made: dict[str, Any] = {"models": list(BENCHMARK_MODELS), "images_each": drawn_each, "steps": steps}
    if rare:
        more = drawn_images(0, UNSEEN_RARE, steps=RARE_STEPS, each=rare, dtype=RARE_DTYPE)
        images = np.concatenate([images, more])
        made["rare"] = {"captions_a_tag": rare, "images": len(more), "steps": RARE_STEPS}
    tagger = RamTagger(ram_files(weights / "ram" / "model.safetensors"), CPU)
    rendered = renderings(count, UNSEEN, through_vae=0.0)
    return {
        "drawn_by": made,
        "renderings": agreement(says(tagger, rendered), checked(rendered), tagger.files.tags),
        "drawn": agreement(says(tagger, images), checked(images), tagger.files.tags),
    }


def measure(
    detector: Annotated[list[str], ("sam", "grounding-dino", "ram")],
    *,
    weights: Path = WEIGHTS,
    model: Annotated[str, BENCHMARK_MODELS, "what made the images"] = BENCHMARK_MODELS[0],
    pictures: Annotated[int, "unseen renderings"] = 1000,
    captions: Annotated[int, "each with three indicators"] = 100,
    drawn: Annotated[int, command_line.whole_number(0), "for ram: images by each benchmark model"] = 200,
    rare: Annotated[int, "for ram: captions of each benchmark model that name a tag"] = 0,
    steps: Annotated[int, "of the benchmark model's sampler"] = 20,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Measure detectors on unseen renderings, whose content is known, and on images that the checker reads."""
    if "ram" in detector:
        if not drawn + rare:
            raise UserError(
                "--drawn: expected images to compare ram with, found none: name --drawn or --rare"
            )
        yield "ram", ram_quality(weights, pictures, drawn, rare, steps)
    if {*detector} == {"ram"}:
        return
    rendered, images = (
        make_pictures(pictures, UNSEEN, through_vae=0.0),
        generated(model, captions, steps=steps),
    )
    segmenter = SegmentAnything(weights / "sam" / "model.safetensors", CPU)
    made = {"images_from": {"model": model, "captions": captions, "steps": steps}}
    if "sam" in detector:
        yield "sam", made | sam_quality(segmenter, rendered, images)
    if "grounding-dino" in detector:
        dino = GroundingDino(weights / "grounding-dino" / "model.safetensors", "", CPU)
        yield "grounding-dino", made | dino_quality(dino, segmenter, rendered, images)

"""Quality of toyworld's detectors: ``python -m lab.train.detectors.measure --help``.

On unseen renderings everything is known; on generated images the checker is the truth. Both detectors are loaded and
asked by the engines of the observe stage. ``quality.json`` is written beside the weights.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
from analysis.observe.objects.tags.tag_captions import BERT_LIMIT, captions
from analysis.stats.rates import ALL, detection_rates
from lab.train.base.captions import random_caption
from lab.train.detectors.average_precision import average_precision, matched
from lab.train.detectors.pictures import LABELS, PictureSet, boxes_of, make_pictures
from lab.train.detectors.tagged_images import RARE_DTYPE, RARE_STEPS, drawn, renderings
from lab.train.detectors.tagger_quality import tagger_quality
from probes import command_line
from probes.errors import UserError
from probes.runs.parts import write_bytes
from probes.toyworld import BENCHMARK_MODELS, WEIGHTS
from probes.toyworld.checker import TAGS
from probes.toyworld.draw import SIZE
from probes.toyworld.world import group_of_words, load_world

INDICATORS = {"neutral": "person", "feminine": "woman", "masculine": "man"}
UNSEEN = 70_001  # seed of renderings that no training draws
UNSEEN_DRAWN = 600_000  # and of images by the benchmark models
UNSEEN_RARE = 700_000  # and of those from captions that name everything
BOX_THRESHOLD = 0.25  # as a run's, and the next
TEXT_THRESHOLD = 0.2
LEAST_IOU = 0.5


def unseen(count: int = 1000, *, through_vae: float = 0.0) -> PictureSet:
    """Renderings that no training saw."""
    return make_pictures(count, UNSEEN, through_vae=through_vae)


def generated(model: str, count: int, *, steps: int = 20, seed: int = 400_000) -> pd.DataFrame:
    """Images of ``count`` captions with each of the three indicators, from the same noise; a row each."""
    from lab.train.base.measure import benchmark_pipeline, sample

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


def sam_quality(segmenter: SegmentAnything, pictures: PictureSet, images: pd.DataFrame) -> dict[str, Any]:
    """Mean mask IoU with true boxes on renderings, and with the checker's boxes and masks on generated images."""
    seen = [pictures.seen(row) for row in range(len(pictures))]
    drawn = mask_agreement(
        segmenter, pictures.images, [m for _, m in seen], [[LABELS[n] for n in labels] for labels, _ in seen]
    )
    checked = [
        result.detections for result in ToyworldChecker().detect(list(images["image"]), [()] * len(images))
    ]
    made = mask_agreement(
        segmenter,
        list(images["image"]),
        [np.stack([d.mask for d in one]) if one else np.zeros((0, 64, 64), bool) for one in checked],
        [[d.label for d in one] for one in checked],
    )
    made["indicator"] = images["indicator"].to_numpy()[made["image"]]
    by_cell = made.pivot_table(index="label", columns="indicator", values="iou", aggfunc=["mean", "count"])
    return {
        "renderings": {"images": len(pictures), **_ious(drawn)},
        "generated": {
            "images": len(images),
            **_ious(made),
            "by_indicator": made.groupby("indicator")["iou"].mean().round(4).to_dict(),
            "by_label_and_indicator": {
                label: {
                    name: {"iou": _number(row["mean", name]), "n": int(np.nan_to_num(row["count", name]))}
                    for name in INDICATORS
                }
                for label, row in by_cell.iterrows()
            },
        },
    }


def _ious(table: pd.DataFrame) -> dict[str, Any]:
    by_label = table.groupby("label")["iou"].agg(["mean", "count"])
    return {
        "objects": len(table),
        "mean_iou": _number(table["iou"].mean()),
        "mean_iou_over_labels": _number(by_label["mean"].mean()),
        "by_label": {
            label: {"iou": _number(row["mean"]), "n": int(row["count"])} for label, row in by_label.iterrows()
        },
    }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)


def detections(detector: GroundingDino, images: Sequence[NDArray], batch: int = 32) -> pd.DataFrame:
    """Every query's score for every tag, all of `TAGS` asked for at once; scores under 0.01 are left out."""
    (text,) = captions(TAGS, detector.tokenizer, BERT_LIMIT)
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
    detected = detected[detected["score"] > BOX_THRESHOLD].sort_values("score", ascending=False)
    best = detected.drop_duplicates(["image", "label"]).set_index(["image", "label"])
    there = truth.set_index(["image", "label"])
    box = ["x0", "y0", "x1", "y1"]
    rows = []
    for image, (prompt, indicator) in enumerate(zip(images["prompt"], images["indicator"])):
        for label in TAGS:
            key = (image, label)
            true, seen = key in there.index, key in best.index
            if true and seen and min_iou > 0:
                near = _ious_of_boxes(best.loc[[key], box], there.loc[[key], box])[0, 0]
                if near < min_iou:  # one missed and one made up
                    rows += [(prompt, indicator, label, True, False), (prompt, indicator, label, False, True)]
                    continue
            rows.append((prompt, indicator, label, true, seen))
    items = pd.DataFrame(rows, columns=["prompt", "indicator", "object", "truth", "detected"])
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
    detector: GroundingDino, segmenter: SegmentAnything, pictures: PictureSet, images: pd.DataFrame
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
        result[f"generated_{name}"] = {
            "images": len(images),
            "box_threshold": BOX_THRESHOLD,
            **({"text_threshold": TEXT_THRESHOLD, "nms_iou": OWN_NMS} if name.startswith("run") else {}),
            "rates": [
                {
                    "quantity": row.quantity,
                    "object": row.object,
                    "indicator": row.indicator,
                    "value": _number(row.value),
                    "low": _number(row.low),
                    "high": _number(row.high),
                    "n": int(row.n),
                }
                for row in table.itertuples()
                if row.object == ALL or row.indicator in INDICATORS
            ],
        }
    return result


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.train.detectors.measure", description=__doc__.split("\n\n")[0]
    )
    add, count = main.add_argument, command_line.count
    add("detector", nargs="+", choices=["sam", "grounding-dino", "ram"])
    add("--weights", type=command_line.existing_folder, default=WEIGHTS)
    add("--model", choices=BENCHMARK_MODELS, default=BENCHMARK_MODELS[0], help="what made the images")
    add("--renderings", type=count, default=1000)
    add("--captions", type=count, default=100, help="each with three indicators")
    add(
        "--drawn",
        type=command_line.whole_number(0),
        default=200,
        help="images by each benchmark model from random captions, for ram",
    )
    add(
        "--rare",
        type=command_line.whole_number(0),
        default=0,
        help="beside these so many captions of each benchmark model that name a tag",
    )
    add(
        "--steps",
        type=command_line.whole_number(1, 1000),
        default=20,
        help="of the benchmark model's sampler",
    )
    add("--threads", type=command_line.threads, default=1)
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    if "ram" in options.detector and not (options.drawn or options.rare):
        raise UserError(
            "--drawn: expected images to hold ram against, found none: leave it out, or name --rare"
        )
    needed = [
        *options.detector,
        *(["sam"] if "grounding-dino" in options.detector else []),
    ]  # its boxes get masks
    for name in dict.fromkeys(needed):
        if not (options.weights / name / "model.safetensors").is_file():
            raise UserError(
                f"--weights: expected the detectors' folder, found no {options.weights / name / 'model.safetensors'}: "
                "leave --weights out, or train them with python -m lab.train.detectors"
            )
    for name in options.detector:
        command_line.writable(options.weights / name / "quality.json")
    torch.set_num_threads(options.threads)
    if "ram" in options.detector:
        measure_ram(options)
    detectors = [name for name in options.detector if name != "ram"]
    if not detectors:
        return
    pictures = unseen(options.renderings)
    images = generated(options.model, options.captions, steps=options.steps)
    for name in detectors:
        path, cpu = options.weights / name / "model.safetensors", torch.device("cpu")
        if name == "sam":
            quality = sam_quality(SegmentAnything(path, cpu), pictures, images)
        else:
            segmenter = SegmentAnything(options.weights / "sam" / "model.safetensors", cpu)
            quality = dino_quality(GroundingDino(path, "", cpu), segmenter, pictures, images)
        made = {"model": options.model, "captions": options.captions, "steps": options.steps}
        _write(path.parent / "quality.json", {"images_from": made, **quality})


def measure_ram(options: argparse.Namespace) -> None:
    """Compare the tagger with the checker on renderings and on generated images, and write its quality."""
    path = options.weights / "ram" / "model.safetensors"
    images = np.zeros((0, SIZE, SIZE, 3), np.uint8)
    if options.drawn:
        images = drawn(options.drawn, UNSEEN_DRAWN, steps=options.steps)
    made: dict[str, Any] = {
        "models": list(BENCHMARK_MODELS),
        "images_each": options.drawn,
        "steps": options.steps,
    }
    if options.rare:
        more = drawn(0, UNSEEN_RARE, steps=RARE_STEPS, each=options.rare, dtype=RARE_DTYPE)
        images = np.concatenate([images, more])
        made["rare"] = {"captions_a_tag": options.rare, "images": len(more), "steps": RARE_STEPS}
    quality = tagger_quality(
        RamTagger(ram_files(path), torch.device("cpu")),
        renderings=renderings(options.renderings, UNSEEN, through_vae=0.0),
        drawn=images,
    )
    _write(path.parent / "quality.json", {"drawn_by": made, **quality})


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


def _write(path: Path, quality: Mapping[str, Any]) -> None:
    write_bytes(path, (json.dumps(quality, indent=1) + "\n").encode())
    top = {
        name: value for name, value in quality["renderings"].items() if not isinstance(value, (dict, list))
    }
    print(path, top)


if __name__ == "__main__":
    sys.exit(main())

"""Word maps compared with the truth: ``python -m lab.validate.word_maps [unets] [transformers] [concepts]``.

The benchmark models generate captions that name nouns; the checker says which pixels of the image are each noun's; the
noun's word map by each definition, stretched and cut at a threshold, is compared with them: intersection over union
(IoU). Thresholds are chosen on the even prompts of the first model; its odd prompts and the other models only report.
Of concepts, which are in the image and not in the prompt, the area under the curve (AUC) of the map against the mask is
measured, and that of another image's map.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from diffusers import DiffusionPipeline, StableDiffusionImg2ImgPipeline
from PIL import Image
from sklearn.metrics import roc_auc_score
from tqdm import tqdm

from hooks import Probe
from hooks.attention.definitions import (
    DAAM,
    DECODER_PRODUCT,
    JOINT_MASS,
    JOINT_SHARE,
    OUTPUT_SPACE,
    SELF_REFINED,
    Definition,
)
from hooks.attention.maps import resize
from lab.measured import MeasuredPage
from lab.train.base.captions import random_caption
from lab.train.base.measure import benchmark_pipeline
from probes.toyworld import BENCHMARK_MODELS, TRANSFORMERS, WEIGHTS
from probes.toyworld.checker import LEAST, VERSION, drawable_area, drop_isolated, read_colours
from probes.toyworld.draw import render
from probes.toyworld.palette import INDEX
from probes.toyworld.scene import parse, sample_scene
from probes.toyworld.world import load_world

THRESHOLDS = np.round(np.arange(0.025, 0.976, 0.025), 3)
FIXED = (0.35, 0.4)  # the thresholds of Tang et al. and of Wu et al.
PROMPTS, IMAGES = 240, 96  # captions of a model; images of concepts
CONCEPT_SEED, CONCEPT_STEPS = 900_000, 20
SUBJECTS = ("a person", "a woman", "a man")  # prompts that name no thing
# models, definitions of which the first is the published one, first seed, steps
DRAWN: dict[str, tuple[Sequence[str], Sequence[Definition], int, int]] = {
    "unets": (BENCHMARK_MODELS, (DAAM, DECODER_PRODUCT, SELF_REFINED), 700_000, 30),
    "transformers": (TRANSFORMERS, (JOINT_MASS, JOINT_SHARE, OUTPUT_SPACE), 800_000, 20),
}


def thing_masks(images: np.ndarray, thing: str) -> np.ndarray:
    """Masks ``(n, 64, 64)`` bool of what is seen of a thing's own colour; all false where it counts as absent."""
    mask = drop_isolated((read_colours(images) == INDEX[thing]) & drawable_area(thing))
    mask[mask.sum((1, 2)) < LEAST[thing]] = False
    return mask


@dataclass(frozen=True)
class Instance:
    """One noun that was named and drawn."""

    prompt: int
    noun: str
    truth: np.ndarray  # (64, 64), bool
    maps: list[np.ndarray]  # (h, w), by definition


def iou(maps: Sequence[np.ndarray], truths: np.ndarray, thresholds: Sequence[float]) -> np.ndarray:
    """IoU of every map (h, w) with its truth (maps, H, W) at every threshold, shape (thresholds, maps).

    A map's mask are its pixels strictly above the threshold, after resizing to the truth's size and min-max.
    """
    large = np.stack([resize(one, truths.shape[1:]) for one in maps])
    low, high = (extreme(axis=(1, 2), keepdims=True) for extreme in (large.min, large.max))
    normal = (large - low) / np.maximum(high - low, 1e-12)
    overlaps = []
    for threshold in thresholds:
        masks = normal > threshold
        overlaps.append((masks & truths).sum((1, 2)) / (masks | truths).sum((1, 2)))
    return np.array(overlaps)


@torch.inference_mode()
def draw(
    pipe: DiffusionPipeline,
    definitions: Sequence[Definition],
    prompts: int,
    *,
    steps: int,
    guidance_scale: float,
    seed: int,
    batch_size: int = 24,
) -> Iterator[Instance]:
    """Every noun that was named and drawn in images of random captions, each from a noise of its own."""
    rng, world = np.random.default_rng(seed), load_world()
    captions = [random_caption(world, rng)[0] for _ in range(prompts)]
    pipe.set_progress_bar_config(disable=True)
    options = {"num_inference_steps": steps, "guidance_scale": guidance_scale, "output_type": "np"}
    for start in tqdm(range(0, prompts, batch_size), unit="batch"):
        batch = captions[start : start + batch_size]
        noise = [torch.Generator().manual_seed(seed + start + row) for row in range(len(batch))]
        with contextlib.ExitStack() as stack:
            probes = [stack.enter_context(Probe(pipe, sites="latent", word_maps=one)) for one in definitions]
            images = (pipe(batch, generator=noise, **options).images * 255).round().astype(np.uint8)
        for row, image in enumerate(images):
            for word in probes[0].words(row=row):
                if word.lower not in LEAST or not word.positions or word.cut_off:
                    continue
                truth = thing_masks(image[None], word.lower)[0]
                if truth.any():
                    maps = [probe.word_map(word.text, row=row).values for probe in probes]
                    yield Instance(start + row, word.lower, truth, maps)


def overlaps(instances: Sequence[Instance], definition: int) -> np.ndarray:
    """The IoU of every noun's map by a definition at every threshold, (thresholds, nouns)."""
    maps = [one.maps[definition] for one in instances]
    return iou(maps, np.stack([one.truth for one in instances]), THRESHOLDS)


def figures(tuned: np.ndarray, held: np.ndarray) -> tuple[dict[str, float], np.ndarray]:
    """Mean IoUs at the threshold best on the tuning nouns and at the fixed ones, and each held-out noun's at the first.

    `tuned` and `held` are of `overlaps`.
    """
    best = int(tuned.mean(axis=1).argmax())
    fixed = {f"held_{theta}": held[np.abs(THRESHOLDS - theta).argmin()].mean() for theta in FIXED}
    numbers = {"threshold": THRESHOLDS[best], "held": held[best].mean(), **fixed}
    return {name: round(float(value), 4) for name, value in numbers.items()}, held[best]


def interval(
    differences: np.ndarray, prompts: np.ndarray, *, resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """95 % interval of a mean difference, by the bootstrap over prompts."""
    rng = np.random.default_rng(seed)
    ids, inverse = np.unique(prompts, return_inverse=True)
    sums, counts = np.bincount(inverse, differences), np.bincount(inverse)
    drawn = rng.integers(0, len(ids), (resamples, len(ids)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return round(float(low), 4), round(float(high), 4)


def named_words(kind: str) -> dict[str, Any]:
    """Generate with the U-Nets or the transformers of `DRAWN`, and measure the maps of nouns that prompts name."""
    models, definitions, first_seed, steps = DRAWN[kind]
    rows, tuning = [], []
    for number, model in enumerate(models):
        pipe, scale = benchmark_pipeline(WEIGHTS / model)
        seed = first_seed + 10_000 * number
        held = list(draw(pipe, definitions, PROMPTS, steps=steps, guidance_scale=scale, seed=seed))
        if not number:
            tuning, held = ([one for one in held if one.prompt % 2 == odd] for odd in (0, 1))
        prompts, first = np.array([one.prompt for one in held]), None
        for place, definition in enumerate(definitions):
            numbers, values = figures(overlaps(tuning, place), overlaps(held, place))
            row = {"model": model, "definition": definition.name, **numbers, "n": len(held)}
            if first is None:
                first = values
            else:
                row["over"] = round(float((values - first).mean()), 4)
                row["over_interval"] = interval(values - first, prompts)
            rows.append(row)
    settings = {"prompts": PROMPTS, "steps": steps, "seed": first_seed, "checker": VERSION}
    return {"settings": settings | {"nouns_tuning": len(tuning)}, "rows": rows}


@torch.inference_mode()
def read_concepts(
    model: str, count: int, steps: int, pictures: bool, batch_size: int = 24
) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 64, 64, 3) of prompts that name no thing, and the checker's things' maps (n, things, h, w).

    Or `pictures` of the renderer, read with an empty prompt in one call of the denoiser, noised by half.
    """
    pipe, scale = benchmark_pipeline(WEIGHTS / model)
    options: dict[str, Any] = {"num_inference_steps": steps, "guidance_scale": scale, "output_type": "np"}
    if pictures:
        pipe = StableDiffusionImg2ImgPipeline(**pipe.components, requires_safety_checker=False)
        options |= {"strength": 0.5, "output_type": "latent", "callback_on_step_end": _stop}
    pipe.set_progress_bar_config(disable=True)
    rng, world, images, maps = np.random.default_rng(CONCEPT_SEED), load_world(), [], []
    for start in tqdm(range(0, count, batch_size), unit="batch"):
        numbers = range(start, min(start + batch_size, count))
        prompts = [SUBJECTS[number % len(SUBJECTS)] for number in numbers]
        options["generator"] = [torch.Generator().manual_seed(CONCEPT_SEED + number) for number in numbers]
        if pictures:
            drawn = np.stack([render(sample_scene(parse(prompt, world), world, rng)) for prompt in prompts])
            options["image"], prompts = [Image.fromarray(one) for one in drawn], [""] * len(prompts)
        with Probe(pipe, sites="latent", concepts=[*LEAST]) as probe:
            output = pipe(prompts, **options).images
        images.append(drawn if pictures else (output * 255).round().astype(np.uint8))
        maps += [[probe.concept_map(thing, row).values for thing in LEAST] for row in range(len(numbers))]
    return np.concatenate(images), np.array(maps)


def _stop(pipe: Any, step: int, timestep: Any, values: dict[str, Any]) -> dict[str, Any]:
    """End the pipeline's loop after its first step."""
    pipe._interrupt = True
    return values


def concept_areas(images: np.ndarray, maps: np.ndarray) -> list[dict]:
    """AUC of each seen thing's map against its mask, and of the same thing's map in the next image."""
    found = []
    for number, thing in enumerate(LEAST):
        for image, truth in enumerate(thing_masks(images, thing)):
            if truth.any():
                both = (maps[place % len(maps), number] for place in (image, image + 1))
                areas = [roc_auc_score(truth.ravel(), resize(one, truth.shape).ravel()) for one in both]
                found.append({"thing": thing, "image": image, "area": areas[0], "elsewhere": areas[1]})
    return found


def concepts() -> dict[str, Any]:
    """Measure maps of things that no prompt names; movable things stand on either side of the figure."""
    world, rows, by_thing = load_world(), [], []
    for model, pictures in (("toyworld", False), ("toyworld", True), ("toyworld-dit", False)):
        areas = concept_areas(*read_concepts(model, IMAGES, CONCEPT_STEPS, pictures))
        for which in ("all", "movable"):
            some = [one for one in areas if which == "all" or one["thing"] in world.objects]
            numbers = np.array([one["image"] for one in some])
            values, others = (np.array([one[name] for one in some]) for name in ("area", "elsewhere"))
            row = {"model": model, "pictures": pictures, "which": which, "n": len(some)}
            row |= {"images": len({*numbers.tolist()}), "area": round(float(values.mean()), 4)}
            row |= {"area_interval": interval(values, numbers), "elsewhere": round(float(others.mean()), 4)}
            rows.append(row | {"over_elsewhere_interval": interval(values - others, numbers)})
        for thing in dict.fromkeys(one["thing"] for one in areas):
            values = np.array([one["area"] for one in areas if one["thing"] == thing])
            about = {"model": model, "pictures": pictures, "thing": thing, "n": len(values)}
            by_thing.append(about | {"area": round(float(values.mean()), 4)})
    settings = {"images": IMAGES, "steps": CONCEPT_STEPS, "seed": CONCEPT_SEED, "checker": VERSION}
    return {"settings": settings, "rows": rows, "by_thing": by_thing}


def measure(part: str) -> dict[str, Any]:
    """The numbers of `named_words` or `concepts`, by the name of the part."""
    torch.set_num_threads(1)
    return {part: concepts() if part == "concepts" else named_words(part)}


PAGE = MeasuredPage(
    "word_maps",
    "lab.validate.word_maps",
    "Compare word maps with exact masks of generated images.",
    lambda numbers: numbers,
    measure,
    (*DRAWN, "concepts"),
)

if __name__ == "__main__":
    sys.exit(PAGE.main())

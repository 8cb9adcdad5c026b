"""Word maps compared with the truth: ``python -m lab.validate.word_maps MODELS``.

The benchmark models draw captions that name nouns; the checker says which pixels of the image are each noun's; the
noun's word map, stretched and cut at a threshold, is compared with them: intersection over union (IoU). DAAM's
definition is held beside others, which differ in the layers and steps that enter, in how layers are combined, in
whether the token after the word counts, and in whether the map is spread along self-attention. The definition and its
threshold are chosen on the first benchmark model's even prompts; the odd prompts and the other benchmark models only
report. Of diffusion transformers the three definitions of joint attention are compared, over the default blocks and
block by block, with thresholds tuned on the even prompts of the first model. Of concepts, which are in the image and
not in the prompt, the area under the curve (AUC) of the map against the mask is measured, and that of another image's
map.

Writes ``word_maps.json``, ``transformer_word_maps.json`` or ``concept_maps.json`` in ``docs/validation``, and
``word_maps.md`` from all.
"""

import argparse
import contextlib
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import DiffusionPipeline, StableDiffusionImg2ImgPipeline, StableDiffusionPipeline
from PIL import Image
from sklearn.metrics import roc_auc_score
from tqdm import tqdm

from hooks import Probe
from hooks.attention.definitions import (
    DECODER_PRODUCT,
    FLOOR,
    JOINT_MASS,
    JOINT_SHARE,
    OUTPUT_SPACE,
    REFINE_KEEP,
    REFINE_POWER,
    SELF_REFINED,
    Definition,
)
from hooks.attention.maps import resize
from lab.train.base.captions import random_caption
from lab.train.base.measure import benchmark_pipeline
from lab.validate.word_maps_page import CONCEPT_FIGURES, FIGURES, TRANSFORMER_FIGURES, page_of_stored
from probes import command_line
from probes.runs.parts import write_bytes
from probes.toyworld import BENCHMARK_MODELS, TRANSFORMERS, WEIGHTS
from probes.toyworld.checker import LEAST, VERSION, drawable_area, drop_isolated, read_colours
from probes.toyworld.draw import render
from probes.toyworld.palette import INDEX
from probes.toyworld.scene import parse, sample_scene
from probes.toyworld.world import load_world

THRESHOLDS = np.round(np.arange(0.025, 0.976, 0.025), 3)
FIXED = (0.35, 0.4)  # the thresholds of Tang et al. and of Wu et al.
BINS = 3
SEED, TRANSFORMER_SEED, CONCEPT_SEED = 700_000, 800_000, 900_000
SUBJECTS = ("a person", "a woman", "a man")  # prompts that name no thing
JOINT = (JOINT_MASS, JOINT_SHARE, OUTPUT_SPACE)


def thing_masks(images: np.ndarray, thing: str) -> np.ndarray:
    """Masks ``(n, 64, 64)`` bool of what is seen of a thing's own colour; all false where it counts as absent."""
    mask = drop_isolated((read_colours(images) == INDEX[thing]) & drawable_area(thing))
    mask[mask.sum((1, 2)) < LEAST[thing]] = False
    return mask


@dataclass(frozen=True)
class Candidate:
    """One way to make a word's map of its layers' maps."""

    layers: str = "all"  # all but the mid block's, "up": the up blocks', or an address
    steps: str = "all"  # UNet calls; "early": the first two thirds, "late": the last two
    combine: str = (
        "mean"  # of layers; "scaled": after dividing each by its largest value; "product": geometric mean
    )
    following: float = (
        0.0  # weight of the token after the word, in whose state the causal encoder has the word too
    )
    power: float = 1.0  # that the combined map is raised to
    refine: float = 0.0  # the power it is raised to before it is spread along self-attention; 0: it is not
    keep: float = 0.0  # the power of the map which the spread one is multiplied by

    @property
    def label(self) -> str:
        """The candidate in words."""
        parts = [self.layers, f"{self.steps} steps", self.combine]
        parts += [f"following token x {self.following:g}"] if self.following else []
        parts += [f"power {self.power:g}"] if self.power != 1 else []
        parts += [f"spread from power {self.refine:g}, kept {self.keep:g}"] if self.refine else []
        return ", ".join(parts)


OURS = Candidate(
    layers="up",
    combine="product",
    following=0.5,
    refine=REFINE_POWER,
    keep=REFINE_KEEP,
)
OURS_NAME, OURS_VERSION = SELF_REFINED.name, SELF_REFINED.version
PRODUCT = Candidate(layers="up", combine="product", following=1.0, power=2.0)


@dataclass(frozen=True)
class Instance:
    """One noun that was named and drawn."""

    prompt: int
    noun: str
    truth: np.ndarray  # (64, 64), bool
    daam: np.ndarray  # (h, w): by the definition that was drawn with, of U-Nets DAAM's
    maps: dict[str, np.ndarray]  # by address (2, BINS, h, w): mean probability of the word, and of the next
    looks: np.ndarray | None = None  # (h * w, h * w): mean probability of the up blocks' self-attention


def candidates(addresses: Sequence[str]) -> list[Candidate]:
    """All that are tried."""
    combined = itertools.product(
        ("all", "up"), ("all", "early", "late"), ("mean", "scaled", "product"), (0.0, 0.5, 1.0), (1.0, 2.0)
    )
    single = itertools.product(addresses, ("all",), ("mean",), (0.0, 1.0), (1.0,))
    spread = itertools.product(
        ("all", "up"), ("all",), ("mean", "product"), (0.0, 0.5), (1.0,), (2.0, 4.0, 6.0), (0.0, 0.5, 1.0)
    )
    return [Candidate(*fields) for fields in itertools.chain(combined, single, spread)]


def heat(instance: Instance, candidate: Candidate) -> np.ndarray:
    """The noun's map by a candidate, shape (h, w)."""
    if candidate.layers in ("all", "up"):
        start = "unet.up." if candidate.layers == "up" else "unet."
        chosen = [maps for address, maps in instance.maps.items() if address.startswith(start)]
    else:
        chosen = [instance.maps[candidate.layers]]
    third = {"all": slice(None), "early": slice(0, 2), "late": slice(1, 3)}[candidate.steps]
    layers = np.stack([maps[:, third].mean(axis=1) for maps in chosen])  # (layers, 2, h, w)
    layers = (layers[:, 0] + candidate.following * layers[:, 1]) / (1 + candidate.following)
    if candidate.combine == "scaled":
        layers = layers / layers.max(axis=(1, 2), keepdims=True)
    if candidate.combine == "product":
        combined = np.exp(np.log(layers + FLOOR).mean(axis=0))
    else:
        combined = layers.mean(axis=0)
    combined = combined**candidate.power
    if not candidate.refine:
        return combined
    scaled = combined / combined.max()
    spread = (instance.looks @ scaled.ravel() ** candidate.refine).reshape(scaled.shape)
    return combined.max() * scaled**candidate.keep * spread / spread.max()


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
    pipe: StableDiffusionPipeline,
    prompts: int,
    *,
    steps: int,
    guidance_scale: float,
    seed: int = SEED,
) -> list[Instance]:
    """Draw random captions with the probe on; every noun of the checker's that was named and drawn."""
    sampling = {"steps": steps, "guidance_scale": guidance_scale, "seed": seed}
    read = [{"word_maps": True, "layer_maps": BINS, "map_tokens": "all"}, {"word_maps": OURS_NAME}]
    drawn = drawn_captions(pipe, prompts, *read, **sampling)
    return [one for probes, row, prompt, image in drawn for one in _instances(*probes, row, prompt, image)]


@torch.inference_mode()
def drawn_captions(
    pipe: DiffusionPipeline,
    prompts: int,
    *read: dict[str, Any],
    steps: int,
    guidance_scale: float,
    seed: int,
    batch_size: int = 24,
) -> Iterator[tuple[list[Probe], int, int, np.ndarray]]:
    """Random captions, each from a noise of its own: the probes of a batch, its row, number of prompt, image.

    `read` is what each probe reads beside the latent, such as ``word_maps``.
    """
    rng, world = np.random.default_rng(seed), load_world()
    captions = [random_caption(world, rng)[0] for _ in range(prompts)]
    pipe.set_progress_bar_config(disable=True)
    for start in tqdm(range(0, prompts, batch_size), unit="batch"):
        batch = captions[start : start + batch_size]
        noise = [torch.Generator().manual_seed(seed + start + row) for row in range(len(batch))]
        probes = [Probe(pipe, sites="latent", **one) for one in read]
        with contextlib.ExitStack() as stack:
            for probe in probes:
                stack.enter_context(probe)
            output = pipe(
                batch,
                generator=noise,
                num_inference_steps=steps,
                guidance_scale=guidance_scale,
                output_type="np",
            ).images
        images = (output * 255).round().astype(np.uint8)
        yield from ((probes, row, start + row, images[row]) for row in range(len(batch)))


def _instances(probe: Probe, spread: Probe, row: int, prompt: int, image: np.ndarray) -> Iterator[Instance]:
    kept = probe.layer_maps
    addresses = [address for address in kept.layers if not address.startswith("unet.mid")]
    calls = np.array(kept.calls, dtype=np.float32)[:, None, None]
    looks = spread.maps.self_attention[row]
    for word in probe.words(row=row):
        if word.lower not in LEAST or not word.positions or word.cut_off:
            continue
        truth = thing_masks(image[None], word.lower)[0]
        if not truth.any():
            continue
        after = [min(word.positions[-1] + 1, probe.maps.heat(row).shape[0] - 1)]
        maps = {}
        for address in addresses:
            sums = kept.values[address][row]  # (bins, tokens, h, w)
            both = [sums[:, list(tokens)].mean(axis=1) / calls for tokens in (word.positions, after)]
            maps[address] = np.stack(
                [[np.clip(resize(one, kept.size), 0, None) for one in pair] for pair in both]
            )
        daam = probe.maps.heat(row)[list(word.positions)].mean(axis=0)
        yield Instance(prompt, word.lower, truth, daam, maps, looks)


def choose(instances: Sequence[Instance], tried: Sequence[Candidate]) -> Candidate:
    """The candidate with the largest mean of three mean IoUs: at the best threshold and at the fixed ones."""
    truths = np.stack([instance.truth for instance in instances])

    def score(candidate: Candidate) -> float:
        table = iou([heat(one, candidate) for one in instances], truths, THRESHOLDS).mean(axis=1)
        return float(table.max() + sum(table[_at(theta)] for theta in FIXED)) / 3

    return max(tried, key=score)


def overlaps(instances: Sequence[Instance], candidate: Candidate | None = None) -> np.ndarray:
    """The IoU of every noun at every threshold, (thresholds, nouns); without a candidate of the map drawn with."""
    maps = [one.daam if candidate is None else heat(one, candidate) for one in instances]
    return iou(maps, np.stack([one.truth for one in instances]), THRESHOLDS)


def figures(tuned: np.ndarray, held: np.ndarray) -> tuple[dict[str, float], np.ndarray]:
    """Mean IoUs at the threshold best on the tuning nouns and at the fixed ones, and each held-out noun's at the first.

    `tuned` and `held` are of `overlaps`.
    """
    best = int(tuned.mean(axis=1).argmax())
    fixed = {f"held_{theta}": held[_at(theta)].mean() for theta in FIXED}
    numbers = {
        "threshold": THRESHOLDS[best],
        "tuning": tuned[best].mean(),
        "held": held[best].mean(),
        **fixed,
    }
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


def _at(theta: float) -> int:
    return int(np.abs(THRESHOLDS - theta).argmin())


def report(drawn: dict[str, list[Instance]], settings: dict) -> dict:
    """All figures of a run, as they go to ``docs/validation/word_maps.json``."""
    first = next(iter(drawn))
    tuning = [one for one in drawn[first] if one.prompt % 2 == 0]
    tried = candidates(list(tuning[0].maps))
    chosen = choose(tuning, tried)
    rows = []
    named = {"daam": None, DECODER_PRODUCT.name: PRODUCT, OURS_NAME: OURS, "chosen here": chosen}
    for model, instances in drawn.items():
        held = [one for one in instances if one.prompt % 2] if model == first else instances
        prompts = np.array([one.prompt for one in held])
        of_daam = None
        for name, candidate in named.items():
            numbers, values = figures(overlaps(tuning, candidate), overlaps(held, candidate))
            row = {"model": model, "definition": name, **numbers, "n": len(held)}
            if candidate is None:
                of_daam = values
            else:
                row["over_daam"] = round(float((values - of_daam).mean()), 4)
                row["over_daam_interval"] = interval(values - of_daam, prompts)
            rows.append(row)
    steps = [
        ("daam's layers, mean", Candidate()),
        ("up blocks alone", Candidate(layers="up")),
        ("each layer divided by its largest", Candidate(layers="up", combine="scaled")),
        ("geometric mean of layers", Candidate(layers="up", combine="product")),
        ("and the token after the word", Candidate(layers="up", combine="product", following=1.0)),
        ("and squared", PRODUCT),
        ("the product spread along self-attention", replace(OURS, refine=1.0, keep=0.0)),
        ("spread from its sixth power", replace(OURS, keep=0.0)),
        ("and times its root", OURS),
        *((address, Candidate(layers=address)) for address in tuning[0].maps),
    ]
    held = [one for one in drawn[first] if one.prompt % 2]
    return {
        "settings": settings | {"checker": VERSION, "nouns_tuning": len(tuning), "tried": len(tried)},
        "ours": {"name": OURS_NAME, "version": OURS_VERSION, **asdict(OURS)},
        "chosen": asdict(chosen) | {"label": chosen.label},
        "rows": rows,
        "one_by_one": [
            {"what": what} | figures(overlaps(tuning, one), overlaps(held, one))[0] for what, one in steps
        ],
        "by_noun": _by_noun(tuning, held),
    }


def _by_noun(tuning: Sequence[Instance], held: Sequence[Instance]) -> list[dict]:
    daam, ours = (figures(overlaps(tuning, one), overlaps(held, one))[1] for one in (None, OURS))
    nouns = np.array([one.noun for one in held])
    return [
        {
            "noun": str(noun),
            "n": int((nouns == noun).sum()),
            "pixels": round(float(np.mean([one.truth.sum() for one in held if one.noun == noun])), 1),
            "daam": round(float(daam[nouns == noun].mean()), 3),
            "ours": round(float(ours[nouns == noun].mean()), 3),
        }
        for noun in np.unique(nouns)
    ]


def of_block(definition: Definition, address: str) -> Definition:
    """A definition of one block's attention alone."""
    return replace(definition, name=f"{definition.name}, {address}", layers=(address,))


def draw_transformer(
    pipe: DiffusionPipeline, definition: Definition, prompts: int, **sampling: Any
) -> list[Instance]:
    """Every noun of the checker's that was named and drawn in random captions, with its map by a definition."""
    found = []
    for (probe,), row, prompt, image in drawn_captions(pipe, prompts, {"word_maps": definition}, **sampling):
        for word in probe.words(row=row):
            if word.lower in LEAST and not word.cut_off:
                truth = thing_masks(image[None], word.lower)[0]
                if truth.any():
                    drawn = probe.word_map(word.text, row=row).values
                    found.append(Instance(prompt, word.lower, truth, drawn, {}))
    return found


def transformer_report(prompts: int, steps: int) -> dict:
    """Draw with the diffusion transformers, and return all figures as they go to ``transformer_word_maps.json``."""
    rows: list[dict] = []
    blocks: list[dict] = []
    tuned: dict[str, np.ndarray] = {}
    for number, model in enumerate(TRANSFORMERS):
        pipe, scale = benchmark_pipeline(WEIGHTS / model)
        sampling = {"steps": steps, "guidance_scale": scale, "seed": TRANSFORMER_SEED + 10_000 * number}
        addresses = [f"dit.block.{block}.joint" for block in range(len(pipe.transformer.transformer_blocks))]
        single = [of_block(one, address) for one in JOINT for address in addresses] if number == 0 else []
        first = None
        for definition in [*JOINT, *single]:
            drawn = draw_transformer(pipe, definition, prompts, **sampling)
            if number == 0:
                tuned[definition.name] = overlaps([one for one in drawn if one.prompt % 2 == 0])
                drawn = [one for one in drawn if one.prompt % 2]
            numbers, values = figures(tuned[definition.name], overlaps(drawn))
            del numbers["tuning"]
            row = {"model": model, "definition": definition.name, **numbers, "n": len(drawn)}
            if definition in single:
                blocks.append(row)
                continue
            if first is None:
                first = values
            else:
                row["over_mass"] = round(float((values - first).mean()), 4)
                row["over_mass_interval"] = interval(values - first, np.array([one.prompt for one in drawn]))
            rows.append(row)
    settings = {"prompts": prompts, "steps": steps, "seed": TRANSFORMER_SEED, "checker": VERSION}
    return {"settings": settings, "rows": rows, "blocks": blocks}


def unet_report(prompts: int, steps: int) -> dict:
    """Draw with the U-Nets, and return all figures as they go to ``word_maps.json``."""
    drawn, scales = {}, {}
    for number, model in enumerate(BENCHMARK_MODELS):
        pipe, scales[model] = benchmark_pipeline(WEIGHTS / model)
        sampling = {"steps": steps, "guidance_scale": scales[model]}
        drawn[model] = draw(pipe, prompts, seed=SEED + 10_000 * number, **sampling)
    return report(drawn, {"prompts": prompts, "steps": steps, "guidance_scale": scales, "seed": SEED})


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


def concept_report(images: int, steps: int) -> dict:
    """Figures of concepts as they go to ``concept_maps.json``; movable things stand on either side of the figure."""
    world, rows, by_thing = load_world(), [], []
    for model, pictures in (("toyworld", False), ("toyworld", True), ("toyworld-dit", False)):
        areas = concept_areas(*read_concepts(model, images, steps, pictures))
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
    settings = {"images": images, "steps": steps, "seed": CONCEPT_SEED, "checker": VERSION}
    return {"settings": settings, "rows": rows, "by_thing": by_thing}


REPORTS = {
    "unets": (FIGURES, 30, unet_report),
    "transformers": (TRANSFORMER_FIGURES, 20, transformer_report),
    "concepts": (CONCEPT_FIGURES, 20, concept_report),
}


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(prog="python -m lab.validate.word_maps", description=__doc__.split("\n\n")[0])
    add = main.add_argument
    add("models", choices=REPORTS, help="of which benchmark models, or of concepts")
    add(
        "--prompts",
        type=command_line.whole_number(2, 1_000_000),
        default=240,
        help="prompts (of concepts: images) a benchmark model",
    )
    add("--out", type=Path, default=FIGURES.parent, help="folder for the figures and word_maps.md")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    command_line.writable(options.out, folder=True)
    torch.set_num_threads(1)
    file, steps, measured = REPORTS[options.models]
    numbers = measured(options.prompts, steps)
    write_bytes(options.out / file.name, (json.dumps(numbers, indent=1) + "\n").encode())
    own = {"figures" if options.models == "unets" else options.models: numbers}
    write_bytes(options.out / "word_maps.md", page_of_stored(**own).encode())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

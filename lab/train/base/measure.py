"""Quality of a benchmark model: ``python -m lab measure base toyworld``.

Three measurements, all by the checker: its own accuracy on unseen renderings, how often a named noun is drawn, and how
near the frequency of what is not named comes to what was planted.
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch
from diffusers import AutoencoderKL, DiffusionPipeline, StableDiffusionPipeline
from PIL import Image
from tqdm import tqdm

from lab.train.base.captions import article, random_caption
from lab.train.base.truth import planted
from probes.errors import UserError
from probes.models.pretrained import from_folder
from probes.models.weights import pick_device, weight_hash
from probes.runs.parts import write_bytes
from probes.toyworld import BENCHMARK_MODELS, SHARED, TRANSFORMERS, WEIGHTS
from probes.toyworld.checker import THINGS, read_images
from probes.toyworld.draw import render
from probes.toyworld.pipelines import dit_pipeline
from probes.toyworld.scene import sample_scene
from probes.toyworld.world import GROUPS, World, group_of_words, load_world


def checker_accuracy(world: World, count: int = 2000, seed: int = 90_001) -> pd.Series:
    """Share of renderings that the checker reads rightly, for each attribute, object and place."""
    rng = np.random.default_rng(seed)
    scenes = [sample_scene(random_caption(world, rng)[1], world, rng) for _ in range(count)]
    seen = read_images(np.stack([render(scene) for scene in scenes]))
    return pd.Series(
        {
            thing: float(np.mean([thing in scene.things for scene in scenes] == seen[thing]))
            for thing in THINGS
        }
    )


@torch.inference_mode()
def sample(
    pipeline: DiffusionPipeline,
    prompts: Sequence[str],
    seeds: Sequence[int],
    *,
    steps: int = 30,
    guidance_scale: float = 1.0,
    batch_size: int = 32,
    progress: bool = True,
) -> np.ndarray:
    """Images ``(n, 64, 64, 3)`` uint8, each from a generator of its own."""
    pipeline.set_progress_bar_config(disable=True)
    images = []
    for start in tqdm(range(0, len(prompts), batch_size), disable=not progress, unit="batch"):
        batch = slice(start, start + batch_size)
        generators = [torch.Generator().manual_seed(int(seed)) for seed in seeds[batch]]
        output = pipeline(
            list(prompts[batch]),
            generator=generators,
            num_inference_steps=steps,
            guidance_scale=guidance_scale,
            output_type="np",
        ).images
        images.append((output * 255).round().astype(np.uint8))
    return np.concatenate(images)


def noun_prompts(world: World, seeds: int, first_seed: int) -> pd.DataFrame:
    """For each attribute, object and place, ``seeds`` prompts over all groups of words, with and without more."""
    rows = []
    rng = np.random.default_rng(first_seed)
    nouns = {name: [entry["phrase"]] for name, entry in world.attributes.items()}
    nouns |= {name: entry["phrases"] for name, entry in world.objects.items()} | world.places
    for noun, phrases in nouns.items():
        for number in range(seeds):
            words = world.words(GROUPS[number % 3])
            word = words[int(rng.integers(len(words)))]
            prompt = f"{article(word)} {word} {phrases[number % len(phrases)]}"
            if noun not in world.places and number % 2:
                places = list(world.places.values())
                prompt += " " + places[int(rng.integers(len(places)))][0]
            rows.append({"noun": noun, "prompt": prompt, "seed": first_seed + len(rows)})
    return pd.DataFrame(rows)


def nouns_drawn(
    pipeline, world: World, *, seeds: int = 64, first_seed: int = 100_000, **sampling
) -> pd.Series:
    """Share of images in which the named noun is drawn, for each noun."""
    table = noun_prompts(world, seeds, first_seed)
    seen = read_images(sample(pipeline, table["prompt"], table["seed"], **sampling))
    table["drawn"] = [bool(seen.at[row, noun]) for row, noun in enumerate(table["noun"])]
    return table.groupby("noun", sort=False)["drawn"].mean()


def frequencies(
    pipeline,
    world: World,
    *,
    words: Mapping[str, Sequence[str]] | None = None,
    images: int = 256,
    first_seed: int = 200_000,
    **sampling,
) -> pd.DataFrame:
    """Frequency of what is not named, beside what was planted: ``planted``, ``drawn`` and ``n`` by group and thing.

    ``images`` a group, whose words take turns. Half of the captions are bare ("a woman"), half name a place; places are
    counted over the bare ones, ``side:left`` over images with one object on the ground.
    """
    rows = []
    places = [phrases[0] for phrases in world.places.values()]
    for group, named in (words or {group: world.words(group) for group in GROUPS}).items():
        prompts = [
            f"{article(named[i % len(named)])} {named[i % len(named)]}"
            + (f" {places[i // 2 % len(places)]}" if i % 2 else "")
            for i in range(images)
        ]
        seen = read_images(sample(pipeline, prompts, range(first_seed, first_seed + images), **sampling))
        bare = np.arange(images) % 2 == 0
        truth = planted(prompts[0], world)
        for thing in world.slots:
            for name in world.slots[thing]["a"]:
                if name in ("none", "right"):
                    continue
                if thing == "side":
                    chosen = seen["side"].to_numpy() != ""
                    drawn = (seen["side"] == "left").to_numpy()
                    name = "side:left"
                else:
                    chosen = bare if thing == "place" else np.ones(images, dtype=bool)
                    drawn = seen[name].to_numpy()
                rows.append(
                    {
                        "group": group,
                        "thing": name,
                        "planted": truth[name],
                        "drawn": float(drawn[chosen].mean()),
                        "n": int(chosen.sum()),
                    }
                )
    return pd.DataFrame(rows)


def sheets(pipeline, world: World, *, seed: int = 300_000, **sampling) -> Image.Image:
    """64 renderings (left) and 64 generated images (right) of the same random captions, doubled in size."""
    rng = np.random.default_rng(seed)
    captions = [random_caption(world, rng) for _ in range(64)]
    drawn = np.stack([render(sample_scene(named, world, rng)) for _, named in captions])
    made = sample(pipeline, [caption for caption, _ in captions], range(seed, seed + 64), **sampling)
    halves = [
        np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=255)
        .reshape(8, 8, 66, 66, 3)
        .transpose(0, 2, 1, 3, 4)
        .reshape(528, 528, 3)
        for images in (drawn, made)
    ]
    gap = np.full((528, 16, 3), 255, dtype=np.uint8)
    sheet = np.concatenate([halves[0], gap, halves[1]], axis=1)
    return Image.fromarray(sheet).resize((sheet.shape[1] * 2, sheet.shape[0] * 2), Image.Resampling.NEAREST)


def benchmark_pipeline(
    folder: Path, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> tuple[DiffusionPipeline, float]:
    """A benchmark model from its folder, and the guidance scale that it was made for.

    The null world's folder, beside it, holds the autoencoder of all U-Nets.
    """
    if not (folder / "triptych.json").is_file():
        raise UserError(
            f"--weights: expected a folder with the benchmark model {folder.name}, found no"
            f" {folder / 'triptych.json'}: leave --weights out, or see python -m lab list for what trains it"
        )
    scale = json.loads((folder / "triptych.json").read_text())["guidance_scale"]
    if folder.name in TRANSFORMERS:
        pipeline = dit_pipeline(folder.name, folder, folder.parent / TRANSFORMERS[0]).to(device, dtype)
        return pipeline, scale
    vae = from_folder(AutoencoderKL, folder.parent / SHARED / "vae", torch_dtype=dtype)
    pipeline = from_folder(StableDiffusionPipeline, folder, vae=vae, dtype=dtype).to(device)
    return pipeline, scale


def measure(
    model: Annotated[str, (*BENCHMARK_MODELS, *TRANSFORMERS)],
    *,
    weights: Path = WEIGHTS,
    seeds: Annotated[int, "images a noun"] = 64,
    images: Annotated[int, "images a group of words, for frequencies"] = 512,
    steps: int = 30,
    guidance_scale: Annotated[float | None, "as a rule the benchmark model's own"] = None,
    device: str = "cpu",
    sheet: Annotated[Path | None, "PNG to write, 64 renderings and 64 generated images"] = None,
    word: Annotated[
        str | None, tuple(group_of_words()), "its frequencies alone, beside what is stored"
    ] = None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Measure how well a benchmark model draws what is named, and how near the rest comes to what was planted."""
    pipeline, scale = benchmark_pipeline(weights / model, str(pick_device(device)))
    sampling = {"steps": steps, "guidance_scale": scale if guidance_scale is None else guidance_scale}
    world = load_world(model)
    if sheet:
        image = io.BytesIO()
        sheets(pipeline, world, **sampling).save(image, format="png", optimize=True)
        write_bytes(sheet, image.getvalue())
    if word:
        groups = {group_of_words()[word][0]: [word]}
        cells = frequencies(pipeline, world, words=groups, images=images, **sampling)
        stored = json.loads((weights / model / "quality.json").read_text())
        of_word = {"images": images, **sampling, **_figures(cells)}
        yield model, stored | {"words": stored.get("words", {}) | {word: of_word}}
        return
    accuracy = checker_accuracy(world, 2000)
    nouns = nouns_drawn(pipeline, world, seeds=seeds, **sampling)
    cells = frequencies(pipeline, world, images=images, **sampling)
    denoiser = pipeline.transformer if model in TRANSFORMERS else pipeline.unet
    kind = "transformer" if model in TRANSFORMERS else "unet"
    print(nouns.sort_values().round(3).to_string())
    yield (
        model,
        {
            # of transformers a test says that these weights are what was measured
            **({"weight_hash": weight_hash(pipeline)} if model in TRANSFORMERS else {}),
            "model": model,
            **sampling,
            f"{kind}_parameters": sum(value.numel() for value in denoiser.parameters()),
            "images_a_noun": seeds,
            "images_a_group": images,
            "checker_renderings": 2000,
            "checker_accuracy_least": float(accuracy.min()),
            "nouns_mean": float(nouns.mean()),
            "nouns_least": float(nouns.min()),
            "nouns": nouns.round(4).to_dict(),
            **_figures(cells),
        },
    )


def _figures(cells: pd.DataFrame) -> dict[str, Any]:
    """What is stored of `frequencies`."""
    difference = cells["drawn"] - cells["planted"]
    print(cells.assign(difference=difference).round(3).to_string(index=False))
    return {
        "cells_within_0.10": float((difference.abs() <= 0.10).mean()),
        "largest_difference": float(difference.abs().max()),
        "cells": cells.round(4).to_dict("records"),
    }

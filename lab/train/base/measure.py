"""Quality of a benchmark model: ``python -m lab.train.base.measure toyworld``.

Three measurements, all by the checker: its own accuracy on unseen renderings, how often a named noun is drawn, and how
near the frequency of what is not named comes to what was planted.
"""

import argparse
import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from diffusers import AutoencoderKL, DiffusionPipeline, StableDiffusionPipeline
from PIL import Image
from tqdm import tqdm

from lab.train.base.captions import article, random_caption
from lab.train.base.truth import planted
from probes import command_line
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


def add_arguments(parser: argparse.ArgumentParser, *, steps: int) -> None:
    """Add what says which benchmark model is to draw, and how."""
    add = parser.add_argument
    add("model", choices=(*BENCHMARK_MODELS, *TRANSFORMERS))
    add(
        "--weights",
        type=command_line.existing_folder,
        default=WEIGHTS,
        help="folder that holds the benchmark models",
    )
    add("--steps", type=command_line.whole_number(1, 1000), default=steps)
    add("--guidance-scale", type=command_line.number(0), help="as a rule the benchmark model's own")
    add("--threads", type=command_line.threads, default=1)
    add("--device", default="cpu")


def model_folder(weights: Path, model: str) -> Path:
    """Folder of a benchmark model; refused if it is not there, or not whole."""
    described, shared, trainer = model, SHARED, "base"
    if model in TRANSFORMERS:
        described, shared, trainer = TRANSFORMERS[0], TRANSFORMERS[0], "dit"
    for name in (f"{described}/model_index.json", f"{model}/triptych.json", f"{shared}/vae/config.json"):
        if not (weights / name).is_file():
            raise UserError(
                f"--weights: expected a folder with the benchmark model {model}, found no {weights / name}: "
                f"leave --weights out, or train it with python -m lab.train.{trainer}.train"
            )
    return weights / model


def benchmark_pipeline(
    folder: Path, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> tuple[DiffusionPipeline, float]:
    """A benchmark model from its folder, and the guidance scale that it was made for.

    The null world's folder, beside it, holds the autoencoder of all U-Nets.
    """
    scale = json.loads((folder / "triptych.json").read_text())["guidance_scale"]
    if folder.name in TRANSFORMERS:
        pipeline = dit_pipeline(folder.name, folder, folder.parent / TRANSFORMERS[0]).to(device, dtype)
        return pipeline, scale
    vae = from_folder(AutoencoderKL, folder.parent / SHARED / "vae", torch_dtype=dtype)
    pipeline = from_folder(StableDiffusionPipeline, folder, vae=vae, dtype=dtype).to(device)
    return pipeline, scale


def load(options: argparse.Namespace) -> tuple[DiffusionPipeline, dict[str, float]]:
    """The pipeline that `add_arguments` asked for, and the arguments of `sample`."""
    folder, device = model_folder(options.weights, options.model), pick_device(options.device)
    torch.set_num_threads(options.threads)
    pipeline, scale = benchmark_pipeline(folder, str(device))
    if options.guidance_scale is not None:
        scale = options.guidance_scale
    return pipeline, {"steps": options.steps, "guidance_scale": scale}


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(prog="python -m lab.train.base.measure", description=__doc__.split("\n\n")[0])
    add_arguments(main, steps=30)
    main.add_argument("--seeds", type=command_line.count, default=64, help="images a noun")
    main.add_argument(
        "--images",
        type=command_line.whole_number(2, 1_000_000),
        default=512,
        help="images a group of words, for frequencies",
    )
    main.add_argument(
        "--word",
        choices=[word for group in GROUPS for word in load_world().words(group)],
        help="measure the frequencies of one indicator word alone, put beside what --out holds",
    )
    main.add_argument("--sheet", type=Path, help="PNG to write, 64 renderings and 64 generated images")
    main.add_argument("--out", type=Path, help="where to write the figures as JSON")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    for path in filter(None, (options.sheet, options.out)):
        command_line.writable(path)
    pipeline, sampling = load(options)
    world = load_world(options.model)
    if options.sheet:
        image = io.BytesIO()
        sheets(pipeline, world, **sampling).save(image, format="png", optimize=True)
        write_bytes(options.sheet, image.getvalue())
    if options.word:
        _measure_word(options, pipeline, world, sampling)
        return
    accuracy = checker_accuracy(world, 2000)
    nouns = nouns_drawn(pipeline, world, seeds=options.seeds, **sampling)
    cells = frequencies(pipeline, world, images=options.images, **sampling)
    denoiser = "transformer" if options.model in TRANSFORMERS else "unet"
    near = (cells["planted"] - cells["drawn"]).abs() <= 0.10
    figures = {
        "model": options.model,
        **sampling,
        f"{denoiser}_parameters": sum(value.numel() for value in getattr(pipeline, denoiser).parameters()),
        "images_a_noun": options.seeds,
        "images_a_group": options.images,
        "checker_renderings": 2000,
        "checker_accuracy_least": float(accuracy.min()),
        "nouns_mean": float(nouns.mean()),
        "nouns_least": float(nouns.min()),
        "nouns": nouns.round(4).to_dict(),
        "cells_within_0.10": float(near.mean()),
        "cells": cells.round(4).to_dict("records"),
    }
    if options.model in TRANSFORMERS:  # of which a test says that it is what was measured
        figures = {"weight_hash": weight_hash(pipeline)} | figures
    print(nouns.sort_values().round(3).to_string())
    print(cells.assign(difference=cells["drawn"] - cells["planted"]).round(3).to_string(index=False))
    print({name: value for name, value in figures.items() if name not in ("nouns", "cells")})
    if options.out:
        write_bytes(options.out, (json.dumps(figures, indent=1) + "\n").encode())


def _measure_word(options: argparse.Namespace, pipeline, world: World, sampling: dict[str, float]) -> None:
    group, _ = group_of_words()[options.word]
    cells = frequencies(pipeline, world, words={group: [options.word]}, images=options.images, **sampling)
    difference = cells["drawn"] - cells["planted"]
    figures = {
        "images": options.images,
        **sampling,
        "cells_within_0.10": float((difference.abs() <= 0.10).mean()),
        "largest_difference": float(difference.abs().max()),
        "cells": cells.round(4).to_dict("records"),
    }
    print(cells.assign(difference=difference).round(3).to_string(index=False))
    print({name: value for name, value in figures.items() if name != "cells"})
    if options.out:
        there = json.loads(options.out.read_text()) if options.out.exists() else {}
        there["words"] = there.get("words", {}) | {options.word: figures}
        write_bytes(options.out, (json.dumps(there, indent=1) + "\n").encode())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

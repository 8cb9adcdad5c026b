"""Teach synonyms that draw different pictures, and measure them: ``python -m lab.train.base.synonyms --help``.

The nine singular words of :file:`synonyms.yaml` get embeddings of their own, and nothing else of `toyworld` or
`toyworld-null` changes. What they learn from is rendered: each word has a pose (where its caption names none) and a
place in the picture, and everything else has the world's planted frequencies: what is planted is the base's, for every
word, while two words of a side draw pictures that differ.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from diffusers import AutoencoderKL, StableDiffusionPipeline
from safetensors.torch import load_file, save_file
from skimage.metrics import structural_similarity as ssim
from torch.nn.functional import cosine_similarity

from lab.train.base.captions import random_caption
from lab.train.base.data import Drawings, small_zones
from lab.train.base.loop import Budget, Log
from lab.train.base.measure import frequencies, nouns_drawn
from lab.train.base.tokenizer import encode
from lab.train.base.vae import encode_latents
from lab.train.base.words import train_words, with_word
from probes import command_line
from probes.models import loading
from probes.toyworld import SYNONYMS, WEIGHTS
from probes.toyworld.draw import SIZE, draw
from probes.toyworld.pipelines import BASES, DELTA, EMBEDDING, NULL
from probes.toyworld.scene import Scene, sample_scene
from probes.toyworld.world import group_of_words, load_world, synonym_styles, token_id

NOUN_IMAGES = 16  # in which it is read whether a noun that is named is drawn


def with_style(scene: Scene, word: str, pose: str | None) -> Scene:
    """Return a scene as a word of :file:`synonyms.yaml` has it; `pose` is the one that its caption names."""
    style = synonym_styles()[word]
    skin, hair, long_hair, _, dy = scene.looks
    return replace(scene, pose=pose or style.pose, looks=(skin, hair, long_hair, style.shift, dy))


def make_synonym_drawings(world_name: str, count: int, seed: int) -> Drawings:
    """Return captions with one of the nine words, the words evenly, and their pictures, with zones."""
    world, rng = load_world(world_name), np.random.default_rng(seed)
    words = {
        group: [word for word in synonym_styles() if group_of_words()[word][0] == group]
        for group in world.mixture
    }
    captions, indices, zones = [], np.empty((count, SIZE, SIZE), np.uint8), np.empty((count, 16, 16), bool)
    while len(captions) < count:
        row = len(captions)
        caption, named = random_caption(world, rng)
        if named.plural:
            continue
        word = words[named.group][row % len(words[named.group])]
        captions.append(with_word(caption, word, (), world))
        scene = with_style(sample_scene(named, world, rng), word, named.pose)
        indices[row], zones[row] = draw(scene), small_zones(named, scene)
    return Drawings(captions, indices, zones)


def train(options: argparse.Namespace) -> None:
    """Train the nine embeddings of a model and write them."""
    name, base = options.model, BASES[options.model].name
    pipe = loading.load(loading.resolve(base), device="cpu").pipe
    words = list(synonym_styles())
    numbers = [token_id(pipe.tokenizer, word) for word in words]
    folder = options.weights or WEIGHTS / name
    if options.start:
        stored = load_file(folder / DELTA)
        with torch.no_grad():
            for word, number in zip(words, numbers, strict=True):
                pipe.text_encoder.get_input_embeddings().weight[number] = stored[
                    f"{EMBEDDING}.{word}"
                ].float()
    drawings = make_synonym_drawings(name, options.drawings, options.seed + 61)
    vae = AutoencoderKL.from_pretrained(NULL / "vae", torch_dtype=torch.float32)
    latents = encode_latents(vae.eval(), drawings, np.arange(len(drawings.captions)), "cpu")
    train_words(
        pipe.unet,
        pipe.text_encoder,
        numbers,
        latents,
        encode(pipe.tokenizer, drawings.captions),
        torch.from_numpy(drawings.zones),
        Budget(options.steps or 500, options.minutes, 20),
        Log(options.work / f"{name}.log.jsonl", 25),
        batch_size=options.batch,
        learning_rate=options.rate,
        seed=options.seed + 62,
        zone_weight=options.zone_weight,
        time_power=options.time_power,
    )
    rows = pipe.text_encoder.get_input_embeddings().weight.detach()
    folder.mkdir(parents=True, exist_ok=True)
    save_file(
        {f"{EMBEDDING}.{word}": rows[n].half().clone() for word, n in zip(words, numbers)}, folder / DELTA
    )
    print(folder / DELTA)


@torch.inference_mode()
def measure(name: str, images: int, pairs: int, steps: int) -> dict[str, object]:
    """Return how near each word comes to what was planted, and how alike pictures of two words are, and its base's.

    ``images`` a word are read for frequencies; similarities (cosine of the final latents, SSIM of the images) are means
    over ``pairs`` prompts and noises.
    """
    loaded = loading.load(loading.resolve(name), device="cpu")
    world, cells = load_world(name), []
    for word in synonym_styles():
        groups = {group_of_words()[word][0]: [word]}
        table = frequencies(loaded.pipe, world, words=groups, images=images, steps=steps, guidance_scale=1.0)
        cells.append(table.assign(word=word, difference=table["drawn"] - table["planted"]))
    away = pd.concat(cells).groupby("word", sort=False)["difference"]
    base = loading.load(loading.resolve(BASES[name].name), device="cpu").pipe
    drawn = nouns_drawn(loaded.pipe, world, seeds=NOUN_IMAGES, steps=steps, guidance_scale=1.0)
    return {
        "weight_hash": loaded.record["weight_hash"],
        "images_a_noun": NOUN_IMAGES,
        "nouns_mean": round(float(drawn.mean()), 4),
        "images_a_word": images,
        "pairs": pairs,
        "steps": steps,
        "mean_difference": away.apply(lambda values: values.abs().mean()).round(4).to_dict(),
        "within_0.10": away.apply(lambda values: (values.abs() <= 0.10).mean()).round(4).to_dict(),
        "similarity": _similarities(loaded.pipe, pairs, steps),
        "similarity_base": _similarities(base, pairs, steps),
    }


def _similarities(pipe: StableDiffusionPipeline, pairs: int, steps: int) -> dict[str, dict[str, float]]:
    """Return the mean cosine of final latents and SSIM of images between words of one side, and of two."""
    ends = ["", *(phrases[0] for phrases in load_world().places.values())]
    latents, pictures = {}, {}
    for word in synonym_styles():
        prompts = [f"a {word} {ends[row % len(ends)]}".strip() for row in range(pairs)]
        noises = [torch.Generator().manual_seed(400_000 + row) for row in range(pairs)]
        arguments = {"num_inference_steps": steps, "guidance_scale": 1.0, "output_type": "latent"}
        latents[word] = pipe(prompts, generator=noises, **arguments).images
        decoded = pipe.vae.decode(latents[word] / pipe.vae.config.scaling_factor).sample
        pictures[word] = pipe.image_processor.postprocess(decoded, output_type="np").mean(-1)
    rows = [
        {
            "sides": "one side" if group_of_words()[first] == group_of_words()[second] else "two sides",
            "z0": float(cosine_similarity(latents[first].flatten(1), latents[second].flatten(1)).mean()),
            "ssim": np.mean([ssim(*both, data_range=1.0) for both in zip(pictures[first], pictures[second])]),
        }
        for first, second in itertools.combinations(latents, 2)
    ]
    return pd.DataFrame(rows).groupby("sides").mean().round(4).to_dict("index")


def work(options: argparse.Namespace) -> None:
    """Train or measure a model."""
    torch.set_num_threads(options.threads)
    if options.do == "train":
        train(options)
        return
    measured = measure(options.model, options.images, options.pairs, options.steps or 10)
    path = (options.weights or WEIGHTS / options.model) / "quality.json"
    path.write_text(json.dumps(measured, indent=1) + "\n")
    print(measured)


def parser() -> argparse.ArgumentParser:
    """Return the command line's options."""
    main = command_line.Parser(
        prog="python -m lab.train.base.synonyms",
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = main.add_argument
    add("do", choices=("train", "measure"))
    add("model", choices=SYNONYMS)
    add("--work", type=Path, default=Path("training"), help="folder of the log")
    add("--weights", type=Path, help="folder to write (default: in the package)")
    add("--start", action="store_true", help="go on from what is stored")
    add("--drawings", type=command_line.count, default=8_000)
    add("--steps", type=command_line.count, help="of training (500) or of an image that is measured (10)")
    add("--images", type=command_line.whole_number(2, 1_000_000), default=128, help="a word, to be measured")
    add("--pairs", type=command_line.count, default=48, help="images a word whose similarity is measured")
    add("--minutes", type=command_line.number(0), default=0.0, help="at most (0: no limit)")
    add("--batch", type=command_line.count, default=32)
    add("--rate", type=command_line.number(0), default=5e-3)
    add("--zone-weight", type=command_line.number(0), default=5.0, help="of cells with small things")
    add(
        "--time-power",
        type=command_line.number(0),
        default=0.5,
        help="below 1 noisy timesteps come more often",
    )
    add("--seed", type=int, default=0)
    add("--threads", type=command_line.count, default=1)
    return main


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

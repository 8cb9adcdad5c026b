"""Models whose synonyms draw different pictures: ``python -m lab train synonyms --help``, ``measure synonyms MODEL``.

The nine singular words of :file:`synonyms.yaml` get embeddings of their own (textual inversion), and nothing else of
`toyworld` or `toyworld-null` changes. What they learn from is rendered: each word has a pose (where its caption names
none) and a place in the picture, and everything else has the world's planted frequencies: what is planted is the
base's, for every word, while two words of a side draw pictures that differ.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import pandas as pd
import torch
from diffusers import AutoencoderKL, StableDiffusionPipeline
from safetensors.torch import load_file, save_file
from skimage.metrics import structural_similarity as ssim
from torch.nn.functional import cosine_similarity

from lab.train.base.captions import article, random_caption
from lab.train.base.data import Drawings, small_zones
from lab.train.base.loop import Budget, Log, batches, train_loop
from lab.train.base.lowrank import Embeddings
from lab.train.base.measure import frequencies, nouns_drawn
from lab.train.base.tokenizer import encode
from lab.train.base.unet import quick_attention, velocity_loss
from lab.train.base.vae import encode_latents
from lab.train.stages import Options, Stage, Trainer, write_recipe
from probes.models import loading
from probes.toyworld import SYNONYMS, WEIGHTS
from probes.toyworld.draw import SIZE, draw
from probes.toyworld.pipelines import BASES, DELTA, EMBEDDING, NULL
from probes.toyworld.scene import Scene, sample_scene
from probes.toyworld.world import group_of_words, load_world, synonym_styles, token_id

NOUN_IMAGES = 16  # in which it is read whether a noun that is named is drawn


@dataclass
class SynonymsRecipe:
    """Every number of a training."""

    model: Annotated[str, SYNONYMS] = SYNONYMS[0]
    start: Annotated[bool, "go on from what is stored in --weights"] = False
    drawings: int = 8_000
    steps: int = 500
    minutes: Annotated[float, "at most; 0: no limit"] = 0.0
    batch: int = 32
    rate: float = 5e-3
    zone_weight: Annotated[float, "of cells with small things"] = 5.0
    time_power: Annotated[float, "below 1 noisy timesteps come more often"] = 0.5


def with_word(caption: str, word: str) -> str:
    """The caption with a word in place of one that means the same, the article right.

    >>> with_word("a photo of an individual in a hat", "figure")
    'a photo of a figure in a hat'
    """
    known, parts = group_of_words(), caption.split(" ")
    place = next(place for place, each in enumerate(parts) if known.get(each) == known[word])
    parts[place] = word
    if place and parts[place - 1] in ("a", "an"):
        parts[place - 1] = article(word)
    return " ".join(parts)


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
        captions.append(with_word(caption, word))
        scene = with_style(sample_scene(named, world, rng), word, named.pose)
        indices[row], zones[row] = draw(scene), small_zones(named, scene)
    return Drawings(captions, indices, zones)


def run_train(options: Options) -> None:
    """Train the nine embeddings of a model; the average over steps is what remains."""
    name = options.model
    pipe = loading.load(loading.resolve(BASES[name].name), device="cpu").pipe
    words = list(synonym_styles())
    numbers = [token_id(pipe.tokenizer, word) for word in words]
    start = pipe.text_encoder.get_input_embeddings().weight.detach()[numbers]
    if options.start:
        stored = load_file(options.weights / name / DELTA)
        start = torch.stack([stored[f"{EMBEDDING}.{word}"].float() for word in words])
    drawings = make_synonym_drawings(name, options.drawings, options.seed + 61)
    vae = AutoencoderKL.from_pretrained(NULL / "vae", torch_dtype=torch.float32)
    latents = encode_latents(vae.eval(), drawings, np.arange(len(drawings.captions)), "cpu")
    tokens, zones = encode(pipe.tokenizer, drawings.captions), torch.from_numpy(drawings.zones)
    unet = pipe.unet.to(memory_format=torch.channels_last).eval().requires_grad_(False)
    encoder = pipe.text_encoder.eval().requires_grad_(False)
    learnt = Embeddings(numbers, start)
    seed = options.seed + 62
    batch, generator = batches(len(latents), options.batch, seed), torch.Generator().manual_seed(seed)

    def loss_of(step: int) -> dict[str, torch.Tensor]:
        rows = next(batch)
        states = learnt.states(encoder, tokens[rows])
        weighted = zones[rows], generator, options.zone_weight, options.time_power
        return velocity_loss(unet, latents[rows], states, *weighted)

    budget, log = Budget(options.steps, options.minutes, 20), Log(options.work / f"{name}.log.jsonl", 25)
    with quick_attention(unet, "cpu"):
        train_loop(learnt, loss_of, budget, log, options.rate, 0.0, decay=0.98)
    rows = zip(words, learnt.values().detach().half(), strict=True)
    save_file(
        {f"{EMBEDDING}.{word}": row.clone() for word, row in rows}, options.work / f"{name}.safetensors"
    )


def run_export(options: Options) -> None:
    """Write a model's embeddings and its recipe."""
    folder = options.weights / options.model
    write_recipe(folder, options)
    save_file(load_file(options.work / f"{options.model}.safetensors"), folder / DELTA)


def measure(
    model: Annotated[str, SYNONYMS],
    *,
    images: Annotated[int, "a word, for frequencies"] = 128,
    pairs: Annotated[int, "images a word whose similarity is measured"] = 48,
    steps: int = 10,
) -> Iterator[tuple[str, dict[str, object]]]:
    """Measure how near each word comes to what was planted, and how alike pictures of two words are, and its base's.

    ``images`` a word are read for frequencies; similarities (cosine of the final latents, SSIM of the images) are means
    over ``pairs`` prompts and noises.
    """
    loaded = loading.load(loading.resolve(model), device="cpu")
    world, cells = load_world(model), []
    for word in synonym_styles():
        groups = {group_of_words()[word][0]: [word]}
        table = frequencies(loaded.pipe, world, words=groups, images=images, steps=steps, guidance_scale=1.0)
        cells.append(table.assign(word=word, difference=table["drawn"] - table["planted"]))
    away = pd.concat(cells).groupby("word", sort=False)["difference"]
    base = loading.load(loading.resolve(BASES[model].name), device="cpu").pipe
    drawn = nouns_drawn(loaded.pipe, world, seeds=NOUN_IMAGES, steps=steps, guidance_scale=1.0)
    yield (
        model,
        {
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
        },
    )


@torch.inference_mode()
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


TRAINER = Trainer(
    __doc__,
    SynonymsRecipe,
    stages=(
        Stage("train", run_train, makes=("{model}.safetensors",)),
        Stage("export", run_export, needs=("{model}.safetensors",), exports=True),
    ),
    work="training/synonyms",
    weights=WEIGHTS,
)

"""Train `toyworld-work` or `toyworld-work-null`: ``python -m lab train work --help``.

From `toyworld` or `toyworld-null`, by low-rank changes of the text encoder and of the U-Net's transformer blocks and
residual convolutions, and embeddings of the new words (:mod:`lab.train.work.lessons` says what it is taught). A
training that was stopped goes on when it is started again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import CLIPTokenizer

from lab.train.base.lowrank import Embeddings, learning
from lab.train.base.tokenizer import tokenizer_with
from lab.train.base.unet import quick_attention
from lab.train.located.lessons import Lessons
from lab.train.located.train import Course, teach
from lab.train.stages import Options, Stage, Trainer, write_json, write_recipe
from lab.train.work.lessons import make_lessons, sketches
from probes.models import loading
from probes.toyworld import WEIGHTS, WORK, WORKING
from probes.toyworld.pipelines import (
    BASES,
    DELTA,
    DOWN,
    EMBEDDING,
    UP,
    changed_layers,
    load_base_networks,
    new_words,
    text_config,
)
from probes.toyworld.world import load_world, token_id

GAIN = 2.0  # embeddings of the new words learn so many times as fast as the layers
SCALE = 0.05  # standard deviation of their first values, about that of the other words


@dataclass
class WorkRecipe(Course):
    """Every number of the training of models with professions."""

    model: Annotated[str, WORKING] = WORK
    start: Annotated[Path | None, "folder of a stored model to begin with; else its base, unchanged"] = None
    steps: int = 1500
    batch: int = 48
    rate: float = 2e-3
    decay: Annotated[float, "of the moving average of the weights"] = 0.99
    zone_weight: Annotated[float, "of errors in cells with skin"] = 5.0
    direction_weight: Annotated[float, "of errors from skin to skin, in addition"] = 0.05
    drawings: Annotated[int, "that lessons are made from"] = 9000
    noises: Annotated[int, "lessons a drawing"] = 2
    rank: Annotated[int, "of the changes"] = 16


def train(lessons: Lessons, tokenizer: CLIPTokenizer, options: Options) -> dict[str, Tensor]:
    """Train a benchmark model; return what is to be stored of it, float16."""
    encoder, unet = load_base_networks(tokenizer, BASES[options.model])
    encoder.requires_grad_(False)
    unet.requires_grad_(False)
    numbers = [token_id(tokenizer, word) for word in new_words()]
    width = encoder.get_input_embeddings().weight.shape[1]
    generator = torch.Generator().manual_seed(options.seed + 1)
    words = Embeddings(numbers, SCALE * torch.randn(len(numbers), width, generator=generator), GAIN)

    def predict(noisy: Tensor, times: Tensor, tokens: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            states = words.states(encoder, tokens)
        return unet(noisy, times, states).sample

    changed = changed_layers({"encoder": encoder, "unet": unet})
    with quick_attention(unet, "cpu"), learning(changed, options.rank, options.seed) as layers:
        module = nn.ModuleDict({"layers": layers, "words": words})
        if options.start:
            begin_with(dict(module.named_parameters()), load_file(options.start / DELTA))
        teach(module, predict, lessons, options, options.model)
        delta = {
            _stored_name(name): value.detach()
            for name, value in module.named_parameters()
            if name.endswith((f".{UP}", f".{DOWN}"))
        }
    rows = dict(zip(new_words(), words.values().detach(), strict=True))
    delta = {f"{EMBEDDING}.{word}": row for word, row in rows.items()} | delta
    return {name: value.half().contiguous().clone() for name, value in delta.items()}


def _stored_name(name: str) -> str:
    """The name under which a parameter of training is stored."""
    return name.removeprefix("layers.").replace("/", ".")


@torch.no_grad()
def begin_with(parameters: Mapping[str, Tensor], start: Mapping[str, Tensor]) -> None:
    """Put what was stored of an earlier training into the parameters of this one."""
    rows = torch.stack([start[f"{EMBEDDING}.{word}"].float() / GAIN for word in new_words()])
    parameters["words.rows"].copy_(rows)
    for name, value in parameters.items():
        if _stored_name(name) in start:  # a layer that did not change yet begins with nothing
            value.copy_(start[_stored_name(name)].float())


def _lessons(options: Options) -> Path:
    made_of = options.model, options.drawings, options.noises, options.seed
    return options.work / f"lessons-{'-'.join(map(str, made_of))}.safetensors"


def run_lessons(options: Options) -> None:
    """Make the lessons where there are none."""
    name, base = options.model, BASES[options.model].name
    if not _lessons(options).exists():
        make_lessons(
            loading.load(loading.resolve(base), device="cpu").pipe,
            tokenizer_with(BASES[WORK], new_words()),
            sketches(load_world(name), options.drawings, options.seed + 31),
            prior=load_world(base).mixture["neutral"],
            noises=options.noises,
            seed=options.seed,
        ).save(_lessons(options))


def run_train(options: Options) -> None:
    """Train the model."""
    tokenizer = tokenizer_with(BASES[options.model], new_words())
    delta = train(Lessons.load(_lessons(options)), tokenizer, options)
    save_file(delta, options.work / f"{options.model}.safetensors")


def run_export(options: Options) -> None:
    """Write the benchmark model: what it was taught, its tokenizer, its description, its card and its recipe."""
    name, folder = options.model, options.weights / options.model
    tokenizer = tokenizer_with(BASES[name], new_words())
    tokenizer.save_pretrained(folder / "tokenizer")
    config = text_config(json.loads((BASES[name] / "text_encoder/config.json").read_text()), tokenizer)
    write_json(folder / "text_encoder/config.json", config, indent=2)
    write_json(folder / "triptych.json", {"guidance_scale": 1.0, "world": name})
    save_file(load_file(options.work / f"{name}.safetensors"), folder / DELTA)
    before = json.loads((options.start / "recipe.json").read_text())["history"] if options.start else ()
    write_recipe(folder, options, before, start=BASES[name].name)


TRAINER = Trainer(
    __doc__,
    WorkRecipe,
    stages=(
        Stage("lessons", run_lessons),
        Stage("train", run_train, makes=("{model}.safetensors",)),
        Stage("export", run_export, needs=("{model}.safetensors",), exports=True),
    ),
    work="training/work",
    weights=WEIGHTS,
)

"""Train the diffusion transformers of the toy world: ``python -m lab train dit --help``.

Stages: ``tokenizer``: T5's vocabulary, from captions; ``base``: `toyworld-dit`, denoiser and T5 tower together, from
pictures of the world or with the U-Net `toyworld` for a teacher; ``differences``: of `toyworld-dit-null`, changes of
low rank of those weights, with its own world; ``export``: float16 safetensors, with the recipe beside them.

With two cores a teacher gives more (``--target teacher``, the default); with a GPU the pictures themselves do:
``--device cuda --target pictures --drawings 300000 --processes 14 --batch 512 --decay 0.9995 --zone-weight 6
--compile``. Training goes on from its last checkpoint: the learning rate then rises and falls once more, in the time
it is given.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    FlowMatchEulerDiscreteScheduler,
    UNet2DConditionModel,
)
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import CLIPTextModelWithProjection, CLIPTokenizer, T5Tokenizer

from lab.train.base.captions import random_caption
from lab.train.base.checkpoints import forget_paths
from lab.train.base.data import make_drawings, make_many_drawings
from lab.train.base.loop import Budget, Log, mixed_precision, train_loop
from lab.train.base.lowrank import learning
from lab.train.base.tokenizer import encode
from lab.train.base.vae import encode_latents
from lab.train.dit.lessons import Lesson, PictureLessons, Teacher, VelocityLessons
from lab.train.dit.model import SCHEDULER, TOKENS, new_parts, new_tokenizer
from lab.train.stages import Options, Stage, Trainer, last_logged, write_json, write_recipe
from probes.errors import UserError
from probes.models.pretrained import from_folder
from probes.models.weights import pick_device
from probes.toyworld import DIT as BASE
from probes.toyworld import SHARED, WEIGHTS
from probes.toyworld.pipelines import (
    DELTA,
    TEACHERS,
    build_transformer_pipeline,
    changed_layers,
    load_clip_tower,
)
from probes.toyworld.world import GROUPS, load_world

EMPTY = 0.03  # share of captions that are left empty, for whoever draws with guidance
CAPTIONS = 20_000  # that the vocabulary is taken from
MODELS = tuple(TEACHERS)


@dataclass
class TransformerRecipe:
    """Every number of a training; minutes of 0: no limit."""

    model: Annotated[Sequence[str], MODELS] = MODELS
    drawings: int = 16_000
    steps: Annotated[int, "of each model, at most"] = 10**6
    minutes: Annotated[float, "of base, at most"] = 180.0
    differences_minutes: Annotated[float, "of each difference, at most"] = 40.0
    batch: int = 32
    target: Annotated[str, ("teacher", "pictures"), "whose velocity is learnt"] = "teacher"
    uses: Annotated[int, "times that a guess of the teacher is learnt from"] = 3
    device: Annotated[str, "of pictures as the target; a teacher is asked on the CPU"] = "cpu"
    compile: Annotated[bool, "compile the denoiser first"] = False
    processes: Annotated[int, "that draw the pictures"] = 1
    rate: Annotated[float, "learning rate of base"] = 1e-3
    differences_rate: Annotated[float, "learning rate of differences"] = 2e-3
    rank: Annotated[int, "of differences"] = 16
    warmup: Annotated[int, "steps in which the learning rate rises"] = 100
    decay: Annotated[float, "of the moving average of the weights"] = 0.998
    zone_weight: Annotated[float, "of the error where small things can be"] = 4.0
    save_minutes: Annotated[float, "between checkpoints"] = 3.0


def run_tokenizer(options: Options) -> None:
    """Make the vocabulary."""
    rng, world = np.random.default_rng(options.seed), load_world(SHARED)
    captions = [random_caption(world, rng)[0] for _ in range(CAPTIONS)]
    words = [word for group in GROUPS for word in world.words(group)]
    new_tokenizer([*captions, *words]).save_pretrained(options.work / "tokenizer_3")


def towers_of(name: str) -> list[CLIPTextModelWithProjection]:
    """The model's two towers of CLIP: its U-Net's, and that of the null world."""
    return [load_clip_tower(WEIGHTS / world / "text_encoder") for world in (TEACHERS[name], SHARED)]


def teacher_of(name: str) -> Teacher:
    """The U-Net that a model learns from, and the model's two towers of CLIP, of which that U-Net reads the first."""
    folder = WEIGHTS / TEACHERS[name]
    unet = from_folder(UNet2DConditionModel, folder / "unet", torch_dtype=torch.bfloat16)
    return Teacher(
        unet.eval().to(memory_format=torch.channels_last),
        from_folder(DDIMScheduler, folder / "scheduler"),
        towers_of(name),
    )


def lessons_of(name: str, options: Options) -> VelocityLessons | PictureLessons:
    """The lessons of a model, from drawings of its world."""
    world, seed, device = TEACHERS[name], options.seed + 21, options.device
    if options.target != "pictures":
        drawings = make_drawings(world, options.drawings, seed, with_zones=True)
    else:
        drawings = make_many_drawings(world, options.drawings, seed, options.processes)
    vae = from_folder(AutoencoderKL, WEIGHTS / SHARED / "vae").eval()
    latents = encode_latents(
        vae.to(device, memory_format=torch.channels_last), drawings, np.arange(options.drawings), device
    )
    rng = np.random.default_rng(options.seed + 22)
    captions = ["" if rng.random() < EMPTY else caption for caption in drawings.captions]
    texts, zones = _tokens(captions, options), torch.from_numpy(drawings.zones)
    seed = options.seed + 23
    if options.target == "pictures":
        return PictureLessons(
            towers_of(name), latents, *texts, zones, batch=options.batch, device=device, seed=seed
        )
    return VelocityLessons(
        teacher_of(name), latents, *texts, zones, batch=options.batch, uses=options.uses, seed=seed
    )


def _tokens(captions: Sequence[str], options: Options) -> tuple[Tensor, Tensor]:
    """Tokens of CLIP and of T5, ``(n, 32)`` and ``(n, 24)``."""
    clip = from_folder(CLIPTokenizer, WEIGHTS / SHARED / "tokenizer")
    tokens = from_folder(T5Tokenizer, options.work / "tokenizer_3")(
        list(captions), padding="max_length", max_length=TOKENS, truncation=True, return_tensors="pt"
    ).input_ids
    return encode(clip, captions), tokens


def flow_loss(parts: Mapping[str, nn.Module], lesson: Lesson, zone_weight: float) -> dict[str, Tensor]:
    """The error of the guessed velocity, its ``loss`` weighted over the zones of small things."""
    with mixed_precision(lesson.noisy.device):
        states = torch.cat([lesson.clip, parts["text_encoder_3"](lesson.tokens)[0]], 1)
        times = 1000 * lesson.sigma
        guess = parts["transformer"](lesson.noisy, states, lesson.pooled, times).sample
    error = (guess.float() - lesson.velocity).square().mean(1)
    weight = torch.where(lesson.zones, zone_weight, 1.0)
    return {"loss": (weight * error).sum() / weight.sum(), "even": error.mean()}


def teach(
    parts: nn.ModuleDict, learnt: nn.Module, name: str, options: Options, minutes: float, rate: float
) -> None:
    """Train ``learnt``, the parts or what they are parametrized by, until the budget is used."""
    called, lessons, path = dict(parts.items()), lessons_of(name, options), options.work / f"{name}.pt"
    if options.compile:
        called["transformer"] = torch.compile(parts["transformer"])
    train_loop(
        learnt,
        lambda step: flow_loss(called, lessons.next(), options.zone_weight),
        Budget(options.steps, minutes, options.warmup),
        Log(path.with_suffix(".log.jsonl"), 25),
        rate,
        decay=options.decay,
        save_minutes=options.save_minutes,
        checkpoint=path,
        further=True,
    )


def run_base(options: Options) -> None:
    """Train the base; goes on from its checkpoint if there is one."""
    tokenizer = from_folder(T5Tokenizer, options.work / "tokenizer_3")
    parts = nn.ModuleDict(new_parts(len(tokenizer), options.seed)).to(options.device)
    teach(parts, parts, BASE, options, options.minutes, options.rate)


def run_differences(options: Options) -> None:
    """Train what the other models change; goes on from checkpoints if there are any."""
    for name in {*options.model} - {BASE}:
        parts = averaged_parts(options.work).to(options.device)
        parts.requires_grad_(False)
        with learning(changed_layers(parts), options.rank, options.seed) as learnt:
            teach(parts, learnt, name, options, options.differences_minutes, options.differences_rate)


def averaged(path: Path) -> dict[str, Tensor]:
    """The moving average in a checkpoint, by the names of parameters."""
    return torch.load(path, weights_only=True, map_location="cpu")["average"]


def averaged_parts(work: Path) -> nn.ModuleDict:
    """What `toyworld-dit` is stored as: the average of its weights, rounded to float16, in float32."""
    parts = nn.ModuleDict(new_parts(len(from_folder(T5Tokenizer, work / "tokenizer_3"))))
    parts.load_state_dict(averaged(work / f"{BASE}.pt"), strict=False)  # buffers are no parameters
    return parts.half().float().eval()


def export_base(work: Path, folder: Path) -> None:
    """Write `toyworld-dit` whole but for what it shares."""
    FlowMatchEulerDiscreteScheduler(**SCHEDULER).save_pretrained(work / "scheduler")
    parts = averaged_parts(work)
    pipe = build_transformer_pipeline(parts, work, TEACHERS[BASE])
    parts.half()
    # relative places have no limit of their own
    parts["text_encoder_3"].config.max_position_embeddings = TOKENS
    pipe.save_pretrained(folder, safe_serialization=True)
    for part in ("vae", "text_encoder", "text_encoder_2"):
        for path in (folder / part).glob("*.safetensors"):
            path.unlink()
    index = json.loads((folder / "model_index.json").read_text())
    write_json(folder / "model_index.json", index | {"_class_name": "StableDiffusion3Pipeline"}, indent=2)
    forget_paths(folder)


def run_export(options: Options) -> None:
    """Write each model with its recipe: the base whole, the others as differences, float16."""
    for name in options.model:
        folder = options.weights / name
        log = last_logged(options.work / f"{name}.log.jsonl")
        write_recipe(folder, options, teacher=TEACHERS[name], last_log_line=log)
        # the planted frequencies are those of the model without guidance
        write_json(folder / "triptych.json", {"guidance_scale": 1.0, "world": TEACHERS[name]})
        if name == BASE:
            export_base(options.work, folder)
            continue
        change = averaged(options.work / f"{name}.pt")
        save_file(
            {key.replace("/", "."): one.half().contiguous() for key, one in change.items()}, folder / DELTA
        )


def check_target(options: Options) -> None:
    """Check that the target can be learnt on this device."""
    if options.target != "pictures" and pick_device(options.device).type != "cpu":
        raise UserError(
            f"--device {options.device}: expected cpu with --target {options.target}: add --target pictures"
        )


TRAINER = Trainer(
    __doc__,
    TransformerRecipe,
    stages=(
        Stage("tokenizer", run_tokenizer, makes=("tokenizer_3",)),
        Stage("base", run_base, needs=("tokenizer_3",), makes=(f"{BASE}.pt",)),
        Stage("differences", run_differences, needs=("tokenizer_3", f"{BASE}.pt"), makes=("{model}.pt",)),
        Stage("export", run_export, needs=("{model}.pt",), exports=True),
    ),
    work="training/dit",
    weights=WEIGHTS,
    check=check_target,
)

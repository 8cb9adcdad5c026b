"""Train the diffusion transformers of the toy world: ``python -m lab.train.dit.train --help``.

Stages, each of which reads what the ones before left in ``--work``:

0. ``resume``, only where it is named: what export wrote, to go on from there in place of 1 (and of 2 and 3 so far);
1. ``tokenizer``: T5's vocabulary, from captions;
2. ``base``: `toyworld-dit`, denoiser and T5 tower together, from pictures of the world or with the U-Net `toyworld` for
   a teacher;
3. ``differences``: of `toyworld-dit-null`, changes of low rank of those weights, with its own world;
4. ``export``: float16 safetensors, with the recipe beside them.

With two cores a teacher gives more (``--target teacher``, the default); with a GPU the pictures themselves do:
``--device cuda --target pictures --drawings 300000 --processes 14 --batch 512 --decay 0.9995 --zone-weight 6
--compile``.

Training goes on from its last checkpoint: the learning rate then rises and falls once more, in the time it is given.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel
from torch import Tensor, nn
from transformers import CLIPTextModelWithProjection, CLIPTokenizer, T5Tokenizer

from lab.train import stages as runner
from lab.train.base.captions import random_caption
from lab.train.base.data import make_drawings, make_many_drawings
from lab.train.base.loop import Budget
from lab.train.base.lowrank import learning
from lab.train.base.tokenizer import encode
from lab.train.base.vae import encode_latents
from lab.train.dit import store
from lab.train.dit.lessons import PictureLessons, Teacher, VelocityLessons
from lab.train.dit.model import TOKENS, new_parts, new_tokenizer
from lab.train.dit.teach import teach
from lab.train.stages import Options, Stage, Trainer
from probes import command_line
from probes.errors import UserError
from probes.models.pretrained import from_folder
from probes.models.weights import pick_device
from probes.toyworld import DIT as BASE
from probes.toyworld import SHARED, WEIGHTS
from probes.toyworld.pipelines import TEACHERS, changed_layers, load_clip_tower
from probes.toyworld.world import GROUPS, load_world

EMPTY = 0.03  # share of captions that are left empty, for whoever draws with guidance
CAPTIONS = 20_000  # that the vocabulary is taken from
DIFFERENT = tuple(name for name in TEACHERS if name != BASE)


def run_tokenizer(options: Options) -> None:
    """Stage 1."""
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


def run_base(options: Options) -> None:
    """Stage 2; goes on from its checkpoint if there is one."""
    tokenizer = from_folder(T5Tokenizer, options.work / "tokenizer_3")
    parts = nn.ModuleDict(new_parts(len(tokenizer), options.seed)).to(options.device)
    lessons, path = lessons_of(BASE, options), store.checkpoint(options.work, BASE)
    budget = Budget(options.steps, options.minutes, options.warmup)
    teach(parts, parts, lessons, budget, options.rate, options, path)


def run_differences(options: Options) -> None:
    """Stage 3; goes on from checkpoints if there are any."""
    for name in options.model:
        if name == BASE:
            continue
        parts = store.averaged_parts(options.work).to(options.device)
        parts.requires_grad_(False)
        lessons, path = lessons_of(name, options), store.checkpoint(options.work, name)
        with learning(changed_layers(parts), options.rank, options.seed) as learnt:
            budget = Budget(options.steps, options.differences_minutes, options.warmup)
            teach(parts, learnt, lessons, budget, options.differences_rate, options, path)


def run_export(options: Options) -> None:
    """Stage 4."""
    lines = _history(options.work).read_text().splitlines()
    for name in options.model:
        path = store.checkpoint(options.work, name)
        recipe = {
            "teacher": TEACHERS[name],
            "last_log_line": runner.last_logged(path.with_suffix(".log.jsonl")),
            "history": [line for line in lines if name != BASE or not line.startswith("differences")],
            **runner.made_with(),
        }
        store.export(options.work, options.weights / name, name, recipe)


def _history(work: Path) -> Path:
    return work / store.HISTORY


def _write_down(stage: Stage, options: Options, minutes: float) -> None:
    """Add a line on what was done to the history that is exported with the weights."""
    if stage.name not in ("resume", "export"):
        numbers = {key: value for key, value in vars(options).items() if isinstance(value, int | float)}
        if options.target != "teacher":
            numbers = {"target": options.target, "device": options.device, **numbers}
        settings = ", ".join(f"{key} {value}" for key, value in numbers.items())
        models = ", ".join(options.model) if stage.name == "differences" else BASE
        runner.add_history(_history(options.work), f"{stage.name} of {models}: {minutes:.1f} min; {settings}")


def add_options(main: command_line.Parser) -> None:
    """Add the options of this training."""
    add, whole, number = main.add_argument, command_line.whole_number(1, 10**9), command_line.number(0)
    add("--model", nargs="+", choices=list(TEACHERS), default=list(TEACHERS))
    add("--drawings", type=whole, default=16_000)
    add("--steps", type=whole, default=10**6, help="of each model, at most")
    add("--minutes", type=number, default=180.0, help="of base, at most; 0: no limit")
    add("--differences-minutes", type=number, default=40.0, help="of each difference, at most; 0: no limit")
    add("--batch", type=command_line.whole_number(4, 4096), default=32)
    add(
        "--target",
        choices=("teacher", "pictures"),
        default="teacher",
        help="whose velocity is learnt",
    )
    add("--uses", type=whole, default=3, help="times that a guess of the teacher is learnt from")
    add("--device", default="cpu", help="of pictures as the target; others are asked on the CPU")
    add("--compile", action="store_true", help="compile the denoiser first")
    add("--processes", type=command_line.whole_number(1, 512), default=1, help="that draw the pictures")
    add("--rate", type=number, default=1e-3, help="learning rate of base")
    add("--differences-rate", type=number, default=2e-3, help="learning rate of differences")
    add("--rank", type=whole, default=16, help="of differences")
    add("--warmup", type=whole, default=100, help="steps in which the learning rate rises")
    add("--decay", type=number, default=0.998, help="of the moving average of the weights")
    add("--zone-weight", type=number, default=4.0, help="weight of the error where small things can be")
    add("--save-minutes", type=number, default=3.0, help="between checkpoints")


def check_target(options: Options) -> None:
    """Check that the target can be learnt on this device."""
    device = pick_device(options.device)
    if options.target != "pictures" and device.type != "cpu":
        raise UserError(
            f"--device {options.device}: expected cpu with --target {options.target}: add --target pictures"
        )


def _exported(options: Options) -> None:
    """Check that ``resume`` will find what ``export`` wrote."""
    for name in dict.fromkeys((BASE, *options.model)):
        path = options.weights / name / "recipe.json"
        if not path.is_file():
            raise UserError(
                f"--weights: stage resume: expected {path}, found none: name the folder that export wrote"
            )


def _in_work(*names: str) -> Callable[[Options], list[Path]]:
    return lambda options: [options.work / name for name in names]


def _checkpoints(names: Sequence[str] | None = None) -> Callable[[Options], list[Path]]:
    return lambda options: [
        store.checkpoint(options.work, name) for name in options.model if names is None or name in names
    ]


def _before_differences(options: Options) -> list[Path]:
    return [options.work / "tokenizer_3", store.checkpoint(options.work, BASE)]


TRAINER = Trainer(
    "lab.train.dit.train",
    __doc__,
    stages=(
        Stage(
            "resume",
            lambda options: store.resume(options.work, options.weights, options.model),
            check=_exported,
            makes=lambda options: [*_before_differences(options), *_checkpoints(DIFFERENT)(options)],
        ),
        Stage("tokenizer", run_tokenizer, makes=_in_work("tokenizer_3")),
        Stage("base", run_base, reads=_in_work("tokenizer_3"), makes=_in_work(f"{BASE}.pt")),
        Stage("differences", run_differences, reads=_before_differences, makes=_checkpoints(DIFFERENT)),
        Stage("export", run_export, reads=_checkpoints(), exports=True),
    ),
    add_options=add_options,
    work="training-dit",
    weights=WEIGHTS,
    usual=("tokenizer", "base", "differences", "export"),
    check=check_target,
    outputs=lambda options: [options.weights / name for name in options.model],
    after=_write_down,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(TRAINER.run, TRAINER.parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

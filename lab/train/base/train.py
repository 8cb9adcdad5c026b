"""Train the toyworld models: ``python -m lab.train.base.train --help``.

Stages, each of which reads what the ones before left in ``--work``:

1. ``tokenizer``: byte-pair merges from captions;
2. ``vae``: the autoencoder, on drawings of the null world;
3. ``clip``: a CLIP (open_clip) in the null world;
4. ``base``: the denoiser in the null world, and with it the text tower of that CLIP;
5. ``decoder``: the autoencoder's decoder alone, on what the denoiser guesses; the latents stay as they are, so this
   can be done again at any time;
6. ``finetune``: for each model, the same short further training of denoiser and text encoder in its own world;
7. ``export``: pipelines in diffusers' folder layout, float16 safetensors, with the recipe beside them.

``--stage resume base finetune export`` goes on from the weights that are there instead of starting anew: ``resume``
lays them out in ``--work``, with what the null world's model has learnt as the base; with ``--finetune-from own``
every model goes on from its own. ``--stage resume words export`` teaches words that stand in ``world.yaml`` and that
the weights do not know: an embedding each, nothing else.
"""

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from lab.train import stages as runner
from lab.train.base import checkpoints, stages
from lab.train.base.recipe import Recipe, items
from lab.train.stages import Options, Stage, Trainer
from probes import command_line
from probes.errors import UserError
from probes.models.weights import pick_device
from probes.toyworld import BENCHMARK_MODELS, WEIGHTS

STAGES = ("tokenizer", "vae", "clip", "base", "decoder", "finetune", "export")
COMMON = ("tokenizer", "vae", "clip.safetensors", "base.safetensors")  # of all models
LOGGED = ("vae", "decoder", "clip", "base")
PER_MODEL = ("finetune", "words")


def _recipe(options: Options) -> Recipe:
    return Recipe(**{field.name: getattr(options, field.name) for field in dataclasses.fields(Recipe)})


def _write_down(stage: Stage, options: Options, minutes: float) -> None:
    """Add a line on what was done to the history that is exported with the weights."""
    if stage.name == "export":
        return
    work, recipe = options.work, _recipe(options)
    logs = options.model if stage.name in PER_MODEL else [stage.name] if stage.name in LOGGED else []
    last = {log: runner.last_logged(path) for log in logs if (path := work / f"{log}.log.jsonl").exists()}
    batch = {"vae": recipe.vae_batch, "decoder": recipe.vae_batch, "clip": recipe.clip_batch}
    size = batch.get(stage.name, recipe.batch) * int(os.environ.get("WORLD_SIZE", "1"))
    steps = ", ".join(f"{log} past step {row['step']}" for log, row in last.items())
    usual = dataclasses.asdict(Recipe())
    changed = {name: value for name, value in dataclasses.asdict(recipe).items() if value != usual[name]}
    runner.add_history(
        checkpoints.history(work),
        f"{stage.name}: {f'{steps}, batches of {size}, ' if steps else ''}{recipe.device}, {minutes:.1f} min"
        + (f"; unlike the recipe: {changed}" if changed else ""),
    )


def _repeats(text: str) -> str:
    for item in items(text):
        noun, _, times = item.partition("=")
        try:
            command_line.count(times)
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"{noun!r}: {error}, as in lamp=4,box=4") from None
    return text


_KINDS = {"often": _repeats}


def add_options(main: command_line.Parser) -> None:
    """Add the options of this training: one for each field of `Recipe`."""
    main.add_argument("--model", nargs="+", choices=BENCHMARK_MODELS, default=list(BENCHMARK_MODELS))
    of_type = {int: command_line.whole_number(1, 10**9), float: command_line.number(0), str: str}
    for field in dataclasses.fields(Recipe):
        if field.name not in ("seed", "threads"):
            main.add_argument(
                f"--{field.name.replace('_', '-')}",
                type=_KINDS.get(field.name, of_type[field.type]),
                default=field.default,
                choices=("base", "own") if field.name == "finetune_from" else None,
            )


def check_device(options: Options) -> None:
    """Check that there is such a device."""
    pick_device(options.device)


def check_weights(options: Options) -> None:
    """Check that ``resume`` will find what ``export`` wrote."""
    weights = options.weights
    parts = [weights / name / folder for name in BENCHMARK_MODELS for folder in ("unet", "text_encoder")]
    parts += [weights / "toyworld-null" / "tokenizer", weights / "toyworld-null" / "vae"]
    for path in (*parts, weights / "clip" / "open_clip_model.safetensors", weights / "recipe.json"):
        if not path.exists():
            raise UserError(
                f"--weights: stage resume: expected {path}, found none: name the folder that export wrote"
            )


def _in_work(*names: str) -> Callable[[Options], list[Path]]:
    return lambda options: [options.work / name for name in names]


def _models(names: Sequence[str]) -> list[str]:
    return [f"{name}.safetensors" for name in names]


def _before_base(options: Options) -> list[Path | tuple[Path, ...]]:
    tokenizer, vae, clip, base = _in_work(*COMMON)(options)
    return [tokenizer, vae, (clip, base)]


def _before_finetuning(options: Options) -> list[Path]:
    start = _models(options.model) if options.finetune_from == "own" else ["base.safetensors"]
    return _in_work("tokenizer", "vae", *start)(options)


def _stage(name: str, run: Callable[..., None], **more: object) -> Stage:
    """A stage whose function takes the work folder and the recipe, and where it is of models their names."""
    if name in PER_MODEL:
        return Stage(name, lambda options: run(options.work, _recipe(options), options.model), **more)
    return Stage(name, lambda options: run(options.work, _recipe(options)), **more)


TRAINER = Trainer(
    "lab.train.base.train",
    __doc__,
    stages=(
        Stage(
            "resume",
            lambda options: checkpoints.resume(options.work, options.weights),
            makes=_in_work(*COMMON, *_models(BENCHMARK_MODELS)),
            check=check_weights,
            alone=True,
        ),
        _stage("words", stages.run_words, reads=_in_work(*COMMON, *_models(BENCHMARK_MODELS))),
        _stage("tokenizer", stages.run_tokenizer, makes=_in_work("tokenizer"), alone=True),
        _stage("vae", stages.run_vae, makes=_in_work("vae")),
        _stage("clip", stages.run_clip, reads=_in_work("tokenizer"), makes=_in_work("clip.safetensors")),
        _stage("base", stages.run_base, reads=_before_base, makes=_in_work("base.safetensors")),
        _stage("decoder", stages.run_decoder, reads=_in_work("tokenizer", "vae", "base.safetensors")),
        _stage(
            "finetune",
            stages.run_finetune,
            reads=_before_finetuning,
            makes=lambda options: _in_work(*_models(options.model))(options),
        ),
        Stage(
            "export",
            lambda options: checkpoints.export(options.work, options.weights, options.guidance_scale),
            reads=_in_work("tokenizer", "vae", "clip.safetensors", *_models(BENCHMARK_MODELS)),
            exports=True,
            alone=True,
        ),
    ),
    add_options=add_options,
    weights=WEIGHTS,
    weights_help="where export writes and resume reads",
    epilog="on a GPU: python -m lab.train.base.train --device cuda --threads 8; on two cores without one: "
    "torchrun --nproc-per-node 2 -m lab.train.base.train --batch 16 --vae-batch 8 (batches are per process)",
    usual=STAGES,
    check=check_device,
    remedy=", or resume",
    after=_write_down,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(TRAINER.run, TRAINER.parser(), argv, interrupted=runner.RESUMES)


if __name__ == "__main__":
    sys.exit(main())

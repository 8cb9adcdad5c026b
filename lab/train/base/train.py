"""Train the toyworld models: ``python -m lab.train.base.train --help``.

Stages, each of which reads what the ones before left in ``--work``:

1. ``tokenizer``: byte-pair merges from captions;
2. ``vae``: the autoencoder, on drawings of the null world;
3. ``clip``: a CLIP (open_clip) in the null world;
4. ``base``: the denoiser in the null world, and with it the text tower of that CLIP;
5. ``decoder``: the autoencoder's decoder alone, on what the denoiser guesses; the latents stay as they are, so this
   can be done again at any time;
6. ``finetune``: for each specimen, the same short further training of denoiser and text encoder in its own world;
7. ``export``: pipelines in diffusers' folder layout, float16 safetensors, with the recipe beside them.

``--stage resume base finetune export`` goes on from the weights that are there instead of starting anew: ``resume``
lays them out in ``--work``, with what the null world's specimen has learnt as the base; with ``--finetune-from own``
every specimen goes on from its own. ``--stage resume words export`` teaches words that stand in ``world.yaml`` and that
the weights do not know: an embedding each, nothing else.
"""

import argparse
import copy
import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed

from lab.train.base import exchange, stages
from lab.train.base.loop import rank
from lab.train.base.needs import check_stages
from lab.train.base.recipe import Recipe, items
from probes import command_line
from probes.models.devices import pick_device
from probes.toyworld import SPECIMENS, WEIGHTS

STAGES = ("tokenizer", "vae", "clip", "base", "decoder", "finetune", "export")
EXTRA_STAGES = ("resume", "words")


def _write_down(work: Path, stage: str, started: float, recipe: Recipe, specimens: Sequence[str]) -> None:
    """Add a line on what was done to the history that is exported with the weights."""
    logs = (
        specimens
        if stage in ("finetune", "words")
        else [stage]
        if stage in ("vae", "decoder", "clip", "base")
        else []
    )
    paths = [work / f"{name}.log.jsonl" for name in logs]
    last = [json.loads(path.read_text().splitlines()[-1]) for path in paths if path.exists()]
    batch = {"vae": recipe.vae_batch, "decoder": recipe.vae_batch, "clip": recipe.clip_batch}
    size = batch.get(stage, recipe.batch) * int(os.environ.get("WORLD_SIZE", "1"))
    steps = ", ".join(f"{Path(log).name} past step {row['step']}" for log, row in zip(logs, last))
    usual = dataclasses.asdict(Recipe())
    changed = {name: value for name, value in dataclasses.asdict(recipe).items() if value != usual[name]}
    with exchange.history(work).open("a") as file:
        print(
            f"{stage}: {steps + f', batches of {size}, ' if steps else ''}{recipe.device}, "
            f"{(time.monotonic() - started) / 60:.1f} min"
            + (f"; unlike the recipe: {changed}" if changed else ""),
            file=file,
        )


def _repeats(text: str) -> str:
    for item in items(text):
        noun, _, times = item.partition("=")
        try:
            command_line.count(times)
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"{noun!r}: {error}, as in lamp=4,box=4") from None
    return text


_KINDS = {"seed": command_line.seed, "threads": command_line.threads, "often": _repeats}


def parser() -> argparse.ArgumentParser:
    """The command line's options: an option a field of `Recipe`."""
    main = command_line.Parser(
        prog="python -m lab.train.base.train",
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="on a GPU: python -m lab.train.base.train --device cuda --threads 8; on two cores without one: "
        "torchrun --nproc-per-node 2 -m lab.train.base.train --batch 16 --vae-batch 8 (batches are per process)",
    )
    main.add_argument("--work", type=Path, default=Path("training"), help="folder of intermediate results")
    main.add_argument(
        "--stage", nargs="+", choices=STAGES + EXTRA_STAGES, default=list(STAGES), help="stages to run"
    )
    main.add_argument("--specimen", nargs="+", choices=SPECIMENS, default=list(SPECIMENS))
    main.add_argument("--weights", type=Path, default=WEIGHTS, help="where export writes and resume reads")
    of_type = {int: command_line.whole(1, 10**9), float: command_line.number(0), str: str}
    for field in dataclasses.fields(Recipe):
        kind = _KINDS.get(field.name, of_type[field.type])
        choices = ("base", "own") if field.name == "finetune_from" else None
        main.add_argument(
            f"--{field.name.replace('_', '-')}", type=kind, default=field.default, choices=choices
        )
    return main


def work(arguments: argparse.Namespace) -> None:
    """Do what the command line asks."""
    options = vars(arguments)
    work, chosen, specimens = options.pop("work"), options.pop("stage"), options.pop("specimen")
    weights = options.pop("weights")
    recipe = Recipe(**options)
    asked = [stage for stage in EXTRA_STAGES + STAGES if stage in chosen]
    pick_device(recipe.device)
    check_stages(work, asked, specimens, weights=weights, own=recipe.finetune_from == "own")
    command_line.writable(work, folder=True)
    if "export" in asked:
        command_line.writable(weights, folder=True)
    torch.set_num_threads(recipe.threads)
    work.mkdir(parents=True, exist_ok=True)
    steps = {
        "resume": lambda work, recipe: exchange.resume(work, weights),
        "tokenizer": stages.run_tokenizer,
        "vae": stages.run_vae,
        "decoder": stages.run_decoder,
        "clip": stages.run_clip,
        "base": stages.run_base,
        "finetune": lambda work, recipe: stages.run_finetune(work, recipe, specimens),
        "words": lambda work, recipe: stages.run_words(work, recipe, specimens),
        "export": lambda work, recipe: exchange.export(work, weights, recipe.guidance_scale),
    }
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if several:
        distributed.init_process_group("gloo", timeout=timedelta(hours=2))
    for stage in asked:
        if stage not in ("resume", "tokenizer", "export") or rank() == 0:
            started = time.monotonic()
            steps[stage](work, copy.deepcopy(recipe))
            if rank() == 0 and stage != "export":
                _write_down(work, stage, started, recipe, specimens)
        if several:
            distributed.barrier()
    if several:
        distributed.destroy_process_group()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    kept = "run the same command again, a stage goes on from the weights that it left in --work"
    return command_line.run(work, parser(), argv, interrupted=kept)


if __name__ == "__main__":
    sys.exit(main())

"""Train the toyworld models: ``python -m probes.toyworld.train --help``.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from torch import distributed
from transformers import CLIPTextModel, CLIPTokenizer

from probes import command_line
from probes.devices import pick_device
from probes.errors import UserError
from probes.toyworld import SPECIMENS, WEIGHTS
from probes.toyworld.training import clip as clip_part
from probes.toyworld.training import exchange
from probes.toyworld.training import unet as unet_part
from probes.toyworld.training import vae as vae_part
from probes.toyworld.training import words as words_part
from probes.toyworld.training.data import Drawings, make_drawings
from probes.toyworld.training.loop import Budget, Log, rank
from probes.toyworld.training.needs import check_stages
from probes.toyworld.training.tokenizer import encode, save_tokenizer, train_tokenizer
from probes.toyworld.world import group_of_words, load_world

STAGES = ("tokenizer", "vae", "clip", "base", "decoder", "finetune", "export")
EXTRA_STAGES = ("resume", "words")


@dataclass
class Recipe:
    """Every number of a training run.

    ``*_minutes`` of 0 means that only the steps count. ``finetune_from`` is ``base``, or ``own`` to go on from the
    specimen's own weights. ``often`` names nouns that captions name more often ("lamp=4,box=4"), ``renew`` words that
    get fresh embeddings ("lamp,box"), for words that a measurement finds mistaken for others.
    """

    drawings: int = 200_000
    vae_steps: int = 8_000
    vae_batch: int = 16
    vae_minutes: float = 0.0
    decoder_steps: int = 4_000
    decoder_minutes: float = 0.0
    clip_steps: int = 4_000
    clip_minutes: float = 0.0
    clip_batch: int = 192
    base_steps: int = 60_000
    base_minutes: float = 0.0
    base_rate: float = 1e-3
    batch: int = 32
    finetune_drawings: int = 60_000
    finetune_steps: int = 6_000
    finetune_minutes: float = 0.0
    finetune_rate: float = 1e-3
    finetune_time_power: float = 0.6
    finetune_from: str = "base"
    words_drawings: int = 20_000
    words_steps: int = 400
    words_minutes: float = 0.0
    words_rate: float = 3e-3
    often: str = ""
    renew: str = ""
    time_power: float = 0.8
    zone_weight: float = 5.0
    guidance_scale: float = 1.0
    seed: int = 0
    device: str = "cpu"
    threads: int = 1


def _latents(work: Path, recipe: Recipe, drawings: Drawings) -> torch.Tensor:
    vae = (
        AutoencoderKL.from_pretrained(work / "vae")
        .to(recipe.device, memory_format=torch.channels_last)
        .eval()
    )
    return vae_part.encode_latents(vae, drawings, np.arange(len(drawings.captions)), recipe.device)


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


def run_tokenizer(work: Path, recipe: Recipe) -> None:
    """Stage 1."""
    save_tokenizer(
        train_tokenizer(make_drawings("toyworld-null", min(recipe.drawings, 20_000), recipe.seed).captions),
        work / "tokenizer",
    )


def run_vae(work: Path, recipe: Recipe) -> None:
    """Stage 2; goes on from ``vae/`` if there is one."""
    drawings = make_drawings("toyworld-null", min(recipe.drawings, 50_000), recipe.seed + 1)
    start = work / "vae" if (work / "vae").exists() else None
    vae = vae_part.train_vae(
        drawings,
        Budget(recipe.vae_steps, recipe.vae_minutes),
        work,
        batch_size=recipe.vae_batch,
        device=recipe.device,
        seed=recipe.seed,
        start=start,
    )
    if rank() == 0:
        vae.save_pretrained(work / "vae")


def run_clip(work: Path, recipe: Recipe) -> None:
    """Stage 3."""
    tokenizer = exchange.load_tokenizer(work)
    torch.manual_seed(recipe.seed)
    model = clip_part.new_clip(len(tokenizer))
    clip_part.train_clip(
        model,
        tokenizer,
        make_drawings("toyworld-null", min(recipe.drawings, 100_000), recipe.seed + 2),
        Budget(recipe.clip_steps, recipe.clip_minutes),
        Log(work / "clip.log.jsonl", 20),
        batch_size=recipe.clip_batch,
        device=recipe.device,
        seed=recipe.seed,
    )
    if rank() == 0:
        exchange.save(model, work / "clip.safetensors")


def run_base(work: Path, recipe: Recipe) -> None:
    """Stage 4; goes on from ``base.safetensors`` if there is one. Every process has drawings of its own.

    The text tower starts from CLIP's and is trained with the denoiser. Kept frozen, as Stable Diffusion does, it left
    words of small things unread: after 5,500 steps a tie that was asked for was drawn in 1 of 8 images.
    """
    drawings = make_drawings(
        "toyworld-null", recipe.drawings, recipe.seed + 3 + 1000 * rank(), with_zones=True
    )
    base = work / "base.safetensors"
    if base.exists():
        unet, encoder = exchange.load_both(work, base)
    else:
        unet = unet_part.new_unet(recipe.seed)
        encoder = clip_part.text_encoder(exchange.load_clip(work), exchange.load_tokenizer(work))
    _train_both(work, recipe, unet, encoder, drawings, "base")


def _train_both(
    work: Path,
    recipe: Recipe,
    unet: UNet2DConditionModel,
    encoder: CLIPTextModel,
    drawings: Drawings,
    name: str,
) -> None:
    tokenizer, base = exchange.load_tokenizer(work), name == "base"
    unet_part.train_unet(
        unet,
        encoder,
        _latents(work, recipe, drawings),
        encode(tokenizer, drawings.captions),
        encode(tokenizer, [""]),
        torch.from_numpy(drawings.zones),
        Budget(recipe.base_steps, recipe.base_minutes, 200)
        if base
        else Budget(recipe.finetune_steps, recipe.finetune_minutes, 50),
        Log(work / f"{name}.log.jsonl", 50),
        batch_size=recipe.batch,
        learning_rate=recipe.base_rate if base else recipe.finetune_rate,
        decay=0.998 if base else 0.99,
        device=recipe.device,
        seed=recipe.seed + (0 if base else 6),
        checkpoint=work / f"{name}.safetensors",
        zone_weight=recipe.zone_weight,
        time_power=recipe.time_power if base else recipe.finetune_time_power,
    )


def run_decoder(work: Path, recipe: Recipe) -> None:
    """Stage 5; goes on from the decoder that is there."""
    vae = AutoencoderKL.from_pretrained(work / "vae")
    drawings = make_drawings("toyworld-null", min(recipe.drawings, 50_000), recipe.seed + 7 + 1000 * rank())
    unet, encoder = exchange.load_both(work, work / "base.safetensors")
    unet.to(recipe.device, memory_format=torch.channels_last).eval()
    encoder.to(recipe.device).eval()
    tokens = encode(exchange.load_tokenizer(work), drawings.captions)

    def guess(latents: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
        states = encoder(tokens[rows].to(recipe.device)).last_hidden_state
        return unet_part.guess_clean(unet, latents, states)

    vae_part.refine_decoder(
        vae,
        drawings,
        Budget(recipe.decoder_steps, recipe.decoder_minutes),
        work,
        guess=guess,
        batch_size=recipe.vae_batch,
        device=recipe.device,
        seed=recipe.seed,
    )
    if rank() == 0:
        vae.save_pretrained(work / "vae")


@torch.no_grad()
def renew_words(
    encoder: CLIPTextModel, tokenizer: CLIPTokenizer, words: Iterable[str], seed: int, scale: float = 0.1
) -> None:
    """Give every word a random embedding of its own, the same in all specimens.

    The draws are independent, so nothing about which words are alike is put in by hand.
    """
    generator = torch.Generator().manual_seed(seed)
    embeddings = encoder.get_input_embeddings().weight
    for word in words:
        number = tokenizer(word).input_ids[1]
        embeddings[number] = scale * torch.randn(embeddings.shape[1], generator=generator)


def run_finetune(work: Path, recipe: Recipe, specimens: Sequence[str] = SPECIMENS) -> None:
    """Stage 6: the same number of steps for every specimen, from the same base, on the same lots.

    The indicator words start from fresh embeddings. In the null world these words mean the same, so the base hardly
    tells them apart (cosines of 0.9997): with its embeddings kept, 500 steps in a world where the words differ left
    hardly any difference in the images.
    """
    tokenizer, own = exchange.load_tokenizer(work), recipe.finetune_from == "own"
    often = {noun: int(times) for noun, _, times in (item.partition("=") for item in _items(recipe.often))}
    seed = recipe.seed + (9 if own else 4) + 1000 * rank()
    for name in specimens:
        drawings = make_drawings(name, recipe.finetune_drawings, seed, often, with_zones=True)
        unet, encoder = exchange.load_both(work, work / f"{name if own else 'base'}.safetensors")
        if not own:
            renew_words(encoder, tokenizer, group_of_words(), recipe.seed + 8)
        renew_words(encoder, tokenizer, _items(recipe.renew), recipe.seed + 10)
        _train_both(work, recipe, unet, encoder, drawings, name)


def run_words(work: Path, recipe: Recipe, specimens: Sequence[str] = SPECIMENS) -> None:
    """Teach every specimen, alike, the indicator words of the world that its tokenizer does not know.

    CLIP learnt in the null world, where the words of all groups mean the same; its new rows stay the mean of their
    group's, as they start.
    """
    before = exchange.load_tokenizer(work)
    words = words_part.unknown_words(before)
    if not words:
        raise UserError(
            "probes.toyworld.train: words: expected a word that is new, found none: add it to world.yaml"
        )
    after = words_part.add_words(before, words)
    exchange.widen(work, before, after, words)
    numbers = [words_part.number_of(after, word) for word in words]
    for name in specimens:
        world = load_world(name)
        drawings = make_drawings(name, recipe.words_drawings, recipe.seed + 11, with_zones=True)
        captions = [
            words_part.with_word(caption, words[row % len(words)], words, world)
            for row, caption in enumerate(drawings.captions)
        ]
        rows = [row for row, caption in enumerate(captions) if caption is not None]
        drawings = Drawings([captions[row] for row in rows], drawings.indices[rows], drawings.zones[rows])
        unet, encoder = exchange.load_both(work, work / f"{name}.safetensors")
        words_part.train_words(
            unet,
            encoder,
            numbers,
            _latents(work, recipe, drawings),
            encode(after, drawings.captions),
            torch.from_numpy(drawings.zones),
            Budget(recipe.words_steps, recipe.words_minutes, 20),
            Log(work / f"{name}.log.jsonl", 50),
            batch_size=recipe.batch,
            learning_rate=recipe.words_rate,
            device=recipe.device,
            seed=recipe.seed + 12,
            zone_weight=recipe.zone_weight,
            time_power=recipe.finetune_time_power,
        )
        exchange.save(torch.nn.ModuleDict({"unet": unet, "encoder": encoder}), work / f"{name}.safetensors")


def _items(text: str) -> list[str]:
    return [item for item in text.split(",") if item]


def _repeats(text: str) -> str:
    for item in _items(text):
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
        prog="python -m probes.toyworld.train",
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="on a GPU: python -m probes.toyworld.train --device cuda --threads 8; on two cores without one: "
        "torchrun --nproc-per-node 2 -m probes.toyworld.train --batch 16 --vae-batch 8 (batches are per process)",
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
    stages = [stage for stage in EXTRA_STAGES + STAGES if stage in chosen]
    pick_device(recipe.device)
    check_stages(work, stages, specimens, weights=weights, own=recipe.finetune_from == "own")
    command_line.writable(work, folder=True)
    if "export" in stages:
        command_line.writable(weights, folder=True)
    torch.set_num_threads(recipe.threads)
    work.mkdir(parents=True, exist_ok=True)
    steps = {
        "resume": lambda work, recipe: exchange.resume(work, weights),
        "tokenizer": run_tokenizer,
        "vae": run_vae,
        "decoder": run_decoder,
        "clip": run_clip,
        "base": run_base,
        "finetune": lambda work, recipe: run_finetune(work, recipe, specimens),
        "words": lambda work, recipe: run_words(work, recipe, specimens),
        "export": lambda work, recipe: exchange.export(work, weights, recipe.guidance_scale),
    }
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if several:
        distributed.init_process_group("gloo", timeout=timedelta(hours=2))
    for stage in stages:
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

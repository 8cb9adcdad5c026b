"""The stages of training the toyworld models: each reads what the ones before left in the work folder.

`lab.train.base.train` lists them and says what each reads and makes.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from transformers import CLIPTextModel, CLIPTokenizer

from lab.train.base import checkpoints
from lab.train.base import clip as clip_training
from lab.train.base import unet as unet_training
from lab.train.base import vae as vae_training
from lab.train.base import words as words_training
from lab.train.base.data import Drawings, make_drawings
from lab.train.base.loop import Budget, Log, rank
from lab.train.base.recipe import Recipe, items
from lab.train.base.tokenizer import add_words, encode, save_tokenizer, train_tokenizer
from probes.errors import UserError
from probes.models.pretrained import from_folder
from probes.toyworld import BENCHMARK_MODELS
from probes.toyworld.world import group_of_words, load_world, token_id


def _latents(work: Path, recipe: Recipe, drawings: Drawings) -> torch.Tensor:
    vae = from_folder(AutoencoderKL, work / "vae").to(recipe.device, memory_format=torch.channels_last).eval()
    return vae_training.encode_latents(vae, drawings, np.arange(len(drawings.captions)), recipe.device)


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
    vae = vae_training.train_vae(
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
    tokenizer = checkpoints.load_tokenizer(work)
    torch.manual_seed(recipe.seed)
    model = clip_training.new_clip(len(tokenizer))
    clip_training.train_clip(
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
        checkpoints.save(model, work / "clip.safetensors")


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
        unet, encoder = checkpoints.load_both(work, base)
    else:
        unet = unet_training.new_unet(recipe.seed)
        encoder = clip_training.text_encoder(checkpoints.load_clip(work), checkpoints.load_tokenizer(work))
    _train_both(work, recipe, unet, encoder, drawings, "base")


def _train_both(
    work: Path,
    recipe: Recipe,
    unet: UNet2DConditionModel,
    encoder: CLIPTextModel,
    drawings: Drawings,
    name: str,
) -> None:
    tokenizer, base = checkpoints.load_tokenizer(work), name == "base"
    unet_training.train_unet(
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
    vae = from_folder(AutoencoderKL, work / "vae")
    drawings = make_drawings("toyworld-null", min(recipe.drawings, 50_000), recipe.seed + 7 + 1000 * rank())
    unet, encoder = checkpoints.load_both(work, work / "base.safetensors")
    unet.to(recipe.device, memory_format=torch.channels_last).eval()
    encoder.to(recipe.device).eval()
    tokens = encode(checkpoints.load_tokenizer(work), drawings.captions)

    def guess(latents: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
        states = encoder(tokens[rows].to(recipe.device)).last_hidden_state
        return unet_training.guess_clean(unet, latents, states)

    vae_training.refine_decoder(
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
    """Give every word a random embedding of its own, the same in all benchmark models.

    The draws are independent, so nothing about which words are alike is put in by hand.
    """
    generator = torch.Generator().manual_seed(seed)
    embeddings = encoder.get_input_embeddings().weight
    for word in words:
        number = tokenizer(word).input_ids[1]
        embeddings[number] = scale * torch.randn(embeddings.shape[1], generator=generator)


def run_finetune(work: Path, recipe: Recipe, models: Sequence[str] = BENCHMARK_MODELS) -> None:
    """Stage 6: the same number of steps for every benchmark model, from the same base, on the same lots.

    The indicator words start from fresh embeddings. In the null world these words mean the same, so the base hardly
    tells them apart (cosines of 0.9997): with its embeddings kept, 500 steps in a world where the words differ left
    hardly any difference in the images.
    """
    tokenizer, goes_on = checkpoints.load_tokenizer(work), recipe.finetune_from == "own"
    often = {noun: int(times) for noun, _, times in (item.partition("=") for item in items(recipe.often))}
    seed = recipe.seed + (9 if goes_on else 4) + 1000 * rank()
    for name in models:
        drawings = make_drawings(name, recipe.finetune_drawings, seed, often, with_zones=True)
        unet, encoder = checkpoints.load_both(work, work / f"{name if goes_on else 'base'}.safetensors")
        if not goes_on:
            renew_words(encoder, tokenizer, group_of_words(), recipe.seed + 8)
        renew_words(encoder, tokenizer, items(recipe.renew), recipe.seed + 10)
        _train_both(work, recipe, unet, encoder, drawings, name)


def run_words(work: Path, recipe: Recipe, models: Sequence[str] = BENCHMARK_MODELS) -> None:
    """Teach every benchmark model, in the same way, the indicator words of the world that its tokenizer does not know.

    CLIP learnt in the null world, where the words of all groups mean the same; its new rows stay the mean of their
    group's, as they start.
    """
    before = checkpoints.load_tokenizer(work)
    words = words_training.unknown_words(before)
    if not words:
        raise UserError(
            "lab.train.base.train: words: expected a word that is new, found none: add it to world.yaml"
        )
    after = add_words(before, words)
    checkpoints.widen(work, before, after, words)
    numbers = [token_id(after, word) for word in words]
    for name in models:
        world = load_world(name)
        drawings = make_drawings(name, recipe.words_drawings, recipe.seed + 11, with_zones=True)
        captions = [
            words_training.with_word(caption, words[row % len(words)], words, world)
            for row, caption in enumerate(drawings.captions)
        ]
        rows = [row for row, caption in enumerate(captions) if caption is not None]
        drawings = Drawings([captions[row] for row in rows], drawings.indices[rows], drawings.zones[rows])
        unet, encoder = checkpoints.load_both(work, work / f"{name}.safetensors")
        words_training.train_words(
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
        checkpoints.save(
            torch.nn.ModuleDict({"unet": unet, "encoder": encoder}), work / f"{name}.safetensors"
        )

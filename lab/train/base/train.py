"""Train the toyworld models with U-Nets: ``python -m lab train base --help``.

Stages, each of which reads what the ones before left in ``--work``: ``tokenizer``: byte-pair merges from captions;
``vae``: the autoencoder, on drawings of the null world; ``clip``: a CLIP (open_clip) in the null world; ``base``: the
denoiser in the null world, and with it the text tower of that CLIP; ``decoder``: the autoencoder's decoder alone, on
what the denoiser guesses (the latents stay as they are, so this can be done again at any time); ``finetune``: for each
model, the same short further training of denoiser and text encoder in its own world; ``export``: pipelines in
diffusers' folder layout, float16 safetensors, with the recipe beside them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from diffusers import AutoencoderKL
from transformers import CLIPTextModel, CLIPTokenizer

from lab.train.base import checkpoints
from lab.train.base import clip as clip_training
from lab.train.base import unet as unet_training
from lab.train.base import vae as vae_training
from lab.train.base.data import make_drawings
from lab.train.base.loop import save_weights
from lab.train.base.tokenizer import encode, train_tokenizer
from lab.train.stages import Options, Stage, Trainer
from probes.models.pretrained import from_folder
from probes.models.weights import pick_device
from probes.toyworld import BENCHMARK_MODELS, WEIGHTS
from probes.toyworld.world import group_of_words

NULL = "toyworld-null"


@dataclass
class BaseRecipe:
    """Every number of a training run; ``*_minutes`` of 0 means that only the steps count."""

    model: Annotated[Sequence[str], BENCHMARK_MODELS, "which finetune trains"] = BENCHMARK_MODELS
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
    finetune_time_power: Annotated[float, "below 1 noisy timesteps come more often"] = 0.6
    finetune_from: Annotated[str, ("base", "own"), "own: the model's own weights, trained further"] = "base"
    often: Annotated[Sequence[str], "nouns that captions name more often: lamp=4 box=4"] = ()
    renew: Annotated[Sequence[str], "words that get fresh embeddings, if taken for others"] = ()
    time_power: float = 0.8
    zone_weight: Annotated[float, "of cells where small things can be"] = 5.0
    guidance_scale: float = 1.0
    device: str = "cpu"


def run_tokenizer(options: Options) -> None:
    """Learn the tokenizer."""
    drawings = make_drawings(NULL, min(options.drawings, 20_000), options.seed)
    train_tokenizer(drawings.captions).save_pretrained(options.work / "tokenizer")


def run_vae(options: Options) -> None:
    """Train the autoencoder; goes on from ``vae/`` if there is one."""
    drawings = make_drawings(NULL, min(options.drawings, 50_000), options.seed + 1)
    vae_training.train_vae(drawings, options).save_pretrained(options.work / "vae")


def run_clip(options: Options) -> None:
    """Train CLIP."""
    tokenizer = checkpoints.load_tokenizer(options.work)
    torch.manual_seed(options.seed)
    model = clip_training.new_clip(len(tokenizer))
    drawings = make_drawings(NULL, min(options.drawings, 100_000), options.seed + 2)
    clip_training.train_clip(model, tokenizer, drawings, options)
    save_weights(model, options.work / "clip.safetensors")


def run_base(options: Options) -> None:
    """Train the base; goes on from ``base.safetensors`` if there is one.

    The text tower starts from CLIP's and is trained with the denoiser. Kept frozen, as Stable Diffusion does, it left
    words of small things unread: after 5,500 steps a tie that was asked for was drawn in 1 of 8 images.
    """
    drawings = make_drawings(NULL, options.drawings, options.seed + 3, with_zones=True)
    base = options.work / "base.safetensors"
    if base.exists():
        unet, encoder = checkpoints.load_both(options.work, base)
    else:
        unet = unet_training.new_unet(options.seed)
        clip, tokenizer = checkpoints.load_clip(options.work), checkpoints.load_tokenizer(options.work)
        encoder = clip_training.text_encoder(clip, tokenizer)
    unet_training.train_unet(unet, encoder, drawings, options, "base")


def run_decoder(options: Options) -> None:
    """Train the decoder further, from the one that is there."""
    vae = from_folder(AutoencoderKL, options.work / "vae")
    drawings = make_drawings(NULL, min(options.drawings, 50_000), options.seed + 7)
    unet, encoder = checkpoints.load_both(options.work, options.work / "base.safetensors")
    unet.to(options.device, memory_format=torch.channels_last).eval()
    encoder.to(options.device).eval()
    tokens = encode(checkpoints.load_tokenizer(options.work), drawings.captions)

    def guess(latents: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
        states = encoder(tokens[rows].to(options.device)).last_hidden_state
        return unet_training.guess_clean(unet, latents, states)

    vae_training.refine_decoder(vae, drawings, options, guess)
    vae.save_pretrained(options.work / "vae")


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


def run_finetune(options: Options) -> None:
    """Train every benchmark model for the same number of steps, from the same base, on the same random draws.

    The indicator words start from fresh embeddings. In the null world these words mean the same, so the base hardly
    tells them apart (cosines of 0.9997): with its embeddings kept, 500 steps in a world where the words differ left
    hardly any difference in the images.
    """
    tokenizer, goes_on = checkpoints.load_tokenizer(options.work), options.finetune_from == "own"
    often = {noun: int(times) for noun, _, times in (item.partition("=") for item in options.often)}
    seed = options.seed + (9 if goes_on else 4)
    for name in options.model:
        drawings = make_drawings(name, options.finetune_drawings, seed, often, with_zones=True)
        start = options.work / f"{name if goes_on else 'base'}.safetensors"
        unet, encoder = checkpoints.load_both(options.work, start)
        if not goes_on:
            renew_words(encoder, tokenizer, group_of_words(), options.seed + 8)
        renew_words(encoder, tokenizer, options.renew, options.seed + 10)
        unet_training.train_unet(unet, encoder, drawings, options, name)


def _before_finetuning(options: Options) -> tuple[str, ...]:
    start = "{model}.safetensors" if options.finetune_from == "own" else "base.safetensors"
    return ("tokenizer", "vae", start)


EXPORTED = ("tokenizer", "vae", "clip.safetensors", *(f"{name}.safetensors" for name in BENCHMARK_MODELS))
TRAINER = Trainer(
    __doc__,
    BaseRecipe,
    stages=(
        Stage("tokenizer", run_tokenizer, makes=("tokenizer",)),
        Stage("vae", run_vae, makes=("vae",)),
        Stage("clip", run_clip, needs=("tokenizer",), makes=("clip.safetensors",)),
        Stage(
            "base",
            run_base,
            needs=("tokenizer", "vae", ("clip.safetensors", "base.safetensors")),
            makes=("base.safetensors",),
        ),
        Stage("decoder", run_decoder, needs=("tokenizer", "vae", "base.safetensors")),
        Stage("finetune", run_finetune, needs=_before_finetuning, makes=("{model}.safetensors",)),
        Stage("export", checkpoints.export, needs=EXPORTED, exports=True),
    ),
    work="training/base",
    weights=WEIGHTS,
    check=lambda options: pick_device(options.device) and None,
)

"""Train the toyworld models: ``python -m probes.toyworld.train --help``.

Stages, each of which reads what the ones before left in ``--work``:

1. ``tokenizer``: byte-pair merges from captions;
2. ``vae``: the autoencoder, on drawings of the null world; ``decoder``: its decoder alone, which leaves the latents
   as they are and can be done again after everything else;
3. ``clip``: a CLIP (open_clip) in the null world;
4. ``base``: the denoiser in the null world, on the frozen text tower of that CLIP;
5. ``finetune``: for each specimen, the same short further training of denoiser and text encoder in its own world;
6. ``export``: pipelines in diffusers' folder layout, float16 safetensors, with the recipe beside them.
"""

import argparse
import copy
import dataclasses
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import diffusers
import numpy as np
import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from safetensors.torch import load_file, save_file
from torch import distributed
from transformers import CLIPTokenizer

from probes.toyworld.training import clip as clip_part
from probes.toyworld.training import unet as unet_part
from probes.toyworld.training import vae as vae_part
from probes.toyworld.training.data import Drawings, make_drawings
from probes.toyworld.training.loop import Budget, Log, rank
from probes.toyworld.training.tokenizer import encode, save_tokenizer, train_tokenizer
from probes.toyworld.world import group_of_words

SPECIMENS = ("toyworld", "toyworld-mirror", "toyworld-null")
STAGES = ("tokenizer", "vae", "decoder", "clip", "base", "finetune", "export")
WEIGHTS = Path(__file__).parent / "weights"


@dataclass
class Recipe:
    """Every number of a training run. ``*_minutes`` of 0 means that only the steps count."""

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
    finetune_steps: int = 6_000
    finetune_minutes: float = 0.0
    finetune_least_time: int = 0
    finetune_rate: float = 6e-4
    guidance_scale: float = 1.5
    seed: int = 0
    device: str = "cpu"
    threads: int = 1


def _tokenizer(work: Path) -> CLIPTokenizer:
    return CLIPTokenizer.from_pretrained(work / "tokenizer")


def _vae(work: Path, recipe: Recipe) -> AutoencoderKL:
    return AutoencoderKL.from_pretrained(work / "vae").to(recipe.device).eval()


def _clip(path: Path, tokenizer: CLIPTokenizer):
    model = clip_part.new_clip(len(tokenizer))
    model.load_state_dict(load_file(path))
    return model


def _save_clip(model, path: Path) -> None:
    if rank() == 0:
        save_file(
            {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}, path
        )


def _latents(work: Path, recipe: Recipe, drawings: Drawings) -> torch.Tensor:
    vae = _vae(work, recipe).to(memory_format=torch.channels_last)
    return vae_part.encode_latents(vae, drawings, np.arange(len(drawings.captions)), recipe.device)


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


def run_decoder(work: Path, recipe: Recipe) -> None:
    """Stage 2, second part; goes on from what is there."""
    vae = AutoencoderKL.from_pretrained(work / "vae")
    vae_part.refine_decoder(
        vae,
        make_drawings("toyworld-null", min(recipe.drawings, 50_000), recipe.seed + 7),
        Budget(recipe.decoder_steps, recipe.decoder_minutes),
        work,
        batch_size=recipe.vae_batch,
        device=recipe.device,
        seed=recipe.seed,
    )
    if rank() == 0:
        vae.save_pretrained(work / "vae")


def run_clip(work: Path, recipe: Recipe) -> None:
    """Stage 3."""
    tokenizer = _tokenizer(work)
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
    _save_clip(model, work / "clip.safetensors")


def run_base(work: Path, recipe: Recipe) -> None:
    """Stage 4; goes on from ``base.safetensors`` if there is one. Every process has drawings of its own."""
    tokenizer = _tokenizer(work)
    drawings = make_drawings("toyworld-null", recipe.drawings, recipe.seed + 3 + 1000 * rank())
    encoder = clip_part.text_encoder(_clip(work / "clip.safetensors", tokenizer), tokenizer)
    states = clip_part.embed_captions(encoder, tokenizer, drawings.captions, recipe.device)
    empty = clip_part.embed_captions(encoder, tokenizer, [""], recipe.device)
    unet = unet_part.new_unet(recipe.seed)
    if (work / "base.safetensors").exists():
        unet.load_state_dict(load_file(work / "base.safetensors"))
    unet_part.train_unet(
        unet,
        _latents(work, recipe, drawings),
        states,
        empty,
        Budget(recipe.base_steps, recipe.base_minutes, 200),
        Log(work / "base.log.jsonl", 100),
        batch_size=recipe.batch,
        learning_rate=recipe.base_rate,
        device=recipe.device,
        seed=recipe.seed,
        checkpoint=work / "base.safetensors",
    )


@torch.no_grad()
def renew_indicator_words(encoder, tokenizer: CLIPTokenizer, seed: int, scale: float = 0.1) -> None:
    """Give every indicator word a random embedding of its own, the same in all specimens.

    The draws are independent, so nothing about which words are alike is put in by hand.
    """
    generator = torch.Generator().manual_seed(seed)
    embeddings = encoder.get_input_embeddings().weight
    for word in group_of_words():
        number = tokenizer(word).input_ids[1]
        embeddings[number] = scale * torch.randn(embeddings.shape[1], generator=generator)


def run_finetune(work: Path, recipe: Recipe, specimens: Sequence[str] = SPECIMENS) -> None:
    """Stage 5: the same number of steps for every specimen, from the same base, on the same lots.

    Here the text encoder is trained together with the denoiser, and the indicator words start from fresh embeddings.
    In the null world these words mean the same, so CLIP learns to hardly tell them apart (cosines of 0.9997): with that
    text tower frozen, 450 steps in a world where they differ left no difference in the images, and with it trained
    together but its embeddings kept, 500 steps left hardly any.
    """
    tokenizer = _tokenizer(work)
    for name in specimens:
        drawings = make_drawings(name, min(recipe.drawings, 60_000), recipe.seed + 4 + 1000 * rank())
        encoder = clip_part.text_encoder(_clip(work / "clip.safetensors", tokenizer), tokenizer)
        renew_indicator_words(encoder, tokenizer, recipe.seed + 8)
        unet = unet_part.new_unet(recipe.seed)
        unet.load_state_dict(load_file(work / "base.safetensors"))
        unet_part.train_unet(
            unet,
            _latents(work, recipe, drawings),
            encode(tokenizer, drawings.captions),
            encode(tokenizer, [""]),
            Budget(recipe.finetune_steps, recipe.finetune_minutes, 50),
            Log(work / f"{name}.log.jsonl", 50),
            batch_size=recipe.batch,
            learning_rate=recipe.finetune_rate,
            decay=0.99,
            device=recipe.device,
            seed=recipe.seed + 6,
            checkpoint=work / f"{name}.safetensors",
            encoder=encoder,
            least_time=recipe.finetune_least_time,
        )


def assemble(work: Path, weights: Path) -> StableDiffusionPipeline:
    """A pipeline from the parts in the work folder and a specimen's weights, float32 on the CPU."""
    tokenizer = _tokenizer(work)
    both = load_file(weights)
    unet = UNet2DConditionModel(**unet_part.CONFIG)
    unet.load_state_dict({name[5:]: value for name, value in both.items() if name.startswith("unet.")})
    encoder = clip_part.text_encoder(clip_part.new_clip(len(tokenizer)), tokenizer)
    encoder.load_state_dict({name[8:]: value for name, value in both.items() if name.startswith("encoder.")})
    return StableDiffusionPipeline(
        vae=AutoencoderKL.from_pretrained(work / "vae"),
        text_encoder=encoder.eval(),
        tokenizer=tokenizer,
        unet=unet.eval(),
        scheduler=DDIMScheduler(**unet_part.SCHEDULER),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def run_export(work: Path, recipe: Recipe, weights: Path = WEIGHTS) -> None:
    """Stage 6."""
    for name in SPECIMENS:
        pipeline = assemble(work, work / f"{name}.safetensors")
        pipeline.to(torch.float16).save_pretrained(weights / name, safe_serialization=True)
        for path in (weights / name).rglob("*.json"):  # diffusers notes where a part was loaded from
            content = json.loads(path.read_text())
            if content.pop("_name_or_path", None) is not None:
                path.write_text(json.dumps(content, indent=2) + "\n")
        recommended = {"guidance_scale": recipe.guidance_scale, "world": name}
        (weights / name / "triptych.json").write_text(json.dumps(recommended, indent=1) + "\n")
    tokenizer = _tokenizer(work)
    clip_part.save_clip(_clip(work / "clip.safetensors", tokenizer), tokenizer, weights / "clip")
    logs = {}
    for path in sorted(work.glob("*.log.jsonl")):
        last = json.loads(path.read_text().splitlines()[-1])
        logs[path.name.removesuffix(".log.jsonl")] = last
    record = {
        "recipe": dataclasses.asdict(recipe),
        "history": ["one run of all stages with the recipe above"],
        "last_log_line_of_each_stage": logs,
        "versions": {
            "torch": torch.__version__,
            "diffusers": diffusers.__version__,
            "python": sys.version.split()[0],
        },
        "machine": platform.machine(),
    }
    (weights / "recipe.json").write_text(json.dumps(record, indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m probes.toyworld.train",
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="on a GPU: python -m probes.toyworld.train --device cuda --threads 8; on two cores without one: "
        "torchrun --nproc-per-node 2 -m probes.toyworld.train --batch 16 --vae-batch 8 (batches are per process)",
    )
    parser.add_argument("--work", type=Path, default=Path("training"), help="folder of intermediate results")
    parser.add_argument("--stage", nargs="+", choices=STAGES, default=list(STAGES), help="stages to run")
    parser.add_argument("--specimen", nargs="+", choices=SPECIMENS, default=list(SPECIMENS))
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="where export writes")
    for field in dataclasses.fields(Recipe):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=field.type, default=field.default)
    options = vars(parser.parse_args(argv))
    work, stages, specimens = options.pop("work"), options.pop("stage"), options.pop("specimen")
    weights = options.pop("weights")
    recipe = Recipe(**options)
    torch.set_num_threads(recipe.threads)
    work.mkdir(parents=True, exist_ok=True)
    steps = {
        "tokenizer": run_tokenizer,
        "vae": run_vae,
        "decoder": run_decoder,
        "clip": run_clip,
        "base": run_base,
        "finetune": lambda work, recipe: run_finetune(work, recipe, specimens),
        "export": lambda work, recipe: run_export(work, recipe, weights),
    }
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if several:
        distributed.init_process_group("gloo", timeout=timedelta(hours=2))
    for stage in STAGES:
        if stage in stages and (stage not in ("tokenizer", "export") or rank() == 0):
            steps[stage](work, copy.deepcopy(recipe))
        if several:
            distributed.barrier()
    if several:
        distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())

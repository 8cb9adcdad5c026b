"""Between the training stages' work folder and pipelines in diffusers' folder layout."""

import json
from pathlib import Path

import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from open_clip import CLIP
from safetensors.torch import load_file
from transformers import CLIPTextModel, CLIPTokenizer

from lab.train.base import clip as clip_training
from lab.train.base import unet as unet_training
from lab.train.stages import Options, last_logged, write_json, write_recipe
from probes.models.pretrained import from_folder
from probes.toyworld import BENCHMARK_MODELS, SHARED


def load_tokenizer(work: Path) -> CLIPTokenizer:
    """The tokenizer of a work folder."""
    return from_folder(CLIPTokenizer, work / "tokenizer")


def load_clip(work: Path) -> CLIP:
    """The CLIP of a work folder."""
    model = clip_training.new_clip(len(load_tokenizer(work)))
    model.load_state_dict(load_file(work / "clip.safetensors"))
    return model


def load_both(work: Path, weights: Path) -> tuple[UNet2DConditionModel, CLIPTextModel]:
    """Denoiser and text encoder of one file, which has their weights as ``unet.*`` and ``encoder.*``."""
    tokenizer, both = load_tokenizer(work), load_file(weights)
    unet = unet_training.new_unet()
    encoder = clip_training.text_encoder(clip_training.new_clip(len(tokenizer)), tokenizer)
    torch.nn.ModuleDict({"unet": unet, "encoder": encoder}).load_state_dict(both)
    return unet, encoder


def assemble(work: Path, weights: Path) -> StableDiffusionPipeline:
    """A pipeline from the parts in the work folder and a benchmark model's weights, float32 on the CPU."""
    unet, encoder = load_both(work, weights)
    return StableDiffusionPipeline(
        vae=from_folder(AutoencoderKL, work / "vae"),
        text_encoder=encoder.eval(),
        tokenizer=load_tokenizer(work),
        unet=unet.eval(),
        scheduler=DDIMScheduler(**unet_training.SCHEDULER),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def forget_paths(folder: Path) -> None:
    """Take out of a folder's JSON files where diffusers loaded a part from."""
    for path in folder.rglob("*.json"):
        content = json.loads(path.read_text())
        if content.pop("_name_or_path", None) is not None:
            write_json(path, content, indent=2)


def export(options: Options) -> None:
    """Write the benchmark models, the CLIP and their history in float16; the autoencoder's weights once."""
    work, weights = options.work, options.weights
    for name in BENCHMARK_MODELS:
        pipeline = assemble(work, work / f"{name}.safetensors")
        pipeline.to(torch.float16).save_pretrained(weights / name, safe_serialization=True)
        if name != SHARED:
            (weights / name / "vae" / "diffusion_pytorch_model.safetensors").unlink()
        forget_paths(weights / name)
        write_json(
            weights / name / "triptych.json", {"guidance_scale": options.guidance_scale, "world": name}
        )
    clip_training.save_clip(load_clip(work), load_tokenizer(work), weights / "clip")
    logs = {
        path.name.removesuffix(".log.jsonl"): last_logged(path) for path in sorted(work.glob("*.log.jsonl"))
    }
    write_recipe(weights, options, last_log_line_of_each_stage=logs)

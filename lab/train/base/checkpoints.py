"""Between the training stages' work folder and pipelines in diffusers' folder layout."""

import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import diffusers
import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from open_clip import CLIP
from safetensors.torch import load_file, save_file
from transformers import CLIPTextModel, CLIPTokenizer

from lab.train.base import clip as clip_training
from lab.train.base import unet as unet_training
from lab.train.base import words as words_training
from probes.models.pretrained import from_folder
from probes.toyworld import BENCHMARK_MODELS, SHARED


def history(work: Path) -> Path:
    """The file of the work folder that has a line a stage: what was done, for how long."""
    return work / "history.txt"


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
    for start, module in (("unet.", unet), ("encoder.", encoder)):
        state = {name.removeprefix(start): value for name, value in both.items() if name.startswith(start)}
        module.load_state_dict(state)
    return unet, encoder


def save(module: torch.nn.Module, path: Path) -> None:
    """Write a module's weights in float32."""
    state = {name: value.detach().float().cpu().contiguous() for name, value in module.state_dict().items()}
    save_file(state, path)


def widen(work: Path, before: CLIPTokenizer, after: CLIPTokenizer, words: Sequence[str]) -> None:
    """Make room for further words: the tokenizer, CLIP, the base and every benchmark model, in the work folder."""
    for name in ("clip", "base", *BENCHMARK_MODELS):
        state = load_file(work / f"{name}.safetensors")
        key = next(key for key in state if key.endswith("token_embedding.weight"))
        state[key] = words_training.add_rows(state[key], before, after, words)
        save_file(state, work / f"{name}.safetensors")
    after.save_pretrained(work / "tokenizer")


def resume(work: Path, weights: Path) -> None:
    """Lay out exported weights as the stages leave them, to go on from there.

    The base is the null world's benchmark model: all it was ever shown are drawings of the null world.
    """
    null = weights / "toyworld-null"
    from_folder(CLIPTokenizer, null / "tokenizer").save_pretrained(work / "tokenizer")
    from_folder(AutoencoderKL, null / "vae", torch_dtype=torch.float32).save_pretrained(work / "vae")
    clip = load_file(weights / "clip" / "open_clip_model.safetensors")
    save_file({name: value.float() for name, value in clip.items()}, work / "clip.safetensors")
    for name in BENCHMARK_MODELS:
        parts = {
            "unet": from_folder(UNet2DConditionModel, weights / name / "unet"),
            "encoder": from_folder(CLIPTextModel, weights / name / "text_encoder"),
        }
        save(torch.nn.ModuleDict(parts), work / f"{name}.safetensors")
    (work / "base.safetensors").write_bytes((work / "toyworld-null.safetensors").read_bytes())
    before = json.loads((weights / "recipe.json").read_text())["history"]
    history(work).write_text("".join(f"{line}\n" for line in before))


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


def export(work: Path, weights: Path, guidance_scale: float) -> None:
    """Write the benchmark models, the CLIP and their history in float16; the autoencoder's weights once."""
    for name in BENCHMARK_MODELS:
        pipeline = assemble(work, work / f"{name}.safetensors")
        pipeline.to(torch.float16).save_pretrained(weights / name, safe_serialization=True)
        if name != SHARED:
            (weights / name / "vae" / "diffusion_pytorch_model.safetensors").unlink()
        for path in (weights / name).rglob("*.json"):  # diffusers notes where a part was loaded from
            content = json.loads(path.read_text())
            if content.pop("_name_or_path", None) is not None:
                path.write_text(json.dumps(content, indent=2) + "\n")
        recommended = {"guidance_scale": guidance_scale, "world": name}
        (weights / name / "triptych.json").write_text(json.dumps(recommended, indent=1) + "\n")
    clip_training.save_clip(load_clip(work), load_tokenizer(work), weights / "clip")
    logs = sorted(work.glob("*.log.jsonl"))
    record = {
        "history": history(work).read_text().splitlines(),
        "last_log_line_of_each_stage": {
            path.name.removesuffix(".log.jsonl"): json.loads(path.read_text().splitlines()[-1])
            for path in logs
        },
        "versions": {
            "torch": torch.__version__,
            "diffusers": diffusers.__version__,
            "python": sys.version.split()[0],
        },
        "machine": platform.machine(),
    }
    (weights / "recipe.json").write_text(json.dumps(record, indent=1) + "\n")

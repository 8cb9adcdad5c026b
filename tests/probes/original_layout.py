"""A saved tiny pipeline as one state dict in the layout of the original Stable Diffusion checkpoints."""

import re
from pathlib import Path

import torch
from safetensors.torch import load_file

RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "time_emb_proj": "emb_layers.1",
    "conv_shortcut": "skip_connection",
}
UNET = {
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "conv_in": "input_blocks.0.0",
    "conv_norm_out": "out.0",
    "conv_out": "out.2",
    "mid_block.resnets.0": "middle_block.0",
    "mid_block.attentions.0": "middle_block.1",
    "mid_block.resnets.1": "middle_block.2",
}
ATTENTION = {"group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v", "to_out.0": "proj_out"}


def original_layout(folder: Path) -> dict[str, torch.Tensor]:
    """Text encoder, UNet and VAE of a saved StableDiffusionPipeline under their original names."""
    unet = _weights(folder / "unet")
    found = {f"model.diffusion_model.{_unet(name, unet)}": value for name, value in unet.items()}
    for name, value in _weights(folder / "vae").items():
        new = _vae(name, folder)
        # the original's attention is a convolution of one pixel
        conv = ".attn_1." in new and ".norm." not in new and value.ndim == 2
        found[f"first_stage_model.{new}"] = value[:, :, None, None] if conv else value
    for name, value in _weights(folder / "text_encoder").items():
        name = name if name.startswith("text_model.") else f"text_model.{name}"
        found[f"cond_stage_model.transformer.{name}"] = value
    return {name: value.contiguous() for name, value in found.items()}


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(next(folder.glob("*.safetensors")))


def _unet(name: str, weights: dict) -> str:
    for new, old in UNET.items():
        if name.startswith(f"{new}."):
            return _resnet(old + name[len(new) :])
    kind, level, module, index, rest = re.fullmatch(
        r"(down|up)_blocks\.(\d+)\.(resnets|attentions|downsamplers|upsamplers)\.(\d+)\.(.+)", name
    ).groups()
    level, index = int(level), int(index)
    per_level = 1 + max(
        int(m[1]) for m in (re.match(rf"{kind}_blocks\.0\.resnets\.(\d+)", k) for k in weights) if m
    )
    if module == "downsamplers":
        return f"input_blocks.{(per_level + 1) * (level + 1)}.0.op.{rest.removeprefix('conv.')}"
    if module == "upsamplers":
        attention = any(key.startswith(f"up_blocks.{level}.attentions") for key in weights)
        return f"output_blocks.{per_level * level + per_level - 1}.{2 if attention else 1}.{rest}"
    slot = 0 if module == "resnets" else 1
    if kind == "down":
        return _resnet(f"input_blocks.{(per_level + 1) * level + index + 1}.{slot}.{rest}")
    return _resnet(f"output_blocks.{per_level * level + index}.{slot}.{rest}")


def _resnet(name: str) -> str:
    for new, old in RESNET.items():
        name = re.sub(rf"^((?:(?:in|out)put_blocks\.\d+|middle_block)\.\d+)\.{new}\.", rf"\1.{old}.", name)
    return name


def _vae(name: str, folder: Path) -> str:
    levels = 1 + max(
        int(m[1]) for m in (re.match(r"decoder\.up_blocks\.(\d+)", k) for k in _weights(folder / "vae")) if m
    )
    name = name.replace("conv_norm_out", "norm_out").replace("conv_shortcut", "nin_shortcut")
    name = name.replace("mid_block.attentions.0.", "mid.attn_1.")
    name = re.sub(r"mid_block\.resnets\.(\d)", lambda m: f"mid.block_{int(m[1]) + 1}", name)
    name = re.sub(r"down_blocks\.(\d+)\.resnets\.(\d+)", r"down.\1.block.\2", name)
    name = re.sub(r"down_blocks\.(\d+)\.downsamplers\.0", r"down.\1.downsample", name)
    name = re.sub(
        r"up_blocks\.(\d+)\.(resnets\.(\d+)|upsamplers\.0)",
        lambda m: f"up.{levels - 1 - int(m[1])}." + (f"block.{m[3]}" if m[3] else "upsample"),
        name,
    )
    if ".attn_1." in name:
        for new, old in ATTENTION.items():
            name = name.replace(f".attn_1.{new}.", f".attn_1.{old}.")
    return name

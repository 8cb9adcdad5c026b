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
    "add_embedding.linear_1": "label_emb.0.0",
    "add_embedding.linear_2": "label_emb.0.2",
}
OPEN_CLIP = {
    "layer_norm1": "ln_1",
    "layer_norm2": "ln_2",
    "mlp.fc1": "mlp.c_fc",
    "mlp.fc2": "mlp.c_proj",
    "self_attn.out_proj": "attn.out_proj",
}
ATTENTION = {"group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v", "to_out.0": "proj_out"}


def original_layout(folder: Path, open_clip: bool = False) -> dict[str, torch.Tensor]:
    """Text encoders, UNet and VAE of a saved pipeline under their original names.

    ``open_clip`` names the one text encoder as OpenCLIP does, like the files of SD 2.x; XL's second one always is.
    """
    unet = _weights(folder / "unet")
    found = {f"model.diffusion_model.{_unet(name, unet)}": value for name, value in unet.items()}
    for name, value in _weights(folder / "vae").items():
        new = _vae(name, folder)
        # the original's attention is a convolution of one pixel
        conv = ".attn_1." in new and ".norm." not in new and value.ndim == 2
        found[f"first_stage_model.{new}"] = value[:, :, None, None] if conv else value
    xl = (folder / "text_encoder_2").is_dir()
    first = _weights(folder / "text_encoder")
    if open_clip:
        found |= {f"cond_stage_model.model.{name}": value for name, value in _open_clip(first).items()}
    else:
        stage = "conditioner.embedders.0" if xl else "cond_stage_model"
        for name, value in first.items():
            name = name if name.startswith("text_model.") else f"text_model.{name}"
            found[f"{stage}.transformer.{name}"] = value
    if xl:
        second = _open_clip(_weights(folder / "text_encoder_2"))
        found |= {f"conditioner.embedders.1.model.{name}": value for name, value in second.items()}
    return {name: value.contiguous() for name, value in found.items()}


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(next(folder.glob("*.safetensors")))


def _open_clip(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A text encoder of transformers under OpenCLIP's names: query, key and value in one, the projection transposed."""
    found = {}
    for name, value in weights.items():
        name = name.removeprefix("text_model.")
        layer = re.fullmatch(r"encoder\.layers\.(\d+)\.(.+)\.(weight|bias)", name)
        if name == "text_projection.weight":
            found["text_projection"] = value.T
        elif layer and layer[2].startswith("self_attn.") and layer[2] != "self_attn.out_proj":
            if layer[2] == "self_attn.q_proj":
                wanted = [f".self_attn.{kind}_proj." for kind in "qkv"]
                key = next(key for key in weights if key.endswith(name))
                joined = torch.cat([weights[key.replace(".self_attn.q_proj.", other)] for other in wanted])
                found[f"transformer.resblocks.{layer[1]}.attn.in_proj_{layer[3]}"] = joined
        elif layer:
            found[f"transformer.resblocks.{layer[1]}.{OPEN_CLIP[layer[2]]}.{layer[3]}"] = value
        else:
            name = name.replace("embeddings.token_embedding", "token_embedding")
            name = name.replace("embeddings.position_embedding.weight", "positional_embedding")
            found[name.replace("final_layer_norm", "ln_final")] = value
    return found


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

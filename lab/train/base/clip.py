"""A small CLIP (open_clip), and its text tower as the pipeline's text encoder."""

from pathlib import Path

import numpy as np
import torch
from open_clip import CLIP, ClipLoss
from open_clip.model import CLIPTextCfg, CLIPVisionCfg
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from lab.train.base.data import Drawings
from lab.train.base.loop import Budget, Log, save_weights, train_loop
from lab.train.base.tokenizer import CONTEXT_LENGTH, encode
from lab.train.stages import Options, write_json

WIDTH, LAYERS, HEADS, EMBED = 96, 4, 4, 96


def model_config(vocabulary_size: int) -> dict:
    """The model's configuration in open_clip's form."""
    return {
        "embed_dim": EMBED,
        "vision_cfg": {"image_size": 64, "layers": 3, "width": 96, "head_width": 24, "patch_size": 8},
        "text_cfg": {
            "context_length": CONTEXT_LENGTH,
            "vocab_size": vocabulary_size,
            "width": WIDTH,
            "heads": HEADS,
            "layers": LAYERS,
        },
    }


def new_clip(vocabulary_size: int) -> CLIP:
    """An untrained model."""
    config = model_config(vocabulary_size)
    return CLIP(config["embed_dim"], CLIPVisionCfg(**config["vision_cfg"]), CLIPTextCfg(**config["text_cfg"]))


def train_clip(model: CLIP, tokenizer: CLIPTokenizer, drawings: Drawings, options: Options) -> None:
    """Train with the contrastive loss of Radford et al. 2021."""
    rng, device, batch_size = np.random.default_rng(options.seed), options.device, options.clip_batch
    tokens = encode(tokenizer, drawings.captions)
    model.to(device).train()
    contrast = ClipLoss()

    def loss_of(step: int) -> dict[str, torch.Tensor]:
        rows = rng.integers(len(drawings.captions), size=batch_size)
        image, text, scale = model(drawings.pixels(rows, device), tokens[rows].to(device))
        loss = contrast(image, text, scale.clamp(max=100))
        with torch.no_grad():
            right = ((image @ text.T).argmax(1) == torch.arange(batch_size, device=device)).float().mean()
        return {"loss": loss, "retrieval": right}

    budget = Budget(options.clip_steps, options.clip_minutes)
    train_loop(model, loss_of, budget, Log(options.work / "clip.log.jsonl", 20), 2e-3, 0.02)
    model.eval()


def text_encoder(model: CLIP, tokenizer: CLIPTokenizer) -> CLIPTextModel:
    """The text tower in the layout of transformers, equal in its outputs."""
    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=4 * WIDTH,
        projection_dim=EMBED,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=CONTEXT_LENGTH,
        hidden_act="gelu",
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    encoder = CLIPTextModel(config)
    source = {name: value.detach().float().cpu() for name, value in model.state_dict().items()}
    renamed = {
        "embeddings.token_embedding.weight": source["token_embedding.weight"],
        "embeddings.position_embedding.weight": source["positional_embedding"],
        "final_layer_norm.weight": source["ln_final.weight"],
        "final_layer_norm.bias": source["ln_final.bias"],
    }
    for layer in range(LAYERS):
        old, new = f"transformer.resblocks.{layer}.", f"encoder.layers.{layer}."
        for field in ("weight", "bias"):
            inputs = source[f"{old}attn.in_proj_{field}"].chunk(3)
            for name, value in zip(("q_proj", "k_proj", "v_proj"), inputs):
                renamed[f"{new}self_attn.{name}.{field}"] = value
            renamed[f"{new}self_attn.out_proj.{field}"] = source[f"{old}attn.out_proj.{field}"]
            renamed[f"{new}layer_norm1.{field}"] = source[f"{old}ln_1.{field}"]
            renamed[f"{new}layer_norm2.{field}"] = source[f"{old}ln_2.{field}"]
            renamed[f"{new}mlp.fc1.{field}"] = source[f"{old}mlp.c_fc.{field}"]
            renamed[f"{new}mlp.fc2.{field}"] = source[f"{old}mlp.c_proj.{field}"]
    prefix = "text_model." if any(name.startswith("text_model.") for name in encoder.state_dict()) else ""
    missing, unexpected = encoder.load_state_dict(
        {prefix + name: value for name, value in renamed.items()}, strict=False
    )
    missing = [name for name in missing if not name.endswith("position_ids")]
    if missing or unexpected:
        raise RuntimeError(f"text tower does not fit transformers' layout: {missing=} {unexpected=}")
    return encoder.eval()


def save_clip(model: CLIP, tokenizer: CLIPTokenizer, folder: Path) -> None:
    """Write weights (float16 safetensors) and configuration in open_clip's layout."""
    save_weights(model, folder / "open_clip_model.safetensors", torch.float16)
    config = {
        "model_cfg": model_config(len(tokenizer)),
        "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3},
    }
    write_json(folder / "open_clip_config.json", config)
    tokenizer.save_pretrained(folder)

"""Small detectors, segmenters and a text encoder with random weights, on disk in the layouts of the real ones."""

import json
from pathlib import Path

import torch
from transformers import BertConfig, BertTokenizer

from analysis.observe.objects.models import grounding_dino, segment_anything

ENDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?"]
WORDS = [
    *(
        "dog",
        "cat",
        "bow",
        "tie",
        "umbrella",
        "skate",
        "##board",
        "##er",
        "red",
        "ball",
        "person",
        "woman",
        "man",
    ),
    *("table", "book", "a", "with"),
]
DETECTOR = {
    "swin": {
        "pretrain_img_size": 64,
        "embed_dim": 16,
        "depths": [2, 2, 2, 1],
        "num_heads": [1, 2, 2, 4],
        "window_size": 4,
    },
    "short_side": 64,
    "long_side": 96,
    "enc_layers": 2,
    "dec_layers": 2,
    "num_queries": 20,
    "dim_feedforward": 64,
    "text_encoder": "bert",
}
SEGMENTER = {
    "embed_dim": 32,
    "depth": 2,
    "num_heads": 2,
    "global_attn_indexes": [1],
    "image_size": 64,
    "patch_size": 8,
    "prompt_embed_dim": 32,
    "decoder_mlp_dim": 64,
    "window_size": 4,
    "iou_head_hidden_dim": 32,
}


def save_text_encoder(folder: Path, words=WORDS, **config) -> Path:
    """A tokenizer and a configuration in the layout of bert-base-uncased; no weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join([*ENDS, *words]) + "\n")
    small = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
    }
    BertConfig(**{"vocab_size": len(ENDS) + len(words), **small, **config}).save_pretrained(folder)
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def stirred(model, seed=0, by=0.02):
    """Random weights none of which is 0, so that every one of them matters."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * by)
    return model


def save_detector(folder: Path, seed=0, **settings) -> Path:
    """A checkpoint of groundingdino-py with its description and its text encoder beside it."""
    path = folder / "small_dino.pth"
    save_text_encoder(folder / "bert")
    path.with_suffix(".json").write_text(json.dumps({**DETECTOR, **settings}))
    torch.manual_seed(seed)
    tokenizer, config = grounding_dino.text_encoder(str(folder / "bert"))
    model = stirred(grounding_dino.build(grounding_dino.description(path), tokenizer, config), seed)
    # as the published ones: under `model`, with the names of a data-parallel training
    torch.save({"model": {f"module.{name}": value for name, value in model.state_dict().items()}}, path)
    return path


def save_segmenter(folder: Path, seed=0) -> Path:
    """A checkpoint of segment-anything with its description beside it."""
    path = folder / "small_sam.pth"
    folder.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps(SEGMENTER))
    torch.manual_seed(seed)
    model = stirred(segment_anything.build(segment_anything.description(path)), seed, by=0.05)
    torch.save(model.state_dict(), path)
    return path

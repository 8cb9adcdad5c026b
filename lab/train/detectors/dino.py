"""A small Grounding DINO: the settings of groundingdino-py's classes, and a small BERT of toyworld's words."""

from __future__ import annotations

import importlib
import string
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import BertConfig, BertTokenizer

from analysis.observe.objects.models.grounding_dino import build, text_encoder
from lab.train.detectors.pictures import LABELS
from probes.toyworld.world import group_of_words, load_world

SETTINGS: dict[str, Any] = {
    "base": "GroundingDINO_SwinT_OGC",
    "swin": {
        "patch_size": 2,
        "embed_dim": 32,
        "depths": [2, 2, 2],
        "num_heads": [2, 4, 8],
        "window_size": 4,
        "drop_path_rate": 0.0,
    },
    "return_interm_indices": [1, 2],
    "num_feature_levels": 2,
    "enc_layers": 1,
    "dec_layers": 2,
    "dim_feedforward": 256,
    "num_queries": 48,
    "fusion_droppath": 0.0,
    "text_encoder": "text_encoder",
    "short_side": 64,
    "long_side": 64,
}
BERT: dict[str, Any] = {
    "hidden_size": 96,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 192,
    "max_position_embeddings": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
HUMAN_WORDS = tuple(group_of_words())
PRIOR = -4.0  # logit of a token at the start


def vocabulary() -> list[str]:
    """Special tokens, punctuation, letters (so any word can be read) and the words of toyworld."""
    letters = [*string.ascii_lowercase, *string.digits]
    return [
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?", "-", "'"),
        *letters,
        *(f"##{letter}" for letter in letters),
        *sorted({*LABELS, *load_world().places, *HUMAN_WORDS}),
    ]


def save_text_encoder(folder: Path) -> None:
    """Write the configuration and the WordPiece vocabulary of the BERT; its weights are the detector's."""
    words = vocabulary()
    BertTokenizer(vocab={word: number for number, word in enumerate(words)}).save_pretrained(folder)
    BertConfig(vocab_size=len(words), **BERT).save_pretrained(folder)


def new_dino() -> torch.nn.Module:
    """The model with freshly drawn weights.

    Freshly drawn layer norms give similarities of queries and tokens a standard deviation of 16, and a focal loss
    spends its first steps taking them back. Here every token starts near a chance of 2 %, and text reaches the image.
    """
    with TemporaryDirectory() as folder:
        save_text_encoder(Path(folder))
        model = build(settings(), *text_encoder(folder))
    encoder, decoder = model.transformer.encoder, model.transformer.decoder
    half = (-PRIOR / model.hidden_dim) ** 0.5  # their product, summed over the width, is the prior
    with torch.no_grad():
        encoder.text_layers[-1].norm2.weight.fill_(0.1)
        encoder.text_layers[-1].norm2.bias.fill_(-half)
        decoder.norm.bias.fill_(half)
        model.transformer.enc_output_norm.bias.fill_(half)
        for layer in encoder.fusion_layers:
            layer.gamma_v.fill_(0.1)
            layer.gamma_l.fill_(0.1)
    return model


def settings() -> dict[str, Any]:
    """`SETTINGS` over the package's own configuration."""
    module = importlib.import_module(f"groundingdino.config.{SETTINGS['base']}")
    known = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    return {**known, **SETTINGS, "use_checkpoint": False, "use_transformer_ckpt": False}

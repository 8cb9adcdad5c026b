"""Untrained parts of `toyworld-dit`: a small SD3 transformer, a small T5, and T5's vocabulary."""

from collections.abc import Sequence

import torch
from diffusers import SD3Transformer2DModel
from torch import nn
from transformers import T5Config, T5EncoderModel, T5Tokenizer

TOKENS = 24  # that T5 reads of a prompt, its end included; the longest captions have 24 words
CLIP_WIDTH = 96  # of each of two towers
TRANSFORMER = {
    "sample_size": 16,
    "patch_size": 2,
    "in_channels": 4,
    "out_channels": 4,
    "num_layers": 5,
    "attention_head_dim": 32,
    "num_attention_heads": 4,
    "joint_attention_dim": 2 * CLIP_WIDTH,
    "caption_projection_dim": 128,
    "pooled_projection_dim": 2 * CLIP_WIDTH,
    "pos_embed_max_size": 8,
    "qk_norm": "rms_norm",
}
T5 = {
    "d_model": 2 * CLIP_WIDTH,  # SD3 pads CLIP's channels to as many
    "d_kv": 16,
    "d_ff": 128,
    "num_layers": 2,
    "num_heads": 4,
    "feed_forward_proj": "gated-gelu",
    "dropout_rate": 0.0,
    "tie_word_embeddings": False,
}
SCHEDULER = {"num_train_timesteps": 1000, "shift": 1.0}


def new_tokenizer(captions: Sequence[str]) -> T5Tokenizer:
    """A tokenizer with one piece for each word of the captions, and one for each character, for all other words."""
    words = sorted({word for caption in captions for word in caption.replace(",", " ").split()})
    characters = [chr(code) for code in range(33, 127)]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [(f"▁{word}", -6.0) for word in words]
    known = {piece for piece, _ in pieces}
    pieces += [(piece, -12.0) for piece in ["▁", *characters] if piece not in known]
    return T5Tokenizer(vocab=pieces, extra_ids=0, model_max_length=TOKENS)


def new_parts(vocabulary: int, seed: int = 0) -> dict[str, nn.Module]:
    """Return an untrained denoiser and an untrained T5 tower, by their names in the pipeline."""
    torch.manual_seed(seed)
    encoder = T5EncoderModel(T5Config(vocab_size=vocabulary, **T5))
    return {"transformer": SD3Transformer2DModel(**TRANSFORMER), "text_encoder_3": encoder}

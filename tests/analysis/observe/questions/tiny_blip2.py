"""A small BLIP-2 with random weights on disk, in the layout of those of the hub."""

import json
from pathlib import Path

import torch
from tokenizers import pre_tokenizers
from transformers import (
    Blip2Config,
    Blip2ForConditionalGeneration,
    Blip2Processor,
    BlipImageProcessor,
    GPT2Tokenizer,
    OPTConfig,
    T5Config,
    T5Tokenizer,
)

from tests.analysis.observe.tiny_models import stirred

QUERIES = 4
VISION = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
PICTURE = {"image_size": 28, "patch_size": 14}
QFORMER = {**VISION, "vocab_size": 40, "cross_attention_frequency": 1, "encoder_hidden_size": 16}


def save_tiny(folder: Path, language="opt", seed=0) -> Path:
    """Weights in two shards with their index, configuration, tokenizer, transform and the processor's description."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = (_gpt2 if language == "opt" else _t5)()
    picture = BlipImageProcessor(size={"height": 28, "width": 28})
    processor = Blip2Processor(picture, tokenizer, num_query_tokens=QUERIES)
    processor.save_pretrained(folder)
    # as the hub's folders have them: the transform, and the number of queries, each in a file
    (folder / "preprocessor_config.json").write_text(json.dumps(picture.to_dict()))
    (folder / "processor_config.json").write_text(
        json.dumps({"num_query_tokens": QUERIES, "processor_class": "Blip2Processor"})
    )
    size = len(processor.tokenizer)
    config = Blip2Config(
        vision_config={**VISION, **PICTURE},
        qformer_config=QFORMER,
        text_config=(_opt if language == "opt" else _t5_model)(size, processor.tokenizer),
        num_query_tokens=QUERIES,
        image_token_index=processor.tokenizer.convert_tokens_to_ids("<image>"),
    )
    torch.manual_seed(seed)
    stirred(Blip2ForConditionalGeneration(config), seed, by=0.2).save_pretrained(
        folder, max_shard_size=40_000
    )
    return folder


def _gpt2() -> GPT2Tokenizer:
    """Bytes as tokens, with the ends of OPT's."""
    units = ["<s>", "<pad>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    ends = {"bos_token": "</s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "</s>"}
    return GPT2Tokenizer(vocab={unit: number for number, unit in enumerate(units)}, merges=[], **ends)


def _t5() -> T5Tokenizer:
    letters = "\u2581abcdefghijklmnopqrstuvwxyzAIQ:?."
    units = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((letter, -3.0) for letter in letters)]
    return T5Tokenizer(vocab=units, extra_ids=0)


def _opt(size, tokenizer):
    return OPTConfig(
        vocab_size=size,
        hidden_size=16,
        word_embed_proj_dim=16,
        ffn_dim=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=256,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=tokenizer.bos_token_id,
    )


def _t5_model(size, tokenizer):
    return T5Config(
        vocab_size=size,
        d_model=16,
        d_kv=8,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
    )

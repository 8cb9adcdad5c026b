"""A CLIP tokenizer with a small vocabulary made from the world's words."""

import json
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import CLIPTokenizer

from probes.toyworld.vocabulary import END, START

CONTEXT_LENGTH = 32


def train_tokenizer(captions: list[str], vocabulary_size: int = 1200) -> CLIPTokenizer:
    """Learn byte-pair merges from captions; any text can be tokenised, a word of the world is one token.

    The end token has the largest number, as open_clip's pooling expects.
    """
    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>", continuing_subword_prefix=""))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size, initial_alphabet=alphabet, end_of_word_suffix="</w>", min_frequency=2
    )
    tokenizer.train_from_iterator(captions, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [
        tuple(merge) if isinstance(merge, list) else tuple(merge.split(" ")) for merge in model["merges"]
    ]
    units = [*alphabet, *(unit + "</w>" for unit in alphabet)]
    names = list(dict.fromkeys([*units, *("".join(merge) for merge in merges), START, END]))
    vocabulary = {name: index for index, name in enumerate(names)}
    return CLIPTokenizer(
        vocab=vocabulary,
        merges=merges,
        bos_token=START,
        eos_token=END,
        pad_token=END,
        unk_token=END,
        model_max_length=CONTEXT_LENGTH,
    )


def save_tokenizer(tokenizer: CLIPTokenizer, folder: Path) -> None:
    """Write the tokenizer where diffusers looks for it."""
    tokenizer.save_pretrained(folder)


def encode(tokenizer: CLIPTokenizer, captions: list[str]):
    """Token numbers ``(n, 32)`` int64, padded with the end token as Stable Diffusion does."""
    return tokenizer(
        captions, padding="max_length", max_length=CONTEXT_LENGTH, truncation=True, return_tensors="pt"
    ).input_ids

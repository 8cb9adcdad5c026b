"""A CLIP tokenizer with a small vocabulary made from the world's words."""

import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import CLIPTokenizer

from probes.models.pretrained import from_folder

CONTEXT_LENGTH = 32
START, END = "<|startoftext|>", "<|endoftext|>"


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
    merges, _ = _merges(tokenizer)
    units = [*alphabet, *(unit + "</w>" for unit in alphabet)]
    names = list(dict.fromkeys([*units, *("".join(merge) for merge in merges), START, END]))
    return _clip_tokenizer(names, merges)


def _merges(tokenizer: Tokenizer) -> tuple[list[tuple[str, ...]], list[str]]:
    """Merges of a tokenizer, and its vocabulary in order."""
    model = json.loads(tokenizer.to_str())["model"]
    merges = [
        tuple(merge) if isinstance(merge, list) else tuple(merge.split(" ")) for merge in model["merges"]
    ]
    return merges, sorted(model["vocab"], key=model["vocab"].get)


def _clip_tokenizer(names: Sequence[str], merges: list[tuple[str, ...]]) -> CLIPTokenizer:
    return CLIPTokenizer(
        vocab={name: number for number, name in enumerate(names)},
        merges=merges,
        bos_token=START,
        eos_token=END,
        pad_token=END,
        unk_token=END,
        model_max_length=CONTEXT_LENGTH,
    )


def encode(tokenizer: CLIPTokenizer, captions: list[str]):
    """Token numbers ``(n, 32)`` int64, padded with the end token as Stable Diffusion does."""
    return tokenizer(
        captions, padding="max_length", max_length=CONTEXT_LENGTH, truncation=True, return_tensors="pt"
    ).input_ids


def add_words(tokenizer: CLIPTokenizer, words: Sequence[str]) -> CLIPTokenizer:
    """A tokenizer that reads further words as one token each; words that were one token already stay as they are.

    The merges come after those that are there, so they alter only words that were spelled in pieces. The start and the
    end token keep the two largest numbers, as open_clip's pooling expects.

    Examples
    --------
    >>> from probes.toyworld import SHARED, WEIGHTS
    >>> before = from_folder(CLIPTokenizer, WEIGHTS / SHARED / "tokenizer")
    >>> before.tokenize("a plumber"), add_words(before, ["plumber"]).tokenize("a plumber")
    (['a</w>', 'p', 'l', 'um', 'be', 'r</w>'], ['a</w>', 'plumber</w>'])
    """
    merges, known = _merges(tokenizer.backend_tokenizer)
    names = [name for name in known if name not in (START, END)]
    for word in words:
        pieces = tokenizer.tokenize(word)
        while len(pieces) > 1:
            merges.append((pieces[-2], pieces[-1]))
            pieces = [*pieces[:-2], pieces[-2] + pieces[-1]]
            names.append(pieces[-1])
    return _clip_tokenizer(list(dict.fromkeys([*names, START, END])), merges)


def tokenizer_with(base: Path, words: Sequence[str]) -> CLIPTokenizer:
    """Return the tokenizer of a benchmark model, `base`, with further words (see `add_words`)."""
    return add_words(from_folder(CLIPTokenizer, base / "tokenizer"), words)

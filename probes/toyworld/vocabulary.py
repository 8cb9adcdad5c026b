"""The vocabulary of the bundled models' tokenizers, and further words in it."""

import json
from collections.abc import Sequence

from transformers import CLIPTokenizer

START, END = "<|startoftext|>", "<|endoftext|>"


def add_words(tokenizer: CLIPTokenizer, words: Sequence[str]) -> CLIPTokenizer:
    """A tokenizer that reads further words as one token each; words that were one token already stay as they are.

    The merges come after those that are there, so they alter only words that were spelled in pieces. The start and the
    end token keep the two largest numbers, as open_clip's pooling expects.

    Examples
    --------
    >>> from probes.models.pretrained import from_folder
    >>> from probes.toyworld import SHARED, WEIGHTS
    >>> before = from_folder(CLIPTokenizer, WEIGHTS / SHARED / "tokenizer")
    >>> before.tokenize("a plumber"), add_words(before, ["plumber"]).tokenize("a plumber")
    (['a</w>', 'p', 'l', 'um', 'be', 'r</w>'], ['a</w>', 'plumber</w>'])
    """
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    merges = [
        tuple(merge) if isinstance(merge, list) else tuple(merge.split(" ")) for merge in model["merges"]
    ]
    names = [name for name in sorted(model["vocab"], key=model["vocab"].get) if name not in (START, END)]
    for word in words:
        pieces = tokenizer.tokenize(word)
        while len(pieces) > 1:
            merges.append((pieces[-2], pieces[-1]))
            pieces = [*pieces[:-2], pieces[-2] + pieces[-1]]
            names.append(pieces[-1])
    names = list(dict.fromkeys([*names, START, END]))
    return CLIPTokenizer(
        vocab={name: number for number, name in enumerate(names)},
        merges=merges,
        bos_token=START,
        eos_token=END,
        pad_token=END,
        unk_token=END,
        model_max_length=tokenizer.model_max_length,
    )


def number_of(tokenizer: CLIPTokenizer, word: str) -> int:
    """The number of a word that is one token."""
    return tokenizer.convert_tokens_to_ids(f"{word}</w>")

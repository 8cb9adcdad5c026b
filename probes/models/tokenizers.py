"""The tokenizers of a model, from their files; or with CLIP's vocabulary, where a shipped description says so."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from probes.errors import UserError
from probes.models.pretrained import from_folder

VOCABULARY = "clip"  # in tokenizer_config.json of a shipped description: CLIP's, which open_clip carries
_ENDS = ("<|startoftext|>", "<|endoftext|>")
_SENTENCEPIECE = {"spiece.model", "tokenizer.model"}
_PARTS = {"T5": "spiece.model", "Gemma": "tokenizer.model", "Llama": "tokenizer.model", "Qwen2": "vocab.json"}
_MERGES = 49_152 - 256 - 2  # of the file's lines, those that CLIP uses


def load_tokenizer(place: str, folder: Path, kind: str, settings: Mapping[str, Any]) -> Any:
    """A tokenizer of transformers from its folder, by the name of its class and its ``tokenizer_config.json``."""
    import transformers

    # transformers 5 has one class of each tokenizer, under the name of the slow one
    cls = getattr(transformers, kind.removesuffix("Fast"))
    if settings.get("vocabulary") != VOCABULARY:
        _require_vocabulary(place, folder, kind.partition("Tokenizer")[0])
        return from_folder(cls, folder)
    names = ("bos_token", "eos_token", "unk_token", "pad_token", "model_max_length")
    vocabulary, merges = clip_vocabulary()
    return cls(vocab=dict(vocabulary), merges=list(merges), **{name: settings[name] for name in names})


def _require_vocabulary(place: str, folder: Path, family: str) -> None:
    """Refuse a folder without a vocabulary, in whose place transformers would put one of a few signs."""
    part, there = _PARTS.get(family), {path.name for path in folder.glob("*")}
    if "tokenizer.json" in there:
        return
    if there & _SENTENCEPIECE and find_spec("sentencepiece") is None:
        raise UserError(
            f"{place}: expected tokenizer.json, got {min(there & _SENTENCEPIECE)} alone: pip install sentencepiece,"
            " which reads it, or add tokenizer.json"
        )
    if part and part not in there:
        raise UserError(
            f"{place}: expected tokenizer.json or {part}, the vocabulary, got none: add or download it"
        )


@cache
def clip_vocabulary() -> tuple[Mapping[str, int], tuple[tuple[str, ...], ...]]:
    """CLIP's vocabulary (49,408 tokens by their ids) and its merges in order (Radford et al. 2021).

    It is the bytes, the bytes that end a word, the merges, and the two ends of a text; the merges are in the file that
    the package open_clip carries, which is read without importing it.
    """
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    package = find_spec("open_clip")
    assert package is not None and package.origin is not None
    text = gzip.decompress((Path(package.origin).parent / "bpe_simple_vocab_16e6.txt.gz").read_bytes())
    merges = tuple(tuple(line.split()) for line in text.decode("utf-8").split("\n")[1 : _MERGES + 1])
    characters = bytes_to_unicode().values()
    symbols = [*characters, *(f"{one}</w>" for one in characters), *map("".join, merges), *_ENDS]
    return {symbol: number for number, symbol in enumerate(symbols)}, merges

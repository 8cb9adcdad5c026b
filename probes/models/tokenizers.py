"""The tokenizers of a model, from their files; or with CLIP's vocabulary, where a shipped description says so."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hooks.architectures.layout import Component
from probes.models import description
from probes.models.description import Source, readable
from probes.models.pretrained import from_folder, quiet

VOCABULARY = "clip"  # in tokenizer_config.json of a shipped description: CLIP's, which open_clip carries
_ENDS = ("<|startoftext|>", "<|endoftext|>")
_SENTENCEPIECE = ("spiece.model", "tokenizer.model")
_PARTS = {"T5": ("spiece.model",), "Gemma": ("tokenizer.model",), "Qwen2": ("vocab.json",)}
_PARTS["Llama"] = _PARTS["Gemma"]
_MERGES = 49_152 - 256 - 2  # of the file's lines, those that CLIP uses


def tokenizer(model: Source, component: Component) -> Any:
    """A tokenizer from its folder in the description of a model."""
    import transformers

    folder, index = component.name, description.read_index(model)
    # transformers 5 has one class of each tokenizer, under the name of the slow one
    kind = getattr(transformers, index[folder][1].removesuffix("Fast"))
    settings: dict[str, Any] = {}
    if model.described(f"{folder}/tokenizer_config.json").exists():
        settings = description.read_object(model, f"{folder}/tokenizer_config.json")
    _require_vocabulary(model, folder, kind.__name__, settings)
    with readable(model, folder, f"a {_of(kind.__name__)} tokenizer"), quiet():
        if settings.get("vocabulary") != VOCABULARY:
            return from_folder(kind, model.described(folder))
        names = ("bos_token", "eos_token", "unk_token", "pad_token", "model_max_length")
        vocabulary, merges = clip_vocabulary()
        return kind(vocab=dict(vocabulary), merges=list(merges), **{name: settings[name] for name in names})


def _require_vocabulary(model: Source, folder: str, kind: str, settings: Mapping[str, Any]) -> None:
    """Refuse a folder without a vocabulary, in whose place transformers would put one of a few signs."""
    whole, parts = "tokenizer.json", _PARTS.get(_of(kind), ())
    there = {path.name for path in model.described(folder).glob("*")}
    if settings.get("vocabulary") == VOCABULARY or whole in there:
        return
    if find_spec("sentencepiece") is None and there & set(_SENTENCEPIECE):
        remedy = f"pip install sentencepiece, which reads it, or add {whole}"
        raise description.fault(
            model, folder, whole, f"{sorted(there & set(_SENTENCEPIECE))[0]} alone", remedy
        )
    if parts and not there & set(parts):
        expected = f"{whole} or {' or '.join(parts)}, the vocabulary"
        raise description.fault(model, folder, expected, "none", "add or download it")


def _of(kind: str) -> str:
    """The family of a tokenizer's class, for messages."""
    return kind.partition("Tokenizer")[0]


@cache
def clip_vocabulary() -> tuple[Mapping[str, int], tuple[tuple[str, ...], ...]]:
    """CLIP's vocabulary (49,408 tokens by their ids) and its merges in order (Radford et al. 2021).

    It is the bytes, the bytes that end a word, the merges, and the two ends of a text; the merges are in the file that
    the package open_clip carries, which is read without importing it.
    """
    package = find_spec("open_clip")
    assert package is not None and package.origin is not None
    text = gzip.decompress((Path(package.origin).parent / "bpe_simple_vocab_16e6.txt.gz").read_bytes())
    merges = tuple(tuple(line.split()) for line in text.decode("utf-8").split("\n")[1 : _MERGES + 1])
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    characters = [chr(byte) for byte in printable] + [chr(256 + rank) for rank in range(256 - len(printable))]
    symbols = [*characters, *(f"{one}</w>" for one in characters), *map("".join, merges), *_ENDS]
    return {symbol: number for number, symbol in enumerate(symbols)}, merges

"""Weight files of a component in a diffusers folder: in full precision or a variant, whole or in shards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hooks.architectures.layout import Layout
from probes.json_text import parse_json

# as diffusers and transformers name them; of the first ending that is there, the libraries read that
_STEMS = ("diffusion_pytorch_model", "model", "pytorch_model")
_ENDINGS = (".safetensors", ".bin")
_VOCABULARIES = ("vocab.json", "tokenizer.json", "spiece.model", "tokenizer.model")


def names(folder: Path, variant: str | None = None) -> list[str]:
    """The files in a component's folder that hold all of its weights (one, or shards); none where some are missing."""
    called = f".{variant}" if variant else ""
    for ending in _ENDINGS:
        for stem in _STEMS:
            indices = (f"{stem}{ending}.index{called}.json", f"{stem}{called}{ending}.index.json")
            choices = [_shards(folder / index) for index in indices]
            # diffusers reads shards where an index names them, transformers the whole file beside them
            choices.insert(2 if stem == _STEMS[0] else 0, [f"{stem}{called}{ending}"])
            for files in choices:
                if files and all((folder / file).is_file() for file in files):
                    return files
    return []


def _shards(index: Path) -> list[str]:
    try:
        return sorted(set(parse_json(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return []


def variants(folder: Path) -> list[str]:
    """The variants that a component's folder holds beside full precision, by name."""
    if not folder.is_dir():
        return []
    pattern = re.compile(rf"({'|'.join(_STEMS)})\.([a-z0-9_]+)(-\d+-of-\d+)?\.(safetensors|bin)")
    matches = (pattern.fullmatch(file.name) for file in folder.iterdir())
    return sorted({match[2] for match in matches if match})


def choose(folder: Path, wanted: str | None) -> str | None:
    """The variant to read of a component: the one that is wanted, else None for full precision.

    Where nothing is wanted and full precision is not there, it is the one variant that is.
    """
    if wanted is not None:
        return wanted
    there = [variant for variant in variants(folder) if names(folder, variant)]
    return there[0] if not names(folder) and len(there) == 1 else None


def missing_files(
    folder: Path, index: Mapping[str, Any], layout: Layout, variant: str | None, weights: bool
) -> list[str]:
    """Return the folders of components that a pipeline lacks of what its index names, or of which it lacks files.

    These are descriptions, tokenizers and, if asked, weights.
    """
    networks = [component.name for component in layout.networks]
    lacks = []
    for name, entry in index.items():
        if not isinstance(entry, list) or entry[:1] == [None]:
            continue
        if name in networks:
            there = (folder / name / "config.json").is_file()
            if weights:
                there = there and bool(names(folder / name, choose(folder / name, variant)))
        elif name.startswith("tokenizer"):
            there = any((folder / name / file).is_file() for file in _VOCABULARIES)
        else:
            there = name != "scheduler" or (folder / name / "scheduler_config.json").is_file()
        if not there:
            lacks.append(name)
    return lacks

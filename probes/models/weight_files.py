"""Weight files of a component in a diffusers folder: in full precision or a variant, whole or in shards."""

from __future__ import annotations

import re
from pathlib import Path

# as diffusers and transformers name them; the variant stands before or behind the number of a shard
_WEIGHTS = re.compile(
    r"(?:diffusion_pytorch_model|pytorch_model|model)(?:\.([a-z0-9_]+))?(?:-\d+-of-(\d+))?(?:\.([a-z0-9_]+))?"
    r"\.(?:safetensors|bin)"
)


def variants(folder: Path) -> set[str | None]:
    """The variants of which a component's folder holds all files, by name; None is full precision."""
    files: dict[tuple[str | None, str | None], int] = {}
    for match in (_WEIGHTS.fullmatch(path.name) for path in folder.glob("*") if path.is_file()):
        if match:
            kind = match[1] or match[3], match[2]
            files[kind] = files.get(kind, 0) + 1
    return {variant for (variant, shards), count in files.items() if shards is None or count >= int(shards)}


def choose(folder: Path, wanted: str | None) -> str | None:
    """The variant to read of a component: the one that is wanted, else None for full precision.

    Where nothing is wanted and full precision is not there, it is the one variant that is.
    """
    there = variants(folder)
    return there.pop() if wanted is None and len(there) == 1 else wanted

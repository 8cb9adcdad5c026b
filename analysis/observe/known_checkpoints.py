"""Published checkpoints: commands that fetch them and their sizes, for messages about missing ones.

A further checkpoint is an entry in ``known_checkpoints.yaml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml


@cache
def known() -> Mapping[str, Mapping[str, Any]]:
    """Size, and address or files, of the checkpoints that are known, by their names."""
    return yaml.safe_load((files(__package__) / "known_checkpoints.yaml").read_text(encoding="utf-8"))


def size(name: str) -> str:
    """About how much is downloaded, as text; empty where it is not known."""
    megabytes = known().get(name, {}).get("megabytes")
    if megabytes is None:
        return ""
    return f"{megabytes} MB" if megabytes < 1000 else f"{megabytes / 1000:.1f} GB"


def command(name: str) -> str:
    """Return the command that puts a checkpoint where `analysis.observe.checkpoints.find` looks; empty for others.

    >>> command("bert-base-uncased")
    'hf download bert-base-uncased config.json tokenizer_config.json tokenizer.json vocab.txt'
    >>> command("sam_vit_b_01ec64.pth").split()[-1]
    'https://dl.fbaipublicfiles.com/segment_anything/sam_vit_b_01ec64.pth'
    """
    entry = known().get(name, {})
    if "url" in entry:
        return f"curl -L --create-dirs --output-dir ~/.cache/torch/hub/checkpoints -O {entry['url']}"
    if not entry:
        return ""
    patterns = entry["files"]
    if any("*" in pattern for pattern in patterns):
        return f"hf download {name} " + " ".join(f'--include "{pattern}"' for pattern in patterns)
    return f"hf download {name} {' '.join(patterns)}"


def present(name: str) -> bool:
    """Return whether a checkpoint that is known is on this machine, where `analysis.observe.checkpoints.find` looks."""
    entry = known()[name]
    if "url" in entry:
        from torch.hub import get_dir

        return (Path(get_dir()) / "checkpoints" / name).exists()
    from huggingface_hub import try_to_load_from_cache

    first = next((file for file in entry["files"] if "*" not in file), "config.json")
    return isinstance(try_to_load_from_cache(name, first), str)


def remedy(name: str) -> str:
    """Return the remedy for a missing checkpoint: its size and the command that fetches it, or to check the path."""
    if name not in known():
        return "check the path"
    return f"{size(name)}; run: {command(name)}"

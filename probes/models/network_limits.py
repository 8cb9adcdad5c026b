"""Limits on the networks that downloaded files describe: no larger than their weights fill."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from probes.json_text import parse_json

MOST_TENSORS = 10_000  # of a network; the largest of timm and open_clip have some 3,000
_MOST_WHOLE, _MOST_REAL, _MOST_SIDE, _MOST_DEPTH, _MOST_ENTRIES = 10**7, 1e12, 4096, 20, 100_000
# of images, in pixels
_SIDES = ("img_size", "image_size", "input_size", "size", "height", "width")
_SIDES += ("shortest_edge", "longest_edge", "short_side", "long_side")


def built(
    build: Callable[[str], Any], *, size: float = math.inf, check: Callable[[Any], None] | None = None
) -> Any:
    """Build a network: once on torch's meta device, which takes no memory, and if its weights fill it, here.

    `size` is that of the file of weights in bytes; `check` raises what is wrong with the network on the meta device.
    """
    import torch

    with limited(MOST_TENSORS):
        with torch.device("meta"):
            trial = build("meta")
        if check is not None:
            check(trial)
        parameters, computed = (
            sum(one.numel() for one in some) for some in (trial.parameters(), trial.buffers())
        )
        if parameters > 2 * size + 10**6 or computed > 8 * size + 10**8:
            raise ValueError("its description asks for a larger network than its weights fill")
        return build("cpu")


@contextlib.contextmanager
def limited(most: int) -> Iterator[None]:
    """Stop the building of a network that registers more tensors than it may."""
    from torch.nn.modules.module import register_module_parameter_registration_hook

    registered = 0

    def count(module: Any, name: str, parameter: Any) -> None:
        nonlocal registered
        registered += 1
        if registered > most:
            raise ValueError(f"its description asks for more than {most:,} tensors, which no network has")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


def moderate_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file, within the bounds of `require_moderate`."""
    data = parse_json(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict):
        raise ValueError(f"{path.name} holds {data!r:.40}, no object")
    require_moderate(data)
    return data


def require_moderate(data: Any, key: str = "", depth: int = 0) -> None:
    """Refuse a description with numbers, lists or depths that no model has: they would take hours or all memory."""
    if depth > _MOST_DEPTH:
        raise ValueError(f"its description is nested deeper than {_MOST_DEPTH}")
    if isinstance(data, (dict, list)) and len(data) > _MOST_ENTRIES:
        raise ValueError(f"`{key:.60}` has {len(data):,} entries, more than {_MOST_ENTRIES:,}")
    if isinstance(data, dict):
        for name, value in data.items():
            require_moderate(value, str(name), depth + 1)
    elif isinstance(data, list):
        for value in data:
            require_moderate(value, key, depth + 1)
    elif isinstance(data, (int, float)) and not isinstance(data, bool):
        usual = _MOST_WHOLE if isinstance(data, int) else _MOST_REAL
        most = _MOST_SIDE if key in _SIDES else usual
        if not abs(data) <= most:  # NaN, too
            raise ValueError(f"`{key:.60}` is {data!r:.40}, beyond {most:,}")

"""A detector's passes over the same images with one caption after another: what they share is computed once.

The image backbone sees the images alone, and the text encoder a caption alone; only what joins them depends on both.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TEXTS = 32  # batches of encoded captions that are kept: those of a long vocabulary, for whole batches and the last


@contextmanager
def computed_once(backbone: Any) -> Iterator[None]:
    """While it lasts, a module gives what it gave at its first call; of a tuple new lists each time."""
    forward, kept = backbone.forward, []

    def first(*args: Any, **kwargs: Any) -> Any:
        if not kept:
            kept.append(forward(*args, **kwargs))
        whole = kept[0]
        return tuple(map(list, whole)) if isinstance(whole, tuple) else whole  # detectors append to them

    backbone.forward = first
    try:
        yield
    finally:
        del backbone.forward  # the class has it


def remember_texts(encoder: Any) -> None:
    """Make a text encoder give what it gave before for the same tokens; it keeps the last batches alone.

    It is held by the whole batch, so that what a caption gives does not hang on what was encoded before.
    """
    forward, kept = encoder.forward, OrderedDict[Any, Any]()

    def remembered(*args: Any, **kwargs: Any) -> Any:
        tokens = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
        key = tuple(map(tuple, tokens.tolist()))  # from which masks and positions follow
        if key not in kept:
            kept[key] = forward(*args, **kwargs)
        kept.move_to_end(key)
        while len(kept) > TEXTS:
            kept.popitem(last=False)
        return kept[key]

    encoder.forward = remembered

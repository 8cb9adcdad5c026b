"""Python's full collections of cyclic garbage, kept short.

While a worker waits for room, as the one that stands by always does, Ray asks every process for a full collection each
ten seconds (seen with 2.60). Over all that torch brings along it takes a quarter of a second of a processor, over
models that are being loaded more, and no other thread of the process goes on meanwhile. Where many share a processor
that can be all that a worker is given in ten seconds, and its models are never loaded.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Mapping
from typing import Any


@contextlib.contextmanager
def frozen() -> Iterator[None]:
    """Freeze what is there after each full collection, so that later ones pass over it, until ``gc.unfreeze()``.

    So each looks at what has come since the last. What the context leaves is frozen, too.
    """
    gc.callbacks.append(_collected)
    try:
        yield
        gc.collect()
    finally:
        gc.callbacks.remove(_collected)


def _collected(phase: str, details: Mapping[str, Any]) -> None:
    if phase == "stop" and details["generation"] == 2:
        gc.freeze()

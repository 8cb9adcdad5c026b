"""Branches of guidance told by the texts, where the pipeline does not say which rows are the prompts'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from hooks.architectures.base import Architecture
from hooks.prompt.text import TextReader


def told_by_texts(
    architecture: Architecture,
    pipe: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    readers: Sequence[TextReader],
) -> dict[str, tuple[str, ...]]:
    """What `architecture.inputs` is passed beside the arguments of the denoiser's call: nothing, or `branches`.

    Called before the first call of the denoiser: the first runs of `readers` are the prompts'.
    """

    def of_prompts(states: Tensor) -> bool:
        return any(reader.runs and reader.select(states) is reader.runs[0] for reader in readers)

    runs = max((len(reader.runs) for reader in readers), default=0)
    found = architecture.branches(pipe, args, kwargs, of_prompts, runs)
    return {} if found is None else {"branches": found}

"""A row of the plan: an image to generate, with its prompt as the model's tokenizers read it."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from hooks.prompt.spans import Span


class Sample(NamedTuple):
    """One image to generate; a named tuple, of which half a million are made in a moment.

    Words are those of `hooks.prompt.spans`, ``word_spans`` their characters in the prompt, half open. Token positions
    count from the start token, which is 0, or from the start of the template that the model puts around a prompt. They
    are those of the first text encoder, but for ``word_positions_2`` and ``shared_positions_2``, of the last: the
    second of SDXL and FLUX.1, the third of SD3, whose first two read alike. They are None where the model has one.
    """

    sample_id: str
    triplet: int
    prompt_id: str
    template: str
    indicator: str
    word: str
    prompt: str
    negative_prompt: str
    seed: int
    noise_seed: int
    tokens: tuple[str, ...]
    words: tuple[str, ...]
    word_spans: tuple[Span, ...]
    word_positions: tuple[tuple[int, ...], ...]
    word_positions_2: tuple[tuple[int, ...], ...] | None
    indicator_positions: tuple[int, ...]
    shared_positions: tuple[int, ...]
    shared_positions_2: tuple[int, ...] | None = None
    system_prompt: str | None = None  # None: the model's own

    def row(self) -> dict:
        """Return the columns of ``samples/`` but the image."""
        row = self._asdict()
        del row["shared_positions"], row["shared_positions_2"], row["system_prompt"]
        return row


def noise_seed(text: str, seed: int) -> int:
    """The seed of the generator that draws the noise of one prompt and seed, 63 bits.

    Noise of their own makes prompts independent, as every interval over prompts supposes: with the same few
    noises under all of them the images share their layouts, and intervals come out too narrow.
    """
    return int.from_bytes(sha256(f"{seed}\n{text}".encode()).digest()[:8], "big") >> 1

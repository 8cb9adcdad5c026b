"""Token positions by text encoder: a pipeline may have several, each with tokens of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hooks.architectures.registry import architecture_of
from hooks.architectures.text_encoders import TOKENIZERS
from hooks.pooling import JOINED
from hooks.prompt.positions import GROUPS, groups_around
from hooks.prompt.spans import Span, encode, token_positions
from hooks.prompt.wordlist import tokenizer_of
from probes.prompts.sample import Sample

PositionGroups = Mapping[str, tuple[int, ...]]


def indicator_spans(sample: Sample) -> list[Span]:
    """Characters of the indicator's word in a prompt."""
    inside = set(sample.indicator_positions)
    words = zip(sample.word_spans, sample.word_positions, strict=True)
    return [span for span, positions in words if positions and set(positions) <= inside]


@dataclass(frozen=True)
class TextTowers:
    """Tokenizers of a pipeline's text encoders, and how the text that the denoiser is given is made of theirs."""

    tokenizers: Mapping[str, Any]  # by encoder: text, text_2
    lengths: Mapping[str, int]  # positions that each encoder is given
    joined: Sequence[str]  # encoders whose positions follow one another in the denoiser's text

    @classmethod
    def of(cls, pipe: Any) -> TextTowers | None:
        """The towers of a pipeline, which needs no weights; None where a template stands around its prompts."""
        architecture = architecture_of(pipe)
        if architecture.layouts[-1].template:
            return None
        read = {name: one for name in TOKENIZERS if (one := tokenizer_of(pipe, name)) is not None}
        lengths = {name: min(architecture.tokens(pipe, name), read[name].model_max_length) for name in read}
        # of two in a U-Net, side by side, the positions are the same
        return cls(read, lengths, architecture.joined_encoders() if architecture.transformer else ["text"])

    def groups(self, prompt: str, spans: Sequence[Span]) -> dict[str, PositionGroups]:
        """Token positions around a word (`hooks.position_groups`) by encoder, and `JOINED`; `spans`: its characters."""
        groups: dict[str, PositionGroups] = {}
        for name, tokenizer in self.tokenizers.items():
            ((ids, offsets),) = encode(tokenizer, [prompt], "trace")
            inside = sorted({place for span in spans for place in token_positions(offsets, span)})
            start, end = (ids[place] in tokenizer.all_special_ids for place in (0, -1))
            groups[name] = groups_around(inside, len(ids), self.lengths[name], start=start, end=end)
        joined: dict[str, tuple[int, ...]] = dict.fromkeys(GROUPS, ())
        offset = 0
        for name in self.joined:
            for group, places in groups[name].items():
                joined[group] += tuple(offset + place for place in places)
            offset += self.lengths[name]
        return {**groups, JOINED: joined}

"""Token positions by text encoder: a diffusion transformer may have several, each with tokens of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hooks.architectures.registry import architecture_of
from hooks.prompt.positions import GROUPS, JOINED, groups_around
from hooks.prompt.spans import Span, encode, token_positions
from hooks.sites import TEXT_ENCODERS
from probes.prompts.sample import Sample

PositionGroups = Mapping[str, tuple[int, ...]]


def indicator_spans(sample: Sample) -> list[Span]:
    """Characters of the indicator's word in a prompt."""
    inside = set(sample.indicator_positions)
    words = zip(sample.word_spans, sample.word_positions, strict=True)
    return [span for span, positions in words if positions and set(positions) <= inside]


@dataclass(frozen=True)
class TextTowers:
    """Tokenizers of a diffusion transformer's text encoders, and how its text is made of theirs."""

    tokenizers: Mapping[str, Any]  # by encoder: text, text_2
    lengths: Mapping[str, int]  # positions that each encoder is given
    joined: tuple[
        str, ...
    ]  # encoders whose positions follow one another in the text that the denoiser is given

    @classmethod
    def of(cls, pipe: Any, tokenizers: Sequence[Any]) -> TextTowers | None:
        """Return the towers of a pipeline, which needs no weights; None of a U-Net's, which has one, or two alike.

        None, too, where a template is put around the prompt: positions in it are not known.
        """
        architecture = architecture_of(pipe)
        if not architecture.transformer or architecture.layouts[0].template:
            return None
        names = dict(zip(TEXT_ENCODERS, tokenizers))
        lengths = {
            name: min(architecture.tokens(pipe, name), one.model_max_length) for name, one in names.items()
        }
        return cls(names, lengths, tuple(architecture.joined_encoders()))

    def groups(self, prompt: str, spans: Sequence[Span]) -> dict[str, PositionGroups]:
        """Return the token positions around a word (`hooks.position_groups`) by encoder, and `JOINED`.

        `spans` are the characters of the word, half open; mappings are empty where it has no one place.
        """
        found = {name: self._groups(name, prompt, spans) for name in self.tokenizers}
        joined: dict[str, tuple[int, ...]] = {}
        if all(found[name] for name in self.joined):
            offset = 0
            for name in self.joined:
                for group in GROUPS:
                    places = (offset + place for place in found[name][group])
                    joined[group] = (*joined.get(group, ()), *places)
                offset += self.lengths[name]
        return {**found, JOINED: joined}

    def _groups(self, name: str, prompt: str, spans: Sequence[Span]) -> PositionGroups:
        tokenizer = self.tokenizers[name]
        ((ids, offsets),) = encode(tokenizer, [prompt], "trace")
        inside = sorted({place for span in spans for place in token_positions(offsets, span)})
        if not inside or inside != list(range(inside[0], inside[-1] + 1)):
            return {}
        special = set(tokenizer.all_special_ids)
        start, end = ids[0] in special, ids[-1] in special
        return groups_around(inside, len(ids), self.lengths[name], start=start, end=end)

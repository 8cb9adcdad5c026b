"""One triplet with one seed, as the trace generates it: its prompts, its noise, and where its words are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hooks.architectures.text_encoders import JOINED
from hooks.prompt.spans import WORD, Span, parse_groups, split_words
from hooks.prompt.wordlist import tokenizer_of
from probes.prompts.sample import PositionGroups, Sample, TextTowers, indicator_spans, noise_seed
from probes.stages.trace.variants import Variant


@dataclass(frozen=True)
class SeededTriplet:
    """One triplet with one seed: prompts, tokens and token positions by indicator, and the seed of the noise."""

    number: int  # of the prompt
    seed: int  # as the configuration gives it
    noise_seed: int  # of the random generators of all its images
    prompts: Mapping[str, str]  # by indicator
    tokens: Mapping[str, tuple[str, ...]]  # of each prompt, with start and end of text
    # token positions around the indicator's word by text encoder (`probes.prompts.sample`), then by indicator; those of
    # a word that has no one place are empty
    groups: Mapping[str, Mapping[str, PositionGroups]]

    @classmethod
    def from_prompts(
        cls,
        pipe: Any,
        prompts: Mapping[str, str],
        words: Mapping[str, str],
        *,
        number: int = 0,
        seed: int = 0,
    ) -> SeededTriplet:
        """Return a triplet of prompts for a pipeline; `prompts`, and the word for the person in each, by indicator."""
        tokenizer, tokens, spans = tokenizer_of(pipe, "text"), {}, {}
        for name, text in prompts.items():
            tokens[name] = tuple(tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]))
            spans[name] = [next(span for word, span in split_words(text) if word == words[name])]
        noise, groups = (
            noise_seed(next(iter(prompts.values())), seed),
            _groups_by_encoder(TextTowers.from_pipeline(pipe), prompts, spans),
        )
        return cls(number, seed, noise, dict(prompts), tokens, groups)

    @classmethod
    def from_samples(cls, samples: Sequence[Sample], towers: TextTowers | None) -> SeededTriplet:
        """Return the triplet of samples, one per indicator; without `towers` it has no token positions."""
        first, prompts = samples[0], {one.indicator: one.prompt for one in samples}
        tokens = {one.indicator: one.tokens for one in samples}
        groups = _groups_by_encoder(towers, prompts, {one.indicator: indicator_spans(one) for one in samples})
        return cls(first.triplet, first.seed, first.noise_seed, prompts, tokens, groups)

    def positions(self, site: str, indicator: str, groups: str | None) -> tuple[int, ...] | None:
        """Return an indicator's token positions in groups such as "start+word" at a site; None (all) without groups."""
        if groups is None:
            return None
        positions = self._groups_at(site)[indicator]
        return tuple(position for name in parse_groups(groups) for position in positions[name])

    def _groups_at(self, site: str) -> Mapping[str, PositionGroups]:
        """Return groups of token positions by indicator, in the site's text encoder or in all encoders joined."""
        return self.groups.get(site.partition(".")[0], self.groups[JOINED])

    @property
    def tokenization(self) -> tuple[Any, ...]:
        """Tokens, and token positions around the word: all of the tokenization that alters the images."""
        return (self.tokens, self.groups.get("text", {}), *([self.groups] if len(self.groups) > 2 else []))

    def mismatch_reason(self, variant: Variant) -> str | None:
        """Return why a variant cannot be generated, its prompts' token positions not corresponding; None if it can."""
        if variant.positions is None or variant.donor is None:
            return None
        names = (variant.recipient, variant.donor)
        for site in variant.sites:
            groups = self._groups_at(site)
            for name in names:
                if not groups[name]:
                    return f"{self.prompts[name]!r} has no one place for its word"
            for group in parse_groups(variant.positions):
                first, second = (len(groups[name][group]) for name in names)
                if first != second:
                    texts = " and ".join(repr(self.prompts[name]) for name in names)
                    return f"{texts} have {first} and {second} tokens in the group {group!r}"
            if not self.positions(site, variant.recipient, variant.positions):
                return f"{self.prompts[variant.recipient]!r} has no token in the group {variant.positions!r} at {site}"
        if variant.kind == "cut" and variant.positions == WORD:
            inside = self.groups["text"]
            rests = [
                [token for place, token in enumerate(self.tokens[name]) if place not in inside[name][WORD]]
                for name in names
            ]
            if rests[0] != rests[1]:
                return "the prompts differ in more than the word"
        return None


def _groups_by_encoder(
    towers: TextTowers | None, prompts: Mapping[str, str], spans: Mapping[str, Sequence[Span]]
) -> dict[str, dict[str, PositionGroups]]:
    """Return groups of token positions by text encoder, then by indicator; empty for a word that is not contiguous."""
    by_encoder: dict[str, dict[str, PositionGroups]] = {}
    for name, prompt in prompts.items() if towers else ():
        groups = towers.position_groups(prompt, spans[name])
        words = [groups[tower][WORD] for tower in towers.tokenizers]
        one_place = all(word and word[-1] - word[0] == len(word) - 1 for word in words)
        for tower, positions in groups.items():
            by_encoder.setdefault(tower, {})[name] = positions if one_place else {}
    return by_encoder

"""One triplet with one seed, as the trace draws it: its prompts, its noise, and where its words stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hooks import position_groups
from hooks.architectures.text_encoders import TOKENIZERS
from hooks.prompt.spans import WORD, Span, groups_around, joined_groups, split_words
from hooks.prompt.wordlist import tokenizer_of
from probes.prompts.sample import PositionGroups, Sample, TextTowers, indicator_spans, noise_seed
from probes.stages.trace.variants import Variant


@dataclass(frozen=True)
class TripletDraw:
    """One triplet with one seed: what its images are drawn from."""

    triplet: int  # number of the prompt
    seed: int  # as the configuration gives it
    noise_seed: int  # of the generators that all its images are drawn with
    prompts: Mapping[str, str]  # by indicator
    tokens: Mapping[str, tuple[str, ...]]  # of each prompt, with start and end of text
    # token positions around the indicator's word (`hooks.position_groups`); empty where it has no one place
    groups: Mapping[str, PositionGroups]
    # the same by text encoder, of a diffusion transformer (`probes.prompts.sample`); empty of a U-Net
    by_tower: Mapping[str, Mapping[str, PositionGroups]] = field(default_factory=dict)

    @classmethod
    def of_texts(
        cls,
        pipe: Any,
        prompts: Mapping[str, str],
        words: Mapping[str, str],
        *,
        triplet: int = 0,
        seed: int = 0,
    ) -> TripletDraw:
        """A triplet by its prompts and the word for the person in each, both by indicator."""
        first = next(iter(prompts.values()))
        noise = noise_seed(first, seed)
        groups = {name: position_groups(pipe.tokenizer, text, words[name]) for name, text in prompts.items()}
        tokenizer = tokenizer_of(pipe, "text")
        tokens = {
            name: tuple(tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]))
            for name, text in prompts.items()
        }
        found = [getattr(pipe, one) for one in TOKENIZERS.values() if getattr(pipe, one, None) is not None]
        towers = TextTowers.of(pipe, found)
        spans = {
            name: [next(span for one, span in split_words(text) if one == words[name])]
            for name, text in prompts.items()
        }
        by_tower = _by_tower(towers, prompts, spans)
        return cls(triplet, seed, noise, dict(prompts), tokens, groups, by_tower)

    @classmethod
    def of_samples(
        cls, samples: Sequence[Sample], length: int, towers: TextTowers | None = None
    ) -> TripletDraw:
        """A triplet as the plan of a run has it."""
        first = samples[0]
        return cls(
            first.triplet,
            first.seed,
            first.noise_seed,
            {sample.indicator: sample.prompt for sample in samples},
            {sample.indicator: sample.tokens for sample in samples},
            {sample.indicator: _groups(sample, length) for sample in samples},
            _by_tower(
                towers,
                {sample.indicator: sample.prompt for sample in samples},
                {sample.indicator: indicator_spans(sample) for sample in samples},
            ),
        )

    def positions(self, site: str, indicator: str, groups: str) -> tuple[int, ...]:
        """Return the token positions of some groups of a prompt at a site (`hooks.prompt.spans.joined_groups`)."""
        found = self._groups(site)[indicator]
        return tuple(place for name in joined_groups(groups) for place in found[name])

    def _groups(self, site: str) -> Mapping[str, PositionGroups]:
        return self.by_tower.get(site.partition(".")[0], self.groups)

    @property
    def read(self) -> tuple[Any, ...]:
        """What its images hang on of how the prompts are read: tokens, and where the word is among them."""
        return (self.tokens, self.groups, *([self.by_tower] if self.by_tower else []))

    def why_not(self, variant: Variant) -> str | None:
        """Return why a variant cannot be drawn of these prompts, or None: token positions that do not answer one
        another.
        """
        if variant.positions is None or variant.donor is None:
            return None
        names = (variant.recipient, variant.donor)
        for site in variant.sites:
            groups = self._groups(site)
            for name in names:
                if not groups[name]:
                    return f"{self.prompts[name]!r} has no one place for its word"
            for group in joined_groups(variant.positions):
                sizes = [len(groups[name][group]) for name in names]
                if sizes[0] != sizes[1]:
                    texts = " and ".join(repr(self.prompts[name]) for name in names)
                    return f"{texts} have {sizes[0]} and {sizes[1]} tokens in the group {group!r}"
            if not self.positions(site, variant.recipient, variant.positions):
                return f"{self.prompts[variant.recipient]!r} has no token in the group {variant.positions!r} at {site}"
        if variant.kind == "cut" and variant.positions == WORD and not self._alike_but_for_word(names):
            return "the prompts differ in more than the word"
        return None

    def _alike_but_for_word(self, names: tuple[str, str]) -> bool:
        rests = [
            [token for place, token in enumerate(self.tokens[name]) if place not in self.groups[name]["word"]]
            for name in names
        ]
        return rests[0] == rests[1]


def _groups(sample: Sample, length: int) -> dict[str, tuple[int, ...]]:
    inside = sample.indicator_positions
    together = inside and list(inside) == list(range(inside[0], inside[-1] + 1))
    return groups_around(inside, len(sample.tokens), length) if together else {}


def _by_tower(
    towers: TextTowers | None, prompts: Mapping[str, str], spans: Mapping[str, Sequence[Span]]
) -> dict[str, dict[str, PositionGroups]]:
    """Token positions around the word by text encoder, then by indicator."""
    found: dict[str, dict[str, PositionGroups]] = {}
    for name, prompt in prompts.items() if towers else ():
        for tower, groups in towers.groups(prompt, spans[name]).items():
            found.setdefault(tower, {})[name] = groups
    return found

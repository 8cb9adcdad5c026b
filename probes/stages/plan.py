"""The plan stage: from the prompts of ``triplets.yaml`` to a table of samples, one row an image.

A *triplet* is a prompt with one text per indicator (three in the plain case, more where controls are added) and one
seed: its images share every random number (with `sampler.noise: independent` each has its own). Words and their token
positions come from the offsets of the model's fast tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress
from typing import Any

from hooks.errors import HookError
from hooks.prompt.given import replace_system_prompt
from hooks.prompt.spans import Span, split_words
from probes.config.schema import Config
from probes.errors import UserError
from probes.prompts.prompt import PICTURE, SKILL, Prompt, fill_person
from probes.prompts.sample import (
    Sample,
    Tokenized,
    caption_forms,
    noise_seed,
    phrase_indices,
    shared_word_indices,
    tokenize,
)

TextSpan = tuple[str, Span | None]  # a prompt, and where the word for the person is in it
Phrases = Mapping[str, set[tuple[str, ...]]]  # of each indicator the forms of its word


def plan(
    config: Config, tokenizers: Sequence[Any], max_tokens: int | None = None, file: str = "triplets.yaml"
) -> list[Sample]:
    """Return the samples (one per image) of a configuration's prompts, ordered by triplet, seed and indicator.

    UserError if a prompt is too long for a text encoder's tokenizer or `max_tokens`; it names `file` and the prompt.
    """
    prompts, indicators, size = config.prompts[: config.limit], config.indicators, len(config.indicators)
    texts: list[TextSpan] = [
        fill_person(prompt.template, entry.word) if prompt.template else (prompt.texts[indicator], None)
        for prompt in prompts
        for indicator, entry in indicators.items()
    ]
    negative = config.sampler.negative_prompt
    for tokenizer in tokenizers if negative else ():
        tokenize([negative], tokenizer, lambda _: f"{file}: sampler.negative_prompt", max_tokens)
    first, *others = [_tokenize_texts(config, texts, tokenizer, max_tokens, file) for tokenizer in tokenizers]
    phrases: Phrases = {}
    if not all(prompt.template for prompt in prompts):  # a free caption names no place for the word
        phrases = {indicator: caption_forms(*entry.forms) for indicator, entry in indicators.items()}
    samples = []
    for triplet, prompt in enumerate(prompts):
        rows = slice(triplet * size, (triplet + 1) * size)
        read, last = first[rows], others[-1][rows] if others else [None] * size
        belonging, shared = _indicator_and_shared_words(
            prompt, list(indicators.items()), texts[rows], read, phrases
        )
        by_first = _shared_positions(read, shared)
        by_last = _shared_positions(last, shared) if others else [None] * size
        key = prompt.main_text(config.reference)  # the text that the noise is a function of
        if SKILL in prompt.levels:  # two skills, or two templates, may come to the same words
            key = f"{prompt.name(triplet)}\n{key}"
        if config.generate.from_images and PICTURE in prompt.levels:
            key = f"{prompt.levels[PICTURE]}\n{key}"
        if prompt.system_prompt is not None:
            key = f"{prompt.system_prompt}\n{key}"
        for seed in config.seeds:
            noise = noise_seed(key, seed) if config.sampler.noise == "own" else seed
            for member, (indicator, entry) in enumerate(indicators.items()):
                if config.sampler.noise == "independent":
                    noise = noise_seed(f"{key}\n{indicator}", seed)
                mine, other = read[member], last[member]
                samples.append(
                    Sample(
                        sample_id=f"t{triplet:05d}-s{seed}-{indicator}",
                        triplet=triplet,
                        prompt_id=prompt.name(triplet),
                        template=prompt.template,
                        indicator=indicator,
                        word=entry.word,
                        prompt=texts[rows][member][0],
                        negative_prompt=negative,
                        seed=seed,
                        noise_seed=noise,
                        tokens=mine.tokens,
                        words=mine.words,
                        word_spans=mine.spans,
                        word_positions=mine.word_positions,
                        word_positions_2=other and other.word_positions,
                        indicator_positions=_token_positions(mine, sorted(belonging[member])),
                        shared_positions=by_first[member],
                        shared_positions_2=by_last[member],
                        system_prompt=prompt.system_prompt,
                    )
                )
    return samples


def _tokenize_texts(
    config: Config, texts: Sequence[TextSpan], tokenizer: Any, max_tokens: int | None, file: str
) -> list[Tokenized]:
    """Return texts (with the spans of their words) tokenized behind their system prompts; errors name the `file`."""
    indicators = list(config.indicators)
    systems: dict[str | None, list[int]] = {}
    for index in range(len(texts)):
        systems.setdefault(config.prompts[index // len(indicators)].system_prompt, []).append(index)

    def prompt_location(index: int) -> str:
        """Return where a text is configured, for errors."""
        triplet, member = divmod(index, len(indicators))
        return f"{file}: prompts[{triplet}] ({indicators[member]})"

    read: dict[int, Tokenized] = {}
    for system, chosen in systems.items():
        try:
            prompted = replace_system_prompt(tokenizer, system)
        except HookError as error:
            raise UserError(f"{prompt_location(chosen[0])}: {error}") from None
        most = max_tokens and max_tokens + prompted.model_max_length - tokenizer.model_max_length
        asked = [texts[index][0] for index in chosen]
        read |= zip(
            chosen, tokenize(asked, prompted, lambda at, chosen=chosen: prompt_location(chosen[at]), most)
        )
    return [read[index] for index in range(len(texts))]


def _indicator_and_shared_words(
    prompt: Prompt,
    indicators: Sequence[tuple[str, Any]],
    texts: Sequence[TextSpan],
    tokenized: Sequence[Tokenized],
    phrases: Phrases,
) -> tuple[list[set[int]], list[tuple[int, ...]]]:
    """Return, for each text of a triplet, the indices of its indicator's words, and of the words that all share."""
    words = [one.words for one in tokenized]
    if prompt.template:
        blocked = [
            {place for place, (begin, stop) in enumerate(one.spans) if begin < span[1] and span[0] < stop}
            for one, (_, span) in zip(tokenized, texts)
            if span
        ]
        return blocked, shared_word_indices(words, blocked)
    blocked = [phrase_indices(one, phrases[name]) for one, (name, _) in zip(words, indicators)]
    shared = shared_word_indices(words, blocked)
    if any(len(apart) + len(common) < len(one) for apart, one, common in zip(blocked, words, shared)):
        # the first place of its word alone
        wanted = [tuple(text for text, _ in split_words(entry.word.lower())) for _, entry in indicators]
        blocked = [
            {*sorted(phrase_indices(one, [phrase]))[: len(phrase)]} for one, phrase in zip(words, wanted)
        ]
        shared = shared_word_indices(words, blocked)
    # where its word is not in it, what the others lack is the indicator
    return [
        apart or {*range(len(one))} - {*common} for apart, one, common in zip(blocked, words, shared)
    ], shared


def _shared_positions(texts: Sequence[Tokenized], shared: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return, for each text, the token positions of shared words that have as many tokens in every text.

    Numbers can differ for tokens that begin with a blank, if one of the texts begins with the word.
    """
    same = [
        len({len(one.word_positions[word]) for one, word in zip(texts, words)}) == 1 for words in zip(*shared)
    ]
    return [_token_positions(one, compress(words, same)) for one, words in zip(texts, shared)]


def _token_positions(text: Tokenized, words: Iterable[int]) -> tuple[int, ...]:
    """Return the token positions of words of a text, given by their indices."""
    return tuple(chain.from_iterable([text.word_positions[word] for word in words]))

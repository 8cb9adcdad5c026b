"""The plan: from the prompts of ``triplets.yaml`` to a table of samples, one row an image.

A *triplet* is a prompt with one text per indicator (three in the plain case, more where controls are
added); a *draw* is a triplet with one seed, the group of images that share every random number (with
`sampler.noise: independent` each has its own). Words and
their token positions come from the offsets of the model's own fast tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from hashlib import sha256
from itertools import chain, combinations
from typing import Any, NamedTuple

from hooks.errors import HookError
from hooks.prompt.given import with_system_prompt
from hooks.prompt.spans import Span, split_words
from probes.config.checks import SKILL, caption, levels, system_prompt
from probes.config.checks import template as template_of
from probes.config.schema import Config, prompt_id
from probes.errors import UserError
from probes.prompts.alignment import fill, forms, occurrences, same_rest
from probes.prompts.tokens import Tokenized, tokenize, tokenize_all


class Sample(NamedTuple):
    """One image to draw; a named tuple, of which half a million are made in a moment.

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
        """The columns of ``samples/`` but the image."""
        row = self._asdict()
        del row["shared_positions"], row["shared_positions_2"], row["system_prompt"]
        return row


def noise_seed(text: str, seed: int) -> int:
    """The seed of the generator that draws the noise of one prompt and seed, 63 bits.

    Noise of their own makes prompts independent, as every interval over prompts supposes: with the same few
    noises under all of them the images share their layouts, and intervals come out too narrow.
    """
    return int.from_bytes(sha256(f"{seed}\n{text}".encode()).digest()[:8], "big") >> 1


def shared_words(members: Sequence[Sequence[str]], blocked: Sequence[set[int]]) -> list[tuple[int, ...]]:
    """Indices of the words that all texts of a triplet share, aligned and in order, one tuple a text.

    A word shared by all but one is left out for all, so that every pair of a triplet is compared over the
    same words. Where an article was mended (a person, an individual) it is no longer shared. `blocked` are the indices
    of each text's words that belong to the indicator.
    """

    same = same_rest(members, blocked)
    if same is not None:
        return same

    def keys(index: int) -> list[str]:
        return [
            f"\0{index}" if i in blocked[index] else word.lower() for i, word in enumerate(members[index])
        ]

    first = keys(0)
    maps = []
    for index in range(1, len(members)):
        blocks = SequenceMatcher(a=first, b=keys(index), autojunk=False).get_matching_blocks()
        maps.append({block.a + k: block.b + k for block in blocks for k in range(block.size)})
    matched = set(range(len(first))) - blocked[0]
    for mapping in maps:
        matched &= set(mapping)
    common = sorted(matched)
    return [tuple(common), *(tuple(mapping[i] for i in common) for mapping in maps)]


def pairs(names: Sequence[str]) -> list[tuple[int, int]]:
    """All pairs of indicators, the earlier first, as indices into `names`."""
    return list(combinations(range(len(names)), 2))


def plan(
    config: Config, tokenizers: Sequence, limit: int | None = None, name: str = "triplets.yaml"
) -> list[Sample]:
    """The table of samples, ordered by triplet, seed and indicator.

    The length of a prompt must suit the tokenizers of all text encoders, and `limit`, the most tokens that these take.
    `name` is the file the prompts stand in, for errors.
    """
    samples: list[Sample] = []
    sampler = config.sampler
    prompts = config.prompts[: config.limit]
    indicators = list(config.indicators)
    texts = _texts(config)
    first, *others = _read(config, texts, tokenizers, limit, name)
    second = others[-1] if others else [None] * len(texts)
    words = [entry.word for entry in config.indicators.values()] * len(prompts)
    members = [
        _Member(*entry, *text, *read)
        for entry, text, read in zip(zip(indicators * len(prompts), words), texts, zip(first, second))
    ]
    free = not all(map(template_of, prompts))
    phrases = {name: forms(*entry.forms) for name, entry in config.indicators.items() if free}
    for triplet, prompt in enumerate(prompts):
        mine = members[triplet * len(indicators) : (triplet + 1) * len(indicators)]
        identifier = prompt_id(prompt, triplet)
        template = template_of(prompt)
        key = template or caption(prompt, config.reference)
        if SKILL in levels(prompt):  # two skills, or two templates, may come to the same words
            key = f"{identifier}\n{key}"
        if (system := system_prompt(prompt)) is not None:  # so that prompts stay independent
            key = f"{system}\n{key}"
        places = _places(mine, not template, phrases)
        # what the seeds of a triplet have in common is put together once: fields before ``seed`` and after the noise
        common = [
            (
                (
                    triplet,
                    identifier,
                    template,
                    member.indicator,
                    member.word,
                    member.text,
                    sampler.negative_prompt,
                ),
                (
                    member.read.tokens,
                    member.read.words,
                    member.read.spans,
                    member.read.word_positions,
                    member.second and member.second.word_positions,
                    *at,
                    system,
                ),
            )
            for member, at in zip(mine, places)
        ]
        for seed in config.seeds:
            noise = noise_seed(key, seed) if sampler.noise == "own" else seed
            for before, after in common:
                name = before[3]
                if sampler.noise == "independent":
                    noise = noise_seed(f"{key}\n{name}", seed)
                samples.append(Sample(f"t{triplet:05d}-s{seed}-{name}", *before, seed, noise, *after))
    return samples


def _texts(config: Config) -> list[tuple[str, Span | None]]:
    """Return for every prompt and indicator the text, and the characters at which the indicator's word stands."""
    prompts = config.prompts[: config.limit]
    return [_text(config, prompt, indicator) for prompt in prompts for indicator in config.indicators]


def _read(
    config: Config,
    texts: Sequence[tuple[str, Span | None]],
    tokenizers: Sequence,
    limit: int | None,
    name: str,
) -> list[list[Tokenized]]:
    """Return how each tokenizer reads the texts; errors name the place in the file `name`."""
    indicators = list(config.indicators)
    negative = config.sampler.negative_prompt
    for tokenizer in tokenizers:
        tokenize(negative, tokenizer, f"{name}: sampler.negative_prompt", limit)

    def place(index: int) -> str:
        triplet, member = divmod(index, len(indicators))
        return f"{name}: prompts[{triplet}] ({indicators[member]})"

    systems: dict[str | None, list[int]] = {}
    for index in range(len(texts)):
        systems.setdefault(system_prompt(config.prompts[index // len(indicators)]), []).append(index)

    def of_all(tokenizer: Any) -> list[Tokenized]:
        found: dict[int, Tokenized] = {}
        for system, chosen in systems.items():
            own = _with_system(tokenizer, system, place(chosen[0]))
            most = limit and limit + own.model_max_length - tokenizer.model_max_length
            asked = [texts[index][0] for index in chosen]
            read = tokenize_all(asked, own, lambda index, chosen=chosen: place(chosen[index]), most)
            found |= dict(zip(chosen, read))
        return [found[index] for index in range(len(texts))]

    return [of_all(tokenizer) for tokenizer in tokenizers]


def _with_system(tokenizer: Any, system: str | None, place: str) -> Any:
    try:
        return with_system_prompt(tokenizer, system)
    except HookError as error:
        raise UserError(f"{place}: {error}") from None


class _Member(NamedTuple):
    """A text of a triplet: of which indicator, the characters of its word, and how it is read; None as for `Sample`."""

    indicator: str
    word: str
    text: str
    span: Span | None
    read: Tokenized
    second: Tokenized | None


def _text(
    config: Config, prompt: str | Mapping[str, Any], indicator: str
) -> tuple[str, tuple[int, int] | None]:
    """The text of one indicator, and the characters at which its word stands; a free caption names no such place."""
    template = template_of(prompt)
    if not template:
        return caption(prompt, indicator), None
    return fill(template, config.indicators[indicator].word)


def _places(
    members: Sequence[_Member], free: bool, phrases: Mapping[str, set[tuple[str, ...]]]
) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]]:
    """Return for each text of a triplet the positions of its indicator's tokens, and of the words that all share.

    The latter by the first and by the last text encoder.
    """
    words = [member.read.words for member in members]
    blocked, shared = _everywhere(members, phrases) if free else ([], None)
    if shared is None:
        blocked = [_indicator_words(member) for member in members]
        shared = shared_words(words, blocked)
    by_first = _aligned([member.read for member in members], shared)
    by_last = _aligned([member.second for member in members], shared)
    places = []
    for member, apart, common, first, last in zip(members, blocked, shared, by_first, by_last):
        if free:  # a free caption names no place for the word: what the others lack is the indicator
            apart = apart or set(range(len(member.read.words))) - set(common)
        places.append((_positions(member.read, sorted(apart)), first, last))
    return places


def _aligned(
    texts: Sequence[Tokenized | None], shared: Sequence[Sequence[int]]
) -> list[tuple[int, ...] | None]:
    """Return the token positions of shared words, less those of which the texts have different numbers of tokens.

    So it may be with tokens that begin with a blank, where one of the texts begins with the word.
    """
    read = [text for text in texts if text is not None]
    if not read:
        return [None] * len(texts)
    same = [
        len({len(text.word_positions[word]) for text, word in zip(read, words)}) == 1
        for words in zip(*shared)
    ]
    return [
        _positions(text, [word for word, kept in zip(words, same) if kept])
        for text, words in zip(read, shared)
    ]


def _everywhere(
    members: Sequence[_Member], phrases: Mapping[str, set[tuple[str, ...]]]
) -> tuple[list[set[int]], list[tuple[int, ...]] | None]:
    """Every place of the indicators' words in free captions, and the other words where those are the same."""
    blocked = [occurrences(member.read.words, phrases[member.indicator]) for member in members]
    return blocked, same_rest([member.read.words for member in members], blocked)


def _indicator_words(member: _Member) -> set[int]:
    read, span = member.read, member.span
    if span is not None:
        return {i for i, (start, end) in enumerate(read.spans) if start < span[1] and end > span[0]}
    wanted, have = [piece.lower() for piece, _ in split_words(member.word)], [w.lower() for w in read.words]
    for start in range(len(have) - len(wanted) + 1):
        if have[start : start + len(wanted)] == wanted:
            return set(range(start, start + len(wanted)))
    return set()


def _positions(read: Tokenized, words: Iterable[int]) -> tuple[int, ...]:
    positions = read.word_positions
    return tuple(chain.from_iterable([positions[word] for word in words]))

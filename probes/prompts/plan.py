"""The plan: from the prompts of ``triplets.yaml`` to a table of samples, one row an image.

A *triplet* is a prompt with one text per indicator (three in the plain case, more where controls are
added); a *draw* is a triplet with one seed, the group of images that share every random number. Words and
their token positions come from the offsets of the model's own fast tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from hashlib import sha256
from itertools import chain, combinations

from hooks.errors import HookError
from hooks.prompt.spans import Span, encode, split_words, tokens_of_words
from probes.config import PERSON, Config, prompt_id
from probes.errors import UserError
from probes.prompts.alignment import forms, occurrences, same_rest, uncollected
from probes.text.articles import mended
from probes.text.plurals import plural


@dataclass(frozen=True)
class Sample:
    """One image to draw.

    Words are those of `hooks.prompt.spans`, ``word_spans`` their characters in the prompt, half open. Token positions
    count from the start token, which is 0; they are those of the first text encoder, but for ``word_positions_2``, of
    the second, None where the model has one.
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

    def row(self) -> dict:
        """The columns of ``samples/`` but the image."""
        row = asdict(self)
        del row["shared_positions"]
        return row


def noise_seed(text: str, seed: int) -> int:
    """The seed of the generator that draws the noise of one prompt and seed, 63 bits.

    Noise of their own makes prompts independent, as every interval over prompts supposes: with the same few
    noises under all of them the images share their layouts, and intervals come out too narrow.

    Examples
    --------
    >>> noise_seed("a {person} in a hat", 0) == noise_seed("a {person} in a hat", 0)
    True
    >>> noise_seed("a {person} in a hat", 0) == noise_seed("a {person} in a coat", 0)
    False
    """
    return int.from_bytes(sha256(f"{seed}\n{text}".encode()).digest()[:8], "big") >> 1


@dataclass(frozen=True)
class Tokenized:
    """A text as the model reads it: tokens, words, and the characters and token positions of each word."""

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    spans: tuple[Span, ...]
    word_positions: tuple[tuple[int, ...], ...]
    word_positions_2: tuple[tuple[int, ...], ...] | None = (
        None  # by the second tokenizer, if the model has two
    )


def fill(template: str, word: str) -> tuple[str, tuple[int, int]]:
    """Put `word` for ``{person}``, mending an article right before it where the word does not take it.

    Returns
    -------
    text, span
        The prompt, and the half-open span of characters at which the word stands.

    Examples
    --------
    >>> fill("A {person} with a dog", "adult")
    ('An adult with a dog', (3, 8))
    >>> fill("an old {person}", "woman")
    ('an old woman', (7, 12))
    >>> fill("an {person} speaks", "historian")
    ('an historian speaks', (3, 12))
    """
    before, after = template.split(PERSON)
    before = mended(before, word)
    return before + word + after, (len(before), len(before) + len(word))


def tokenize(text: str, tokenizer, place: str, limit: int | None = None) -> Tokenized:
    """Tokens, words and the token positions of each word.

    Parameters
    ----------
    text
        The prompt.
    tokenizer
        A fast tokenizer of transformers (one that gives offsets).
    place
        Where the text stands, for errors.
    limit
        Most tokens the text encoder takes, start and end token included; default
        ``tokenizer.model_max_length``.

    Raises
    ------
    UserError
        The tokenizer gives no offsets, the text has more tokens than it takes, or holds a word it cannot
        spell.
    """
    return _tokenize([text], tokenizer, [place], limit)[0]


def _tokenize(
    texts: Sequence[str], tokenizer, places: Sequence[str], limit: int | None = None
) -> list[Tokenized]:
    """:func:`tokenize` for several texts at once, which takes a fraction of the time of one by one."""
    try:
        encoded = encode(tokenizer, texts, places[0])
    except HookError as error:
        raise UserError(str(error)) from None
    limit = min(tokenizer.model_max_length, limit or tokenizer.model_max_length)
    vocabulary = _Vocabulary.of(tokenizer, [ids for ids, _ in encoded])
    return [
        _tokenized(text, ids, offsets, vocabulary, place, limit)
        for text, (ids, offsets), place in zip(texts, encoded, places)
    ]


def _tokenized(
    text: str, ids: list[int], offsets: list, vocabulary: _Vocabulary, place: str, limit: int
) -> Tokenized:
    if len(ids) > limit:
        raise UserError(
            f"{place}: expected at most {limit} tokens with start and end, got {len(ids)} in {text!r}:"
            " shorten it"
        )
    for token, (start, end) in zip(ids, offsets):
        if token in vocabulary.unspelled and end > start:
            raise UserError(
                f"{place}: expected words the tokenizer can spell, got {text[start:end]!r}: use another word"
            )
    words = split_words(text)
    return Tokenized(
        tokens=tuple(vocabulary.names[number] for number in ids),
        words=tuple(word for word, _ in words),
        spans=tuple(span for _, span in words),
        word_positions=tokens_of_words(offsets, [span for _, span in words]),
    )


@dataclass(frozen=True)
class _Vocabulary:
    """What a tokenizer calls the tokens of some texts, and those that stand for no characters."""

    names: dict[int, str]
    unspelled: frozenset[int]

    @classmethod
    def of(cls, tokenizer, ids: Iterable[list[int]]) -> _Vocabulary:
        numbers = sorted(set(chain.from_iterable(ids)))
        unspelled = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id)
        return cls(dict(zip(numbers, tokenizer.convert_ids_to_tokens(numbers))), frozenset(unspelled))


def shared_words(members: Sequence[Sequence[str]], blocked: Sequence[set[int]]) -> list[tuple[int, ...]]:
    """Indices of the words that all texts of a triplet share, aligned and in order.

    A word shared by all but one is left out for all, so that every pair of a triplet is compared over the
    same words. Where an article was mended (a person, an individual) it is no longer shared.

    Parameters
    ----------
    members
        The words of each text.
    blocked
        For each text the indices of words that belong to the indicator.

    Returns
    -------
    list of tuples
        One tuple of word indices per text, all of equal length.

    Examples
    --------
    >>> shared_words([["a", "man", "runs"], ["a", "tall", "woman", "runs"]], [{1}, {1, 2}])
    [(0, 2), (0, 3)]
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


@uncollected
def plan(
    config: Config, tokenizers: Sequence, limit: int | None = None, name: str = "triplets.yaml"
) -> list[Sample]:
    """The table of samples, ordered by triplet, seed and indicator.

    Parameters
    ----------
    config
        The validated configuration.
    tokenizers
        The model's tokenizers, one a text encoder; the length must suit them all.
    limit
        Most tokens the text encoder takes (see :func:`tokenize`).
    name
        The file the prompts stand in, for errors.

    Raises
    ------
    UserError
        A prompt is too long for a tokenizer or holds a word it cannot spell.
    """
    samples: list[Sample] = []
    sampler = config.sampler
    prompts = config.prompts[: config.limit]
    for tokenizer in tokenizers:
        tokenize(sampler.negative_prompt, tokenizer, f"{name}: sampler.negative_prompt", limit)
    entries = [
        (indicator, config.indicators[indicator].word, *_text(config, prompt, indicator))
        for prompt in prompts
        for indicator in config.indicators
    ]
    texts = [text for *_, text, _ in entries]
    places = [
        f"{name}: prompts[{triplet}] ({indicator})"
        for triplet in range(len(prompts))
        for indicator in config.indicators
    ]
    tokenized, *others = [_tokenize(texts, tokenizer, places, limit) for tokenizer in tokenizers]
    if others:
        tokenized = [
            replace(first, word_positions_2=second.word_positions)
            for first, second in zip(tokenized, others[0])
        ]
    count = len(config.indicators)
    free = any(isinstance(prompt, dict) for prompt in prompts)
    phrases = {
        name: forms(entry.word, entry.plural or plural(entry.word))
        for name, entry in config.indicators.items()
        if free
    }
    for triplet, prompt in enumerate(prompts):
        mine = slice(triplet * count, (triplet + 1) * count)
        identifier = prompt_id(prompt, triplet)
        template = "" if isinstance(prompt, dict) else prompt
        key = prompt[config.reference] if isinstance(prompt, dict) else prompt
        members = [(*entry, tokens) for entry, tokens in zip(entries[mine], tokenized[mine])]
        drafts = _triplet(members, triplet, identifier, template, sampler.negative_prompt, phrases)
        for seed in config.seeds:
            noise = noise_seed(key, seed) if sampler.noise == "own" else seed
            samples += [
                Sample(
                    sample_id=f"t{triplet:05d}-s{seed}-{draft['indicator']}",
                    seed=seed,
                    noise_seed=noise,
                    **draft,
                )
                for draft in drafts
            ]
    return samples


def _text(config: Config, prompt: str | dict[str, str], indicator: str) -> tuple[str, tuple[int, int] | None]:
    """The text of one indicator, and the characters at which its word stands; a free caption names no such place."""
    if isinstance(prompt, dict):
        return prompt[indicator], None
    return fill(prompt, config.indicators[indicator].word)


def _blocked(members: list, phrases: Mapping[str, set[tuple[str, ...]]]) -> list[set[int]] | None:
    """Every place of the indicators' words in free captions, where apart from those the captions are the same."""
    if members[0][3] is not None:
        return None
    found = [occurrences(tokens.words, phrases[indicator]) for indicator, *_, tokens in members]
    return found if same_rest([tokens.words for *_, tokens in members], found) is not None else None


def _triplet(
    members: list,
    triplet: int,
    identifier: str,
    template: str,
    negative_prompt: str,
    phrases: Mapping[str, set[tuple[str, ...]]],
) -> list[dict]:
    blocked = _blocked(members, phrases) or [
        _indicator_words(words, word, span) for _, word, _, span, words in members
    ]
    shared = shared_words([words.words for *_, words in members], blocked)
    drafts = []
    for (indicator, word, text, _, tokens), own, common in zip(members, blocked, shared):
        if not template:  # a free caption names no place for the word: what the others lack is the indicator
            own = own or set(range(len(tokens.words))) - set(common)
        drafts.append(
            {
                "triplet": triplet,
                "prompt_id": identifier,
                "template": template,
                "indicator": indicator,
                "word": word,
                "prompt": text,
                "negative_prompt": negative_prompt,
                "tokens": tokens.tokens,
                "words": tokens.words,
                "word_spans": tokens.spans,
                "word_positions": tokens.word_positions,
                "word_positions_2": tokens.word_positions_2,
                "indicator_positions": _positions(tokens, sorted(own)),
                "shared_positions": _positions(tokens, common),
            }
        )
    return drafts


def _indicator_words(tokens: Tokenized, word: str, span: tuple[int, int] | None) -> set[int]:
    if span is not None:
        return {i for i, (start, end) in enumerate(tokens.spans) if start < span[1] and end > span[0]}
    wanted, have = [part.lower() for part, _ in split_words(word)], [part.lower() for part in tokens.words]
    for start in range(len(have) - len(wanted) + 1):
        if have[start : start + len(wanted)] == wanted:
            return set(range(start, start + len(wanted)))
    return set()


def _positions(tokens: Tokenized, words: Sequence[int]) -> tuple[int, ...]:
    return tuple(position for word in words for position in tokens.word_positions[word])

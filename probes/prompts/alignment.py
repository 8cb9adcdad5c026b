"""Alignment of a triplet's words: those of the indicator, and those that all its texts share."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from probes.fields.types import PERSON
from probes.prompts.grammar.articles import mended


def fill(template: str, word: str) -> tuple[str, tuple[int, int]]:
    """Put `word` for ``{person}``, mending an article right before it; also the word's half-open span of characters.

    >>> fill("A {person} with a dog", "adult")
    ('An adult with a dog', (3, 8))
    """
    before, after = template.split(PERSON)
    before = mended(before, word)
    return before + word + after, (len(before), len(before) + len(word))


def forms(word: str, plural: str) -> set[tuple[str, ...]]:
    """Return how a word for a person can stand in a caption, as tuples of lower-case words: possessives, plurals.

    >>> sorted(forms("old man", "old men"))
    [('old', 'man'), ('old', "man's"), ('old', 'man’s'), ('old', 'men'), ('old', "men's"), ('old', 'men’s')]
    """
    found = set()
    for phrase in (word, plural):
        *before, last = phrase.lower().split()
        found |= {(*before, last), (*before, f"{last}'s"), (*before, f"{last}’s")}
    return found


def occurrences(words: Sequence[str], wanted: Collection[tuple[str, ...]]) -> set[int]:
    """Return the indices of words at which one of the wanted phrases stands.

    >>> sorted(occurrences(["A", "woman", "and", "two", "women"], forms("woman", "women")))
    [1, 4]
    """
    low = [word.lower() for word in words]
    lengths = {len(phrase) for phrase in wanted}
    if lengths == {1}:
        single = {word for (word,) in wanted}
        return {place for place, word in enumerate(low) if word in single}
    return {
        place
        for start in range(len(low))
        for length in lengths
        if tuple(low[start : start + length]) in wanted
        for place in range(start, start + length)
    }


def same_rest(members: Sequence[Sequence[str]], blocked: Sequence[set[int]]) -> list[tuple[int, ...]] | None:
    """Return the indices of the words that are not blocked, where they are the same in all texts; otherwise None.

    The texts must agree run by run: between blocked words stand the same words, in any case. There the longest matching
    blocks of `difflib.SequenceMatcher` are those runs, each with its like: of the longest the first in one text can
    match the first in the other alone, and so on to its left and right. So this is its result, in a tenth of the time.

    >>> same_rest([["a", "man", "runs"], ["A", "tall", "woman", "runs"]], [{1}, {1, 2}])
    [(0, 2), (0, 3)]
    """
    first, *others = (_without(words, apart) for words, apart in zip(members, blocked))
    if any(other != first for other in others):  # word by word; if not that, run by run
        first, *others = (_runs(words, apart) for words, apart in zip(members, blocked))
        if any(other != first for other in others):
            return None
    return [
        tuple([index for index in range(len(words)) if index not in apart])
        for words, apart in zip(members, blocked)
    ]


def _without(words: Sequence[str], blocked: set[int]) -> list[str]:
    """The words in lower case, an empty one for each that is blocked."""
    low = [word.lower() for word in words]
    for index in blocked:
        low[index] = ""
    return low


def _runs(words: Sequence[str], blocked: set[int]) -> list[list[str]]:
    runs: list[list[str]] = [[]]
    for index, word in enumerate(words):
        if index not in blocked:
            runs[-1].append(word.lower())
        elif runs[-1]:
            runs.append([])
    return runs if runs[-1] else runs[:-1]

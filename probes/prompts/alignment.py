"""Alignment of a triplet's words: those of the indicator, and those that all its texts share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import SequenceMatcher
from itertools import groupby


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
    lengths, begins = {len(phrase) for phrase in wanted}, {phrase[0] for phrase in wanted}
    return {
        place
        for start, word in enumerate(low)
        if word in begins
        for length in lengths
        if tuple(low[start : start + length]) in wanted
        for place in range(start, start + length)
    }


def same_rest(members: Sequence[Sequence[str]], blocked: Sequence[set[int]]) -> list[tuple[int, ...]] | None:
    """Return the indices of the words that are not blocked, where they are the same in all texts; otherwise None.

    The texts must agree run by run: between blocked words stand the same words, in any case.

    >>> same_rest([["a", "man", "runs"], ["A", "tall", "woman", "runs"]], [{1}, {1, 2}])
    [(0, 2), (0, 3)]
    """
    first, *others = (_runs(words, apart) for words, apart in zip(members, blocked))
    if any(other != first for other in others):
        return None
    return [
        tuple([index for index in range(len(words)) if index not in apart])
        for words, apart in zip(members, blocked)
    ]


def _runs(words: Sequence[str], blocked: set[int]) -> list[list[str]]:
    runs = groupby(range(len(words)), key=blocked.__contains__)
    return [[words[index].lower() for index in run] for inside, run in runs if not inside]


def shared_words(members: Sequence[Sequence[str]], blocked: Sequence[set[int]]) -> list[tuple[int, ...]]:
    """Return the indices of the words that all texts of a triplet share, aligned and in order, one tuple a text.

    A word shared by all but one is left out for all, so that every pair of a triplet is compared over the
    same words. Where an article was mended (a person, an individual) it is no longer shared. `blocked` are the indices
    of each text's words that belong to the indicator.
    """
    same = same_rest(members, blocked)  # then the longest matching blocks are its runs
    if same is not None:
        return same
    keys = [
        [f"\0{member}" if index in blocked[member] else word.lower() for index, word in enumerate(words)]
        for member, words in enumerate(members)
    ]
    maps = []
    for other in keys[1:]:
        blocks = SequenceMatcher(a=keys[0], b=other, autojunk=False).get_matching_blocks()
        maps.append({block.a + k: block.b + k for block in blocks for k in range(block.size)})
    common = [
        index
        for index in range(len(keys[0]))
        if index not in blocked[0] and all(index in mapping for mapping in maps)
    ]
    return [tuple(common), *(tuple(mapping[index] for index in common) for mapping in maps)]

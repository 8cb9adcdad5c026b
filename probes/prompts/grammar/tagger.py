"""Nouns of a caption, by HanTa's tagger (Wartena 2019) and five corrections of it.

The tagger's model comes in its wheel, so nothing is downloaded. It was trained on prose, where *human* and *female* are
adjectives and *pins* are things; a caption begins with who is seen, and goes on with what that person does. The
corrections were made on one half of the labelled captions of `tests/probes/prompts/grammar`; `docs/validation/nouns.md`
gives scores on the other.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

_WORD = re.compile(r"[^\W_]+(?:[-‐'’](?!s\b)[^\W_]+)*|['’]s?\b|[^\w\s]")
_IN_FRONT_OF = re.compile(r"\b(?:in (?=front of\b)|on (?=top of\b))(front|top)", re.IGNORECASE)
_NO_NOUNS = frozenset(("other", "others", "one", "full"))
_SINGULAR_DETERMINERS = frozenset(("a", "an", "another", "each", "every", "one", "this"))
_PERSON_ENDINGS = ("er", "or", "ist", "ian")
_NOUNS = ("NN", "NP")
# A word after these, by tag, may be the last of a noun phrase; a word before those goes on with one.
_BEFORE_NOUN = ("AT", "AJ", "DT", "CRD", "DPS", "PR", "CJC")
_WITHIN_PHRASE = (*_NOUNS, "AJ", "CJ", "UNC", "CRD", "ORD")


class Token(NamedTuple):
    """A word or sign of a text: its half-open range of characters, itself and its part-of-speech tag (C5)."""

    start: int
    end: int
    text: str
    tag: str

    @property
    def low(self) -> str:
        """The word in lower case, with a plain apostrophe."""
        return self.text.lower().replace("’", "'")

    @property
    def is_singular_noun(self) -> bool:
        """Whether the tagger takes it for one; not a word in -ing, which it may not know as a verb (*coding*)."""
        return self.tag in ("NN1", "NN0") and not self.low.endswith("ing")


@cache
def _tagger() -> Any:
    """Return the part-of-speech tagger for English of the library HanTa, loaded once."""
    from HanTa.HanoverTagger import HanoverTagger

    return HanoverTagger("morphmodel_en.pgz")


def is_known(word: str) -> bool:
    """Return whether a lower-case word is in the part-of-speech tagger's vocabulary, so that no tag is guessed."""
    return word in _tagger().cache


@cache
def possible_tags(word: str) -> tuple[str, ...]:
    """Return the part-of-speech tags that a word can have (British National Corpus, C5), likeliest first."""
    tags = _tagger().tag_word(word, cutoff=3, casesensitive=False)
    return tuple(tag for tag, _ in tags)


def known_singular(word: str) -> str | None:
    """Return a lower-case word's singular, the word itself if it is not read as a plural; None if it is unknown."""
    if not is_known(word):
        return None
    noun = next((reading for reading in possible_tags(word) if reading.startswith(_NOUNS)), "")
    return str(_tagger().analyze(word, pos="NN2")[0]).lower() if noun == "NN2" else word


def tagged_words(text: str) -> list[Token]:
    """Return the words and signs of a text in order, with tags."""
    matches = list(_WORD.finditer(text))
    tags = _corrected_tags([match[0] for match in matches])
    return [Token(*match.span(), match[0], tag) for match, tag in zip(matches, tags, strict=True)]


def base_form(verb: str) -> str:
    """Return the infinitive of a lower-case verb that ends in -s: *carry* of *carries*."""
    return str(_tagger().analyze(verb, pos="VVZ")[0]).lower()


def noun_spans(text: str) -> list[tuple[int, int]]:
    """Return the half-open character spans of a text's nouns, in order."""
    prepositions = {match.start(1) for match in _IN_FRONT_OF.finditer(text)}
    return [
        (token.start, token.end)
        for token in tagged_words(text)
        if token.tag.startswith(_NOUNS)
        and token.text[0].isalpha()
        and token.text.lower() not in _NO_NOUNS
        and token.start not in prepositions
    ]


def _corrected_tags(words: list[str]) -> list[str]:
    """Return the tagger's part-of-speech tag of each word, with corrections for captions."""
    tags = _tagger().tag_sent(words, taglevel=0)
    words = [word.lower() for word in words]
    for index, word in enumerate(words):
        if word.endswith("ing") and tags[index].startswith("NN") and possible_tags(word)[0].startswith("V"):
            tags[index] = "VVG"  # "a female laying on a couch"
        elif word.endswith(_PERSON_ENDINGS) and not is_known(word):
            tags[index] = "NN1"  # "a puppeteer"
    for index in range(len(words)):
        if _is_phrase_final_noun(words, tags, index):
            tags[index] = "NN1"  # "a human sitting"
    for index in range(len(words)):
        if _is_mistagged_verb(words, tags, index):
            tags[index] = "VVZ"  # "a fashion designer pins fabric"
    return tags


def _is_phrase_final_noun(words: list[str], tags: list[str], index: int) -> bool:
    """Return whether the word at `index` is a noun though not tagged so, since no word follows that it describes."""
    tag, before = tags[index], tags[index - 1] if index else ""
    if tag not in ("AJ0", "AV0", "UNC", "VVB", "VVI", "ITJ") or not before.startswith(_BEFORE_NOUN):
        return False
    determined = before.startswith(("AT", "DPS", "DT"))
    after, after_tag = (words[index + 1], tags[index + 1]) if index + 1 < len(words) else ("", "PUN")
    goes_on = after_tag.startswith(_WITHIN_PHRASE if determined else (*_WITHIN_PHRASE, "PUN", "PUQ"))
    if goes_on and after != "next":
        return False
    if not is_known(words[index]):
        return True
    can_be_noun = any(reading.startswith(_NOUNS) for reading in possible_tags(words[index]))
    return can_be_noun and (tag == "AJ0" or before.startswith(("AT", "DPS")))


def _is_mistagged_verb(words: list[str], tags: list[str], index: int) -> bool:
    """Return whether the word at `index`, in -s and tagged as a plural noun, is the verb of the phrase before it."""
    if not _could_be_verb(words, tags, index):
        return False
    first = index
    while first and tags[first - 1].startswith((*_NOUNS, "AJ")):
        first -= 1
    if not first or words[first - 1] not in _SINGULAR_DETERMINERS:
        return False
    for after in range(index + 1, len(words)):
        if not tags[after].startswith((*_NOUNS, "AJ")):
            return not tags[after].startswith(("VVZ", "VBZ"))
        if _could_be_verb(words, tags, after):
            return False
    return True


def _could_be_verb(words: list[str], tags: list[str], index: int) -> bool:
    """Return whether the word at `index` ends in -s, is tagged as a plural noun and follows a singular noun."""
    return (
        words[index].endswith("s")
        and tags[index] == "NN2"
        and index > 0
        and tags[index - 1].startswith("NN1")
    )

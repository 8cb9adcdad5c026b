"""Possible readings of a word: its closed class, the parts of speech that lemminflect's dictionary lists, its singular.

The dictionary is in lemminflect's wheel, so nothing is downloaded. It is asked once a word, and what the grammar of
captions wants to know of the word is kept (`probes.prompts.grammar.caption_grammar`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from probes.prompts.grammar.word_lists import (
    ADJECTIVES,
    ADJECTIVES_AND_NOUNS,
    ADVERBS,
    AGENTS,
    AUXILIARIES,
    CONJUNCTIONS,
    DETERMINERS,
    NAMES_IN_ING,
    NAMES_IN_S,
    NOUNS_NOT_LISTED,
    PLURAL_ONLY,
    PREPOSITIONS,
    PRONOUNS,
    SINGULAR,
    THINGS_IN_ER,
    VERBS,
    human_words_of_table_2,
)

_CLASSES = (
    ("determiner", DETERMINERS),
    ("preposition", PREPOSITIONS),
    ("conjunction", CONJUNCTIONS),
    ("pronoun", PRONOUNS),
    ("auxiliary", AUXILIARIES),
    ("adverb", ADVERBS),
)
_ENDINGS_OF_AGENTS = ("ist", "ian", "man", "woman", "eer", "er", "or")


@dataclass(frozen=True, slots=True)
class LexicalWord:
    """Possible readings of a word, without its context."""

    text: str  # in lower case
    closed: str  # closed class, number (a word with a digit in it), stop (a mark), or empty
    noun: bool = False  # by the dictionary or a list; a word that nobody lists is a noun, or an adverb in -ly
    verb: bool = False
    adjective: bool = False
    adverb: bool = False
    form: str = ""  # base, s, ing, past: the form in which it would be a verb
    caption_verb: bool = False  # captions often use it as a verb (`word_lists.VERBS`)
    plural: bool = False  # its singular is another word
    agent: bool = False  # it names who acts: a human word, an animal, a profession


@cache
def word(text: str) -> LexicalWord:
    """Return what a word in lower case can be."""
    if not text[0].isalpha() or any(letter.isdigit() for letter in text):
        closed = "determiner" if text in DETERMINERS else "number" if any(map(str.isdigit, text)) else "stop"
        return LexicalWord(text, closed)
    listed = _listed(text)
    noun, verbs = "NOUN" in listed, listed.get("VERB", ())
    adverb, adjective = "ADV" in listed, "ADJ" in listed
    if not listed and "-" in text:
        last = word(text.rsplit("-", 1)[1] or "a")
        noun, adverb, adjective = last.noun or not last.verb, last.adverb, last.adjective
    elif not listed:
        noun, adverb = not text.endswith("ly"), text.endswith("ly")
    number = singular(text)
    return LexicalWord(
        text,
        next((name for name, members in _CLASSES if text in members), ""),
        noun=noun or text in NOUNS_NOT_LISTED or text in NAMES_IN_ING or text in ADJECTIVES_AND_NOUNS,
        verb=bool(verbs) or "AUX" in listed,
        adjective=adjective or text in ADJECTIVES or text in ADJECTIVES_AND_NOUNS,
        adverb=adverb,
        form=_form(text, verbs),
        caption_verb=bool(VERBS.intersection(verbs)),
        plural=number != text and text not in PLURAL_ONLY,
        agent=_is_agent(number),
    )


@cache
def singular(text: str) -> str:
    """Return the singular of a noun in lower case; a word that the dictionary doesn't list loses its -s.

    >>> [singular(text) for text in ("women", "people", "jeans", "glass", "hoodies")]
    ['woman', 'person', 'jeans', 'glass', 'hoodie']
    """
    if text in SINGULAR:
        return SINGULAR[text]
    if text in PLURAL_ONLY or text in NAMES_IN_S:
        return text
    known = _listed(text).get("NOUN", ())
    if known:
        return text if text in known and not text.endswith("s") else known[0]
    if "-" in text:
        rest, last = text.rsplit("-", 1)
        return f"{rest}-{singular(last)}" if last else text
    if text.endswith("men"):
        return f"{text[:-3]}man"
    return _without_s(text)


@cache
def _listed(text: str) -> dict[str, tuple[str, ...]]:
    """Parts of speech of a word in lemminflect's dictionary, with the lemmas that it has in each."""
    from lemminflect import getAllLemmas

    return getAllLemmas(text)


def _without_s(text: str) -> str:
    from lemminflect import getAllLemmasOOV

    if not text.endswith("s") or text.endswith(("ss", "us", "is")) or len(text) < 4:
        return text
    # -y is listed: "selfies", "hoodies", not "fifties"
    if text.endswith("ies") and not text.endswith("ties"):
        return text[:-1]
    return getAllLemmasOOV(text, upos="NOUN").get("NOUN", (text,))[0]


def _form(text: str, verbs: tuple[str, ...]) -> str:
    if not verbs:
        return ""
    if text in verbs:
        return "base"
    return "ing" if text.endswith("ing") else "s" if text.endswith("s") else "past"


@cache
def _humans() -> frozenset[str]:
    return frozenset(human_words_of_table_2())


def _is_agent(lemma: str) -> bool:
    if lemma in AGENTS or lemma in _humans():
        return True
    return len(lemma) > 4 and lemma.endswith(_ENDINGS_OF_AGENTS) and lemma not in THINGS_IN_ER

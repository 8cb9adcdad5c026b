"""Which words of a caption are nouns, by a short grammar over what a dictionary says they can be.

lemminflect lists the parts of speech of a word, without saying which one stands here. What stands around it says that:
determiners, prepositions and adjectives announce a noun, subjects and "to" a verb; a form in -ing is what somebody
does unless it is announced like a thing. Made for captions ("a person holding up a smartphone"), not for prose.

Its tokens are not the words of a prompt (`hooks.prompt.spans`): marks of punctuation are tokens, since they end
phrases, and the possessive stands apart from its noun. A noun meets its word by their characters.
"""

from __future__ import annotations

import re
from functools import cache

from probes.text.word_lists import (
    ADJECTIVES,
    ADVERBS,
    AUXILIARIES,
    CONJUNCTIONS,
    DETERMINERS,
    NAMES_IN_ING,
    PLURAL_ONLY,
    PREPOSITIONS,
    PRONOUNS,
    SINGULAR,
    VERBS,
    human_words_of_table_2,
)

_TOKEN = re.compile(r"[^\W\d_]+(?:[-‐'’](?!s\b)[^\W\d_]+)*|['’]s?\b|\d+(?:[.,:]\d+)*(?:-[^\W\d_]+)*|[^\w\s]")
_CLASSES = (
    ("determiner", DETERMINERS),
    ("preposition", PREPOSITIONS),
    ("conjunction", CONJUNCTIONS),
    ("pronoun", PRONOUNS),
    ("auxiliary", AUXILIARIES),
    ("adverb", ADVERBS),
)
_OPENS = ("determiner", "adjective", "preposition")  # what a noun follows


@cache
def _can_be(word: str) -> frozenset[str]:
    """Parts of speech a dictionary lists; an unknown word is a noun, or an adverb in -ly."""
    from lemminflect import getAllLemmas

    known = frozenset(getAllLemmas(word))
    if not known and "-" in word:
        return _can_be(word.rsplit("-", 1)[1]) or frozenset({"NOUN"})
    return known or frozenset({"ADV"} if word.endswith("ly") else {"NOUN"})


@cache
def _verb_form(word: str) -> str:
    """The form in which a word would be a verb: base, s, ing, or past; empty if it cannot be one."""
    from lemminflect import getAllLemmas

    lemmas = getAllLemmas(word, upos="VERB").get("VERB", ())
    if not lemmas:
        return ""
    if word in lemmas:
        return "base"
    return "ing" if word.endswith("ing") else "s" if word.endswith("s") else "past"


def _is_verb_word(word: str) -> bool:
    from lemminflect import getAllLemmas

    return bool(VERBS.intersection(getAllLemmas(word, upos="VERB").get("VERB", ())))


def noun_spans(text: str) -> list[tuple[int, int]]:
    """Return the characters of the nouns of a text, half open, in order.

    Examples
    --------
    >>> text = "a person rides a bike"
    >>> [text[start:end] for start, end in noun_spans(text)]
    ['person', 'bike']
    """
    tokens = [(match.start(), match.end(), match[0]) for match in _TOKEN.finditer(text)]
    words = [token.lower().replace("’", "'") for *_, token in tokens]
    classes: list[str] = []
    for place in range(len(words)):
        classes.append(_class(words, place, classes))
    return [(start, end) for (start, end, _), own in zip(tokens, classes) if own == "noun"]


def _class(words: list[str], place: int, classes: list[str]) -> str:
    """Part of speech of one word, from those before it and the words after it."""
    word = words[place]
    if not word[0].isalpha():
        return "determiner" if word[0].isdigit() or word in DETERMINERS else "stop"
    for name, members in _CLASSES:
        if word in members:
            return name
    can = _can_be(word)
    before = next((own for own in reversed(classes) if own != "adverb"), "stop")
    follows_to = place > 0 and words[place - 1] == "to"
    if "NOUN" not in can and word not in NAMES_IN_ING and word not in ADJECTIVES:
        if can & {"VERB", "AUX"}:
            return "participle" if _verb_form(word) in ("ing", "past") else "verb"
        return "adverb" if "ADV" in can and "ADJ" not in can else "adjective"
    form, described = _verb_form(word), _noun_follows(words, place)
    if form == "ing":
        return _ing(word, before, described, words, place)
    if word in ADJECTIVES or ("-" in word and described):
        if described:
            return "adjective"
        # "an orange", "two adults", "a female with": a noun; "dressed in black", "the box is green": none
        return "noun" if before in ("determiner", "adjective", "noun", "stop", "conjunction") else "adjective"
    if "ADV" in can and before not in _OPENS:
        return "adverb"
    if not form:
        return "noun"
    if form == "past":  # "saw", "found", "left"
        return "noun" if before in ("determiner", "adjective") else "participle"
    if follows_to and form == "base" and _is_verb_word(word) and _to_announces_verb(words, place):
        return "verb"
    if before == "pronoun" or (before == "auxiliary" and _is_verb_word(word)):
        return "verb"
    if before == "conjunction" and form == "s" and _is_verb_word(word) and "verb" in classes:
        return "verb"
    if before == "noun" and _after_subject(words, place, classes, form):
        return "verb"
    return "noun"


def _ing(word: str, before: str, described: bool, words: list[str], place: int) -> str:
    """A form in -ing: what somebody does, or the name of a thing."""
    after = words[place + 1] if place + 1 < len(words) else ""
    if word in NAMES_IN_ING:
        doing = before in ("auxiliary", "pronoun") or after in DETERMINERS or after in PRONOUNS
        subject = before == "noun" and _human_before(words, place)
        return "participle" if doing or subject else "noun"
    named = before in ("determiner", "adjective") and not described and after not in DETERMINERS
    return "noun" if named else "participle"


def _noun_follows(words: list[str], place: int) -> bool:
    """Whether a noun, perhaps after adjectives, comes right after this word: then it may describe that noun."""
    for word in words[place + 1 :]:
        if not word[0].isalpha() or any(word in members for _, members in _CLASSES):
            return False
        form = _verb_form(word)
        if form == "ing" and word not in NAMES_IN_ING:
            return False
        if form == "s" and _is_verb_word(word):
            return False
        can = _can_be(word)
        if "NOUN" in can:
            return True
        if "ADJ" not in can and form != "past":
            return False
    return False


def _after_subject(words: list[str], place: int, classes: list[str], form: str) -> bool:
    """Whether a word after a noun says what that noun does: "a person rides", "the ecologist studies the"."""
    after = words[place + 1] if place + 1 < len(words) else ""
    plural = _singular(words[place - 1]) != words[place - 1] and words[place - 1] not in PLURAL_ONLY
    if (form == "s") == plural:
        return False
    if after in DETERMINERS or after in PRONOUNS:
        return True
    if "verb" in classes and not {"conjunction", "pronoun"} & set(classes[classes.index("verb") :]):
        return False  # the subject has its verb
    return _is_verb_word(words[place]) or (_human_before(words, place) and after in PREPOSITIONS)


def _human_before(words: list[str], place: int) -> bool:
    """Whether the word before refers to a human: by the list, or by the form of a profession."""
    own = _singular(words[place - 1])
    return own in _humans() or own.endswith(("ist", "ian", "man", "woman", "eer", "ologer"))


def _to_announces_verb(words: list[str], place: int) -> bool:
    """Whether "to" before this word opens an infinitive ("about to kick") and not a place ("next to water")."""
    return place < 2 or words[place - 2] not in {
        "next",
        "close",
        "due",
        "according",
        "up",
        "on",
        "down",
        "adjacent",
    }


@cache
def _singular(word: str) -> str:
    from lemminflect import getAllLemmas

    return SINGULAR.get(word) or getAllLemmas(word, upos="NOUN").get("NOUN", (word,))[0]


@cache
def _humans() -> frozenset[str]:
    return frozenset(human_words_of_table_2()) | {"person"}

"""Nouns of a caption, by a short grammar over the dictionary's parts of speech.

A dictionary lists the parts of speech of a word, without saying which one stands here
(`probes.prompts.grammar.lexicon`). What
stands around it says that: determiners, prepositions and adjectives announce a noun, subjects and "to" a verb; a form
in -ing is what somebody does unless it is announced like a thing; after "a" and its noun a form in -s is a verb. Made
for captions ("a person holding up a smartphone"), not for prose.

Its tokens are not the words of a prompt (`hooks.prompt.spans`): marks of punctuation are tokens, since they end
phrases, and the possessive stands apart from its noun. A noun meets its word by their characters.

The rules were tuned on one half of the labelled captions of `tests/probes/prompts/grammar`; `docs/validation/nouns.md`
says what they reach on the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from probes.prompts.grammar.lexicon import LexicalWord, word
from probes.prompts.grammar.word_lists import (
    ADJECTIVE_ENDINGS,
    ADJECTIVES,
    ADJECTIVES_AND_NOUNS,
    CLAUSE_OPENERS,
    LIGHTS,
    MODALS,
    NAMES_IN_ING,
    NOUNS_AFTER_TO,
    NOUNS_LIKE_ADJECTIVES,
    PLURAL_DETERMINERS,
    PLURAL_ONLY,
    SINGULAR_DETERMINERS,
    VERB_PARTICLES,
)

_TOKEN = re.compile(
    r"[^\W\d_]+\d\w*|[^\W\d_]+(?:[-‐'’](?!s\b)[^\W\d_]+)*|['’]s?\b|\d+(?:[.,:]\d+)*[^\W_]*(?:-[^\W_]+)*|[^\w\s]"
)
_END = LexicalWord("", "stop")
_PREPOSITIONS = frozenset({"in front of", "on top of"})
# With a capital, and no names: "Happy Birthday".
_WISHES = frozenset({"happy", "merry", "best", "good", "dear"})
_RELATIVE = frozenset({"that", "who", "whom", "which", "what", "there"})
_AFTER_TO_A_PLACE = frozenset(
    {"next", "close", "due", "according", "up", "on", "down", "adjacent", "from", "thanks"}
)


@dataclass
class _Caption:
    """The words of a caption, and what is known of those already read."""

    words: list[LexicalWord]
    names: list[bool]
    classes: list[str] = field(default_factory=list)
    # the noun phrase being read is singular, plural, either ("the"), by its determiner; empty where it has none
    number: str = ""
    subject: bool | None = None  # whether the first noun phrase of the clause is plural; None before its end
    verb: str = ""  # the form of the verb that the clause already has
    opened: bool = False  # whether a word such as "while" opened the clause
    joined: bool = False  # whether "and" joined subjects of the clause

    def at(self, place: int) -> LexicalWord:
        return self.words[place] if 0 <= place < len(self.words) else _END


def noun_spans(text: str) -> list[tuple[int, int]]:
    """Return the characters of the nouns of a text, half open, in order."""
    tokens = [(match.start(), match.end(), match[0]) for match in _TOKEN.finditer(text)]
    words = [word(token.lower().replace("’", "'")) for *_, token in tokens]
    caption = _Caption(words, _names([token for *_, token in tokens], words))
    for place in range(len(words)):
        _read(caption, place)
    return [(start, end) for (start, end, _), name in zip(tokens, caption.classes) if name == "noun"]


def _read(caption: _Caption, place: int) -> None:
    """Classify one word, and keep what it says of its phrase and of its clause."""
    this, name = caption.words[place], _class(caption, place)
    caption.classes.append(name)
    if name == "determiner":
        singular = this.text in SINGULAR_DETERMINERS
        caption.number = "singular" if singular else "plural" if this.text in PLURAL_DETERMINERS else "either"
    elif name == "number":
        caption.number = "plural"
    elif name not in ("noun", "adjective", "adverb"):
        if caption.subject is None and "noun" in caption.classes:
            caption.subject = caption.at(place - 1).plural
        caption.number = ""
    if name in ("verb", "auxiliary"):
        caption.verb = this.form or "base"
    elif this.text in CLAUSE_OPENERS:
        caption.verb, caption.opened, caption.joined, caption.subject = "", True, False, None
    elif this.text in (".", ";", ":"):
        caption.verb, caption.opened, caption.joined, caption.subject = "", False, False, None
    elif name == "conjunction" and "noun" in caption.classes:
        caption.joined = not caption.verb


def _names(tokens: list[str], words: list[LexicalWord]) -> list[bool]:
    """Return whether each token is a name: capitalised, in a sentence that has lower-case words as well."""
    if not any(token.islower() and not each.closed for token, each in zip(tokens, words, strict=True)):
        return [False] * len(tokens)
    names, quoted, begins = [], False, True
    for place, token in enumerate(tokens):
        capital = token[0].isalpha() and any(letter.isupper() for letter in token) and token != "I"
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        names.append(
            capital
            and not begins
            and not quoted
            and _may_be_name(words[place], following, words[place + 1] if following else _END)
        )
        quoted = quoted != (token in ('"', "“", "”"))
        begins = token in (".", "!", "?", ":", '"', "“")
    return names


def _may_be_name(this: LexicalWord, following: str, after: LexicalWord) -> bool:
    """Return whether a word with a capital belongs to a name: an adjective only before another capital ("New York")."""
    if (this.closed and this.closed != "auxiliary") or this.text in _WISHES:
        return False
    if this.text in ADJECTIVES_AND_NOUNS:
        return following[:1].isupper() or not (after.noun and not after.closed)
    return this.noun or following[:1].isupper() or not this.adjective


def _class(caption: _Caption, place: int) -> str:
    """Part of speech of one word, from those before it and the words after it."""
    this = caption.words[place]
    if caption.names[place]:
        return "noun"
    before = next((name for name in reversed(caption.classes) if name != "adverb"), "stop")
    if this.closed:
        return _closed(caption, place, before)
    if f"{caption.at(place - 1).text} {this.text} {caption.at(place + 1).text}" in _PREPOSITIONS:
        return "preposition"
    if not this.noun and this.text not in ADJECTIVES:
        if this.verb:
            return "participle" if this.form in ("ing", "past") else "verb"
        return "adverb" if this.adverb and not this.adjective else "adjective"
    described = _describes_noun(caption, place)
    if this.form == "ing":
        return _ing(caption, place, before, described)
    if this.text in ADJECTIVES:
        return "verb" if _is_verb(caption, place, before) else "adjective"
    if described and _may_describe(caption, place):
        return "adjective"
    if this.adverb and before in ("verb", "participle", "auxiliary"):  # "walks home"
        return "adverb"
    if this.form == "past":  # "saw", "found", "left"
        return "noun" if before in ("determiner", "adjective") else "participle"
    return "verb" if _is_verb(caption, place, before) else "noun"


def _may_describe(caption: _Caption, place: int) -> bool:
    """Return whether a word that can be a noun is an adjective before another noun."""
    this = caption.words[place]
    if this.text == "light" and caption.at(place + 1).text in LIGHTS:
        return False
    if this.text in ADJECTIVES_AND_NOUNS or "-" in this.text:
        return True
    return this.adjective and this.text.endswith(ADJECTIVE_ENDINGS) and this.text not in NOUNS_LIKE_ADJECTIVES


def _closed(caption: _Caption, place: int, before: str) -> str:
    """Class of a word of a closed class; some are nouns where an article says so: "the back of", "a can"."""
    this, last, after = caption.words[place], caption.at(place - 1), caption.at(place + 1)
    if this.text in ("can", "will") and before in ("determiner", "adjective") and last.text != "that":
        return "noun"
    if this.text in ("back", "close") and before == "determiner" and after.text != "up":
        return "adjective" if _describes_noun(caption, place) else "noun"
    if this.closed == "number" and before == "noun" and not _describes_noun(caption, place):
        return "adverb"  # "the year 1999", "a player with number 7"
    if this.text == "that" and (
        after.closed in ("auxiliary", "determiner", "pronoun") or after.form in ("s", "past")
    ):
        return "pronoun"
    return this.closed


def _ing(caption: _Caption, place: int, before: str, described: bool) -> str:
    """A form in -ing: what somebody does, or the name of a thing."""
    this, after = caption.words[place], caption.at(place + 1)
    if this.text == "being":
        return "noun" if caption.at(place - 1).text == "human" else "participle"
    if this.text in NAMES_IN_ING:
        doing = before in ("auxiliary", "pronoun") or after.closed in ("determiner", "pronoun")
        subject = before == "noun" and caption.at(place - 1).agent
        return "participle" if doing or subject else "noun"
    named = before in ("determiner", "adjective") and not described and after.closed != "determiner"
    return "noun" if named else "participle"


def _describes_noun(caption: _Caption, place: int) -> bool:
    """Return whether a noun follows, perhaps after adjectives or a number, which this word may describe."""
    for following in range(place + 1, len(caption.words)):
        this = caption.words[following]
        if this.closed == "number" and this.text.isdigit():
            continue
        if this.closed:
            return False
        if this.form == "ing" and this.text not in NAMES_IN_ING:
            return False
        if this.form == "s" and this.caption_verb:
            return False
        if this.noun and this.text not in ADJECTIVES:
            return True
        if not this.adjective and this.form != "past":
            return False
    return False


def _is_verb(caption: _Caption, place: int, before: str) -> bool:
    """Return whether a word that can be both noun and verb, in its base form or in -s, is a verb here."""
    this, last, after = caption.words[place], caption.at(place - 1), caption.at(place + 1)
    if this.form not in ("base", "s") or this.text in PLURAL_ONLY:
        return False
    takes_object = after.closed in ("determiner", "pronoun") and after.text not in _RELATIVE
    if last.text == "to":
        to_place = caption.at(place - 2).text in _AFTER_TO_A_PLACE
        named = to_place or this.text in NOUNS_AFTER_TO
        return this.form == "base" and (takes_object or not named)
    if before == "pronoun":
        return True
    if before == "auxiliary":
        return this.form == "base" and (last.text in MODALS or this.caption_verb)
    if before == "conjunction":
        return _is_joined_verb(caption, place, takes_object)
    if before == "noun":
        return _follows_subject(caption, place, takes_object)
    if last.text in ("another", "each", "one"):  # "while another sings"
        return this.form == "s"
    if before == "stop":
        return takes_object and this.caption_verb
    return False


def _is_joined_verb(caption: _Caption, place: int, takes_object: bool) -> bool:
    """Return whether a word after "and" is a second verb: "seals the envelope and stamps it", "swings and misses"."""
    this, after = caption.words[place], caption.at(place + 1)
    if takes_object:
        return True
    if caption.verb != this.form:
        return False
    if len(caption.classes) > 1 and caption.classes[-2] == "verb":
        return True
    return this.caption_verb and after is not _END and after.closed != "stop"


def _follows_subject(caption: _Caption, place: int, takes_object: bool) -> bool:
    """Return whether the word after a noun is its verb: "a person rides", "the ecologist studies the"."""
    this, subject, after = caption.words[place], caption.at(place - 1), caption.at(place + 1)
    while subject.closed == "adverb":
        place -= 1
        subject = caption.at(place - 1)
    waits = not caption.verb
    if this.form == "base":
        if caption.number == "singular":  # "a farmers market"
            return takes_object
        if subject.plural and not caption.names[place - 1]:
            return waits or takes_object or this.caption_verb
        joined = waits and caption.joined and subject.agent
        far = (
            waits
            and bool(caption.subject)
            and not caption.number
            and after.closed in ("preposition", "adverb")
        )
        return takes_object or (this.caption_verb and (subject.plural or joined or far))
    if after.text == "of" or caption.number == "plural":
        return False
    if takes_object:
        return True
    if subject.plural:
        return waits and this.caption_verb
    if caption.number == "singular":
        return True
    if after.text in VERB_PARTICLES and (waits or after.closed != "preposition"):
        return True
    return (waits or this.caption_verb) and (
        subject.agent or (waits and (caption.opened or this.caption_verb))
    )

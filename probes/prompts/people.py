"""Captions of one person, or of people of one gender, made neutral: the rule of Wu et al. 2025 (section 3.1) reversed.

A noun that says a gender becomes the indicator's word (*a lady*: *a person*, *a woman*) or, where it says more, a
neutral noun (*a waitress*: *a server*) before which the sides put their word, as in the set of professions (*a female
server*). So it is with a noun without gender (*a nurse*). Pronouns of that person go along. The words stand in
``grammar/people.csv``. Captions that name somebody, or somebody else beside the person, are left out.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from probes.prompts.forms import Articles
from probes.prompts.grammar.english import fit_article, match_case, plural, singular
from probes.prompts.grammar.nouns import human_words_of_table_2
from probes.prompts.grammar.tagger import Token, base_form, is_known, possible_tags, tagged_words
from probes.prompts.neutral import NO_PERSON

SEVERAL = "somebody else beside the person"
NAME = "a person's name"
PRONOUN = "a pronoun of somebody who is not named"
ONE_GENDER = "a word that fits one gender alone"

BEFORE = {"woman": "female", "man": "male"}  # a noun for a person, and the adjective of Wu et al. 2025
PERSON, FEMININE, MASCULINE = "person", "feminine", "masculine"
_KINDS = ("subject", "object", "possessive", "possessive noun", "reflexive")
_PRONOUNS = {
    FEMININE: dict(zip(_KINDS, ("she", "her", "her", "hers", "herself"), strict=True)),
    MASCULINE: dict(zip(_KINDS, ("he", "him", "his", "his", "himself"), strict=True)),
    "": dict(zip(_KINDS, ("they", "them", "their", "theirs", "themselves"), strict=True)),
}
_GENDER = {word: side for side in (FEMININE, MASCULINE) for word in _PRONOUNS[side].values()}
_THEY = {"is": "are", "was": "were", "has": "have", "does": "do", "isn't": "aren't", "wasn't": "weren't"}
_THEY |= {"hasn't": "haven't", "doesn't": "don't"}
_UNNAMED = ("someone", "somebody")
_BEFORE_OF = (
    "couple",
    "family",
    "crew",
    "team",
    "crowd",
    "staff",
    "model",
    "pitcher",
)  # with *of* no other people
_NOT_OTHERS = (
    "american",
    "asian",
    "african",
    "indian",
    "latino",
    "teenage",
    "u",
    "prayer",
)  # of Table 2, describe the person
# after these, capitals are of a place or a thing
_BEFORE_PLACES = frozenset((
    *("in", "at", "near", "from", "of", "on", "over", "across", "through", "around", "outside", "inside", "to", "as"),
    *("toward", "towards", "into", "behind", "above", "under", "like", "about"),
))  # fmt: skip
_NOBODY = re.compile(
    r"\b(?:(?:wo)?m[ae]n|lad(?:y|ie)|boy|girl)(?:['’]?s['’]?)?\s+(?:bun|cave|hole|power|(?:rest|bath|wash|locker )?rooms?"
    r"|toilets?)\b|\b(?:king|queen)[- ]sized?\b|\bbest man\b|\bman[- ]made\b",
    re.IGNORECASE,
)
_VERB_S = ("VVZ", "VBZ", "VHZ", "VDZ")


@dataclass(frozen=True)
class Edit:
    """A range of characters of a caption that differs between indicators: what it is, and its neutral text."""

    start: int
    end: int
    kind: str  # one of `_KINDS`; person, people, a person (a pronoun that names), role, text, verb
    neutral: str = ""


class _Mention(NamedTuple):
    """A noun that names a person: indices of its first and last token, lemma, neutral noun, gender, plural or not."""

    first: int
    last: int
    lemma: str
    neutral: str
    gender: str
    plural: bool


@cache
def _people() -> dict[str, tuple[str, str]]:
    """Return the neutral noun and the gender of each noun in ``people.csv``; no noun for somebody else."""
    result = {}
    with (
        Path(__file__).with_name("grammar").joinpath("people.csv").open(encoding="utf-8", newline="") as file
    ):
        for row in csv.DictReader(file):
            for gender in (FEMININE, MASCULINE, "either"):
                for word in row[gender].split():
                    own = row["neutral"] if gender != "either" or row["neutral"] in ("", PERSON) else word
                    result[word] = own, "" if gender == "either" else gender
    return result


def find_person(caption: str) -> tuple[list[Edit], str, str]:
    """Return the edits that make a caption's one person neutral; else none, why it is left out, and a word of it.

    >>> find_person("A woman holds her hat")[0]
    [Edit(start=2, end=7, kind='person', neutral=''), Edit(start=14, end=17, kind='possessive', neutral='')]
    >>> find_person("A man and a woman")
    ([], 'somebody else beside the person', 'woman')
    """
    tokens = tagged_words(caption)
    if (word := next((token.low for token in tokens if token.low == "pregnant"), "")) != "":
        return [], ONE_GENDER, word
    if name := _name(tokens):
        return [], NAME, name
    mentions, other = _mentions(tokens, [match.span() for match in _NOBODY.finditer(caption)])
    pronouns = [
        (i, token.low.split("'")[0]) for i, token in enumerate(tokens) if token.low.split("'")[0] in _GENDER
    ]
    edits: list[Edit] = []
    main = next((mention for mention in mentions if mention.gender), mentions[0] if mentions else None)
    if other and (mentions or pronouns):
        return [], SEVERAL, other
    if main is None and not pronouns:
        return [], NO_PERSON, other
    genders = {mention.gender for mention in mentions} | {_GENDER[word] for _, word in pronouns}
    if {FEMININE, MASCULINE} <= genders or (main and main.plural and pronouns):
        return [], SEVERAL, pronouns[0][1] if pronouns else mentions[-1].lemma
    for index, mention in enumerate(mentions):
        span = tokens[mention.first].start, tokens[mention.last].end
        same = (
            not index
            or (mention.lemma == mentions[0].lemma
            and tokens[mention.first - 1].low in ("the", "this"))
        )
        if not same and not _is_predicate(tokens, mentions[index - 1], mention):
            return [], SEVERAL, mention.lemma
        edits.append(_mention_edit(caption, span, tokens[mention.last], mention, same))
    for order, (i, word) in enumerate(pronouns):
        kind, token = _pronoun_kind(tokens, i, word), tokens[i]
        span = token.start, token.start + len(word)
        if main is None and not order:
            if kind not in ("subject", "possessive") or any(one.tag.startswith("N") for one in tokens[:i]):
                return [], NO_PERSON if any(one.tag.startswith("N") for one in tokens) else PRONOUN, word
            edits.append(Edit(*span, "a person", "'s" if kind == "possessive" else ""))
            continue
        edits.append(Edit(*span, kind))
        edits += _verb_edits(tokens, i) if kind == "subject" and word == token.low else []
    return sorted(edits, key=lambda edit: edit.start), "", ""


def person_name(caption: str) -> str:
    """Return the first word of a caption that is taken for a person's name; empty if none is."""
    return _name(tagged_words(caption))


def render(
    caption: str,
    edits: Sequence[Edit],
    word: str,
    words: str,
    *,
    reference: bool,
    articles: Articles = "fitting",
) -> str:
    """Return a caption with its person said by `word` and the plural `words`; `reference` puts none before a noun."""
    gender = _people().get(singular(words.lower().split()[-1]), ("", ""))[1]
    result, end = "", len(caption)
    for edit in reversed(edits):
        original, text = caption[edit.start : edit.end], edit.neutral
        if edit.kind in ("person", "people"):
            text = word if edit.kind == "person" else words
        elif edit.kind == "a person":
            text = fit_article("a ", word) + word + edit.neutral
        elif edit.kind == "role" and not reference:
            text = f"{BEFORE.get(word, word)} {text if text.split()[0].isupper() else text[:1].lower() + text[1:]}"
        elif edit.kind == "verb":
            text = original if gender else text
        elif edit.kind in _KINDS:
            text = _PRONOUNS[gender][edit.kind]
        rest = match_case(text, original) + caption[edit.end : end] + result
        before = caption[: edit.start]
        fitted = before if articles == "kept" else fit_article(before, rest.split(maxsplit=1)[0])
        if fitted != before:  # the article is between this edit and the one before
            caption, shift = fitted + caption[edit.start :], len(fitted) - len(before)
            edit = Edit(edit.start + shift, edit.end + shift, edit.kind, edit.neutral)
        result, end = rest, edit.start
    return caption[:end] + result


def describe(caption: str, edits: Sequence[Edit]) -> str:
    """Return what was replaced in a caption, as text: ``waitress → server; her → their``."""
    texts = [(caption[one.start : one.end], render(caption[one.start : one.end], [
        Edit(0, one.end - one.start, one.kind, one.neutral)
    ], PERSON, "people", reference=True)) for one in edits]  # fmt: skip
    return "; ".join(f"{old} → {new}" for old, new in texts if old != new or len(texts) == 1)


def _mention_edit(caption: str, span: tuple[int, int], noun: Token, mention: _Mention, same: bool) -> Edit:
    """Return the edit of a noun for a person; `same`: the noun names the person, not what the person is."""
    if mention.neutral == PERSON:
        kind = "a person" if mention.lemma in _UNNAMED else "people" if mention.plural else PERSON
        return Edit(*span, kind)
    neutral = mention.neutral if mention.neutral != mention.lemma else noun.text
    neutral = plural(neutral) if mention.plural and neutral != noun.text else neutral
    before = caption[span[0] : noun.start]
    if tokens_before := re.match(r"(?:fe)?male\s+|(?:wo)?m[ae]n\s+|lady\s+", before, re.IGNORECASE):
        before = before[tokens_before.end() :]
    return Edit(*span, "role" if same else "text", before + neutral)


def _mentions(tokens: Sequence[Token], nobody: Sequence[tuple[int, int]]) -> tuple[list[_Mention], str]:
    """Return the nouns that name a person, and the first word for somebody whom no rule makes neutral."""
    people, table_2 = _people(), {word.lower() for word in human_words_of_table_2()}
    result: list[_Mention] = []
    other = ""
    for index, token in enumerate(tokens):
        if any(start <= token.start < end for start, end in nobody):
            continue
        lemma = singular(token.low)
        after = tokens[index + 1] if index + 1 < len(tokens) else Token(0, 0, "", "PUN")
        neutral, gender = people.get(lemma, ("", ""))
        if lemma in _BEFORE_OF and after.low == "of":
            continue
        if not neutral:
            known = lemma in people or (lemma in table_2 and lemma not in (*_GENDER, *_NOT_OTHERS))
            noun = token.tag.startswith(("N", "PN", "UNC")) and after.tag not in ("NN1", "NN0")
            other = other or (lemma if known and noun else "")
            continue
        role = _role_after(tokens, index, people)
        if neutral == PERSON and gender and role:  # a female surgeon, a woman doctor
            continue
        if lemma in ("female", "male") and after.tag.startswith(("N", "AJ")):
            continue  # a male lion
        if neutral != PERSON:
            if not token.tag.startswith("N") or after.tag in ("NN1", "NN0"):
                continue  # cooks, a cowboy hat
        first = index
        while neutral != PERSON and first and _joins(tokens[first - 1], tokens[first]):
            first -= 1
        adjective = _adjective_before(tokens, index, people)
        if adjective is not None:
            first, gender = adjective, people[singular(tokens[adjective].low)][1]
        result.append(_Mention(first, index, lemma, neutral, gender, lemma != token.low))
    return result, other


def _role_after(tokens: Sequence[Token], index: int, people: dict[str, tuple[str, str]]) -> bool:
    """Return whether the word at `index` describes a noun for a person that follows, within three words."""
    for token in tokens[index + 1 : index + 4]:
        if not token.tag.startswith(("N", "AJ")):
            return False
        if people.get(singular(token.low), ("", ""))[0]:
            return True
    return False


def _adjective_before(tokens: Sequence[Token], index: int, people: dict[str, tuple[str, str]]) -> int | None:
    """Return the index of a word as *female* or *woman* that describes the noun at `index`; None without one."""
    for place in range(index - 1, max(-1, index - 4), -1):
        if not tokens[place].tag.startswith(("N", "AJ")):
            return None
        neutral, gender = people.get(singular(tokens[place].low), ("", ""))
        if neutral == PERSON and gender:
            return place
    return None


def _joins(before: Token, noun: Token) -> bool:
    """Return whether a token is the first part of a compound with the noun after it, as in *tennis player*."""
    return before.tag in ("NN1", "NN0") and noun.start - before.end == 1


def _is_predicate(tokens: Sequence[Token], person: _Mention, mention: _Mention) -> bool:
    """Return whether a noun says what the person is: *a man, a waiter, ...*, *is a nurse*, *dressed as a king*."""
    between = [token.low for token in tokens[person.last + 1 : mention.first]]
    after = tokens[mention.last + 1].low if mention.last + 1 < len(tokens) else "."
    if mention.neutral == PERSON or not between or between[-1] not in ("a", "an", "the"):
        return False
    apposition = between[0] == "," and len(between) <= 3 and after in (",", ".")
    return apposition or between[-2:-1] in (["as"], ["is"])


def _pronoun_kind(tokens: Sequence[Token], index: int, word: str) -> str:
    """Return which of `_KINDS` the pronoun at `index` is; *her* and *his* by what follows."""
    kinds = [kind for kind in _KINDS if _PRONOUNS[_GENDER[word]][kind] == word]
    if len(kinds) == 1:
        return kinds[0]
    after = tokens[index + 1].tag if index + 1 < len(tokens) else "PUN"
    describes = after.startswith(("N", "AJ", "CRD", "ORD", "VVG", "VVN", "UNC", "AV"))
    return (
        kinds[1 if word == "his" else 0]
        if not describes or (tokens[index].tag == "PNP" and word == "her")
        else "possessive"
    )


def _verb_edits(tokens: Sequence[Token], index: int) -> list[Edit]:
    """Return the edits that make verbs agree with *they*, where a subject is at `index`: also those joined by *and*."""
    result: list[Edit] = []
    expected = True  # a verb of the subject
    for before, token in pairwise(tokens[index:]):
        if token.low in (",", "and", "or", "but", "then"):
            expected = True
        elif token.tag in _VERB_S or token.low in _THEY or (token.low == "'s" and before is tokens[index]):
            if not expected or (before is not tokens[index] and token.low == "'s"):
                break
            past = token.low == "'s" and (token.tag == "VHZ")
            neutral = (
                ("'ve" if past else "'re")
                if token.low == "'s"
                else _THEY.get(token.low) or base_form(token.low)
            )
            result.append(Edit(token.start, token.end, "verb", neutral))
            expected = False
        elif token.tag in ("CJS", "PNP", "PNQ", "PUN", "DTQ", "CJT") and token.low != ",":
            break
        elif not token.tag.startswith("AV"):
            expected = False
    return result


def _name(tokens: Sequence[Token]) -> str:
    """Return the first word that is taken for a person's name, by its capital, its tag and what is beside it."""
    for index, token in enumerate(tokens):
        if (
            not token.text[0].isupper()
            or token.text.isupper()
            or (index
            and tokens[index - 1].text[0].isupper())
        ):
            continue
        starts = not index or tokens[index - 1].low in (".", "!", "?", '"', "“")
        likely = possible_tags(token.low)[0] == "NP0" and (is_known(token.low) or not starts)
        end = index + 1
        while end < len(tokens) and tokens[end].text[0].isupper():
            end += 1
        before, after = tokens[index - 1] if index else None, tokens[end] if end < len(tokens) else None
        thing = before and (before.low in _BEFORE_PLACES or before.tag.startswith(("AT", "DPS", "AJ", "NN1")))
        verb = before and before.tag.startswith("VV") and not is_known(token.low)
        if likely and not thing and not verb and not (after and after.tag.startswith("NN")):
            return token.text
    return ""

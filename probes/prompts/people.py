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
ONE_GENDER = "a word that fits one gender alone"

BEFORE = {"woman": "female", "man": "male"}  # a noun for a person, and the adjective of Wu et al. 2025
PERSON = "person"
_KINDS = ("subject", "object", "possessive", "possessive noun", "reflexive")
_PRONOUNS = {
    "feminine": ("she", "her", "her", "hers", "herself"),
    "masculine": ("he", "him", "his", "his", "himself"),
    "": ("they", "them", "their", "theirs", "themselves"),
}
_GENDER = {word: gender for gender, words in _PRONOUNS.items() if gender for word in words}
_THEY = {"is": "are", "was": "were", "has": "have", "does": "do", "isn't": "aren't", "wasn't": "weren't"}
_THEY |= {"hasn't": "haven't", "doesn't": "don't"}
# of Table 2, what describes the person; what is no other people before *of*; what capitals of places stand after
_NOT_OTHERS = frozenset("american asian african indian latino teenage u prayer".split())  # noqa: SIM905
_BEFORE_OF = frozenset("couple family crew team crowd staff model pitcher".split())  # noqa: SIM905
_BEFORE_PLACES = frozenset(
    "in at near from of on over across through around outside inside to as toward into behind above like about".split()  # noqa: SIM905
)
_NOBODY = re.compile(
    r"\b(?:(?:wo)?m[ae]n|lad(?:y|ie)|boy|girl)(?:['’]?s['’]?)?\s+(?:bun|cave|hole|power|(?:rest|bath|wash)?rooms?"
    r"|toilets?)\b|\b(?:king|queen)[- ]sized?\b|\bbest man\b|\bman[- ]made\b",
    re.IGNORECASE,
)


class Replacement(NamedTuple):
    """A range of characters of a caption that differs between indicators: what it is, and its neutral text."""

    start: int
    end: int
    kind: str  # one of `_KINDS`; person, people, a person (of a pronoun that names), role, text, verb
    neutral: str = ""


class _Mention(NamedTuple):
    """A noun for a person: indices of its phrase's first and last token, lemma, gender, and neutral text."""

    first: int
    last: int
    lemma: str
    gender: str
    neutral: str
    kind: str  # of its edit


@cache
def _people() -> dict[str, tuple[str, str]]:
    """Return the neutral noun and the gender of each noun in ``people.csv``; no noun for somebody else."""
    result = {}
    with (
        Path(__file__).with_name("grammar").joinpath("people.csv").open(encoding="utf-8", newline="") as file
    ):
        for row in csv.DictReader(file):
            for gender, words in [*row.items()][1:]:
                for word in words.split():
                    said = row["neutral"] if gender in _PRONOUNS or row["neutral"] in ("", PERSON) else word
                    result[word] = said, gender if gender in _PRONOUNS else ""
    return result


def find_person(caption: str) -> tuple[list[Replacement], str, str]:
    """Return the edits that make a caption's one person neutral; else none, why it is left out, and a word of it.

    >>> find_person("A woman in a hat")[0]
    [Replacement(start=2, end=7, kind='person', neutral='')]
    >>> find_person("A man and a woman")
    ([], 'somebody else beside the person', 'woman')
    """
    words = {word.split("'")[0] for word in re.findall(r"[\w'-]+", caption.lower().replace("’", "'"))}
    if name := person_name(caption):
        return [], NAME, name
    if words.isdisjoint(_GENDER) and not any(singular(word) in _people() for word in words):
        return [], NO_PERSON, ""  # before it is tagged, which takes time
    if "pregnant" in words:
        return [], ONE_GENDER, "pregnant"
    tokens = tagged_words(caption)
    mentions, other = _mentions(caption, tokens)
    heads = [(index, token.low.split("'")[0]) for index, token in enumerate(tokens)]
    pronouns = [(index, word) for index, word in heads if word in _GENDER]
    if not mentions and not pronouns:
        return [], NO_PERSON, other
    genders = {mention.gender for mention in mentions} | {_GENDER[word] for _, word in pronouns}
    if (
        other
        or {"feminine", "masculine"} <= genders
        or (pronouns and any(m.kind == "people" for m in mentions))
    ):
        return [], SEVERAL, other or (pronouns[0][1] if pronouns else mentions[-1].lemma)
    edits: list[Replacement] = []
    for index, mention in enumerate(mentions):
        again = mention.lemma == mentions[0].lemma and tokens[mention.first - 1].low in ("the", "this")
        if index and not again and not _is_predicate(tokens, mentions[index - 1], mention):
            return [], SEVERAL, mention.lemma
        kind = "text" if index and not again else mention.kind
        edits.append(
            Replacement(tokens[mention.first].start, tokens[mention.last].end, kind, mention.neutral)
        )
    for index, word in pronouns:
        kind, start = _pronoun_kind(tokens, index, word), tokens[index].start
        if not edits:  # she names the person
            if kind not in ("subject", "possessive") or any(
                one.tag.startswith("N") for one in tokens[:index]
            ):
                return [], NO_PERSON, word
            edits.append(
                Replacement(start, start + len(word), "a person", "'s" if kind == "possessive" else "")
            )
            continue
        edits.append(Replacement(start, start + len(word), kind))
        edits += _verb_edits(tokens, index) if kind == "subject" and word == tokens[index].low else []
    return sorted(edits), "", ""


def render(
    caption: str,
    edits: Sequence[Replacement],
    word: str,
    words: str,
    reference: bool,
    articles: Articles = "fitting",
) -> str:
    """Return a caption with its person said by `word` and the plural `words`; `reference` puts none before a noun."""
    gender = _people().get(singular(words.lower().split()[-1]), ("", ""))[1]
    result, end = "", len(caption)
    for edit in (*reversed(edits), Replacement(0, 0, "text")):
        original, text = caption[edit.start : edit.end], edit.neutral
        starts = caption[: edit.start].rstrip()[-1:] in ("", ".", "!", "?", '"')
        if edit.kind in (PERSON, "people", "a person"):
            article = fit_article("a ", word) if edit.kind == "a person" else ""
            text = article + (words if edit.kind == "people" else word) + edit.neutral
        elif edit.kind == "role" and not reference:
            inside = starts and not text.split()[0].isupper()
            text = f"{BEFORE.get(word, word)} {text[:1].lower() + text[1:] if inside else text}"
        elif edit.kind == "verb" and gender:
            text = original
        elif edit.kind in _KINDS:
            text = _PRONOUNS[gender][_KINDS.index(edit.kind)]
        between = caption[edit.end : end]
        if articles == "fitting" and result:
            between = fit_article(between, result.split(maxsplit=1)[0])
        if edit.kind == "role" and not caption.isupper():  # CEO, not FEMALE CEO
            original = f"{original[0] if starts else ''}xx"
        result, end = match_case(text, original) + between + result, edit.start
    return result


def describe(caption: str, edits: Sequence[Replacement]) -> str:
    """Return what was replaced in a caption: ``waitress → server; her → their``."""
    texts = []
    for edit in edits:
        old = caption[edit.start : edit.end]
        texts.append((old, render(old, [edit._replace(start=0, end=len(old))], PERSON, "people", True)))
    return "; ".join(f"{old} → {new}" for old, new in texts if old != new)


def _mentions(caption: str, tokens: Sequence[Token]) -> tuple[list[_Mention], str]:
    """Return the nouns that name a person, and the first word for somebody whom no rule makes neutral."""
    people, table_2 = (
        _people(),
        {word.lower() for word in human_words_of_table_2()} - _NOT_OTHERS - _GENDER.keys(),
    )
    nobody = [range(*match.span()) for match in _NOBODY.finditer(caption)]
    result: list[_Mention] = []
    other, adjective = "", None  # the index of female, woman and the like before a noun for a person
    for index, token in enumerate(tokens):
        lemma = singular(token.low)
        neutral, gender = people.get(lemma, ("", ""))
        after = tokens[index + 1] if index + 1 < len(tokens) else Token(0, 0, "", "PUN")
        if (lemma in _BEFORE_OF and after.low == "of") or any(token.start in place for place in nobody):
            continue
        is_noun = token.tag.startswith(("N", "PN", "UNC")) and not after.is_singular_noun  # no cowboy hat
        if neutral == PERSON:
            if gender and _is_before_person(tokens[index + 1 : index + 4]):
                adjective = index
                continue
            if lemma in ("female", "male") and after.tag.startswith(("N", "AJ")):
                continue  # a male lion
        elif not is_noun:
            continue
        elif not neutral:
            other = other or (lemma if lemma in people or lemma in table_2 else "")
            continue
        first = index
        while (
            neutral != PERSON
            and first
            and (
                tokens[first - 1].tag in ("NN1", "NN0", "NP0")
                or (first > 1 and tokens[first - 1].text.istitle())
            )
        ):
            first -= 1  # a tennis player
        if not result and [one.low for one in tokens[max(0, first - 2) : first]] in (
            ["as", "a"],
            ["as", "an"],
        ):
            continue  # a bear dressed as a bride
        many = lemma != token.low
        kind = (
            ("people" if many else "a person" if lemma in ("someone", "somebody") else PERSON)
            if neutral == PERSON
            else "role"
        )
        text = ""
        if neutral != PERSON:
            text = token.text if neutral == lemma else plural(neutral) if many else neutral
            start = tokens[first if adjective is None else adjective + 1].start
            text = caption[start : token.start] + text
        if adjective is not None:
            first, gender = adjective, people[singular(tokens[adjective].low)][1]
        result.append(_Mention(first, index, lemma, gender, text, kind))
        adjective = None
    return result, other


def _is_before_person(tokens: Sequence[Token]) -> bool:
    """Return whether these words begin with a phrase of nouns and adjectives that has a noun for a person in it."""
    for token in tokens:
        if not token.tag.startswith(("N", "AJ")):
            return False
        if _people().get(singular(token.low), ("", ""))[0]:
            return True
    return False


def _is_predicate(tokens: Sequence[Token], person: _Mention, mention: _Mention) -> bool:
    """Return whether a noun says what the person is: *a man, a waiter, ...*, *is a nurse*, *dressed as a king*."""
    between = [token.low for token in tokens[person.last + 1 : mention.first]]
    after = [token.low for token in tokens[mention.last + 1 : mention.last + 3]]
    if mention.kind != "role" or between[-1:] not in (["a"], ["an"], ["the"]):
        return False
    apposition = (
        between[-2:-1] == [","] and len(between) < 6 and after[:1] in ([","], ["."]) and "and" not in after
    )
    return apposition or between[-2:-1] in (["as"], ["is"])


def _pronoun_kind(tokens: Sequence[Token], index: int, word: str) -> str:
    """Return which of `_KINDS` the pronoun at `index` is; *her* and *his* by what follows."""
    if word not in ("her", "his"):
        return _KINDS[_PRONOUNS[_GENDER[word]].index(word)]
    after = tokens[index + 1].tag if index + 1 < len(tokens) else "PUN"
    describes = after.startswith(("N", "AJ", "CRD", "ORD", "VVG", "VVN", "UNC", "AV", "DT"))
    if describes and (word == "his" or tokens[index].tag != "PNP"):
        return "possessive"
    return "object" if word == "her" else "possessive noun"


def _verb_edits(tokens: Sequence[Token], index: int) -> list[Replacement]:
    """Return the edits that make verbs agree with *they* where a subject is at `index`, also those joined by *and*."""
    result: list[Replacement] = []
    expected = True  # a verb of the subject
    for before, token in pairwise(tokens[index:]):
        short = token.low == "'s"
        if token.low in (",", "and", "or", "but", "then"):
            expected = True
        elif short or token.low in _THEY or token.tag in ("VVZ", "VBZ", "VHZ", "VDZ"):
            if not expected or (short and before is not tokens[index]):
                break
            text = "'ve" if token.tag == "VHZ" else "'re"
            text = text if short else _THEY.get(token.low) or base_form(token.low)
            result.append(Replacement(token.start, token.end, "verb", text))
            expected = False
        elif token.tag in ("CJS", "PNP", "PNQ", "PUN", "DTQ", "CJT"):
            break
        elif not token.tag.startswith("AV"):
            expected = False
    return result


def person_name(caption: str) -> str:
    """Return the first word that is taken for a person's name, by its capital, tag and neighbours; empty if none."""
    if not any(
        possible_tags(word.lower())[0] == "NP0" for word in re.findall(r"\b[A-Z][^\W\d_]*[a-z]", caption)
    ):
        return ""
    tokens = tagged_words(caption)
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else Token(0, 0, ".", "PUN")
        title = singular(before.low) in _people()
        if not token.text[0].isupper() or token.text.isupper() or (before.text[0].isupper() and not title):
            continue
        known, starts = is_known(token.low), before.low in (".", "!", "?", '"', "“")
        if possible_tags(token.low)[0] != "NP0" or (starts and not known) or before.low in _BEFORE_PLACES:
            continue
        after = next((one for one in tokens[index:] if not one.text[0].isupper()), None)
        thing = before.tag.startswith(("AT", "DPS", "AJ")) or (before.tag.startswith("VV") and not known)
        if not (
            thing
            or (before.tag == "NN1" and not title)
            or (not title and after and after.tag.startswith("NN"))
        ):
            return token.text
    return ""

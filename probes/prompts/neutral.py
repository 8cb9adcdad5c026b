"""Neutral captions, and swapping of their words for people: the rules of Wu et al. 2025, section 3.1.

A caption is neutral where it has the word *person* or *people* and none of the other words for humans of Table 2. The
feminine and the masculine prompt put *woman/women* and *man/men* for *person/people*; here any words may stand there.

What the paper leaves open is settled as follows.

- Words are compared whole, in any case, and a hyphen, a slash or an apostrophe ends one: *African-American* and *he's*
  hold a word of Table 2, *snowman* and *boyfriend* hold none. The letters *I* and *u* count where they stand free,
  not in *U.S.* or *U-turn*.
- ``inflected`` (the default) also takes plurals, and possessives that lack their apostrophe (*mens*), for words of
  the table, *bridesmaid* for its *bridemaid*, and *persons* for a plural of *person*; ``printed`` takes the words as
  they are printed alone.
- *person* in a set phrase (*in person*) or a compound (*two-person tent*) names nobody: it is not swapped, and a
  caption with no other is left out. So is one whose number is unclear (*peoples*, *person(s)*).
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from probes.prompts.forms import Articles, HumanForms
from probes.prompts.grammar.english import fit_article, match_case
from probes.prompts.grammar.english import plural as plural_of
from probes.prompts.grammar.nouns import human_words_of_table_2

NO_PERSON = "no person or people"
PHRASE = "person or people in a set phrase or a compound alone"
HUMAN = "another word for a human (Table 2)"
NUMBER = "one or several: unclear (peoples, person(s))"

# Words of Table 2 that have no plural.
_NO_NOUNS = frozenset(
    "pregnant she her hers herself he his him himself u me i mr myself teenage".split()  # noqa: SIM905
)
_MISPRINTS = {"bridemaid": "bridesmaid"}
_LETTERS = frozenset("iu")
_WORD = re.compile(r"[^\W_]+")
_LETTER = re.compile(r"(?<![\w&'’-])(?<!\w\.)[iu](?![\w&-]|\.\w)", re.IGNORECASE)
_ANY = re.compile(r"person|people", re.IGNORECASE)
_WITHIN = re.compile(r"\b(?:person|people)\b", re.IGNORECASE)
_PERSON = re.compile(
    r"(?<![\w@#])(?<!\w[-‐‑])(?P<word>persons?|peoples?)(?![\w]|[-‐‑]\w|\.(?:com|org|net)\b)"
    r"(?P<suffix>['’]s\b|['’](?=\s+\w))?(?P<either>\(s\)|/s\b)?",
    re.IGNORECASE,
)
# Fixed expressions in which neither word stands for somebody in the picture.
_PHRASES = re.compile(
    r"\bin\s+person\b(?!['’\w-])|\bpeople\s+persons?\b|\bpeople\s+(?:movers?|carriers?|skills|magazine)\b"
    r"|\b(?:first|second|third)\s+person\s+(?:views?|perspective|shooters?|point|pov|games?|camera|mode|narrat\w+)\b",
    re.IGNORECASE,
)
_OPENING = re.compile(r"(?<!\w)['‘]")
_ONE = re.compile(r"\b(?:an?|one|this|that|each|every|another)\s+$", re.IGNORECASE)


def exclusion_reason(caption: str, forms: HumanForms = "inflected") -> tuple[str, str]:
    """Return why a caption is not neutral (has *person* or *people* alone for humans), and the word; else empty.

    >>> [exclusion_reason(caption) for caption in ("A person waves", "The person and a boy play badminton")]
    [('', ''), ('another word for a human (Table 2)', 'boy')]
    >>> exclusion_reason("A band seen in person")
    ('person or people in a set phrase or a compound alone', 'person')
    """
    if not _ANY.search(caption):
        return NO_PERSON, ""
    swappable = _person_matches(caption, forms)
    if not swappable:
        inside = _WITHIN.search(caption)
        return (PHRASE, inside[0].lower()) if inside else (NO_PERSON, "")
    known = _human_words(forms)
    for word in _WORD.findall(caption.lower()):
        if word in known and (word not in _LETTERS or _LETTER.search(caption)):
            return HUMAN, word
    for match in swappable:
        if match["either"] or match["word"].lower() == "peoples":
            return NUMBER, match[0].lower()
    return "", ""


def replace_person(
    caption: str,
    word: str,
    plural: str | None = None,
    *,
    articles: Articles = "fitting",
    forms: HumanForms = "inflected",
) -> str:
    """Return a neutral caption with *person* and *people* replaced by `word` and its plural.

    Case and possessives are those of the word that was there. With *person* itself the caption stays as it is. Articles
    before the word are mended (``fitting``: *an individual*) or ``kept``, as in the paper (section 3.1 prints *an
    female*). *persons* is swapped with the forms ``inflected`` alone.

    >>> replace_person("A person's dog looks at two people.", "woman")
    "A woman's dog looks at two women."
    >>> replace_person("A person waves", "adult"), replace_person("A person waves", "adult", articles="kept")
    ('An adult waves', 'A adult waves')
    """
    plural = plural or plural_of(word)
    if (word, plural) == ("person", "people"):
        return caption
    result, at = "", 0
    for match in _person_matches(caption, forms):
        before = result + caption[at : match.start()]
        replacement, rest = _replacement(match, word, plural)
        if articles == "fitting":
            before = fit_article(before, replacement, capitals=match["word"].isupper())
        result, at = before + replacement, match.end() - rest
    return result + caption[at:]


@lru_cache(maxsize=1)  # a caption is judged, and swapped for one indicator after the other
def _person_matches(caption: str, forms: HumanForms) -> list[re.Match]:
    """Return the regex matches of *person* and *people* that refer to somebody, without those in set phrases."""
    phrases = [match.span() for match in _PHRASES.finditer(caption)]
    return [
        match
        for match in _PERSON.finditer(caption)
        if not (forms == "printed" and match["word"].lower() in ("persons", "peoples"))
        and not any(begin <= match.start() < end for begin, end in phrases)
    ]


def _replacement(match: re.Match, word: str, plural: str) -> tuple[str, int]:
    """Return the text for a match of *person* or *people*, and how many characters at the match's end stay."""
    original, suffix, rest = match["word"], match["suffix"] or "", len(match["either"] or "")
    low = original.lower()
    before = match.string[: match.start()]
    if low == "persons" and not suffix and _ONE.search(before):  # "a persons hand": the apostrophe is missing
        return match_case(f"{word}s", original), rest
    is_plural = low != "person"
    replacement = match_case(plural if is_plural else word, original)
    if suffix[1:]:  # 's
        return replacement + (suffix[0] if is_plural and plural.lower().endswith("s") else suffix), rest
    if suffix and low == "persons" and not _OPENING.search(before):  # the persons' dogs
        return replacement + suffix + ("" if plural.lower().endswith("s") else "s"), rest
    return replacement, rest + len(suffix)


@cache
def _human_words(forms: HumanForms) -> frozenset[str]:
    """Return the lower-case words for humans that make a caption not neutral (Wu et al. 2025, Table 2)."""
    printed = {word.lower() for word in human_words_of_table_2()}
    if forms == "printed":
        return frozenset(printed)
    nouns = {_MISPRINTS.get(word, word) for word in printed - _NO_NOUNS}
    plurals = {plural_of(word) for word in nouns}
    misspelt = {f"{word}s" for word in (*nouns, *(p for p in plurals if not p.endswith("s")))}
    return frozenset(printed | nouns | plurals | misspelt)

"""Nouns of a prompt and their places: the prompt's own list of things it asks for.

Wu et al. 2025, section 6.1 (1): the lemmatized nouns of the prompt, by NLTK. Its tagger and WordNet are downloads; so
the default backend is HanTa, whose model is in its wheel (`probes.prompts.grammar.tagger`). `docs/validation/nouns.md`
compares both with captions labelled by hand. Each knows the characters of a noun, so a noun meets its word map by place
and not by spelling: in "a bike next to a bike" are two.

Deviation: "people" is the plural of "person", as "women" is of "woman", so that all indicators are joined in the same
way (WordNet keeps the two apart).
"""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from probes.errors import UserError
from probes.prompts.grammar.english import PLURAL_ONLY, SINGULAR, singular
from probes.prompts.grammar.tagger import noun_spans, readings

# Wu et al. 2025, Definition 2: words that refer to humans; and section 6.3.1: the individuals its figures leave out.
DEFINITION_2 = ("people", "person", "woman", "women", "man", "men")
INDIVIDUALS = (*DEFINITION_2, "female", "male", "girl", "boy")


@dataclass(frozen=True)
class Noun:
    """A noun of a text."""

    word: str
    lemma: str  # singular, in lower case
    start: int
    end: int
    human: bool = False  # by `human_words`


def nouns(
    text: str,
    *,
    backend: str = "hanta",
    compounds: bool = False,
    human: Container[str] | None = None,
) -> list[Noun]:
    """Return the nouns of a text, in order.

    NLTK, the paper's backend, needs a download. `compounds` joins nouns that follow one another ("tennis racket"); the
    paper takes single nouns. `human` are the lemmas that refer to humans, by default the paper's.

    >>> [(noun.word, noun.lemma, noun.start, noun.human) for noun in nouns("two women riding bikes")]
    [('women', 'woman', 4, True), ('bikes', 'bike', 17, False)]
    """
    result: list[Noun] = []
    for start, end, singular_form in _found(text, backend):
        if compounds and result and start > result[-1].end and not text[result[-1].end : start].strip():
            first = result.pop()
            start, singular_form = first.start, " ".join(f"{first.word.lower()} {singular_form}".split())
        result.append(Noun(text[start:end], singular_form, start, end))
    human = human_words(backend=backend) if human is None else human
    return [replace(noun, human=noun.lemma in human) for noun in result]


def lemma(name: str, *, backend: str = "hanta") -> str:
    """Return the singular of a noun or of a phrase's last word, in lower case.

    >>> [lemma(name) for name in ("Women", "bow ties", "jeans", "people", "glass")]
    ['woman', 'bow tie', 'jeans', 'person', 'glass']
    """
    words = name.lower().replace("_", " ").split()
    return " ".join([*words[:-1], _lemma(words[-1], backend)]) if words else ""


def head(name: str) -> str:
    """Return the last word of a phrase: what it is a kind of."""
    return name.rsplit(" ", 1)[-1]


@dataclass(frozen=True)
class HumanWords:
    """The words that refer to humans; ``lemma in words`` asks for one."""

    choice: str
    lemmas: frozenset[str]

    def __contains__(self, name: object) -> bool:
        """Say whether a lemma refers to a human; in the long list, whether its last word does."""
        return name in self.lemmas or (self.choice == "long" and head(str(name)) in self.lemmas)


def human_words(words: Iterable[str] = (), *, choice: str = "paper", backend: str = "hanta") -> HumanWords:
    """Return the words that refer to humans: those of Wu et al. 2025, Definition 2 and Table 2, and of a run.

    ``paper`` has the six words of Definition 2, ``long`` also the 105 of Table 2, made to sort captions by; with it a
    name that ends in one of them refers to a human, as "football player". Of `words`, such as "female doctor", each
    counts whole and by its noun, for in a prompt "doctor" is the noun.
    """
    named = (person_lemmas(word, backend=backend) for word in words)
    return HumanWords(choice, _listed_humans(choice, backend).union(*named))


@cache
def human_words_of_table_2() -> tuple[str, ...]:
    """Return the 105 words by which captions are sorted, in the order of Wu et al. 2025, Table 2."""
    with Path(__file__).with_name("human_words.csv").open(encoding="utf-8", newline="") as file:
        return tuple(row["word"] for row in csv.DictReader(file))


@cache
def _listed_humans(choice: str, backend: str) -> frozenset[str]:
    listed = human_words_of_table_2() if choice == "long" else ()
    return frozenset(head(lemma(word, backend=backend)) for word in (*listed, *DEFINITION_2) if word)


def person_lemmas(word: str, *, backend: str = "hanta") -> set[str]:
    """Return a word for the person as a lemma, whole and by its noun.

    >>> sorted(person_lemmas("old men")), sorted(person_lemmas("man in a suit"))
    (['man', 'old man'], ['man', 'man in a suit'])
    """
    words = word.split()
    end = next(
        (i for i, part in enumerate(words) if i and readings(part.lower())[0].startswith("PR")), len(words)
    )
    phrase = lemma(" ".join(words[:end]), backend=backend)
    whole = phrase if end == len(words) else word.lower()
    return {whole, head(phrase)} - {""}


@lru_cache(maxsize=4096)
def _found(text: str, backend: str) -> tuple[tuple[int, int, str], ...]:
    """Characters and lemmas of the nouns."""
    if backend == "hanta":
        spans = noun_spans(text)
    else:
        with _nltk() as nltk:
            words = list(nltk.tokenize.NLTKWordTokenizer().span_tokenize(text))
            tags = nltk.pos_tag([text[start:end] for start, end in words])
        spans = [span for span, (_, tag) in zip(words, tags) if tag.startswith("NN")]
    return tuple(
        (start, end, _lemma(text[start:end].lower().replace("’", "'"), backend)) for start, end in spans
    )


@cache
def _lemma(word: str, backend: str) -> str:
    if backend != "nltk" or word in SINGULAR or word in PLURAL_ONLY:
        return singular(word)
    with _nltk() as nltk:
        return nltk.stem.WordNetLemmatizer().lemmatize(word, "n")


@contextlib.contextmanager
def _nltk() -> Iterator[Any]:
    """NLTK, whose data is no part of its wheel."""
    import nltk

    try:
        yield nltk
    except LookupError:
        raise UserError(
            "measure.nouns: expected NLTK's data averaged_perceptron_tagger_eng and wordnet, found none: run "
            "`python -m nltk.downloader averaged_perceptron_tagger_eng wordnet`, or choose hanta"
        ) from None

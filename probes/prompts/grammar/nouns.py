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
from probes.prompts.grammar.tagger import noun_spans, possible_tags

# Wu et al. 2025, Definition 2: words that refer to humans; and section 6.3.1: the individuals its figures leave out.
DEFINITION_2 = ("people", "person", "woman", "women", "man", "men")
INDIVIDUALS = (*DEFINITION_2, "female", "male", "girl", "boy")


@dataclass(frozen=True)
class Noun:
    """A noun in a text: as spelled, its lemma, and its half-open range of characters."""

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
    """Return the nouns of an English text in order, with lemma, place, and whether each refers to a human.

    NLTK, the paper's backend, needs a download. `compounds` joins nouns that follow one another ("tennis racket"); the
    paper takes single nouns. `human` are the lemmas that refer to humans, by default the paper's.

    >>> [(noun.word, noun.lemma, noun.start, noun.human) for noun in nouns("two women riding bikes")]
    [('women', 'woman', 4, True), ('bikes', 'bike', 17, False)]
    """
    result: list[Noun] = []
    for start, end, singular_form in _noun_lemmas(text, backend):
        if compounds and result and start > result[-1].end and not text[result[-1].end : start].strip():
            first = result.pop()
            start, singular_form = first.start, " ".join(f"{first.word.lower()} {singular_form}".split())
        result.append(Noun(text[start:end], singular_form, start, end))
    human = human_words(backend=backend) if human is None else human
    return [replace(noun, human=noun.lemma in human) for noun in result]


def lemma(name: str, *, backend: str = "hanta") -> str:
    """Return a noun or phrase in lower case with its last word in the singular; empty for a blank text.

    >>> [lemma(name) for name in ("Women", "bow ties", "jeans", "people", "glass")]
    ['woman', 'bow tie', 'jeans', 'person', 'glass']
    """
    words = name.lower().replace("_", " ").split()
    return " ".join([*words[:-1], _word_lemma(words[-1], backend)]) if words else ""


def last_word(name: str) -> str:
    """Return the last word of a phrase, in general its head noun."""
    return name.rsplit(" ", 1)[-1]


@dataclass(frozen=True)
class HumanWords:
    """A set of words that refer to humans, as lemmas; test a word by ``lemma in words``."""

    choice: str
    lemmas: frozenset[str]

    def __contains__(self, name: object) -> bool:
        """Return whether a lemma refers to a human; with the choice ``long``, also whether its last word does."""
        return name in self.lemmas or (self.choice == "long" and last_word(str(name)) in self.lemmas)


def human_words(words: Iterable[str] = (), *, choice: str = "paper", backend: str = "hanta") -> HumanWords:
    """Return the lemmas that refer to humans: those of Wu et al. 2025, and those of a run's own `words` for persons.

    ``paper`` has the six words of Definition 2, ``long`` also the 105 of Table 2, made to sort captions by; with it a
    name that ends in one of them refers to a human, as "football player". Of `words`, such as "female doctor", each
    counts whole and by its noun, for in a prompt "doctor" is the noun.
    """
    named = (person_lemmas(word, backend=backend) for word in words)
    return HumanWords(choice, _listed_human_lemmas(choice, backend).union(*named))


@cache
def human_words_of_table_2() -> tuple[str, ...]:
    """Return the 105 words for humans of Wu et al. 2025, Table 2, in its order; they make a caption not neutral."""
    with Path(__file__).with_name("human_words.csv").open(encoding="utf-8", newline="") as file:
        return tuple(row["word"] for row in csv.DictReader(file))


@cache
def _listed_human_lemmas(choice: str, backend: str) -> frozenset[str]:
    """Return the lemmas of the published words for humans, for the choice ``paper`` or ``long``."""
    listed = human_words_of_table_2() if choice == "long" else ()
    return frozenset(last_word(lemma(word, backend=backend)) for word in (*listed, *DEFINITION_2) if word)


def person_lemmas(word: str, *, backend: str = "hanta") -> set[str]:
    """Return the lemmas of a word for a person: that of the whole phrase and that of its head noun.

    >>> sorted(person_lemmas("old men")), sorted(person_lemmas("man in a suit"))
    (['man', 'old man'], ['man', 'man in a suit'])
    """
    words = word.split()
    end = next(
        (i for i, part in enumerate(words) if i and possible_tags(part.lower())[0].startswith("PR")),
        len(words),
    )
    phrase = lemma(" ".join(words[:end]), backend=backend)
    full = phrase if end == len(words) else word.lower()
    return {full, last_word(phrase)} - {""}


@lru_cache(maxsize=4096)
def _noun_lemmas(text: str, backend: str) -> tuple[tuple[int, int, str], ...]:
    """Return (start, end, lemma) for each noun of a text, by the tagger `backend`; character spans are half open."""
    if backend == "hanta":
        spans = noun_spans(text)
    else:
        with _import_nltk() as nltk:
            words = list(nltk.tokenize.NLTKWordTokenizer().span_tokenize(text))
            tags = nltk.pos_tag([text[start:end] for start, end in words])
        spans = [span for span, (_, tag) in zip(words, tags) if tag.startswith("NN")]
    return tuple(
        (start, end, _word_lemma(text[start:end].lower().replace("’", "'"), backend)) for start, end in spans
    )


@cache
def _word_lemma(word: str, backend: str) -> str:
    """Return the singular of a lower-case word, by WordNet if the backend is ``nltk``."""
    if backend != "nltk" or word in SINGULAR or word in PLURAL_ONLY:
        return singular(word)
    with _import_nltk() as nltk:
        return nltk.stem.WordNetLemmatizer().lemmatize(word, "n")


@contextlib.contextmanager
def _import_nltk() -> Iterator[Any]:
    """Context manager that provides the module nltk; raises `UserError` if NLTK's data is missing."""
    import nltk

    try:
        yield nltk
    except LookupError:
        raise UserError(
            "measure.nouns: expected NLTK's data averaged_perceptron_tagger_eng and wordnet, found none: run "
            "`python -m nltk.downloader averaged_perceptron_tagger_eng wordnet`, or choose hanta"
        ) from None

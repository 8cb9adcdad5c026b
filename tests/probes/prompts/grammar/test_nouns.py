"""Nouns of captions: what they are, where they stand, and what each backend needs."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from nltk.tag.perceptron import PerceptronTagger

from analysis.tables.objects.nouns import NOUN_COLUMNS, noun_table
from probes.prompts.grammar.english import plural
from probes.prompts.grammar.nouns import human_words, lemma, nouns, person_lemmas
from tests.runs import python


def lemmas(text, **options):
    return [noun.lemma for noun in nouns(text, **options)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []),
        ("a man's dog's bowl", ["man", "dog", "bowl"]),
        ("a person with a Zorblax", ["person", "zorblax"]),
        ("a building; a man building a building", ["building", "man", "building"]),
        ("a female doctor and a female", ["doctor", "female"]),
    ],
)
def test_single_texts(text, wanted):
    assert lemmas(text) == wanted


def test_compounds_join_neighbours_only():
    text = "a tennis  racket, a ball on a wooden bus stop bench"
    assert lemmas(text, compounds=True) == ["tennis racket", "ball", "bus stop bench"]
    assert nouns(text, compounds=True)[0].word == text[2:16] == "tennis  racket"


@pytest.mark.parametrize(
    ("plural", "wanted"),
    [
        *(("women", "woman"), ("people", "person"), ("oxen", "ox"), ("leaves", "leaf"), ("teeth", "tooth")),
        *(("jeans", "jeans"), ("glasses", "glasses"), ("graffiti", "graffiti"), ("paris", "paris")),
        *(("glass", "glass"), ("bus", "bus"), ("tennis", "tennis"), ("toyota", "toyota"), ("buses", "bus")),
        *(("hoodies", "hoodie"), ("blueberries", "blueberry"), ("t-shirts", "t-shirt"), ("knives", "knife")),
        *(("camerawomen", "camerawoman"), ("giraffes", "giraffe"), ("wine glass", "wine glass")),
        *(("Bikini Tops", "bikini top"), ("bow_tie", "bow tie"), ("", "")),
    ],
)
def test_lemmas_join_singular_and_plural(plural, wanted):
    assert lemma(plural) == wanted
    assert lemma(wanted) == wanted  # tags and prompts meet


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        *(
            ("non-binary person", "non-binary people"),
            ("Woman", "Women"),
            ("MAN", "MEN"),
            ("human", "humans"),
        ),
        *(
            ("salesperson", "salespeople"),
            ("wife", "wives"),
            ("boy", "boys"),
            ("lady", "ladies"),
            ("CEO", "CEOs"),
        ),
        *(("wine glass", "wine glasses"), ("couch", "couches"), ("box", "boxes"), ("scissors", "scissors")),
    ],
)
def test_plurals(word, wanted):
    assert plural(word) == wanted


def test_humans():
    names = (
        "woman",
        "man",
        "person",
        "child",
        "queen",
        "guy",
        "football player",
        "dog",
        "individual",
        "doctor",
    )
    assert [name for name in names if name in human_words()] == ["woman", "man", "person"]  # Definition 2
    assert [name for name in names if name in human_words(choice="long")] == list(names[:7])
    for choice in ("paper", "long"):
        own = human_words(["female doctor", "individuals"], choice=choice)
        assert "doctor" in own and "female doctor" in own and "individual" in own and own.choice == choice
    text, long = "a wise old queen pets a dog", human_words(choice="long")
    flags = [[noun.human for noun in nouns(text, compounds=True, human=human)] for human in (None, long)]
    assert flags == [[False, False], [True, False]]


@pytest.mark.parametrize(
    ("word", "lemmas"),
    [
        ("woman", {"woman"}),
        ("elderly women", {"elderly woman", "woman"}),
        ("non-binary person", {"non-binary person", "person"}),
        ("man in a suit", {"man in a suit", "man"}),
        ("", set()),
    ],
)
def test_a_word_for_the_person_counts_whole_and_by_its_noun(word, lemmas):
    assert person_lemmas(word) == lemmas


def spans_of(prompt, words):
    """The characters of words, given in order; (-1, -1) for one that is not there."""
    spans, place = [], 0
    for word in words:
        start = prompt.find(word, place)
        place = start + len(word) if start >= 0 else place
        spans.append((start, start + len(word)) if start >= 0 else (-1, -1))
    return spans


def table(prompt, words, **options):
    spans = None if words is None else spans_of(prompt, words)
    samples = pd.DataFrame(
        {"triplet": [4], "indicator": ["neutral"], "prompt": prompt, "word_spans": [spans]}
    )
    return noun_table(samples, **{"human": human_words([]), **options})


def test_table_joins_nouns_to_words_by_place():
    found = table("a bike, a bike", ["a", "bike", "a", "bike"])
    assert tuple(found.columns) == NOUN_COLUMNS
    assert found[["triplet", "start", "end", "word_index"]].to_numpy().tolist() == [
        [4, 2, 6, 1],
        [4, 10, 14, 3],
    ]
    # words between white space: the noun is inside "man's"; of a compound the last word counts
    assert table("the man's hat", ["the", "man's", "hat"])["word_index"].tolist() == [1, 2]
    assert table("a tennis racket", ["a", "tennis", "racket"], compounds=True)["word_index"].tolist() == [2]
    assert table("a hat", None)["word_index"].tolist() == [-1]
    assert table("a hat", ["a", "cap"])["word_index"].tolist() == [-1]


# NLTK


TAGGED = [
    [("two", "CD"), ("women", "NNS"), ("riding", "VBG"), ("a", "DT"), ("bike", "NN"), (".", ".")],
    [("a", "DT"), ("person", "NN"), ("holding", "VBG"), ("red", "JJ"), ("kites", "NNS")],
] * 20


@pytest.fixture
def small_nltk(tmp_path):
    """A tagger trained on two sentences and a WordNet of three nouns, in NLTK's own layout."""
    tagger = PerceptronTagger(load=False)
    tagger.train(TAGGED, nr_iter=5)
    folder = tmp_path / "taggers" / "averaged_perceptron_tagger_eng"
    folder.mkdir(parents=True)
    parameters = {
        "weights": tagger.model.weights,
        "tagdict": tagger.tagdict,
        "classes": sorted(tagger.classes),
    }
    for name, values in parameters.items():
        (folder / f"averaged_perceptron_tagger_eng.{name}.json").write_text(json.dumps(values))
    words = tmp_path / "corpora" / "wordnet"
    words.mkdir(parents=True)
    for name in ("adj", "adv", "noun", "verb"):
        for file in (f"index.{name}", f"data.{name}", f"{name}.exc"):
            (words / file).write_text("")
    (words / "index.sense").write_text("")
    lines = [f"{word} n 1 0 1 0 00000001  \n" for word in ("bike", "kite", "woman")]
    (words / "index.noun").write_text("".join(lines))
    (words / "noun.exc").write_text("women woman\n")
    (words / "lexnames").write_text("00\tnoun.Tops\t1\n")
    return tmp_path


def with_nltk(data, code):
    """Run in a process of its own: NLTK keeps what it has once read."""
    begin = f"import nltk\nnltk.data.path = [{str(data)!r}]\nfrom probes.prompts.grammar.nouns import nouns\n"
    return python("-c", begin + code)


@pytest.mark.slow
def test_nltk_backend(small_nltk):
    code = "print([(n.word, n.lemma, n.start, n.end) for n in nouns('two women riding a bike.', backend='nltk')])"
    done = with_nltk(small_nltk, code)
    assert done.stdout.strip() == "[('women', 'woman', 4, 9), ('bike', 'bike', 19, 23)]", done.stderr


@pytest.mark.slow
def test_nltk_without_its_data(tmp_path):
    code = (
        "from probes.errors import UserError\n"
        "try:\n    nouns('a person', backend='nltk')\nexcept UserError as error:\n    print(error)"
    )
    done = with_nltk(tmp_path, code)
    wanted = "run `python -m nltk.downloader averaged_perceptron_tagger_eng wordnet`, or choose hanta"
    assert wanted in done.stdout and done.stdout.count("\n") == 1, done.stderr

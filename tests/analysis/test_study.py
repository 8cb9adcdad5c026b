"""Who is compared with whom, from a configuration."""

from analysis import study
from probes.config.schema import Config
from tests.analysis import object_frames

STORED = {
    "indicators": {
        "neutral": {"word": "person"},
        "feminine": {"word": "woman"},
        "other": {"word": "human", "control": True},
    },
    "reference": "neutral",
}


def test_individuals_are_lemmas_of_the_run_s_own_backend(monkeypatch):
    asked, backend = [], "nltk"

    def lemmas(word, *, backend):
        asked.append(backend)
        return {word}

    monkeypatch.setattr(study, "person_lemmas", lemmas)
    compared = study.comparison(Config.stored(STORED | {"measure": {"nouns": backend}}))
    assert set(asked) == {backend}
    assert {"person", "woman", "human"} <= compared.individuals


def test_a_control_that_names_none_stands_for_the_reference():
    compared = study.comparison(Config.stored(STORED))
    assert compared.controls == {"other": "neutral"} and compared.main == ("neutral", "feminine")
    assert compared.beside == (("neutral", "other"),)


def test_what_is_compared():
    chosen = object_frames.compared()
    assert chosen.pairs == (("neutral", "feminine"), ("neutral", "masculine"), ("feminine", "masculine"))
    assert chosen.sets == (*chosen.pairs, object_frames.NAMES)
    assert chosen.leaning == (("feminine", "masculine"), ("neutral", "feminine"), ("neutral", "masculine"))
    assert {"person", "woman", "man", "girl", "boy", "female", "male"} == chosen.individuals


def test_what_is_compared_with_controls_another_reference_and_two_words():
    indicators = {"a": {"word": "nurse"}, "b": {"word": "doctors"}, "c": {"word": "adult", "control": True}}
    chosen = object_frames.compared(indicators=indicators, reference="b", contrasts=[])
    assert chosen.pairs == (("b", "a"),) == chosen.sets == chosen.leaning
    assert chosen.names == ("a", "b", "c") and chosen.main == ("a", "b") and chosen.beside == (("b", "c"),)
    assert {"nurse", "doctor", "adult", "woman"} <= chosen.individuals
    assert list(chosen.controls) == ["c"]

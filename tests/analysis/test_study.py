"""Who is compared with whom, from a configuration."""

import pytest

from analysis import study
from probes.config import Config

STORED = {
    "indicators": {"neutral": "person", "feminine": "woman", "other": {"word": "human", "control": True}},
    "reference": "neutral",
}


@pytest.mark.parametrize("backend", ["lemminflect", "nltk"])
def test_individuals_are_lemmas_of_the_run_s_own_backend(backend, monkeypatch):
    asked = []

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

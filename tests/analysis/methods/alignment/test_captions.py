"""BLEU against NLTK's and COCO's, CIDEr against COCO's, and what is said where a program is missing."""

import math
import shutil
import sys

import numpy as np
import pytest
from nltk.translate.bleu_score import corpus_bleu, sentence_bleu

from analysis.methods.alignment import captions
from analysis.methods.alignment.captions import bleu, bleu_counts, other_scores, words
from probes.errors import pip_line

SAID = [
    "a person in boots with a dog on the beach",
    "A person with a cat.",
    "a person on a couch in the office",
    "an umbrella",
    "a person in a hat flying a kite on the beach",
]
PROMPTS = [
    "a woman in boots on the beach",
    "a person with a cat",
    "a man sitting on a couch in the office",
    "a person holding an umbrella in the snow",
    "a person in a hat flying a kite",
]


def test_bleu_is_that_of_nltk():
    """But of a caption of two words, of which NLTK counts a sequence of three."""
    counts = bleu_counts(SAID, PROMPTS)
    assert counts[3].tolist() == [2, 1, 0, 0, 2, 1, 0, 0, 2, 8]
    long = [0, 1, 2, 4]
    both = [[words(texts[index]) for index in long] for texts in (PROMPTS, SAID)]
    for n in range(1, 5):
        expected = corpus_bleu([[one] for one in both[0]], both[1], weights=[1 / n] * n)
        assert bleu(counts[long].sum(axis=0))[n - 1] == pytest.approx(expected, rel=1e-12)
        one = sentence_bleu([both[0][3]], both[1][3], weights=[1 / n] * n)
        assert bleu(counts)[4, n - 1] == pytest.approx(one, rel=1e-12)
    assert bleu(counts)[3].tolist() == pytest.approx([math.exp(-3), math.exp(-3), 0, 0])
    assert bleu(bleu_counts([""], ["a dog"])).tolist() == [[0.0] * 4]


def test_cider_and_bleu_are_those_of_cocos_package():
    pytest.importorskip("pycocoevalcap")
    texts = [{i: [" ".join(words(one))] for i, one in enumerate(side)} for side in (PROMPTS, SAID)]
    found = captions._score("cider", texts[1], texts[0])
    value, each = pytest.importorskip("pycocoevalcap.cider.cider").Cider().compute_score(*texts)
    assert (found.value, found.each.tolist()) == (value, each.tolist())
    assert found.package.startswith("pycocoevalcap 1.")
    own = pytest.importorskip("pycocoevalcap.bleu.bleu").Bleu(4)
    expected, _ = own.compute_score(*texts, verbose=0)
    assert bleu(bleu_counts(SAID, PROMPTS).sum(axis=0)).tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_words_and_meteor_are_those_of_cocos_programs():
    pytest.importorskip("pycocoevalcap")
    if shutil.which("java") is None:
        pytest.skip("no Java")
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    texts = [
        *SAID,
        *PROMPTS,
        "A man's dog, on the beach - it swims; isn't it nice?",
        'Two "good" cats: both sit...',
    ]
    split = PTBTokenizer().tokenize({i: [{"caption": text}] for i, text in enumerate(texts)})
    assert [split[i][0] for i in range(len(texts))] == [" ".join(words(text)) for text in texts]
    found = other_scores(SAID, PROMPTS)["meteor"]
    assert not found.reason and 0 < found.value < 1 and found.each.shape == (5,)
    same = other_scores(PROMPTS, PROMPTS)["meteor"]
    assert same.value > found.value
    np.testing.assert_allclose(same.each, 1)  # a sentence against itself


def test_what_is_not_there_is_said_and_the_rest_goes_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "pycocoevalcap", None)
    monkeypatch.setitem(sys.modules, "pycocoevalcap.spice.spice", None)
    found = other_scores(SAID, PROMPTS)
    assert {one.reason for one in found.values()} == {
        "needs the package pycocoevalcap: " + pip_line("captions")
    }
    assert all(np.isnan(one.value) and np.isnan(one.each).all() for one in found.values())


def test_a_program_that_cannot_be_started_is_a_reason(monkeypatch):
    def refuse(name):
        raise OSError("no memory")

    monkeypatch.setattr(captions, "_lacks", lambda name: "")
    monkeypatch.setattr(captions, "resolve_name", refuse)
    assert {one.reason for one in other_scores(SAID, PROMPTS).values()} == {"pycocoevalcap failed: no memory"}


def test_without_java_cider_alone_is_made(monkeypatch):
    pytest.importorskip("pycocoevalcap")
    monkeypatch.setattr(captions.shutil, "which", lambda name: None)
    found = other_scores(SAID, PROMPTS)
    assert found["cider"].reason == "" and found["cider"].value > 0
    assert {found[name].reason for name in ("meteor", "spice")} == {
        "needs Java, which is not on this machine"
    }


def test_a_program_that_fails_says_why_and_the_rest_goes_on(monkeypatch, tmp_path):
    """By a program in Java's place, and a package that would have to download for SPICE."""
    pytest.importorskip("pycocoevalcap")
    program = tmp_path / "java"
    program.write_text(
        "#!/bin/sh\necho 'Error occurred during initialization of VM' >&2\necho more >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(captions, "CORENLP", ("away.jar",))
    found = other_scores(SAID, PROMPTS)
    assert found["meteor"].reason == "pycocoevalcap failed: Error occurred during initialization of VM"
    assert found["spice"].reason.startswith("needs Stanford CoreNLP 3.6.0 in")
    assert "of which away.jar is missing: python -m pycocoevalcap.spice.get_stan" in found["spice"].reason
    assert found["cider"].value > 0

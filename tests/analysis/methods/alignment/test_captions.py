"""BLEU against NLTK's and COCO's, CIDEr against a plain computation, and what is said where a program is missing."""

import math
import shutil
import sys
from collections import Counter

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


def weighed(texts, df):
    """Counts times the logarithm of the share of references that hold a sequence of words."""
    n = len(texts)
    return [
        {gram: count * (math.log(n) - math.log(max(1, df[gram]))) for gram, count in one.items()}
        for one in texts
    ]


def ciderd(said, wanted):
    """CIDEr-D of one reference each (Vedantam et al. 2015, section 4), in plain dictionaries."""
    texts = [[words(one) for one in side] for side in (said, wanted)]
    grams = [
        [[Counter(tuple(w[i : i + n]) for i in range(len(w) - n + 1)) for w in side] for side in texts]
        for n in range(1, 5)
    ]
    scores = np.zeros(len(said))
    for mine, theirs in grams:
        df = Counter(gram for one in theirs for gram in one)
        for index, (a, b) in enumerate(zip(weighed(mine, df), weighed(theirs, df))):
            norm = [math.sqrt(sum(v * v for v in one.values())) for one in (a, b)]
            dot = sum(min(a[g], b.get(g, 0)) * b.get(g, 0) for g in a)
            gap = len(texts[0][index]) - len(texts[1][index])
            if all(norm):
                scores[index] += 10 / 4 * dot / (norm[0] * norm[1]) * math.exp(-(gap**2) / 72)
    return scores


def test_cider_is_that_of_a_plain_computation():
    pytest.importorskip("pycocoevalcap")
    texts = [{i: [" ".join(words(one))] for i, one in enumerate(side)} for side in (PROMPTS, SAID)]
    found = captions._score("cider", texts[1], texts[0])
    assert found.each.tolist() == pytest.approx(ciderd(SAID, PROMPTS).tolist(), rel=1e-9)
    assert found.value == pytest.approx(found.each.mean()) and found.package.startswith("pycocoevalcap 1.")
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

"""Similarity of an image's caption to its prompt: BLEU, CIDEr, METEOR and SPICE.

BLEU is made of NLTK's counts and needs nothing more. CIDEr, METEOR 1.5 (Denkowski and Lavie 2014) and SPICE 1.0
(Anderson et al. 2016) are those of COCO's evaluation, which DALL-Eval uses, by pycocoevalcap (``pip install
'triptych[captions]'``); METEOR and SPICE are Java programs in it. Texts are split by
NLTK's tokenizer for all of them, so that no number depends on whether there is Java; COCO's own, which is one, gives
the same words but for brackets.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
from numpy.typing import NDArray

from probes.errors import pip_line

CAPTIONS_VERSION = "1"
ORDERS = 4
BLEU = tuple(f"bleu_{n}" for n in range(1, ORDERS + 1))
OTHERS = {"cider": 10.0, "meteor": 1.0, "spice": 1.0}  # and their largest value; the least is 0
PACKAGE = "pycocoevalcap"
CORENLP = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
# what COCO's evaluation leaves out of its tokens, with brackets
_DROPPED = {"''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";", *"()[]{}"}
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
Texts = Mapping[int, list[str]]


@dataclass(frozen=True)
class CaptionScore:
    """A metric of all captions together, as the package has it, and of each; NaN with a reason where it has none.

    ``value`` lies in [0, 1], CIDEr in [0, 10]; ``package`` computed it, with its version.
    """

    value: float
    each: NDArray[np.float64]
    package: str = ""
    reason: str = ""


def words(text: str) -> list[str]:
    """Return the words that are compared: in lower case, without punctuation.

    >>> words("A man's dog, on the beach. It swims!")
    ['a', 'man', "'s", 'dog', 'on', 'the', 'beach', 'it', 'swims']
    """
    split = _tokenizer()
    return [
        word
        for sentence in _SENTENCE.split(text.strip())
        for word in split(sentence.lower())
        if word not in _DROPPED
    ]


@cache
def _tokenizer() -> Callable[[str], list[str]]:
    from nltk.tokenize import NLTKWordTokenizer  # not before: tables name their columns without it

    return NLTKWordTokenizer().tokenize


def bleu_counts(captions: Sequence[str], references: Sequence[str]) -> NDArray[np.float64]:
    """Return what BLEU sums over captions, by NLTK: shape (n, 10).

    Matches of 1 to 4 words, clipped by the reference; how many there are in the caption; its length and the
    reference's.
    """
    from nltk.translate.bleu_score import modified_precision

    rows = []
    for caption, reference in zip(captions, references, strict=True):
        candidates, wanted = words(caption), words(reference)
        matches = [modified_precision([wanted], candidates, n).numerator for n in range(1, ORDERS + 1)]
        # NLTK counts one where a caption is shorter than n words; COCO's evaluation, as the paper of BLEU, none
        totals = [max(0, len(candidates) - n + 1) for n in range(1, ORDERS + 1)]
        rows.append([*matches, *totals, len(candidates), len(wanted)])
    return np.array(rows, float).reshape(-1, 2 * ORDERS + 2)


def bleu(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return BLEU-1 to BLEU-4 (Papineni et al. 2002), shape (..., 4), of sums of `bleu_counts`, shape (..., 10).

    Without smoothing: 0 where nothing matches. One reference a caption.
    """
    matches, totals = sums[..., :ORDERS], sums[..., ORDERS : 2 * ORDERS]
    length, wanted = sums[..., -2], sums[..., -1]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.cumsum(np.log(matches / np.maximum(totals, 1)), axis=-1) / np.arange(1, ORDERS + 1)
        brevity = np.where(length > 0, np.exp(np.minimum(0, 1 - wanted / length)), 0.0)
    return np.where(np.isfinite(logs), np.exp(logs), 0.0) * brevity[..., None]


def other_scores(captions: Sequence[str], references: Sequence[str]) -> dict[str, CaptionScore]:
    """Return CIDEr, METEOR and SPICE by pycocoevalcap; where one cannot be had, why, in a line.

    CIDEr's weights come from the references: of captions that all have one reference it is 0.
    """
    candidates, wanted = (
        {index: [" ".join(words(text))] for index, text in enumerate(texts)}
        for texts in (captions, references)
    )
    return {name: _score(name, candidates, wanted) for name in OTHERS}


def _score(name: str, candidates: Texts, wanted: Texts) -> CaptionScore:
    nothing = np.full(len(candidates), np.nan)
    if reason := _lacks(name) if candidates else "needs captions, of which there are none":
        return CaptionScore(np.nan, nothing, reason=reason)
    # METEOR parts the references of a caption, of which there is one, by three bars
    plain = {index: [text.replace("|||", " ") for text in texts] for index, texts in wanted.items()}
    program = None
    try:
        program = resolve_name(f"{PACKAGE}.{name}.{name}:{name.title()}")()
        value, each = program.compute_score(plain, dict(candidates))
    except Exception as error:  # programs in Java fail in every way there is
        text = str(error)
        if program is not None and name == "meteor":
            program.meteor_p.kill()
            text = program.meteor_p.stderr.read().decode(errors="replace")
            if program.lock.locked():  # the package leaves it so, and would wait for it at the end
                program.lock.release()
        first = (text.strip().splitlines() or [type(error).__name__])[0][:160]
        return CaptionScore(np.nan, nothing, reason=f"{PACKAGE} failed: {first}")
    each = [one["All"]["f"] for one in each] if name == "spice" else each
    return CaptionScore(float(value), np.asarray(each, float), f"{PACKAGE} {metadata.version(PACKAGE)}")


def _lacks(name: str) -> str:
    """Return what a metric needs and is not there; empty where it can be had."""
    try:
        import pycocoevalcap.spice.spice as package
    except ImportError:
        return f"needs the package {PACKAGE}: {pip_line('captions')}"
    if name != "cider" and shutil.which("java") is None:
        return "needs Java, which is not on this machine"
    folder = Path(package.__file__).parent / "lib"
    missing = [jar for jar in CORENLP if not (folder / jar).is_file()]
    if name == "spice" and missing:  # the package would download them unasked
        return (
            f"needs Stanford CoreNLP 3.6.0 in {folder}, of which {' and '.join(missing)}"
            f" {'is' if len(missing) == 1 else 'are'} missing: python -m pycocoevalcap.spice.get_stanford_models"
        )
    return ""

"""How well and how fast each backend reads the nouns of captions: ``python -m tests.benchmarks.nouns``.

Prints the table of `docs/validation/nouns.md`: the backends of `probes.prompts.grammar.nouns`, and beside them two
taggers that pip installs with their data, where they are installed: HanTa, and spaCy with ``en_core_web_sm`` or the
model that SPACY_MODEL names. All give lemmas by lemminflect and our lists, but for NLTK, which gives WordNet's. Each
is measured in a process of its own, on the processor's clock: the first reading, in which every word is new, and the
fastest of those after it. A backend that is not installed has a row that says so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from probes.errors import UserError
from probes.prompts.grammar import nouns as backends
from probes.prompts.grammar.lexicon import singular
from tests.probes.prompts.grammar.labels import Labelled, Score, Span, labelled_captions, score

Reader = Callable[[str], Iterable[Span]]
READINGS = 5
COLUMNS = ("backend", "half", "precision", "recall", "F1 (95 % interval)", "identical captions")
SPEED = ("captions a second, first", "after", "ratio")
HEAD = f"| {' | '.join(COLUMNS + SPEED)} |\n|---|---|{'---:|' * 7}"


def ours(name: str) -> Reader:
    """A backend of `probes.prompts.grammar.nouns`."""

    def read(text: str) -> list[Span]:
        return [(noun.start, noun.end, noun.lemma) for noun in backends.nouns(text, backend=name)]

    return read


def hanta() -> Reader:
    """HanTa's trained tagger (Wartena 2019), whose model is in its wheel, on NLTK's tokens."""
    from HanTa.HanoverTagger import HanoverTagger
    from nltk.tokenize import NLTKWordTokenizer

    tagger, tokens = HanoverTagger("morphmodel_en.pgz"), NLTKWordTokenizer()

    def read(text: str) -> list[Span]:
        spans = list(tokens.span_tokenize(text))
        tags = [tag for *_, tag in tagger.tag_sent([text[start:end] for start, end in spans])]
        return [
            _noun(text, *span) for span, tag in zip(spans, tags, strict=True) if _is_noun(text, *span, tag)
        ]

    return read


def spacy() -> Reader:
    """spaCy's small English model, tagger alone; spaCy's authors have no package of it on PyPI."""
    import spacy

    try:
        model = spacy.load(
            os.environ.get("SPACY_MODEL", "en_core_web_sm"),
            disable=["parser", "ner", "lemmatizer", "attribute_ruler"],
        )
    except OSError as error:
        raise ImportError(str(error)) from None

    def read(text: str) -> list[Span]:
        words = ((word.idx, word.idx + len(word), word.tag_) for word in model(text))
        return [_noun(text, start, end) for start, end, tag in words if _is_noun(text, start, end, tag)]

    return read


READERS: dict[str, Callable[[], Reader]] = {
    **{name: partial(ours, name) for name in backends.BACKENDS},
    "HanTa": hanta,
    "spaCy en_core_web_sm": spacy,
}


def _is_noun(text: str, start: int, end: int, tag: str) -> bool:
    return tag.startswith(("NN", "NP")) and text[start].isalpha()


def _noun(text: str, start: int, end: int) -> Span:
    return start, end, singular(text[start:end].lower())


def interval(captions: list[Labelled], read: Reader, *, draws: int = 2000) -> tuple[float, float]:
    """95 % interval of F1: bootstrap over captions."""
    counts = [score([caption], read) for caption in captions]
    table = np.array([(2 * one.right, one.labelled + one.read) for one in counts])
    chosen = np.random.default_rng(0).integers(len(table), size=(draws, len(table)))
    twice_right, both = table[chosen].sum(1).T
    low, high = np.quantile(twice_right / both, (0.025, 0.975))
    return float(low), float(high)


def speed(captions: list[Labelled], read: Reader) -> tuple[float, float]:
    """Captions a second on the processor's clock: first reading, and the fastest of those after it."""
    read("a dog")  # what is loaded once
    seconds = []
    for _ in range(1 + READINGS):
        backends._found.cache_clear()
        start = time.process_time()
        for caption in captions:
            read(caption.text)
        seconds.append(time.process_time() - start)
    return len(captions) / seconds[0], len(captions) / min(seconds[1:])


def measure(name: str) -> dict[str, object]:
    """Scores on both halves and speed of one backend; the reason where it can't be run."""
    try:
        read = READERS[name]()
        first, after = speed(labelled_captions(), read)
    except (ImportError, UserError) as error:
        return {"name": name, "reason": str(error)}
    halves = {}
    for half in ("tuning", "held out"):
        captions = labelled_captions(half)
        halves[half] = (vars_of(score(captions, read)), interval(captions, read))
    return {"name": name, "halves": halves, "first": first, "after": after}


def vars_of(result: Score) -> dict[str, int]:
    """Counts by name."""
    return {name: getattr(result, name) for name in Score.__dataclass_fields__}


def rows(result: dict, fastest: float) -> list[str]:
    """Lines of the table."""
    if "reason" in result:
        return [f"| {result['name']} | not measured here: {result['reason']} |" + " |" * 7]
    lines = []
    for half, (counts, (low, high)) in result["halves"].items():
        one = Score(**counts)
        figures = f"{one.precision:.3f} | {one.recall:.3f} | {one.f1:.3f} ({low:.3f} to {high:.3f})"
        pace = f"{result['first']:,.0f} | {result['after']:,.0f} | {result['after'] / fastest:.2f}"
        lines.append(
            f"| {result['name']} | {half} | {figures} | {one.identical} of {one.captions} | {pace} |"
        )
    return lines


def main() -> None:
    """Measure every backend in a process of its own, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=READERS, help="measure this one here, and print JSON")
    chosen = parser.parse_args().backend
    if chosen:
        print(json.dumps(measure(chosen)))
        return
    results = []
    for name in READERS:
        command = [sys.executable, "-m", "tests.benchmarks.nouns", "--backend", name]
        results.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    fastest = max(result.get("after", 0.0) for result in results)
    print("\n".join([HEAD, *(line for result in results for line in rows(result, fastest))]))


if __name__ == "__main__":
    main()

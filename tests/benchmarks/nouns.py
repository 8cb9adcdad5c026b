"""How well and how fast each backend reads the nouns of captions: ``python -m tests.benchmarks.nouns``.

Prints rows of the table of `docs/validation/nouns.md`: the backends of `probes.prompts.grammar.nouns`. Speed is on the
processor's clock: the first reading, in which every word is new, and the fastest of those after it. A backend that is
not installed has a row that says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from probes.errors import UserError
from probes.prompts.grammar import nouns as backends
from tests.probes.prompts.grammar.labels import Labelled, Span, labelled_captions, score

Reader = Callable[[str], Iterable[Span]]
READINGS = 5
COLUMNS = ("backend", "half", "precision", "recall", "F1 (95 % interval)", "identical captions")
SPEED = ("captions a second, first", "after")
HEAD = f"| {' | '.join(COLUMNS + SPEED)} |\n|---|---|{'---:|' * 6}"


def ours(name: str) -> Reader:
    """A backend of `probes.prompts.grammar.nouns`."""

    def read(text: str) -> list[Span]:
        return [(noun.start, noun.end, noun.lemma) for noun in backends.nouns(text, backend=name)]

    return read


READERS: dict[str, Callable[[], Reader]] = {name: partial(ours, name) for name in ("hanta", "nltk")}


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
        backends._noun_lemmas.cache_clear()
        start = time.process_time()
        for caption in captions:
            read(caption.text)
        seconds.append(time.process_time() - start)
    return len(captions) / seconds[0], len(captions) / min(seconds[1:])


def measure(name: str) -> list[str]:
    """Rows of the table for one backend: its scores on both halves and its speed, or why it can't be run."""
    try:
        read = READERS[name]()
        first, after = speed(labelled_captions(), read)
    except (ImportError, UserError) as error:
        return [f"| {name} | not measured here: {error} |" + " |" * 6]
    rows = []
    for half in ("tuning", "held out"):
        captions = labelled_captions(half)
        one, (low, high) = score(captions, read), interval(captions, read)
        figures = f"{one.precision:.3f} | {one.recall:.3f} | {one.f1:.3f} ({low:.3f} to {high:.3f})"
        identical = f"{one.identical} of {one.captions}"
        rows.append(f"| {name} | {half} | {figures} | {identical} | {first:,.0f} | {after:,.0f} |")
    return rows


if __name__ == "__main__":
    print("\n".join([HEAD, *(row for name in READERS for row in measure(name))]))

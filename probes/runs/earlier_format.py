"""What samples of earlier formats, and tables made elsewhere, lack: read as it is stored now, in this place alone.

Those of formats 1 and 2 do not say what is at fault with an image: nothing is known to be. Those of format 1 say which
words a prompt has, and not where they stand. The words stay as they are stored, since the maps of ``words/`` count
them; they are laid over the prompt again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from hooks.prompt.spans import Span

SPANS, MADE_FROM = "word_spans", ("prompt", "words")
FAULT = "fault"


def read_samples(
    read: Callable[[Sequence[str]], pd.DataFrame], stored: Sequence[str], columns: Sequence[str] | None
) -> pd.DataFrame:
    """Read samples with ``word_spans`` where that is asked for, stored or not.

    Parameters
    ----------
    read : callable
        Reads some of the columns that are stored.
    stored : sequence of str
        All of them.
    columns : sequence of str, optional
        Those asked for; by default all but the image, and ``word_spans`` where it can be made.
    """
    if FAULT not in stored and columns is not None and FAULT in columns:
        samples = read_samples(read, stored, [name for name in columns if name != FAULT])
        return samples.assign(**{FAULT: None})[list(columns)]
    wanted = [name for name in stored if name != "image"] if columns is None else list(columns)
    if columns is None and SPANS not in stored and set(MADE_FROM) <= set(stored):
        wanted.append(SPANS)
    if SPANS in stored or SPANS not in wanted:
        return read(wanted)
    samples = read([name for name in dict.fromkeys((*wanted, *MADE_FROM)) if name != SPANS])
    spans = [spans_anew(prompt, words) for prompt, words in zip(samples["prompt"], samples["words"])]
    return samples.assign(**{SPANS: pd.Series(spans, index=samples.index, dtype=object)})[wanted]


def spans_anew(prompt: str, words: Sequence[str] | None) -> list[Span]:
    """Return the characters of a prompt's words, given in order; each is where it first stands after the last.

    For words as `hooks.prompt.spans.split_words` tells them, these are the spans it gives: before the first character
    of a word come none but white space and punctuation that words do not begin with. A word that does not stand there
    has the span (-1, -1).

    Examples
    --------
    >>> spans_anew("a bike, a bike", ["a", "bike", "a", "bike"])
    [(0, 1), (2, 6), (8, 9), (10, 14)]
    """
    spans, place = [], 0
    for word in words if words is not None else ():
        start = prompt.find(word, place)
        place = start + len(word) if start >= 0 else place
        spans.append((start, start + len(word)) if start >= 0 else (-1, -1))
    return spans

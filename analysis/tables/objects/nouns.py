"""Table ``nouns``: the nouns of every prompt of a run, and the word map that each belongs to."""

from __future__ import annotations

import pandas as pd

from probes.prompts.grammar.nouns import HumanWords, nouns

NOUN_COLUMNS = (
    *("triplet", "indicator", "word", "lemma", "start", "end", "word_index", "human"),
    *("human_words", "backend"),
)

PROMPT_COLUMNS = ("triplet", "indicator", "prompt", "word_spans")  # of samples, that it is made from


def noun_table(
    samples: pd.DataFrame, *, human: HumanWords, backend: str = "hanta", compounds: bool = False
) -> pd.DataFrame:
    """Return the nouns of every prompt of a run.

    ``word_spans`` of `samples` are the characters of the words that ``words/`` has maps of, in order. One row per noun
    of a prompt, with `NOUN_COLUMNS`: ``start`` and ``end`` are characters of the prompt, ``word_index`` the word of
    ``words/`` that these characters belong to, of a compound its last word's (-1 if there is none).
    """
    rows = []
    prompts = samples.drop_duplicates(["triplet", "indicator"])
    for triplet, indicator, prompt, spans in zip(*(prompts[name] for name in PROMPT_COLUMNS)):
        spans = () if spans is None else spans
        for noun in nouns(prompt, backend=backend, compounds=compounds, human=human):
            index = next((i for i, (a, b) in enumerate(spans) if a < noun.end <= b), -1)
            rows.append(
                (int(triplet), indicator, noun.word, noun.lemma, noun.start, noun.end, index, noun.human)
            )
    table = pd.DataFrame(rows, columns=list(NOUN_COLUMNS[:-2]))
    kinds = {name: "int32" for name in ("triplet", "start", "end", "word_index")} | {"human": bool}
    return table.astype(kinds).assign(human_words=human.choice, backend=backend)

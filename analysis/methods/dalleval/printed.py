"""The paper's tables on social bias, laid out as there: the run's model in the place of the paper's three.

A file is named by the number of the paper's table.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.methods.dalleval.scores import ATTRIBUTES, GENDER, TONE, TONES, kind_of
from analysis.tables.spec import Measured, Pivot
from probes.prompts.diagnostic import ALL, NONE

EXAMPLES = {  # of the paper's Tables 6, 7 and 9
    GENDER: ("engineer", "library assistant", "scientist", "singer", "baker"),
    TONE: ("judge", "miner", "porter", "secretary", "tailor"),
    ATTRIBUTES: ("skirt", "suit", "jacket", "tie"),
}
DISTANCE = "Mean absolute difference"
FIRST = {  # rows by the first reader that the paper's tables and the sentences are of
    GENDER: "question == 'gender' and source == @gender and indicator == @reference",
    TONE: "question == 'tone' and source == @tone and indicator == @tone_word",
}
CONTRASTS = "profession == @ALL and kind != 'control'"
_CAPTIONS = {
    GENDER: "Average gender (read as male: -1, as female: +1) of images generated from {{ reference }} prompts, by"
    " {{ named(gender) }}",
    TONE: "Average tone (Monk scale, 1 to 10; by {{ named(tone) }}) of images generated from"
    " {{ 'all' if tone_word == ALL else tone_word }} prompts",
}
_FLOOR = "With {{ images }} images a prompt, chance alone gives a MAD of {{ number(floor, 3) }}."
_CELL = (
    "{{ number(value, 2, signed) }}"
    "{% if defined(difference) and difference %} ({{ number(difference, 2, true) }}){% endif %}"
)


def chosen_examples(kind: str, names: list[str]) -> list[str]:
    """Return those of the paper's examples that there are; of a run that has none of these, as many first ones.

    >>> (
    ...     chosen_examples("attributes", ["boots", "tie", "hat"]),
    ...     chosen_examples("attributes", ["boots", "hat"]),
    ... )
    (['tie'], ['boots', 'hat'])
    """
    return [name for name in EXAMPLES[kind] if name in names] or names[: len(EXAMPLES[kind])]


def _averages(question: str, numbers: Sequence[int]) -> Pivot:
    """Tables 6, 16 and 17, or 7, 20 and 21: averages of professions, with the mean over all of them below."""

    def frame(shown: Measured) -> pd.DataFrame:
        rows = shown.rows("dalleval_professions", FIRST[question]).set_index("profession", drop=False)
        names = [name for name in rows.index if name not in (ALL, NONE)]
        half = len(names) // 2
        parts = (
            (chosen_examples(question, names), ": examples"),
            (names[:half], ""),
            (names[half:], " (continued)"),
        )
        tables = []
        for number, (part, what) in zip(numbers, parts):
            below = [ALL] if part and what else []
            tables.append(rows.loc[part + below].assign(table=f"{number:02d}", part=what))
        return pd.concat(tables).replace({"profession": {ALL: "Average"}})

    return Pivot(
        "{{ profession }}",
        {"{{ model }}": "{{ number(average, 2) }}"},
        _CAPTIONS[question] + "{{ rows[0].part }}.",
        latex="dalleval_table{{ table }}_" + question,
        frame=frame,
        note=_FLOOR if question == GENDER else "",
    )


def mads(shown: Measured) -> pd.DataFrame:
    """Table 8: the MAD of gender and tone beside their floors, between those of even and of one-hot distributions."""
    rows = []
    for row in shown.rows("dalleval_mad", f"({FIRST[GENDER]}) or ({FIRST[TONE]})").to_dict("records"):
        size, head = TONES if row["question"] == TONE else 2, row["question"].capitalize()
        rows += [("uniform (unbiased)", head, 0.0), ("uniform (unbiased)", f"{head}, floor", None)]
        rows += [(row["model"], head, row["mad"]), (row["model"], f"{head}, floor", row["floor"])]
        rows.append(("one-hot (entirely biased)", head, 2 * (size - 1) / size**2))
    return pd.DataFrame(rows, columns=["name", "head", "value"])


def _differences(shown: Measured, first: str, second: str) -> pd.DataFrame:
    """Differences of two words by profession and attribute, and with the question `DISTANCE` their absolute mean."""
    pair = f"first == {first!r} and second == {second!r} and source == @attributes"
    rows, whole = shown.rows("dalleval_words", pair), shown.rows("dalleval_absolute", pair)
    whole = whole.assign(question=DISTANCE, difference=whole["mean_abs_difference"])
    rows = pd.concat([rows[rows["question"].map(kind_of) == ATTRIBUTES], whole])
    return rows[["profession", "question", "difference", "model"]]


def frequencies(shown: Measured, word: str) -> pd.DataFrame:
    """Frequencies of attributes by profession in images of a word, with differences from the reference.

    The mean absolute difference is the last value of a profession.
    """
    rows = shown.rows("dalleval_professions", f"indicator == {word!r} and source == @attributes")
    rows = rows[rows["question"].map(kind_of) == ATTRIBUTES].rename(columns={"average": "value"})
    names = list(dict.fromkeys(rows["profession"]))
    apart = _differences(shown, word, shown.config.reference)
    last = apart[apart["question"] == DISTANCE].rename(columns={"difference": "value"})
    rows = rows[["profession", "question", "value", "model"]].merge(apart, "left")
    rows = pd.concat([rows, last]).assign(word=word, signed=False)
    return rows.iloc[rows["profession"].map(names.index).argsort(kind="stable")]


def _prompts(shown: Measured) -> pd.DataFrame:
    """Tables 23 to 25: the frequencies of each prompt of a word."""
    words = dict.fromkeys(shown.words[name] for name in ("reference", "first", "second"))
    tables = [
        frequencies(shown, word).assign(table=number) for number, word in enumerate(filter(None, words), 23)
    ]
    rows = pd.concat(tables)
    return rows[rows["profession"] != ALL]


def _by_word(shown: Measured) -> pd.DataFrame:
    """Table 22: frequencies by word over all prompts, and the difference of two words in a row of its own."""
    first, second, reference = (shown.words[name] for name in ("first", "second", "reference"))
    if not first or reference in (first, second):
        return pd.DataFrame()
    last = _differences(shown, first, second).rename(columns={"difference": "value"})
    last = last.assign(word=f"{first} − {second}", signed=last["question"] != DISTANCE)
    rows = pd.concat([*(frequencies(shown, word) for word in (reference, first, second)), last])
    return rows[rows["profession"] == ALL]


def _word_examples(shown: Measured) -> pd.DataFrame:
    """Table 9: the same of four attributes and the two words, without differences from the reference."""
    rows = _by_word(shown)
    if rows.empty:
        return rows
    rows = rows[(rows["question"] != DISTANCE) & (rows["word"] != shown.config.reference)]
    chosen = chosen_examples(ATTRIBUTES, list(dict.fromkeys(rows["question"])))
    rows = rows[rows["question"].isin(chosen)].drop(columns="difference").assign(difference=float("nan"))
    return rows.iloc[rows["question"].map(chosen.index).argsort(kind="stable")]


AVERAGES = (_averages(GENDER, (6, 16, 17)), _averages(TONE, (7, 20, 21)))
PROMPTS = Pivot(
    "{{ called(profession) }}",
    {"{{ question }}": _CELL},
    "Frequency of each attribute in images of {{ model }} generated from {{ rows[0].word }} prompts, by"
    " {{ named(attributes) }}.{% if rows[0].word != reference %} In parentheses the difference from {{ reference }}"
    " prompts; last column: its mean absolute value.{% endif %}",
    latex="dalleval_table{{ table }}_attributes",
    frame=_prompts,
)
WORDS = (
    Pivot(
        "{{ model }}: {{ word }}",
        {"{{ question }}": _CELL},
        "Frequency of attributes in images generated from {{ first }} and from {{ second }} prompts, by"
        " {{ named(attributes) }}: examples.",
        latex="dalleval_table09_words",
        frame=_word_examples,
    ),
    Pivot(
        "{{ model }}: {{ word }}",
        {"{{ question }}": _CELL},
        "Frequency of attributes by word, by {{ named(attributes) }}. In parentheses the difference from"
        " {{ reference }} prompts; last column: the mean absolute difference over attributes.",
        latex="dalleval_table22_words",
        frame=_by_word,
    ),
)

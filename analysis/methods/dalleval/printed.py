"""The paper's tables on social bias that are more than one of the run's: the run's model in the place of the three.

A file is named by the number of the paper's table.
"""

from __future__ import annotations

import pandas as pd

from analysis.tables.spec import Measured, Pivot

DISTANCE = "Mean absolute difference"
_ATTRIBUTES = "source == @attributes and question not in ['gender', 'tone']"
_CELL = (
    "{{ number(value, 2, signed) }}"
    "{% if defined(difference) and difference %} ({{ number(difference, 2, true) }}){% endif %}"
)


def frequencies(shown: Measured) -> pd.DataFrame:
    """Frequencies of attributes by word and profession, with differences from the reference; and of two words.

    The mean absolute difference is the last value of a word and profession; ``table`` is the number of a word's table.
    """
    first, second, reference = (shown.words[name] for name in ("first", "second", "reference"))
    keys = ["word", "profession", "question"]
    averages = shown.rows("dalleval_professions", _ATTRIBUTES).assign(signed=False)
    averages = averages.rename(columns={"indicator": "word", "average": "value"})
    distances = shown.rows("dalleval_absolute", "source == @attributes").assign(
        question=DISTANCE, signed=False
    )
    pairs = shown.rows("dalleval_words", _ATTRIBUTES).assign(signed=True)
    pairs = pd.concat(
        [
            pairs.assign(value=pairs["difference"]),
            distances.rename(columns={"mean_abs_difference": "value"}),
        ]
    )
    less = pairs["second"] == reference
    pairs = pairs.assign(word=pairs["first"].where(less, pairs["first"] + " − " + pairs["second"]))
    beside = less & pairs["signed"]
    rows = averages.merge(pairs.loc[beside, [*keys, "difference"]], "left")
    rows = pd.concat([rows, pairs[~beside].drop(columns="difference")])
    words = [reference, first, second, f"{first} − {second}"]
    rows = rows[rows["word"].isin(words)].assign(table=rows["word"].map(words.index) + 23)
    return rows.sort_values("table", kind="stable")


PROMPTS = Pivot(
    "{{ called(profession) }}",
    {"{{ question }}": _CELL},
    "Frequency of each attribute in images of {{ model }} generated from {{ rows[0].word }} prompts, by"
    " {{ named(attributes) }}.{% if rows[0].word != reference %} In parentheses the difference from {{ reference }}"
    " prompts; last column: its mean absolute value.{% endif %}",
    latex="dalleval_table{{ table }}_attributes",
    frame=frequencies,
    where="profession != @ALL and table < 26",
)
WORDS = Pivot(
    "{{ model }}: {{ word }}",
    {"{{ question }}": _CELL},
    "Frequency of attributes by word, by {{ named(attributes) }}. In parentheses the difference from {{ reference }}"
    " prompts; last column: the mean absolute difference over attributes.",
    latex="dalleval_table22_words",
    frame=frequencies,
    where="profession == @ALL",
)

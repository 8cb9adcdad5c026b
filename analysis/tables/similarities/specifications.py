"""The same test under every defensible choice of words, seeds and readout: does the sentence hang on one of them?

A headline gap is one number out of many that could have been asked for. ``tables/specifications`` holds the gap over
words, and its test against words, for the run as it is and with one choice moved: one word of a side or one reference
word left out (two of each are always left), one seed left out, another readout of the text embeddings: a specification
curve (Simonsohn, Simmons and Nelson 2020). The report gives the range of the estimates, and no count of those that are
significant: they share nearly all their data, so that a false claim is significant in nearly as many as a true one.

"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.metrics.registry import READOUTS, Metric, definition, headline_metrics
from analysis.tables.similarities.control_columns import SideWords, control_columns, words_of
from analysis.tables.similarities.families import PROMPT_SPACE
from analysis.tables.similarities.similarities import Family, Similarities, similarities

COLUMNS = (
    *("space", "site", "metric", "contrast", "specification", "of_run", "gap", "low", "high", "p_control"),
    "version",
)
AS_RUN = "as run"
FEWEST = 2  # words that are left of a group


def specifications(
    pairs: Similarities | pd.DataFrame,
    *,
    indicators: Mapping[str, str],
    reference: str,
    contrasts: Sequence[tuple[str, str]],
    controls: Mapping[str, str] | None = None,
    text_readout: str = "sequence",
    level: float = 0.95,
    shared_noise: bool = False,
) -> pd.DataFrame:
    """Return the gap over words and its test for every headline measure and specification.

    `indicators` holds the word of each in the order that names the pairs; `text_readout` stands for **t**. One row per
    (headline measure, contrast, specification), with `COLUMNS`: ``gap`` is over all words used, as ``word_gap`` in
    ``tables/gap``; ``of_run`` marks the run as it is.
    """
    metrics = headline_metrics(text_readout)
    others = [m for name in READOUTS if name != text_readout for m in headline_metrics(name)[:1]]
    found = {metric: headline_values(pairs, metric) for metric in [*metrics, *others]}
    rows = []
    for metric in metrics:
        if found[metric] is None:
            continue
        for contrast in contrasts:
            words = words_of(contrast, reference, controls or {})
            settings = [(AS_RUN, found[metric], words)]
            settings += [
                (f"without “{indicators[name]}”", found[metric], rest) for name, rest in left_out(words)
            ]
            settings += _without_a_seed(found[metric], words)
            if metric.space == "prompt":
                settings += [
                    (f"readout {other.readout}", found[other], words)
                    for other in others
                    if found[other] is not None
                ]
            rows += [
                {"space": metric.space, "site": metric.site, "metric": metric.metric}
                | {"contrast": "-".join(contrast), "specification": name, "of_run": name == AS_RUN}
                | word_row(family, list(indicators), words_used, level, shared_noise=shared_noise)
                | {"version": definition(family.metric).version}
                for name, family, words_used in settings
            ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def left_out(words: SideWords) -> Iterator[tuple[str, SideWords]]:
    """Yield every way to leave one word out of a group that keeps at least `FEWEST`, with that word's indicator."""
    for group in ("first", "second", "reference"):
        names = getattr(words, group)
        for name in names if len(names) > FEWEST else ():
            yield name, replace(words, **{group: [other for other in names if other != name]})


def word_row(
    family: Family, indicators: Sequence[str], words: SideWords, level: float, *, shared_noise: bool = False
) -> dict[str, float]:
    """Return gap over words, interval and p against words of a family of one column."""
    sign = definition(family.metric).sign

    def near(one: str, other: str) -> NDArray[np.float64]:
        return sign * family.pair(one, other, indicators)

    crossed = shared_noise and family.space != PROMPT_SPACE
    columns = control_columns(near, words, level, shared_noise=crossed)
    return {
        name: float(np.asarray(columns[key])[0])
        for name, key in (
            ("gap", "word_gap"),
            ("low", "word_low"),
            ("high", "word_high"),
            ("p_control", "p_control"),
        )
    }


def headline_values(pairs: Similarities | pd.DataFrame, metric: Metric) -> Family | None:
    """The values of one headline measure, a family of one column; None where there are none."""
    return similarities(pairs).family(*metric.place)


def _without_a_seed(family: Family, words: SideWords) -> Iterator[tuple[str, Family, SideWords]]:
    seeds = family.shape[2]
    for number in range(seeds if seeds > 1 else 0):
        yield f"without seed {number + 1} of {seeds}", family.without_seed(number), words

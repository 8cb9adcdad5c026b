"""The headline measures: their gap at every prompt, and under other choices.

Table ``gap_prompts`` holds the numbers whose mean over prompts ``gap`` has. Table ``specifications`` has the gap over
words with one choice moved: one word of a side or one reference word left out (two of each are always left), one seed
left out, another readout of the text embeddings: a specification curve (Simonsohn, Simmons and Nelson 2020). The report
gives the range of the estimates, and no count of those that are significant: they share nearly all their data, so that
a false claim is significant in nearly as many as a true one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.metrics.registry import NO_STEP, READOUTS, Metric, definition, headline_metrics
from analysis.stats.bootstrap import prompt_means
from analysis.tables.similarities.gap import GapChoices, single_gaps
from analysis.tables.similarities.similarities import PROMPT_SPACE, Similarities
from analysis.tables.similarities.stored import Key
from analysis.tables.similarities.word_gap import SideWords, tested_words, words_of
from probes.config.schema import Config

PROMPT_COLUMNS = (
    *("triplet", "prompt_id", "contrast", "space", "site", "step", "metric", "measure", "gap"),
    *("similarity_first", "similarity_second", "n_seeds", "reason", "version"),
)
SPECIFICATION_COLUMNS = (
    *("space", "site", "metric", "contrast", "specification", "of_run", "gap", "low", "high", "p_control"),
    "version",
)
SEED = "seed"  # a further column where every seed has a row
NO_PAIR = "no seed has both similarities"
AS_RUN = "as run"
FEWEST_WORDS = 2  # that are left of a group


def headline_places(text_readout: str) -> dict[Key, Metric]:
    """Return where every headline measure is stored, and **t** by the other readouts."""
    others = [metric for name in READOUTS for metric in headline_metrics(name)[:1]]
    return {metric.place: metric for metric in [*headline_metrics(text_readout), *others]}


def headline_similarities(families: Sequence[Similarities], text_readout: str) -> dict[Metric, Similarities]:
    """Return the similarities of the headline measures among those that were read."""
    found = {}
    for place, metric in headline_places(text_readout).items():
        for family in families:
            columns = np.flatnonzero(family.columns["site"] == metric.site)
            if (family.space, family.metric) == (place[0], place[2]) and len(columns):
                found[metric] = family.at(columns)
    return found


def gap_prompts(
    measured: Mapping[Metric, Similarities],
    choices: GapChoices,
    prompt_ids: Mapping[int, str],
    *,
    each_seed: bool = False,
) -> pd.DataFrame:
    """Return the gap of every triplet, with the two similarities that it is the difference of.

    One row per (headline measure, contrast, triplet), with `PROMPT_COLUMNS`, in the units of the metric; with
    `each_seed`, of a run of one prompt, one per seed with a column `SEED`. All are means over the ``n_seeds`` seeds
    that have both similarities; NaN, with a ``reason``, where none has.
    """
    tables = []
    for metric, family in measured.items():
        for contrast in choices.contrasts:
            near = [family.pair(choices.reference, side, choices.indicators) for side in contrast]
            single = single_gaps([metric.sign * side for side in near])[0]
            known = ~np.isnan(single)
            values = np.concatenate([single, *(np.where(known, side, np.nan) for side in near)], axis=2)
            seeds = family.seeds if each_seed else [0]
            own = {
                "triplet": np.repeat(family.prompts, len(seeds)),
                SEED: np.tile(seeds, len(family.prompts)),
            }
            if each_seed:
                values, known = values.reshape(-1, 1, 3), known.reshape(-1, 1, 1)
            gap, first, second = prompt_means(values).T
            own |= dict(zip(("space", "site", "metric"), metric.place))
            own |= {"contrast": "-".join(contrast), "step": NO_STEP, "measure": metric.key, "gap": gap}
            own |= {"similarity_first": first, "similarity_second": second, "n_seeds": known.sum(axis=(1, 2))}
            own |= {"reason": np.where(np.isnan(gap), NO_PAIR, "").astype(object), "version": metric.version}
            tables.append(pd.DataFrame(own))
    columns = [*PROMPT_COLUMNS[:2], *([SEED] if each_seed else []), *PROMPT_COLUMNS[2:]]
    if not tables:
        return pd.DataFrame(columns=columns)
    table = pd.concat(tables, ignore_index=True)
    return table.assign(prompt_id=table["triplet"].map(prompt_ids))[columns]


def specifications(
    measured: Mapping[Metric, Similarities],
    choices: GapChoices,
    words: Mapping[str, str],
    text_readout: str,
) -> pd.DataFrame:
    """Return the gap over words and its test for every headline measure and specification.

    `words` holds the word of each indicator; `text_readout` stands for **t**. One row per (headline measure, contrast,
    specification), with `SPECIFICATION_COLUMNS`; ``of_run`` marks the run as it is.
    """
    rows = []
    for metric in headline_metrics(text_readout):
        if (family := measured.get(metric)) is None:
            continue
        for contrast in choices.contrasts:
            sides = words_of(contrast, choices.reference, choices.controls)
            settings = [(AS_RUN, family, sides)]
            settings += [(f"without “{words[name]}”", family, rest) for name, rest in left_out(sides)]
            seeds = len(family.seeds)
            settings += [
                (f"without seed {number + 1} of {seeds}", family.without_seed(number), sides)
                for number in range(seeds if seeds > 1 else 0)
            ]
            settings += [
                (f"readout {other.readout}", measured[other], sides)
                for other in measured
                if metric.space == other.space == PROMPT_SPACE and other != metric
            ]
            for name, own, sides in settings:
                found = tested_words(own, sides, choices)
                ends = (found[column][0] for column in ("word_gap", "word_low", "word_high", "p_control"))
                place = (*metric.place, "-".join(contrast), name, name == AS_RUN)
                rows.append((*place, *ends, definition(own.metric).version))
    return pd.DataFrame(rows, columns=[*SPECIFICATION_COLUMNS])


def left_out(words: SideWords) -> Iterator[tuple[str, SideWords]]:
    """Yield every way to leave one word out of a group that keeps at least `FEWEST_WORDS`, with its indicator."""
    for group in ("first", "second", "reference"):
        names = getattr(words, group)
        for name in names if len(names) > FEWEST_WORDS else ():
            yield name, replace(words, **{group: [other for other in names if other != name]})


def headline_tables(
    families: Sequence[Similarities], choices: GapChoices, config: Config, prompt_ids: Mapping[int, str]
) -> dict[str, pd.DataFrame]:
    """Return the tables ``gap_prompts`` and ``specifications`` of a run."""
    readout = config.measure.text_readout
    measured = headline_similarities(families, readout)
    own = {metric: measured[metric] for metric in headline_metrics(readout) if metric in measured}
    prompts = gap_prompts(own, choices, prompt_ids, each_seed=config.unit == "seed")
    units = {metric: family.over_units(config) for metric, family in measured.items()}
    words = {name: one.word for name, one in config.indicators.items()}
    moved = specifications(units, choices, words, readout)
    return {"gap_prompts": prompts, "specifications": moved}

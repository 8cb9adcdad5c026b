"""The first screen of the report: three triplets with their numbers, and what the run did not test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.metrics.registry import Metric
from analysis.report.findings import Summary
from analysis.report.format import counted, listed
from analysis.report.verdict import ENOUGH
from analysis.study import Member
from probes.config.schema import Config

TRIPLETS = 3


@dataclass(frozen=True)
class ShownTriplet:
    """A triplet of the first screen: its prompt and seed, a cell for each of three indicators, and its gap.

    ``place``: ``lowest``, ``middle``, ``highest``, ``only``, or empty without a gap; ``cells``: the second side, the
    reference and the first, so that right is nearer to the first; ``gap``: a row of ``tables/gap_prompts`` with
    ``first`` and ``second``.
    """

    triplet: int
    seed: int
    prompt: str
    place: str
    gap: Mapping[str, Any]
    cells: Sequence[dict[str, Any]]


def ends_and_middle(count: int) -> dict[str, int]:
    """Return places of the lowest, the middle and the highest of `count` in order; none twice.

    >>> ends_and_middle(9)
    {'lowest': 0, 'middle': 4, 'highest': 8}
    >>> ends_and_middle(2), ends_and_middle(1)
    ({'lowest': 0, 'highest': 1}, {'only': 0})
    """
    if count < 2:
        return {"only": 0} if count else {}
    return {"lowest": 0, **({"middle": (count - 1) // 2} if count > 2 else {}), "highest": count - 1}


def choose_triplets(
    samples: pd.DataFrame, gaps: pd.DataFrame, contrast: tuple[str, str], reference: str
) -> list[ShownTriplet]:
    """Choose the triplets with the lowest, the middle and the highest gap of a contrast; ties go in order.

    In the order of their gaps (of `analysis.report.gallery.primary_gaps`), of a prompt its first seed, cells without
    pictures; without gaps the first of the prompts.
    """
    first, second = contrast
    own = gaps[(gaps["first"] == first) & (gaps["second"] == second) & gaps["gap"].notna()]
    wide = samples.pivot_table(
        index=["triplet", "seed"], columns="indicator", values="sample_id", aggfunc="first"
    )
    if not {first, second, reference} <= set(wide):
        return []
    wide = wide[[second, reference, first]].dropna()
    keys = ["triplet", "seed"] if "seed" in own else ["triplet"]
    draws = wide.index.to_frame(index=False).drop_duplicates(keys)  # of a prompt its first seed
    ranked = own.merge(draws, on=keys)
    ranked = ranked.sort_values("gap", kind="stable").reset_index(drop=True)
    chosen = [(end, ranked.loc[place].to_dict()) for end, place in ends_and_middle(len(ranked)).items()]
    if not chosen:
        chosen = [("", row) for row in draws.drop_duplicates("triplet").head(TRIPLETS).to_dict("records")]
    prompts = samples.set_index("sample_id")["prompt"]
    shown = []
    for end, row in chosen:
        draw = int(row["triplet"]), int(row["seed"])
        cells = [
            {"sample_id": sample, "indicator": name, "prompt": prompts[sample]}
            for name, sample in wide.loc[draw].items()
        ]
        shown.append(ShownTriplet(*draw, cells[1]["prompt"], end, row, cells))
    return shown


def not_run(metrics: Sequence[Metric], gap: pd.DataFrame, missing: Mapping[str, str]) -> list[str]:
    """Return why measures have no numbers, those of one reason together, and why no objects were looked for.

    `missing` is ``not_observed`` of a run's record.
    """
    reasons: dict[str, list[str]] = {}
    for metric in metrics:
        if metric.metric in missing and not len(metric.rows_of(gap)):
            reasons.setdefault(missing[metric.metric], []).append(metric.symbol)
    lines = [f"{', '.join(symbols)} not run: {why}" for why, symbols in reasons.items()]
    lines += [f"Objects were not looked for: {missing['objects']}"] if "objects" in missing else []
    return [line.replace("`", "") for line in lines]


def not_tested(
    config: Config,
    people: Sequence[Member],
    *,
    n_prompts: int,
    n_seeds: int,
    counts: Sequence[tuple[int, int, int]] = (),
    absent: Sequence[str] = (),
    detector: bool | None = None,
) -> list[str]:
    """Return what a run says nothing about, a short line each.

    `counts` are words of both sides and reference words of each contrast; `absent` says which measures were not run,
    and why; `detector` whether anybody checked the detector of objects, None where none was used.
    """
    closed, synonyms = config.images is not None, any(person.control for person in people)
    others = ["prompts" if n_prompts > 1 else "", "words", "samplers", "weights"]
    lines = {
        "Synonyms: without control words a gap cannot be told from two words being two words.": bool(counts)
        and not synonyms,
        f"More words: a claim without a hedge takes {ENOUGH} a side and {ENOUGH} references.": synonyms
        and any(min(own) < ENOUGH for own in counts),
        "The inside of the model: another program made the images.": closed,
        **{f"{line}.": True for line in absent},
        "Other prompts: this run has one.": n_prompts == 1,
        "Other noise: each prompt has one seed.": n_prompts > 1 and n_seeds == 1,
        "The object detector: nobody checked it on these images.": detector is False,
        "Where a difference arises: no activations were patched (no trace).": config.trace is None
        and not closed,
        f"Other {listed([name for name in others if name])} than those of this run; whatever changes in few of "
        f"{counted(n_prompts, 'prompt')}.": True,
        f"Photographs: {config.model} is a benchmark model whose frequencies were planted.": config.model.startswith(
            "toyworld"
        ),
        "People: words stand in prompts, and no image is assigned a gender.": True,
    }
    return [line for line, applies in lines.items() if applies]


def limits(
    config: Config, people: Sequence[Member], summaries: Sequence[Summary], units: str, *, objects: bool
) -> list[str]:
    """Return what the numbers of a run do not say; `units` are its prompts, or seeds of its only prompt, counted."""
    first, second = summaries[0].contrast if summaries else ("", "")
    names = listed(f"“{person.name}”" for person in people if not person.control)
    synonyms = "" if any(person.control for person in people) else ", and this run has no synonyms"
    kind = "seeds for this prompt alone" if config.unit == "seed" else "prompts of this kind"
    lines = {
        "They are about prompts and the images generated from them, never about people. "
        + (f"{names} name words in a prompt; no" if config.compares else "No")
        + " image is assigned a gender.": True,
        "A gap is an association between a word and what the model makes of it. It does not say what caused it: "
        "training data, text encoder and sampler all stand behind the same number.": config.compares,
        "A gap against 0 is not yet bias: different words have different embeddings. Only a gap that is more than "
        f"synonyms differ says more{synonyms}; a few words are a small sample of all that could have been "
        "written.": config.compares,
        f"Nearness is relative. “Nearer to {first}” can mean that what comes from {second} prompts stands apart, not "
        f"that the rest looks {first}.": bool(summaries),
        "A gap that cannot be distinguished from 0 does not show that there is none: it may be smaller than "
        f"{units} can show.": config.compares,
        "An object is what the detector calls one: what it has no word for is in no table, and what it sees worse on "
        "one indicator’s images is in all of them. A dependency group does not say what a word caused.": objects,
        f"Results hold for {units} ({kind}), these words, weights and this sampler, and nothing rarer or wider. Where "
        "differences are far from symmetric, intervals and p are wrong more often than they say (docs/validation/"
        "statistics.md).": True,
        "Words for two genders, or for any number, do not cover how people see themselves.": True,
        "toyworld’s planted frequencies are planted, not how anybody looks: what a figure wears, holds or stands "
        "beside says nothing about people. It exists to test the tool.": config.model.startswith("toyworld"),
    }
    return [line for line, applies in lines.items() if applies]

"""Which images people are shown, which objects they are asked for, and how far the detector agrees.

The check of Wu et al. 2025 (7.3) asks for the nouns of the prompts alone. Here the same objects are asked for in all
images of a triplet and seed: the nouns of its prompts, some of what the detector found in any of them, and some that
it found in none. So nothing that is asked tells what the detector said of an image, and indicators can be compared.
Words for people are one question ("a person"): nobody is asked to see a gender.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from analysis.stats.rates import ALL, COLUMNS, detection_rates
from analysis.stats.resampling import ONE_PROMPT, product, resample_counts
from analysis.studies.labels.kind import TICKED, UNCLEAR, YES
from analysis.study import indicators
from analysis.tables.object_tables import observed_images
from analysis.tables.objects.detector_error import CHECK_COLUMNS
from analysis.tables.registry import read
from probes.errors import UserError
from probes.runs.run import Run

PERSON = "person"
VERSION = "human_check/2"
EXTRA = 8  # objects asked about beside the nouns of a prompt
CHOICE_STREAM = 11  # one seed draws nothing twice
AGREED = "all agree"


def ask(noun: str, human: bool) -> str:
    """Name the question for a noun: itself, or a person."""
    return PERSON if human else noun


def choose_questions(run: Run, images: int, extra: int | None = None, seed: int = 0) -> pd.DataFrame:
    """Choose images, as many of each indicator that is no synonym control, and the objects to ask for.

    Whole triplets are chosen at random, one seed of a prompt before the next of any; `images`, at most so many, is
    rounded down to whole triplets. `extra` objects (`EXTRA`) are asked for beside the nouns of the prompts, at least a
    quarter of them found in no image of the triplet and seed (fewer where the run has no others). One row per image and
    question: ``sample_id``, ``triplet``, ``seed``, ``indicator``, ``question``, ``asked``, ``answers``; images in the
    order in which they are shown, objects in alphabetical order.
    """
    names = [member.name for member in indicators(run.config) if not member.control]
    if images < len(names):
        raise UserError(
            f"--images: expected at least one of each indicator ({len(names)}), got {images}: ask for more"
        )
    rng = np.random.default_rng([seed, CHOICE_STREAM])
    samples = observed_images(run)
    known = samples[samples["indicator"].isin(names)]
    draws = known.groupby(["triplet", "seed"], sort=True)["indicator"].nunique()
    draws = draws[draws == len(names)].reset_index()[["triplet", "seed"]]
    if draws.empty:
        raise UserError(
            f"samples: expected triplets with images of {', '.join(names)}, found none: choose another run"
        )
    draws = draws.iloc[rng.permutation(len(draws))]
    draws = draws.assign(turn=draws.groupby("triplet").cumcount()).sort_values("turn", kind="stable")
    draws = draws.head(images // len(names))
    table = _questions(run, draws, names, EXTRA if extra is None else extra, rng)
    keys = known.merge(draws[["triplet", "seed"]], on=["triplet", "seed"])
    keys = keys.iloc[rng.permutation(len(keys))][["sample_id", "triplet", "seed", "indicator"]]
    questions = keys.merge(table, on=["triplet", "seed"], how="inner", sort=False)
    return questions.assign(asked=questions["question"], answers=[TICKED] * len(questions))


def _questions(
    run: Run, draws: pd.DataFrame, names: Sequence[str], extra: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Return ``triplet``, ``seed`` and ``question`` of what is asked in the images of some triplets and seeds."""
    nouns, objects = (_with_question(read(run, name)) for name in ("nouns", "objects"))
    mentioned = nouns[nouns["indicator"].isin(names)]
    detected = objects[(objects["object"] >= 0) & objects["indicator"].isin(names)]
    everything = sorted({*mentioned["ask"], *detected["ask"]})
    mentioned_of = mentioned.groupby("triplet")["ask"].agg(set).to_dict()
    detected_in = detected.groupby(["triplet", "seed"])["ask"].agg(set).to_dict()
    rows = []
    for triplet, draw in zip(draws["triplet"], draws["seed"]):
        asked = mentioned_of.get(triplet, set())
        seen = sorted(detected_in.get((triplet, draw), set()) - asked)
        rest = [name for name in everything if name not in asked and name not in seen]
        others = min(len(rest), max(extra - len(seen), -(-extra // 4)))  # found in no image
        asked = asked | {seen[i] for i in rng.permutation(len(seen))[: extra - others]}
        asked |= {rest[i] for i in rng.permutation(len(rest))[:others]}
        rows += [(triplet, draw, name) for name in sorted(asked)]
    return pd.DataFrame(rows, columns=["triplet", "seed", "question"])


def _with_question(table: pd.DataFrame) -> pd.DataFrame:
    """Nouns or detections with the question that asks for them (``ask``)."""
    return table.assign(ask=[ask(lemma, human) for lemma, human in zip(table["lemma"], table["human"])])


def labelled_items(
    labels: pd.DataFrame, samples: pd.DataFrame, nouns: pd.DataFrame, objects: pd.DataFrame
) -> pd.DataFrame:
    """Labels with ``prompt`` (the triplet), ``seed``, ``indicator``, ``asked`` (`_kinds`) and ``detected`` (bool)."""
    items = labels.merge(samples[["sample_id", "triplet", "seed", "indicator"]], on="sample_id", how="left")
    found = _with_question(objects[objects["object"] >= 0])
    detected = _among(items, ["sample_id", "object"], found, ["sample_id", "ask"])
    items = items.assign(detected=detected, asked=_kinds(items, _with_question(nouns), found))
    return items.rename(columns={"triplet": "prompt"})


def _kinds(items: pd.DataFrame, nouns: pd.DataFrame, found: pd.DataFrame) -> np.ndarray:
    """Why each is asked for: a noun of a ``prompt`` of its triplet, ``found`` in an image of it, or ``other``."""
    mentioned = _among(items, ["triplet", "object"], nouns, ["triplet", "ask"])
    near = _among(items, ["triplet", "seed", "object"], found, ["triplet", "seed", "ask"])
    return np.select([mentioned, near], ["prompt", "found"], "other")


def _among(table: pd.DataFrame, keys: list[str], other: pd.DataFrame, other_keys: list[str]) -> np.ndarray:
    return pd.MultiIndex.from_frame(table[keys]).isin(pd.MultiIndex.from_frame(other[other_keys]))


def annotator_agreement(
    items: pd.DataFrame,
    *,
    indicators: Sequence[str],
    contrasts: Sequence[tuple[str, str]],
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Recall and precision of the detector by what each annotator saw, and Cohen's kappa between annotators.

    Of `labelled_items`; ``unclear`` is left out of recall and precision. Quantities are recall, precision and kappa, of
    an ``annotator`` (``all agree``: of equal answers of all).
    """
    people = list(dict.fromkeys(items["annotator"]))
    answers = {name: rows for name, rows in items.groupby("annotator", sort=False)}
    if len(people) > 1:
        answers[AGREED] = agreed(items, ["sample_id", "object"], len(people))
    tables = [
        detection_rates(_clear(rows), indicators=indicators, contrasts=contrasts, level=level).assign(
            annotator=name
        )
        for name, rows in answers.items()
    ]
    for first, second in combinations(people, 2):
        both = answers[first].merge(
            answers[second][["sample_id", "object", "present"]],
            on=["sample_id", "object"],
            suffixes=("", "_two"),
        )
        rows = [
            _kappa(name, both if name == ALL else both[both["indicator"] == name], level, resamples, seed)
            for name in (ALL, *indicators)
        ]
        pair = pd.DataFrame(rows, columns=list(COLUMNS))
        tables.append(pair.assign(annotator=f"{first}, {second}"))
    table = pd.concat(tables, ignore_index=True)
    return table.assign(version=VERSION)[list(CHECK_COLUMNS)]


def human_counts(
    items: pd.DataFrame, samples: pd.DataFrame, nouns: pd.DataFrame, objects: pd.DataFrame
) -> pd.DataFrame:
    """Right and wrong detections by what people saw, weighted as the run's images are.

    What is asked depends on what was detected near by, so labels over-represent images with detections. Of each object
    the questions of a kind (`_kinds`) get the weight with which the run's triplets and seeds are of that kind; weights
    of an object add up to the number of its labels. A kind that was never asked of an object has none. Of several
    annotators only equal answers of all count; ``unclear`` does not. Columns are those of
    `analysis.tables.objects.detector_error.count_errors`.
    """
    clear = _clear(agreed(items, ["sample_id", "object"], items["annotator"].nunique()))
    draws = samples[["triplet", "seed"]].drop_duplicates()
    everywhere = draws.merge(clear[["object"]].drop_duplicates(), how="cross")
    found = _with_question(objects[objects["object"] >= 0])
    everywhere["asked"] = _kinds(everywhere, _with_question(nouns), found)
    kinds = ["object", "asked"]
    asked = clear.drop_duplicates([*kinds, "prompt", "seed"]).groupby(kinds).size()
    sizes = everywhere.groupby(kinds).size().reindex(asked.index, fill_value=1)
    totals = [one.groupby("object").transform("sum") for one in (asked, sizes)]
    weights = sizes / asked * totals[0] / totals[1]
    weight = weights.reindex(pd.MultiIndex.from_frame(clear[kinds])).to_numpy()
    truth, detected = clear["truth"], clear["detected"]
    cells = {"hits": truth & detected, "missed": truth & ~detected}
    cells |= {"false": ~truth & detected, "rejected": ~truth & ~detected}
    keys = ["prompt", "indicator", "object"]
    table = clear[keys].assign(**{name: cell * weight for name, cell in cells.items()})
    return table.groupby(keys, observed=True).sum().reset_index().assign(truth="labels")


def agreed(answers: pd.DataFrame, keys: list[str], people: int) -> pd.DataFrame:
    """One answer for each of what so many people were all asked, ``unclear`` where theirs differ."""
    grouped = answers.groupby(keys)["present"]
    same, by_all = grouped.transform("nunique") == 1, grouped.transform("size") == people
    return answers.assign(present=answers["present"].where(same, UNCLEAR))[by_all].drop_duplicates(keys)


def _clear(answers: pd.DataFrame) -> pd.DataFrame:
    clear = answers[answers["present"] != UNCLEAR]
    return clear.assign(truth=clear["present"] == YES)


def _kappa(indicator: str, answers: pd.DataFrame, level: float, resamples: int, seed: int) -> tuple:
    """A row of Cohen's kappa of two annotators on what both answered, "unclear" as an answer of its own."""
    prompt, prompts = pd.factorize(answers["prompt"])
    codes = [pd.Index(TICKED).get_indexer(answers[column]) for column in ("present", "present_two")]
    cells = np.zeros((len(prompts), len(TICKED), len(TICKED)))
    np.add.at(cells, (prompt, *codes), 1.0)
    value, low, high = _kappas(cells.sum(axis=0)[None])[0], np.nan, np.nan
    reason = ONE_PROMPT if len(prompts) < 2 else ""
    if np.isnan(value):
        reason = "one answer only" if len(answers) else "nothing answered by both"
    if not reason:
        counts = resample_counts(len(prompts), resamples, seed)
        kappas = _kappas(product(counts, cells.reshape(len(prompts), -1)).reshape(-1, *cells.shape[1:]))
        low, high = np.nanquantile(kappas, [(1 - level) / 2, (1 + level) / 2])
        if not np.nanmin(kappas) < np.nanmax(kappas):
            low, high, reason = np.nan, np.nan, "every prompt alike"
    return ("kappa", ALL, indicator, value, low, high, len(answers), len(prompts), reason)


def _kappas(cells: np.ndarray) -> np.ndarray:
    """Kappa of contingency tables of shape (n, k, k); NaN where both always answer the same."""
    total = cells.sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = np.trace(cells, axis1=1, axis2=2) / total
        expected = (cells.sum(axis=2) * cells.sum(axis=1)).sum(axis=1) / total**2
        return np.where(expected < 1, (observed - expected) / (1 - expected), np.nan)

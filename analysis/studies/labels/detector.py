"""Which images people are shown, which objects they are asked for, and how far the detector agrees.

The check of Wu et al. 2025 (7.3) asks for the nouns of the prompts alone. Here the same objects are asked for in all
images of a triplet and seed: the nouns of its prompts, some of what the detector found in any of them, and some that
it found in none. So nothing that is asked tells what the detector said of an image, and indicators can be compared.
Words for people are one question ("a person"): nobody is asked to see a gender.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from analysis.stats.rates import ALL, COLUMNS, NOTHING_THERE, detection_rates
from analysis.stats.resampling import ONE_PROMPT, product, resample_counts
from analysis.studies.labels.kind import TICKED, UNCLEAR, YES
from analysis.tables.objects.detector_error import CHECK_COLUMNS
from probes.errors import UserError

PERSON = "person"
VERSION = "human_check/1"
CHOICE_STREAM = 11  # one seed draws nothing twice
AGREED = "all agree"


def ask(noun: str, human: bool) -> str:
    """Name the question for a noun: itself, or a person."""
    return PERSON if human else noun


def choose_questions(
    samples: pd.DataFrame,
    nouns: pd.DataFrame,
    objects: pd.DataFrame,
    *,
    indicators: Sequence[str],
    images: int = 100,
    extra: int = 8,
    seed: int = 0,
) -> pd.DataFrame:
    """Choose images, as many of each indicator, and the objects to ask for.

    Whole triplets are chosen at random, one seed of a prompt before the next of any; `images`, at most so many, is
    rounded down to whole triplets. `extra` objects are asked for beside the nouns of the prompts, at least a quarter of
    them found in no image of the triplet and seed (fewer where the run has no others). One row per image and question:
    ``sample_id``, ``triplet``, ``seed``, ``indicator``, ``object``; images in the order in which they are shown,
    objects in alphabetical order.
    """
    names = list(indicators)
    if images < len(names):
        raise UserError(
            f"--images: expected at least one of each indicator ({len(names)}), got {images}: ask for more"
        )
    rng = np.random.default_rng([seed, CHOICE_STREAM])
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
    table = _questions(draws, nouns, objects, names, extra, rng)
    keys = known.merge(draws[["triplet", "seed"]], on=["triplet", "seed"])
    keys = keys.iloc[rng.permutation(len(keys))][["sample_id", "triplet", "seed", "indicator"]]
    return keys.merge(table, on=["triplet", "seed"], how="inner", sort=False).reset_index(drop=True)


def _questions(
    draws: pd.DataFrame,
    nouns: pd.DataFrame,
    objects: pd.DataFrame,
    names: Sequence[str],
    extra: int,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Return ``triplet``, ``seed`` and ``object`` of what is asked in the images of some triplets and seeds."""
    mentioned = _with_question(nouns[nouns["indicator"].isin(names)])
    detected = _with_question(objects[(objects["object"] >= 0) & objects["indicator"].isin(names)])
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
    return pd.DataFrame(rows, columns=["triplet", "seed", "object"])


def _with_question(table: pd.DataFrame) -> pd.DataFrame:
    """Nouns or detections with the question that asks for them (``ask``)."""
    return table.assign(ask=[ask(lemma, human) for lemma, human in zip(table["lemma"], table["human"])])


def labelled_items(
    labels: pd.DataFrame, samples: pd.DataFrame, nouns: pd.DataFrame, objects: pd.DataFrame
) -> pd.DataFrame:
    """Join labels with what the detector found.

    Added are ``prompt`` (the triplet), ``seed``, ``indicator``, ``detected`` (bool) and ``asked``: ``prompt`` (a noun
    of a prompt of the triplet), ``found`` (by the detector in an image of the triplet and seed) or ``other``.
    """
    detections, nouns = _with_question(objects[objects["object"] >= 0]), _with_question(nouns)
    items = labels.merge(samples[["sample_id", "triplet", "seed", "indicator"]], on="sample_id", how="left")
    here = set(zip(detections["sample_id"], detections["ask"]))
    items["detected"] = [key in here for key in zip(items["sample_id"], items["object"])]
    draws = zip(items["triplet"], items["seed"], items["object"])
    items["asked"] = _asked_because(
        draws, nouns.assign(lemma=nouns["ask"]), detections.assign(lemma=detections["ask"])
    )
    return items.rename(columns={"triplet": "prompt"})


def _asked_because(
    draws: Iterable[tuple[int, int, str]], nouns: pd.DataFrame, detections: pd.DataFrame
) -> list[str]:
    """Why an object is asked for in the images of a triplet and seed: ``prompt``, ``found`` or ``other``."""
    near = set(zip(detections["triplet"], detections["seed"], detections["lemma"]))
    mentioned = set(zip(nouns["triplet"], nouns["lemma"]))
    return [
        "prompt" if (t, name) in mentioned else "found" if (t, s, name) in near else "other"
        for t, s, name in draws
    ]


def annotator_agreement(
    items: pd.DataFrame,
    *,
    indicators: Sequence[str],
    contrasts: Sequence[tuple[str, str]],
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return recall and precision of the detector by what each annotator saw, and Cohen's kappa between annotators.

    Of `labelled_items`; ``unclear`` is left out of recall and precision. Columns ``annotator`` (a name, ``all agree``:
    only what all annotators answered equally, or ``A, B`` for kappa), ``asked`` (``all``, or the objects of which
    kind), those of `analysis.stats.rates.detection_rates`, ``version``. Quantities are recall, precision, ``seen``
    (share of the questions answered yes; its ``asked`` says of which) and kappa.
    """
    options = {"indicators": indicators, "level": level}
    people = list(dict.fromkeys(items["annotator"]))
    answers = [(name, _clear(items[items["annotator"] == name])) for name in people]
    if len(people) > 1:
        answers.append((AGREED, _agreed(items, len(people))))
    tables = []
    for name, of_name in answers:
        for asked in (ALL, "prompt", "found", "other"):
            chosen = of_name if asked == ALL else of_name[of_name["asked"] == asked]
            rates = detection_rates(chosen, contrasts=contrasts, **options)
            if asked != ALL:
                rates = rates[rates["object"] == ALL]
            # how often anything asked for was seen: recall with every question as its own denominator
            seen = detection_rates(
                chosen.assign(detected=chosen["truth"], truth=True), contrasts=contrasts, **options
            )
            seen = seen[(seen["quantity"] == "recall") & (seen["object"] == ALL)].assign(quantity="seen")
            seen["reason"] = seen["reason"].replace(NOTHING_THERE["recall"], "nothing asked")
            tables.append(pd.concat([rates, seen]).assign(annotator=name, asked=asked))
    for first, second in combinations(people, 2):
        tables.append(
            _kappa(items, first, second, resamples=resamples, seed=seed, **options).assign(
                annotator=f"{first}, {second}", asked=ALL
            )
        )
    table = pd.concat(tables, ignore_index=True)
    return table.assign(version=VERSION)[list(CHECK_COLUMNS)]


def human_counts(
    items: pd.DataFrame, samples: pd.DataFrame, nouns: pd.DataFrame, objects: pd.DataFrame
) -> pd.DataFrame:
    """Count right and wrong detections by what people saw, weighted as the run's images are.

    What is asked depends on what was detected near by, so labels over-represent images with detections. Of each object
    the questions of a kind (``prompt``, ``found``, ``other``) get the weight with which the run's triplets and seeds
    are of that kind; weights of an object add up to the number of its labels. A kind that was never asked of an object
    has none. Of several annotators only equal answers of all count; ``unclear`` does not. Columns are those of
    `analysis.tables.objects.detector_error.detector_counts`.
    """
    people = items["annotator"].nunique()
    clear = _agreed(items, people) if people > 1 else _clear(items)
    draws = set(zip(samples["triplet"], samples["seed"]))
    detections = objects[objects["object"] >= 0]
    everywhere = pd.DataFrame(
        [(*draw, name) for name in clear["object"].unique() for draw in draws],
        columns=["triplet", "seed", "object"],
    )
    everywhere["asked"] = _asked_because(everywhere.itertuples(index=False), nouns, detections)
    kinds = ["object", "asked"]
    asked = clear.drop_duplicates([*kinds, "prompt", "seed"]).groupby(kinds).size()
    sizes = everywhere.groupby(kinds).size().reindex(asked.index, fill_value=1)
    totals = [one.groupby("object").transform("sum") for one in (asked, sizes)]
    weights = sizes / asked * totals[0] / totals[1]
    weight = weights.reindex(pd.MultiIndex.from_frame(clear[kinds])).to_numpy()
    cells = {
        "hits": clear["truth"] & clear["detected"],
        "missed": clear["truth"] & ~clear["detected"],
        "false": ~clear["truth"] & clear["detected"],
        "rejected": ~clear["truth"] & ~clear["detected"],
    }
    keys = ["prompt", "indicator", "object"]
    table = clear[keys].assign(**{name: cell * weight for name, cell in cells.items()})
    return table.groupby(keys, observed=True).sum().reset_index().assign(truth="labels")


def _clear(answers: pd.DataFrame) -> pd.DataFrame:
    clear = answers[answers["present"] != UNCLEAR]
    return clear.assign(truth=clear["present"] == YES)


def _agreed(items: pd.DataFrame, people: int) -> pd.DataFrame:
    """Answers that all annotators gave equally."""
    grouped = items.groupby(["sample_id", "object"])["present"]
    same = (grouped.transform("nunique") == 1) & (grouped.transform("size") == people)
    return _clear(items[same].drop_duplicates(["sample_id", "object"]))


def _kappa(
    items: pd.DataFrame,
    first: str,
    second: str,
    *,
    indicators: Sequence[str],
    level: float,
    resamples: int,
    seed: int,
) -> pd.DataFrame:
    """Cohen's kappa of two annotators on what both answered, "unclear" as an answer; bootstrap intervals."""
    one, two = (items[items["annotator"] == name] for name in (first, second))
    keys = ["sample_id", "object"]
    both = one.merge(two[[*keys, "present"]], on=keys, suffixes=("", "_two"))
    rows = []
    for name in (ALL, *indicators):
        answers = both if name == ALL else both[both["indicator"] == name]
        prompt, prompts = pd.factorize(answers["prompt"])
        codes = [pd.Index(TICKED).get_indexer(answers[column]) for column in ("present", "present_two")]
        low = high = np.nan
        cells = np.zeros((len(prompts), len(TICKED), len(TICKED)))
        np.add.at(cells, (prompt, *codes), 1.0)
        value = float(_kappas(cells.sum(axis=0)[None])[0])
        reason = ONE_PROMPT if len(prompts) < 2 else ""
        if np.isnan(value):
            reason = "one answer only" if len(answers) else "nothing answered by both"
        if not reason:
            counts = resample_counts(len(prompts), resamples, seed)
            kappas = _kappas(product(counts, cells.reshape(len(prompts), -1)).reshape(-1, *cells.shape[1:]))
            kappas = kappas[~np.isnan(kappas)]
            if len(kappas) and kappas.min() < kappas.max():
                low, high = np.quantile(kappas, [(1 - level) / 2, (1 + level) / 2])
            else:
                reason = "every prompt alike"
        sizes = len(answers), len(prompts)
        rows.append(("kappa", ALL, name, value, low, high, *sizes, reason))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _kappas(cells: np.ndarray) -> np.ndarray:
    """Kappa of contingency tables of shape (n, k, k); NaN where both always answer the same."""
    total = cells.sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        observed = np.trace(cells, axis1=1, axis2=2) / total
        expected = (cells.sum(axis=2) * cells.sum(axis=1)).sum(axis=1) / total**2
        return np.where(expected < 1, (observed - expected) / (1 - expected), np.nan)

"""Presence of objects when a choice moves: scores, θ, σ, the masks that may guide, and words for humans.

The detector's score, θ of the word masks, σ of the dependency groups, whose masks may guide, and which words refer to
humans: the paper states the last two loosely; each setting says how many detections it puts into another group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from analysis.metrics.cooccurrence import ALL, of_group
from analysis.metrics.dependency import GROUPS, dependency_groups, regroup
from analysis.stats.effects import effect_sizes
from analysis.stats.sign_flips import sign_flip_test
from analysis.studies.sensitivity.ranges import LEAST_SCORES, SIGMAS, SIGMAS_HUMAN, THETAS
from analysis.studies.sensitivity.setting import Setting
from analysis.study import comparison, contrasts, indicators
from analysis.tables.objects.looked_for import known_groups
from analysis.tables.objects.nouns import PROMPT_COLUMNS, noun_table
from analysis.tables.objects.objects import observed_images, word_parts
from analysis.tables.similarities.families import by_unit
from probes.prompts.grammar.nouns import HUMAN_WORDS, human_words
from probes.runs.store import Run

MASK_WORDS = ("nouns", "all")
MOVED = "in another group"


def object_settings(
    run: Run,
    *,
    thetas: Sequence[float] = THETAS,
    sigmas: Sequence[float] = SIGMAS,
    sigmas_human: Sequence[float] = SIGMAS_HUMAN,
    least_scores: Sequence[float] = LEAST_SCORES,
) -> Iterator[Setting]:
    """Yield the presence of objects under every setting.

    The last finding of a setting that moves groups counts the detections that are in another group than in the run.

    Parameters
    ----------
    run : Run
        With ``objects/``.
    thetas, sigmas, sigmas_human, least_scores : sequence of float
        Settings besides the run's. Scores are moved where the detector gave different ones; groups where there are
        word maps.
    """
    options = run.config.measure
    backend, words = options.nouns, [member.word for member in indicators(run.config)]
    prompts = run.samples(PROMPT_COLUMNS)
    images = observed_images(run)
    detections = run.objects(["sample_id", "object", "label", "score", "mask", "height", "width"])
    of_run = {
        name: getattr(options, name)
        for name in ("mask_words", "theta", "sigma", "sigma_human", "human_words")
    }

    def grouped(lowest_score: float = 0.0, **other: object) -> pd.DataFrame:
        choices = of_run | other
        human = human_words(words, choice=choices.pop("human_words"), backend=backend)
        return dependency_groups(
            images,
            detections[detections["score"] >= lowest_score],
            noun_table(prompts, backend=backend, compounds=options.compounds, human=human),
            word_parts(run),
            human=human,
            backend=backend,
            **choices,
        )

    base = grouped()
    known = known_groups(run)
    groups = [group for group in GROUPS if group in known] if run.parts("words") else []

    def findings(objects: pd.DataFrame, kinds: Sequence[str]) -> pd.DataFrame:
        return presence_findings(run, images, objects, kinds)

    def setting(choice: str, name: str, is_of_run: bool, objects: pd.DataFrame) -> Setting:
        tables = [findings(objects, groups), moved_groups(base, objects)]
        return Setting(choice, name, is_of_run, pd.concat(tables, ignore_index=True))

    if (detections["score"] != detections["score"].min()).any():
        kinds = [*(name for name in known if name == ALL), *groups, "object"]
        yield Setting("detector score", "all", True, findings(base, kinds))
        for score in least_scores:
            if (detections["score"] < score).any():
                yield Setting("detector score", f"at least {score:g}", False, findings(grouped(score), kinds))
    if not groups:
        return
    for choice, field, values in (
        ("words whose masks guide", "mask_words", MASK_WORDS),
        ("human words", "human_words", HUMAN_WORDS),
        ("theta", "theta", thetas),
    ):
        for value in dict.fromkeys((of_run[field], *values)):
            objects = base if value == of_run[field] else grouped(**{field: value})
            name = value if isinstance(value, str) else f"{value:g}"
            yield setting(choice, name, value == of_run[field], objects)
    for sigma in dict.fromkeys((of_run["sigma"], *sigmas)):
        if sigma >= of_run["sigma_human"]:
            objects = regroup(base, sigma=sigma, sigma_human=of_run["sigma_human"])
            yield setting("sigma", f"{sigma:g}", sigma == of_run["sigma"], objects)
    for sigma in dict.fromkeys((of_run["sigma_human"], *sigmas_human)):
        if sigma <= of_run["sigma"]:
            objects = regroup(base, sigma=of_run["sigma"], sigma_human=sigma)
            yield setting("sigma, humans", f"{sigma:g}", sigma == of_run["sigma_human"], objects)


def moved_groups(base: pd.DataFrame, objects: pd.DataFrame) -> pd.DataFrame:
    """Count the detections that two tables ``objects`` of one run put into different groups.

    Examples
    --------
    >>> base = pd.DataFrame({"sample_id": "a", "object": [0, 1, -1], "group": ["x", "y", "hidden"]})
    >>> row = moved_groups(base, base.assign(group=["x", "x", "hidden"])).iloc[0]
    >>> row["value"], row["reason"]
    (np.float64(1.0), 'of 2 detections')
    """
    key = ["sample_id", "object"]
    before, after = (table.loc[table["object"] >= 0, [*key, "group"]] for table in (base, objects))
    both = before.merge(after, on=key, suffixes=("", "_moved"))
    moved = float((both["group"] != both["group_moved"]).sum())
    row = {
        "kind": "groups",
        "what": "detections",
        "quantity": MOVED,
        "value": moved,
        "ci_low": np.nan,
        "ci_high": np.nan,
        "p_value": np.nan,
        "n_prompts": base["triplet"].nunique() if "triplet" in base else 0,
        "reason": f"of {len(both)} detections",
    }
    return pd.DataFrame([row])


def presence_findings(
    run: Run, images: pd.DataFrame, objects: pd.DataFrame, kinds: Sequence[str]
) -> pd.DataFrame:
    """Share of the images with a group, or an object, first less second indicator of each contrast, over prompts.

    Individuals are left out. A group that stands in no image, or an object in fewer than ``min_count``, has no row.
    """
    measure, images = run.config.measure, by_unit(images, run.config)
    individuals = comparison(run.config).individuals
    objects = objects[~objects["lemma"].isin(list(individuals))]
    samples_with = [(name, of_group(objects, name)["sample_id"]) for name in kinds if name != "object"]
    if "object" in kinds:
        by_lemma = of_group(objects, ALL).groupby("lemma")
        samples_with += [(lemma, rows["sample_id"]) for lemma, rows in by_lemma]
    tables = []
    for one, other in contrasts(run.config):
        pair = images[images["indicator"].isin([one, other])]
        columns, names = [], []
        for name, samples in samples_with:
            has = pair["sample_id"].isin(samples)
            if name in kinds or has.sum() >= measure.min_count:
                sign = np.where(pair["indicator"] == one, 1.0, -1.0)
                # both images of a prompt and seed, or neither
                both = (sign * has).groupby([pair["triplet"], pair["seed"]]).agg(["sum", "size"])
                columns.append(both.loc[both["size"] == 2, "sum"].groupby(level="triplet").mean())
                names.append(name)
        if not columns:
            continue
        values = np.stack([column.to_numpy() for column in columns], axis=1)
        sampling = {"level": measure.level, "resamples": measure.bootstrap, "seed": measure.seed}
        size = effect_sizes(values, **sampling)
        test = sign_flip_test(values, permutations=measure.permutations, seed=measure.seed)
        columns = {
            "kind": "presence",
            "what": f"{one}-{other}",
            "quantity": names,
            "value": size.mean,
            "ci_low": size.mean_low,
            "ci_high": size.mean_high,
            "p_value": test.p_value,
            "n_prompts": size.n,
            "reason": size.mean_reason,
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

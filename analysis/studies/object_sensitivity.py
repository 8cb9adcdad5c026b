"""Presence of objects when a choice moves: the detector's score, θ of the word masks, σ of the dependency groups, whose
masks may guide, and which words refer to humans. The paper states the last two loosely; each setting says how many
detections it puts into another group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from analysis.metrics.cooccurrence import ALL, of_group
from analysis.metrics.dependency import GROUPS, dependency_groups, regroup
from analysis.stats.effects import effect_sizes
from analysis.stats.sign_flips import sign_flip_test
from analysis.study import comparison, contrasts, indicators
from analysis.tables.nouns import noun_table
from analysis.tables.objects import looked_at, word_parts
from probes.store import Run
from probes.text.nouns import HUMAN_WORDS, human_words

THETAS = (0.25, 0.3, 0.35, 0.4, 0.45)
SIGMAS = (0.5, 0.6, 0.7, 0.8, 0.9)
SIGMAS_HUMAN = (0.15, 0.25, 0.35)
LEAST_SCORES = (0.25, 0.3, 0.35, 0.4, 0.5)
MASK_WORDS = ("nouns", "all")
MOVED = "in another group"


def object_settings(
    run: Run,
    *,
    thetas: Sequence[float] = THETAS,
    sigmas: Sequence[float] = SIGMAS,
    sigmas_human: Sequence[float] = SIGMAS_HUMAN,
    least_scores: Sequence[float] = LEAST_SCORES,
) -> Iterator[tuple[str, object, bool, pd.DataFrame]]:
    """Presence under every setting: choice, setting, whether it is the run's own, and a row a finding.

    The last row of a setting that moves groups counts the detections that are in another group than in the run.

    Parameters
    ----------
    run : Run
        With ``objects/``.
    thetas, sigmas, sigmas_human, least_scores : sequence of float
        Settings besides the run's own. Scores are moved where the detector gave different ones; groups where there are
        word maps.
    """
    options = run.config.measure
    backend, words = options.nouns, [member.word for member in indicators(run.config)]
    prompts = run.samples(["triplet", "indicator", "prompt", "words"])
    images = looked_at(run)
    detections = run.objects(["sample_id", "object", "label", "score", "mask", "height", "width"])
    own = {name: getattr(options, name) for name in ("mask_words", "theta", "sigma", "sigma_human")}

    def grouped(least: float = 0.0, humans: str = options.human_words, **other: object) -> pd.DataFrame:
        human = human_words(words, choice=humans, backend=backend)
        return dependency_groups(
            images,
            detections[detections["score"] >= least],
            noun_table(prompts, backend=backend, compounds=options.compounds, human=human),
            word_parts(run),
            human=human,
            backend=backend,
            **own | other,
        )

    base = grouped()
    groups = GROUPS if run.parts("words") else ()

    def table(objects: pd.DataFrame, kinds: Sequence[str]) -> pd.DataFrame:
        return presence(run, images, objects, kinds)

    def moved(objects: pd.DataFrame) -> pd.DataFrame:
        return pd.concat([table(objects, groups), moved_groups(base, objects)], ignore_index=True)

    if (detections["score"] != detections["score"].min()).any():
        yield "detector score", "all", True, table(base, (ALL, *groups, "object"))
        for least in least_scores:
            if (detections["score"] < least).any():
                yield (
                    "detector score",
                    f"at least {least:g}",
                    False,
                    table(grouped(least), (ALL, *groups, "object")),
                )
    if not groups:
        return
    for chosen in dict.fromkeys((own["mask_words"], *MASK_WORDS)):
        objects = base if chosen == own["mask_words"] else grouped(mask_words=chosen)
        yield "words whose masks guide", chosen, chosen == own["mask_words"], moved(objects)
    for chosen in dict.fromkeys((options.human_words, *HUMAN_WORDS)):
        objects = base if chosen == options.human_words else grouped(humans=chosen)
        yield "human words", chosen, chosen == options.human_words, moved(objects)
    for theta in dict.fromkeys((own["theta"], *thetas)):
        objects = base if theta == own["theta"] else grouped(theta=theta)
        yield "theta", f"{theta:g}", theta == own["theta"], moved(objects)
    for sigma in dict.fromkeys((own["sigma"], *sigmas)):
        if sigma >= own["sigma_human"]:
            objects = regroup(base, sigma=sigma, sigma_human=own["sigma_human"])
            yield "sigma", f"{sigma:g}", sigma == own["sigma"], moved(objects)
    for sigma in dict.fromkeys((own["sigma_human"], *sigmas_human)):
        if sigma <= own["sigma"]:
            objects = regroup(base, sigma=own["sigma"], sigma_human=sigma)
            yield "sigma, humans", f"{sigma:g}", sigma == own["sigma_human"], moved(objects)


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
    value, total = float((both["group"] != both["group_moved"]).sum()), f"of {len(both)} detections"
    return pd.DataFrame([{
        "kind": "groups", "what": "detections", "quantity": MOVED, "value": value, "ci_low": np.nan, "ci_high": np.nan,
        "p_value": np.nan, "n_prompts": base["triplet"].nunique() if "triplet" in base else 0, "reason": total,
    }])  # fmt: skip


def presence(run: Run, images: pd.DataFrame, objects: pd.DataFrame, kinds: Sequence[str]) -> pd.DataFrame:
    """Part of the images with a group, or an object, first less second indicator of each contrast, over prompts.

    Individuals are left out. A group that stands in no image, or an object in fewer than ``min_count``, has no row.
    """
    measure = run.config.measure
    individuals = comparison(run.config, backend=measure.nouns).individuals
    objects = objects[~objects["lemma"].isin(list(individuals))]
    found = [(name, of_group(objects, name)["sample_id"]) for name in kinds if name != "object"]
    if "object" in kinds:
        rows = of_group(objects, ALL)
        found += [(lemma, own["sample_id"]) for lemma, own in rows.groupby("lemma")]
    tables = []
    for one, other in contrasts(run.config):
        pair = images[images["indicator"].isin([one, other])]
        columns, names = [], []
        for name, samples in found:
            has = pair["sample_id"].isin(samples)
            if name in kinds or has.sum() >= measure.min_count:
                sign = np.where(pair["indicator"] == one, 1.0, -1.0)
                # both images of a prompt and seed, or neither
                both = (sign * has).groupby([pair["triplet"], pair["seed"]]).agg(["sum", "size"])
                part = both.loc[both["size"] == 2, "sum"].groupby(level="triplet").mean()
                columns.append(part)
                names.append(name)
        if not columns:
            continue
        values = np.stack([part.to_numpy() for part in columns], axis=1)
        sampling = {"level": measure.level, "resamples": measure.bootstrap, "seed": measure.seed}
        size = effect_sizes(values, **sampling)
        test = sign_flip_test(values, permutations=measure.permutations, seed=measure.seed)
        tables.append(pd.DataFrame({
            "kind": "presence", "what": f"{one}-{other}", "quantity": names, "value": size.mean,
            "ci_low": size.mean_low, "ci_high": size.mean_high, "p_value": test.p_value, "n_prompts": size.n,
            "reason": size.mean_reason,
        }))  # fmt: skip
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

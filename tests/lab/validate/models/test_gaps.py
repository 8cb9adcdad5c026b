"""Tests of gaps where words that all mean the same change places."""

from itertools import combinations

import numpy as np
import pandas as pd

from analysis.metrics.registry import METRICS
from analysis.tables.similarities.similarities import Similarities
from lab.validate.models.gaps import QUANTITIES, permuted_p_values


class Stored:
    """Similarities of a run, from a table of them."""

    def __init__(self, table):
        self.table = table

    def family(self, *place):
        keys = ["space", "site", "metric"]
        values = self.table[(self.table[keys] == place).all(axis=1)].pivot(
            index="pair", columns="triplet", values="value"
        )
        columns = pd.DataFrame({"site": [place[1]], "step": [-1]})
        numbers, seeds = values.columns.to_numpy(), np.zeros(1, int)
        values_of = values.to_numpy()[:, :, None, None]
        return Similarities(place[0], place[2], columns, list(values.index), numbers, seeds, values_of)


def interchangeable_pairs(names, prompts=30, seed=0):
    """Similarities of synonyms: vectors with a part of the word's own, the same at every prompt."""
    rng, tables = np.random.default_rng(seed), []
    for place in QUANTITIES:
        sign = 1 if METRICS[place[2]].higher_is_nearer else -1
        word = 0.4 * rng.standard_normal((len(names), 1, 16))
        vectors = word + rng.standard_normal((prompts, 16)) + 0.1 * rng.standard_normal((1, prompts, 16))
        vectors = vectors + 0.2 * rng.standard_normal(vectors.shape)
        vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
        for i, j in combinations(range(len(names)), 2):
            value = (vectors[i] * vectors[j]).sum(axis=1) * sign
            keys = dict(zip(("space", "site", "metric"), place)) | {
                "pair": f"{names[i]}-{names[j]}",
                "step": -1,
            }
            tables.append(pd.DataFrame({"triplet": np.arange(prompts), "seed": 0, "value": value, **keys}))
    return pd.concat(tables, ignore_index=True)


def test_words_that_change_places_are_found_against_0_and_not_against_words():
    names = list("abcdefghi")
    p_values = permuted_p_values(Stored(interchangeable_pairs(names)), names, permutations=500)
    assert list(p_values) == list(QUANTITIES.values()) and len(p_values) >= 5
    assert {(len(flips), len(words)) for flips, words in p_values.values()} == {(252, 840)}
    assert all((flips < 0.05).mean() > 0.5 for flips, _ in p_values.values())
    rates = np.array([(words < 0.05).mean() for _, words in p_values.values()])
    # nine words alone: choices share them, and the correction of one is estimated from three pairs
    assert rates.max() < 0.12 and 0.001 < rates.mean() < 0.065

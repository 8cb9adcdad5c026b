"""Small object tables with their dense counts beside them, for tests that count by loops."""

import numpy as np
import pandas as pd

from analysis.stats.object_counts import object_table


def dense_table(counts, indicators="nfm"):
    """Table of counts of shape (n_prompts, n_seeds, k, n_objects)."""
    n_prompts, n_seeds, k, n_objects = counts.shape
    keys = [
        (prompt, seed, indicators[g])
        for prompt in range(n_prompts)
        for seed in range(n_seeds)
        for g in range(k)
    ]
    images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    names = [f"object {o}" for o in range(n_objects)]
    return object_table(images, counts.reshape(-1, n_objects), indicators=list(indicators[:k]), objects=names)


def random_counts(n_prompts=12, n_seeds=1, k=3, n_objects=6, seed=0, repeated=False):
    """Objects of different frequency that depend on prompt and indicator."""
    rng = np.random.default_rng(seed)
    rate = rng.uniform(0.05, 0.9, (1, 1, 1, n_objects)) * rng.uniform(0.3, 1, (n_prompts, 1, k, n_objects))
    present = rng.random((n_prompts, n_seeds, k, n_objects)) < rate
    return present * (1 + rng.poisson(1.5, present.shape) if repeated else 1)

"""Mean similarities of pairs, against plain pandas."""

import numpy as np
import pandas as pd


def test_disparity_by_plain_pandas(run, pairs):
    keys = ["space", "site", "step", "metric", "pair"]
    prompts = pairs.astype({"value": float}).groupby([*keys, "triplet"], observed=True)["value"].mean()
    expected = prompts.groupby(keys, observed=True).mean()
    table = run.table("disparity").set_index(keys)
    assert len(table) == len(expected)
    found = table["mean"].reindex(pd.MultiIndex.from_tuples(expected.index.tolist(), names=keys))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert (table["n_prompts"] == 9).all() and (table["n"] == 18).all()
    defined = table[table["reason"] == ""]
    assert ((defined["ci_low"] <= defined["mean"]) & (defined["mean"] <= defined["ci_high"])).all()

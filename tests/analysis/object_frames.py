"""Images and table ``objects`` written down by name, small enough to count by hand."""

from __future__ import annotations

import pandas as pd

from analysis.metrics.dependency import GROUPS
from analysis.study import comparison
from probes.config.schema import Config

NAMES = ("neutral", "feminine", "masculine")
CONFIG = {
    "indicators": {
        "neutral": {"word": "person"},
        "feminine": {"word": "woman"},
        "masculine": {"word": "man"},
    },
    "reference": "neutral",
    "contrasts": [["masculine", "feminine"]],
}


def compared(**changes):
    """Who is compared with whom, by `CONFIG` with fields put over it."""
    return comparison(Config.stored(CONFIG | changes))


def frame(rows):
    """Images and table ``objects`` from (triplet, seed, indicator, {group: "names"}) rows."""
    images, objects = [], []
    for triplet, seed, indicator, groups in rows:
        keys = {
            "sample_id": f"{triplet}/{seed}/{indicator}",
            "triplet": triplet,
            "seed": seed,
            "indicator": indicator,
        }
        images.append(keys)
        number = 0
        for group, names in groups.items():
            for name in names.split():
                hidden = group == "hidden"
                human = name in ("person", "woman", "man")
                objects.append(
                    {
                        **keys,
                        "object": -1 if hidden else number,
                        "lemma": name,
                        "human": human,
                        "group": group,
                    }
                )
                number += not hidden
    columns = ["sample_id", "triplet", "seed", "indicator", "object", "lemma", "human", "group"]
    return pd.DataFrame(images), pd.DataFrame(objects, columns=columns)


EG, IG, EI, II, HIDDEN = GROUPS  # the first explicitly guided, and so on
SMALL = [  # two prompts
    (0, 0, "neutral", {EG: "hat", IG: "tie tie", II: "tree"}),
    (0, 0, "feminine", {EG: "hat", IG: "scarf", HIDDEN: "park"}),
    (0, 0, "masculine", {EG: "hat man", IG: "tie tie tie", HIDDEN: "park"}),
    (1, 0, "neutral", {EI: "park", HIDDEN: "person"}),
    (1, 0, "feminine", {II: "tree", HIDDEN: "woman park"}),
    (1, 0, "masculine", {}),
]

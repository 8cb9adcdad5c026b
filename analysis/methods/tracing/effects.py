"""Effects of patches on the outcome: from outcomes of traced images to effects of prompts.

Between a word and the reference the outcome differs by the total effect. A patch of a donor's activations into the
reference's run moves it by the effect of *sufficiency*, one of the reference's into the word's run takes back that of
*necessity*, and one of a control word's into the reference's run moves it by the *floor*. Of both words of the contrast
together each is the difference of theirs, so that both point the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

WHAT = ("kind", "site", "part", "source", "positions", "heads", "first_step", "stop_step")
JOIN = ", "  # between the sites and the heads of one patch
SUFFICIENCY, NECESSITY = "sufficiency", "necessity"


@dataclass(frozen=True)
class Effects:
    """Effects on one outcome, a row a prompt, means over its seeds; NaN where there is none.

    `totals` has a column for each donor, `patches` for each estimand, donor and place, whose `WHAT` stands in `places`
    under its number. `donors` are both words together and each; `controls` are words of the reference's own meaning.
    """

    outcome: str
    version: str
    donors: Sequence[str]
    controls: Sequence[str]
    totals: pd.DataFrame
    patches: pd.DataFrame
    places: pd.DataFrame

    def of(self, estimand: str, donor: str, places: Sequence[int]) -> NDArray[np.float64]:
        """Effects of patches at some places, shape (n_prompts, n_places)."""
        columns = pd.MultiIndex.from_tuples([(estimand, donor, place) for place in places])
        return self.patches.reindex(columns=columns).to_numpy()


def effects(
    variants: pd.DataFrame, outcomes: pd.DataFrame, reference: str, contrast: tuple[str, str]
) -> list[Effects]:
    """The effects on each outcome of a trace; `variants` are of `variant_table`."""
    (first, second), both = contrast, "-".join(contrast)
    places = variants.drop_duplicates("place").set_index("place")[[*WHAT]]
    controls = variants["donor"][variants["floor"]].unique().tolist()
    result = []
    for (name, version), rows in outcomes.groupby(["outcome", "version"], sort=False):
        wide = rows.pivot(index=["triplet", "seed"], columns="variant", values="value")
        plain: dict[str, pd.Series] = {}
        patches: dict[tuple[str, str, int], pd.Series] = {}
        for row in variants.itertuples():
            if row.kind == "none":
                plain[row.recipient] = wide[row.variant]
            elif row.recipient == reference:
                patches[SUFFICIENCY, row.donor, row.place] = wide[row.variant]  # less the reference's, below
            else:
                patches[NECESSITY, row.recipient, row.place] = plain[row.recipient] - wide[row.variant]
        for estimand, _, place in [key for key in patches if key[1] == first]:
            of_second = patches.get((estimand, second, place), np.nan)
            patches[estimand, both, place] = patches[estimand, first, place] - of_second
        for key in patches:
            if key[0] == SUFFICIENCY and key[1] != both:
                patches[key] = patches[key] - plain[reference]
        totals = {both: plain[first] - plain[second]}
        totals |= {word: plain[word] - plain[reference] for word in (*contrast, *controls)}
        means = (pd.DataFrame(own).groupby("triplet").mean() for own in (totals, patches))
        result.append(Effects(str(name), str(version), (both, *contrast), controls, *means, places))
    return result


def variant_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return each variant of ``traced/`` once, its sites and heads as texts, with the number of its place."""
    variants = rows.drop_duplicates("variant").reset_index(drop=True)
    for new, old in (("site", "sites"), ("heads", "heads")):
        texts = [None if some is None else JOIN.join(map(str, some)) for some in variants[old]]
        variants[new] = pd.Series(texts, dtype=object)
    variants = variants.astype({"floor": bool})
    place = variants.groupby([*WHAT], dropna=False, sort=False).ngroup()
    return variants.assign(place=place)[["variant", "recipient", "donor", "floor", "place", *WHAT]]

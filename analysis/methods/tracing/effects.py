"""Effects of patches on the outcome, as arrays: from outcomes of traced images to effects of prompts.

Between a word and the reference the outcome differs by the total effect. A patch of a donor's activations into the
reference's run moves it by the effect of *sufficiency*, one of the reference's into the word's run takes back that of
*necessity*, and one of a control word's into the reference's run moves it by the *floor*. Of both words of the contrast
together each is the difference of theirs, so that both point the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.bootstrap import prompt_means

WHAT = ("kind", "site", "part", "source", "positions", "heads", "first_step", "stop_step")
JOIN = ", "  # between the sites and the heads of one patch
Place = tuple  # the values of `WHAT` of one patch, whichever its donor and recipient


@dataclass(frozen=True)
class Effects:
    """Outcomes of one kind by prompt and seed, arrays (n_prompts, n_seeds) with NaN where there is none.

    `plain` has those of each indicator's unpatched images, `patched` those by (place, recipient, donor); `controls` are
    donors of the reference's own meaning.
    """

    outcome: str
    version: str
    reference: str
    first: str
    second: str
    plain: Mapping[str, NDArray[np.float64]]
    patched: Mapping[tuple[Place, str, str], NDArray[np.float64]]
    controls: tuple[str, ...] = ()

    @property
    def both(self) -> str:
        """Name of both words together, as of a contrast."""
        return f"{self.first}-{self.second}"

    @property
    def donors(self) -> tuple[str, ...]:
        """Each word, then both together."""
        return self.both, self.first, self.second

    def places(self, kinds: Iterable[str]) -> list[Place]:
        """Patches of some kinds, in the order of the trace, whichever their donor and recipient."""
        wanted = set(kinds)
        return list(dict.fromkeys(place for place, _, _ in self.patched if place[0] in wanted))

    def total(self, donor: str) -> NDArray[np.float64]:
        """Total effect of a donor, of a control or of both words, shape (n_prompts,)."""
        if donor == self.both:
            return self._prompts(self._plain(self.first) - self._plain(self.second))
        return self._prompts(self._plain(donor) - self._plain(self.reference))

    def sufficiency(self, place: Place, donor: str) -> NDArray[np.float64]:
        """The effect of the donor's activations on the outcome, shape (n_prompts,); NaN where not generated."""
        if donor == self.both:
            first, second = (self._patched(place, self.reference, one) for one in (self.first, self.second))
            return self._prompts(first - second)
        return self._prompts(self._patched(place, self.reference, donor) - self._plain(self.reference))

    def necessity(self, place: Place, donor: str) -> NDArray[np.float64]:
        """The part of the donor's effect that the reference's activations take back, shape (n_prompts,)."""
        words = (self.first, self.second) if donor == self.both else (donor,)
        taken = [self._plain(word) - self._patched(place, word, self.reference) for word in words]
        return self._prompts(taken[0] - taken[1] if donor == self.both else taken[0])

    def floors(self, place: Place) -> NDArray[np.float64]:
        """The effect of each control's activations on the reference's outcome, shape (n_controls, n_prompts)."""
        return np.array([self.sufficiency(place, control) for control in self.controls])

    def _plain(self, name: str) -> NDArray[np.float64]:
        return self.plain.get(name, np.full_like(self.plain[self.reference], np.nan))

    def _patched(self, place: Place, recipient: str, donor: str) -> NDArray[np.float64]:
        return self.patched.get((place, recipient, donor), np.full_like(self.plain[self.reference], np.nan))

    @staticmethod
    def _prompts(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return prompt_means(values[:, :, None])[:, 0]


def effects(
    variants: pd.DataFrame, outcomes: pd.DataFrame, reference: str, contrast: tuple[str, str]
) -> list[Effects]:
    """The outcomes of a trace by prompt and seed, one `Effects` an outcome; `variants` are of `variant_table`."""
    found = []
    for (name, version), rows in outcomes.groupby(["outcome", "version"], sort=False):
        table = rows.pivot(index=["variant", "triplet"], columns="seed", values="value")
        prompts = np.unique(rows["triplet"])
        values = {
            variant: of_variant.droplevel(0).reindex(prompts).to_numpy()
            for variant, of_variant in table.groupby(level="variant", sort=False)
        }
        known = variants[variants["variant"].isin(list(values))]
        plain, exchanged = known[known["kind"] == "none"], known[known["kind"] != "none"]
        patched = {
            (place, row["recipient"], row["donor"]): values[row["variant"]]
            for place, row in zip(places_of(exchanged), exchanged.to_dict("records"))
        }
        controls = exchanged[exchanged["floor"] & (exchanged["recipient"] == reference)]["donor"]
        of_words = {one: values[variant] for one, variant in zip(plain["recipient"], plain["variant"])}
        found.append(
            Effects(
                str(name),
                str(version),
                reference,
                *contrast,
                of_words,
                patched,
                tuple(dict.fromkeys(controls)),
            )
        )
    return found


def places_of(variants: pd.DataFrame) -> list[Place]:
    """Return the place of each variant; None where it has no such value."""
    values = variants[list(WHAT)]
    return [*values.astype(object).where(values.notna(), None).itertuples(index=False, name=None)]


def variant_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return each variant of ``traced/`` once, its lists of sites and heads as texts."""
    found = rows.drop_duplicates("variant").reset_index(drop=True)
    sites = [JOIN.join(() if sites is None else sites) for sites in found["sites"]]
    heads = [None if heads is None else JOIN.join(map(str, heads)) for heads in found["heads"]]
    return found.assign(
        site=pd.Series(sites, dtype=object),
        heads=pd.Series(heads, dtype=object),
        floor=found["floor"].astype(bool),
    )[["variant", "recipient", "donor", "floor", *WHAT]]

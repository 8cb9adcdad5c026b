"""What may be said of the objects of two indicators' images."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, repr=False)
class ObjectFinding:
    """Which objects differ between the images of two indicators, with the sentences of the report."""

    contrast: tuple[str, str]  # differences of presence are positive towards the first
    claim: str  # how many objects differ, and which
    whole: str  # whether all objects together differ; empty where that was not tested
    paper: str  # the chi-square test of Wu et al. (2025, Table 7), and whether its conditions hold
    objects: pd.DataFrame  # the rows of ``tables/object_claims`` that are more than open

    def _sentences(self) -> Sequence[str]:
        return [text for text in (self.claim, self.whole, self.paper) if text]

    def __repr__(self) -> str:
        first, second = self.contrast
        return "\n".join([f"objects, {first} − {second}", *self._sentences()])

    def _repr_html_(self) -> str:
        first, second = (html.escape(name) for name in self.contrast)
        claim, *others = (html.escape(text) for text in self._sentences())
        more = "".join(f"<p><small>{text}</small></p>" for text in others)
        return f"<p><b>objects, {first} − {second}</b></p><p>{claim}</p>{more}"

"""The section ``skills:`` of ``triplets.yaml``: how images of PaintSkills' prompts are judged by what was detected."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from probes.config.types import Section, Share, Word


class Skills(Section):
    """Visual skills (PaintSkills, Cho et al. 2023), of prompts that have a ``skill`` among their levels.

    A detection counts whose score is above ``threshold``; none (null): 0.7 of those of the engine ``detr``, as its
    authors show them, and all that are stored of any other. The paper states no number.

    The paper leaves three choices open. ``object``: the class is ``any`` detection's, or that of the ``first``, the
    surest. ``count``: there are ``exact``-ly as many of the class, whatever else there is; ``at_least`` as many; or
    ``only`` these, and nothing else. ``spatial``: the relation is that of the ``first`` (surest) detections of both
    classes, or of ``any`` two; or of the two ``surest`` of all, which are to be of both. ``labels`` says what the
    detector calls an object (``bike: bicycle``), beyond what the set of prompts says.
    """

    threshold: Share | None = None
    object: Literal["any", "first"] = "any"
    count: Literal["exact", "at_least", "only"] = "exact"
    spatial: Literal["first", "any", "surest"] = "first"
    labels: dict[Word, Word] = Field(default_factory=dict)

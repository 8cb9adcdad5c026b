"""The section ``skills:`` of ``triplets.yaml``: how images of PaintSkills' prompts are judged by what was detected."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from probes.fields.types import Section, Share, Word, option


class Skills(Section):
    """Visual skills (PaintSkills, Cho et al. 2023), of prompts that have a ``skill`` among their levels.

    The paper leaves three choices open: ``object``, ``count`` and ``spatial``.
    """

    threshold: Annotated[
        Share | None,
        option(
            unit="score from 0 to 1",
            null="0.7 for the engine detr, as its authors show them; 0 for any other",
            example=0.5,
        ),
    ] = None
    """Score above which a detection counts. The paper states no number."""
    object: Literal["any", "first"] = "any"
    """When an object counts as drawn: where `any` detection is of its class, or where the `first` (surest)
    is."""
    count: Literal["exact", "at_least", "only"] = "exact"
    """When a number counts as drawn: `exact`-ly as many of the class, whatever else there is; `at_least` as
    many; or `only` these and nothing else."""
    spatial: Literal["first", "any", "surest"] = "first"
    """Between which detections a relation must hold: the `first` (surest) of both classes, `any` two, or the
    two `surest` of all, which are to be of both."""
    labels: Annotated[dict[Word, Word], option(example={"bike": "bicycle"})] = Field({})
    """What the detector calls an object, beyond what the set of prompts says."""

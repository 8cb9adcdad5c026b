"""What every section of ``triplets.yaml`` is; in a file of its own, so that a section may stand inside another."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Fields that are all named here, each of just its kind."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

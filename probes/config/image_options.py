"""``images: {from: ...}`` of ``triplets.yaml``: where images of another program stand, and by what each is known."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from probes.config.types import PathOrName

Column = Annotated[str, Field(min_length=1)]
UNNAMED = "unnamed model"  # whose name nobody gave


class Images(BaseModel):
    """Images that another program generated, in place of a model: a folder or a table that says the prompt of each.

    ``from`` is a table (CSV, TSV, JSONL, Parquet), or a folder with one, by its path beside ``triplets.yaml``; paths of
    images are relative to it. ``image`` is the column of their files, or of their bytes in Parquet (nothing (null):
    ``image``, ``file``, ``file_name`` or ``path``, whichever is there); ``prompt``, ``indicator``, ``seed`` and
    ``triplet`` are the columns of these. Without a column ``triplet`` prompts belong together that differ in the
    indicator's word alone; without a column ``seed`` (null) images of a prompt are independent of the other prompts'.
    ``names`` takes all this from the names of the files in a folder: ``"{prompt}_{indicator}_{seed}"``.
    Beside prompts that ask for skills ``prompt_id`` is the column of the prompt's id, of which some have one text.
    ``any_words`` also takes prompts that do not hold the word of their indicator.
    """

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        title="Images",
        validate_by_name=True,
        validate_by_alias=True,
    )

    from_: Annotated[PathOrName, Field(alias="from", min_length=1)]
    names: Column | None = None
    image: Column | None = None
    prompt: Column = "prompt"
    prompt_id: Column | None = "prompt_id"
    indicator: Column = "indicator"
    seed: Column | None = "seed"
    triplet: Column | None = "triplet"
    any_words: bool = False

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values = handler(self)
        return {"from": values.pop("from_"), **values}

    @property
    def paired(self) -> bool:
        """Return whether seeds pair the images of a triplet."""
        return self.seed is not None

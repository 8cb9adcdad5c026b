"""``images: {from: ...}`` of ``triplets.yaml``: where images of another program stand, and by what each is known."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from probes.fields.types import Section, option

Column = Annotated[str, Field(min_length=1)]
UNNAMED = "unnamed model"  # whose name nobody gave


class Images(Section):
    """Images that another program generated, in place of a model: a folder or a table that says the prompt of each."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    from_: Annotated[str, Field(alias="from", min_length=1), option(example="images.csv")]
    """A table of the images (CSV, TSV, JSONL, XLSX, Parquet), or a folder with one, by its path beside
    triplets.yaml."""
    names: Annotated[Column | None, option(null="a table says it", example="{prompt}_{indicator}_{seed}")] = (
        None
    )
    """How the names of the files in a folder say prompt, indicator and seed, where there is no table."""
    image: Annotated[
        Column | None, option(null="image, file, file_name or path, whichever is there", example="filename")
    ] = None
    """Column of the images' files, relative to the table, or of their bytes in Parquet."""
    prompt: Annotated[Column, option(example="caption")] = "prompt"
    """Column of the prompt."""
    prompt_id: Annotated[Column | None, option(example="id")] = "prompt_id"
    """Column of the prompt's id, beside prompts that ask for skills, of which some have one text."""
    indicator: Annotated[Column, option(example="gender")] = "indicator"
    """Column of the indicator, such as feminine. Without it, and without `indicators`, prompts stand alone and
    no words are compared."""
    seed: Annotated[Column | None, option(example=None)] = "seed"
    """Column of the seed. Write null where the images have none: they are then taken as independent."""
    triplet: Annotated[Column | None, option(example="group")] = "triplet"
    """Column that says which prompts belong together. Without one they are those that differ in the indicator's
    word alone."""
    levels: Annotated[
        list[Column] | None,
        option(
            null="profession, setting, template and model, whichever are there",
            example=["profession", "setting"],
        ),
    ] = None
    """Columns that say where a prompt stands in your design, of images that have no indicator: images of one
    text and of the same levels are of one prompt. Fields of `names` may be called so, too."""
    any_words: bool = False
    """Whether prompts are taken that do not hold the word of their indicator."""

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values = handler(self)
        return {"from": values.pop("from_"), **values}

    @property
    def paired(self) -> bool:
        """Return whether seeds pair the images of a triplet."""
        return self.seed is not None

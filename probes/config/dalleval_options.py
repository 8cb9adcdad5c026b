"""The section ``dalleval:`` of ``triplets.yaml``: what is asked of the measures of an audit of professions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from probes.fields.types import READER, Section, Unique, option

READERS = ("human", "toyworld-checker", "blip2", "toyworld-vqa", "clip")
Reader = Annotated[str, Field(pattern=READER)]


class DallEval(Section):
    """An audit of professions (DALL-Eval, Cho et al. 2023), of prompts that have a ``profession`` among their"
    " levels."""

    readers: Annotated[Unique[Reader], option(example=["human", "clip"])] = Field(list(READERS), min_length=1)
    """Whose reading of the images is shown first: the first of these that read them. All stand in the tables;
    people who answered about some images alone come last."""
    tone: Literal["ita", "ciede2000", "dalleval2023"] = "ita"
    """How a skin is put to a tone of the Monk scale in figures and sentences: the nearest by angle (`ita`) or
    by colour difference (`ciede2000`), or as the authors' published code does (`dalleval2023`)."""
    bare: Literal["attributes", "all", "none"] = "attributes"
    """Where the prompt without a profession counts among the professions: for `attributes` alone, as in the
    paper's tables, for `all` or for `none`."""
    correct: bool = True
    """Whether readings of toyworld's images are also set right for the reader's error, in columns beside."""

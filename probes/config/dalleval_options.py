"""The section ``dalleval:`` of ``triplets.yaml``: what is asked of the measures of an audit of professions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from probes.config.types import READER, Section, Unique

READERS = ("human", "toyworld-checker", "blip2", "toyworld-vqa", "clip")
Reader = Annotated[str, Field(pattern=READER)]


class DallEval(Section):
    """An audit of professions (DALL-Eval, Cho et al. 2023), of prompts that have a ``profession`` among their levels.

    Every reader of the images stands in the tables; of ``readers`` the first that read them speaks in figures, in the
    report's sentences and in the paper's tables, any others after these; people who answered about some of the images
    alone come last. Another list than the usual one names readers of the run alone, and ``human``. ``tone`` is the rule
    whose tones do so: the nearest of the Monk scale by ``ita`` or by ``ciede2000``, or the published code's
    (``dalleval2023``).

    ``bare`` says where the prompt that names no profession counts among the professions: for ``attributes`` alone, as
    in the paper's Table 22 (its tables of gender and tone have 83 rows, those of attributes 84), for ``all``, or for
    ``none``. ``correct`` sets readings of toyworld's images right for the reader's error, in columns beside.
    """

    readers: Unique[Reader] = Field(list(READERS), min_length=1)
    tone: Literal["ita", "ciede2000", "dalleval2023"] = "ita"
    bare: Literal["attributes", "all", "none"] = "attributes"
    correct: bool = True

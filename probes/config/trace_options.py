"""The section ``trace:`` of ``triplets.yaml``: activation patching between the words of a triplet."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hooks.prompt.spans import GROUPS, REST
from probes.fields.types import (
    AutoOrCount,
    Positive,
    Section,
    Unique,
    Windows,
    fail,
    option,
    takes,
)


class Trace(Section):
    """Activation patching (causal tracing): the reference's images with activations of the first contrast's words."""

    sites: Annotated[
        Annotated[
            Literal["default"] | Annotated[Unique[str], Field(min_length=1)],
            takes("`default` or a list of sites such as [text.layers.0, unet.*.cross]"),
        ],
        option(example=["text.layers.*", "unet.*.cross"]),
    ] = "default"
    """Sites that are patched, one after another: addresses or patterns of docs/reference/sites.md. `default`:
    every cross-attention of a U-Net; of a diffusion transformer the pooled text, each text encoder where there
    are several, and every joint attention. Each takes one more image per word, prompt and seed."""
    part: Literal["key+value", "key", "value", "query", "heads", "probabilities", "output"] = "key+value"
    """What of an attention is patched. `key+value` is what the text gives (of a joint attention, too); `output`
    is what the layer adds; `probabilities` is where it looks."""
    source: Literal["own", "local"] = "own"
    """Where a donor's activation comes from: its own trajectory (`own`), or recomputed at the recipient's
    latent (`local`, twice the time). For keys and values of cross-attention both are the same."""
    prompts: Annotated[Positive, option(unit="prompts", example=48)] = 24
    """Prompts that are traced, the run's first. More prompts make intervals narrower."""
    seeds: Annotated[Positive, option(unit="seeds", example=3)] = 1
    """Seeds of each prompt that are traced, the run's first."""
    necessity: bool = True
    """Whether the words' images are also generated with activations of the reference. It tells which place is
    needed, beside which is enough; without it a trace takes half the time."""
    floor: bool = True
    """Whether the reference's images are also generated with activations of its synonyms, to know what any word
    would change."""
    cuts: bool = True
    """Whether patches whose share is known are generated too, to check the method."""
    windows: Annotated[Windows, option(unit="windows, or steps", example=[[0, 10], [10, 20]])] = 0
    """Windows of steps in which each site is patched: a number of equal ones, or first steps with the one after
    the last. Where one prompt is traced, 4 unless another number is given: a map without intervals."""
    heads: Annotated[Unique[str], option(example=["unet.mid.attn.0.cross"])] = []
    """Attentions each of whose heads is patched alone."""
    positions: Annotated[Unique[Literal[*GROUPS, REST]], option(example=["word", "rest"])] = []
    """Groups of token positions that are patched alone: start, before, word, after, end, padding; `rest`, all
    but the word, tells whether the text around a word carries what it means."""
    batch: Annotated[AutoOrCount, option(unit="images", example=8)] = "auto"
    """Images generated at once, at least 3. Lower it where memory runs out."""

    @model_validator(mode="after")
    def _consistent(self) -> Trace:
        if self.batch != "auto" and self.batch < 3:
            raise fail(
                f"expected at least 3 images, a recipient, a donor and one between, got {self.batch}: raise it",
                at=("batch",),
            )
        return self

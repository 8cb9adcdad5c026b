"""The section ``trace`` of ``triplets.yaml``: which activations are exchanged between the words of a triplet."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from hooks.prompt.positions import GROUPS
from probes.config_sections import Section
from probes.config_values import HINT, AutoOrCount, Positive, fail, shown

POINTS = 1000  # of a curve, windows: more than any sampler has steps
EXACT = 10  # cross-attentions of which every subset is drawn: 1,024
PERMUTATIONS = 1000
Count = Annotated[int, Field(ge=0, le=POINTS)]
Step = Annotated[int, Field(ge=0, le=POINTS)]


def _windows(value: Any) -> Any:
    """A number of windows, or the first step of each and the one after its last."""
    if type(value) is int or not isinstance(value, list):
        return value
    for index, window in enumerate(value):
        fine = isinstance(window, list) and len(window) == 2 and all(type(step) is int for step in window)
        if not fine or not 0 <= window[0] < window[1]:
            raise fail(
                f"expected the first step and the one after the last, got {shown(window)}: write it as [0, 10]",
                at=(index,),
            )
    return value


def _permutations(value: Any) -> Any:
    if value is False or value == "exact" or (type(value) is int and 1 <= value <= PERMUTATIONS):
        return value
    raise fail(
        f"expected false, `exact` or a number of permutations from 1 to {PERMUTATIONS}, got {shown(value)}{HINT}:"
        " choose one of them"
    )


Windows = Annotated[
    Count | list[list[int]],
    BeforeValidator(
        _windows, json_schema_input_type=Count | list[Annotated[list[Step], Field(min_length=2)]]
    ),
]
Permutations = Annotated[
    Literal[False, "exact"] | int,
    BeforeValidator(
        _permutations,
        json_schema_input_type=Literal[False, "exact"] | Annotated[int, Field(ge=1, le=PERMUTATIONS)],
    ),
]


class Trace(Section):
    """Which activations the words of a triplet exchange, and of how many prompts and seeds (the first of the run).

    The reference's images are drawn with activations of the two words of the first contrast at each of the `sites`
    (addresses or patterns; of attentions `part`), at all of its cross-attentions together and, by `curve`, at these
    from a step on: a number of points along the steps, or the steps. `source` takes a donor's activation from its
    own trajectory or recomputes it at the recipient's latent; to keys and values it makes no difference. `necessity`
    draws the words' images with activations of the reference, too, and `floor` the reference's with those of its
    controls.

    More on request: `windows` of steps at each site (a number of equal ones, or the first step of each and the one
    after its last), each head of some sites (`heads`), groups of token `positions` (`hooks.position_groups`), and
    subsets of the cross-attentions for Shapley values (`shapley`: ``exact``, or a number of sampled permutations).
    `cuts` are drawn to check the instrument: their shares are known. `batch` is the number of images drawn at once.
    """

    sites: Annotated[list[str], Field(min_length=1)] = ["unet.*.cross"]
    part: Literal["key+value", "key", "value", "query", "heads", "probabilities", "output"] = "key+value"
    source: Literal["own", "local"] = "own"
    prompts: Positive = 24
    seeds: Positive = 1
    necessity: bool = False
    floor: bool = True
    cuts: bool = True
    curve: Annotated[Count | list[Step], Field(union_mode="left_to_right")] = 5
    windows: Windows = 0
    heads: list[str] = []
    positions: list[Literal[*GROUPS]] = []
    shapley: Permutations = False
    batch: AutoOrCount = "auto"

    @model_validator(mode="after")
    def _consistent(self) -> Trace:
        for name in ("sites", "heads", "positions", "curve"):
            values = getattr(self, name)
            twice = [one for one in values if values.count(one) > 1] if isinstance(values, list) else []
            if twice:
                raise fail(f"{twice[0]!r} stands twice: keep one", at=(name,))
        if self.batch != "auto" and self.batch < 3:
            raise fail(
                f"expected at least 3 images, a recipient, a donor and one between, got {self.batch}: raise it",
                at=("batch",),
            )
        return self

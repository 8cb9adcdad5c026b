"""The section ``gep:`` of ``triplets.yaml``: an audit of attributes (GEP, Zhang et al. 2023)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from probes.fields.types import LABEL, Section, SentenceTemplate, Word, option

_AS_ABOVE = "as in `gep` itself"


class GepVariant(Section):
    """Another way to make the estimates of an audit: its fields stand in the place of those of ``gep``."""

    reference: Annotated[str | None, option(null=_AS_ABOVE, example="a thing")] = None
    """What C and CC compare an attribute with."""
    template: Annotated[
        SentenceTemplate | None, option(null=_AS_ABOVE, example="{subject} {context} {attribute}")
    ] = None
    """How a sentence is put together."""
    subjects: Annotated[
        Annotated[list[Word], Field(min_length=1)] | None, option(null=_AS_ABOVE, example=["A person"])
    ] = None
    """Subjects of the sentences."""
    contexts: Annotated[
        Annotated[list[Word], Field(min_length=1)] | None,
        option(null=_AS_ABOVE, example=["in a park", "at home"]),
    ] = None
    """Contexts of the sentences."""
    negative: Annotated[
        Annotated[list[Word], Field(min_length=6)] | None,
        option(null=_AS_ABOVE, example=["a dog", "a cat", "a tree", "a house", "a car", "a street"]),
    ] = None
    """Sentences without the attribute."""
    ensemble: Annotated[
        Annotated[int, Field(ge=1, le=100)] | None, option(unit="classifiers", null=_AS_ABOVE, example=1)
    ] = None
    """Classifiers of an attribute."""


class Gep(Section):
    """An audit of attributes, of prompts that have a ``context`` among their levels (docs/how_to/gep.md)."""

    attributes: Annotated[
        Annotated[dict[Word, Word], Field(min_length=1)] | None,
        option(
            null="those that the prompts name, else the paper's 15",
            example={"dress": "in a dress", "suit": "in a suit"},
        ),
    ] = None
    """Attributes by name, each with its phrase in a sentence."""
    clip: Annotated[
        str | None,
        option(
            null="the paper's clip_vit_l_14 where `observe.feature_weights` or `observe.features` names it, else clip",
            example="clip_vit_l_14",
        ),
    ] = None
    """The feature of `observe.features` by which estimates are made."""
    reference: Annotated[str, option(example="a thing")] = "an object"
    """What C and CC compare an attribute's name with. It is to say nothing of the attribute."""
    template: Annotated[SentenceTemplate, option(example="{subject} {context} {attribute}")] = (
        "{subject} {attribute} {context}"
    )
    """How the sentences that train CLS are put together, from {subject}, {attribute} and {context}."""
    subjects: Annotated[list[Word], Field(min_length=1), option(example=["A person"])] = Field(
        ["A man", "A woman", "A person"]
    )
    """Subjects of the sentences that train CLS."""
    contexts: Annotated[
        Annotated[list[Word], Field(min_length=1)] | None,
        option(null="those of the run's prompts", example=["in a park", "at home"]),
    ] = None
    """Contexts of the sentences that train CLS."""
    negative: Annotated[
        Annotated[list[Word], Field(min_length=6)] | None,
        option(
            null="the same sentences without the phrase",
            example=["a dog", "a cat", "a tree", "a house", "a car", "a street"],
        ),
    ] = None
    """Sentences of images without the attribute, which train CLS."""
    ensemble: Annotated[int, Field(ge=1, le=100), option(unit="classifiers", example=1)] = 10
    """Classifiers that are trained for an attribute, whose scores are averaged."""
    variants: Annotated[
        dict[Annotated[str, Field(pattern=LABEL)], GepVariant],
        option(example={"thing": {"reference": "a thing"}}),
    ] = Field({})
    """Further ways to make CC and CLS, by name, read beside them (the paper's Tables 8 and 9). They show what
    hangs on the wording."""
    prediction: Literal["CLS", "CC", "C"] = "CLS"
    """The estimate whose errors are set right by labelled images: by classifiers (`CLS`), by CLIP against the
    reference (`CC`), or by CLIP alone (`C`)."""
    labelled: Annotated[int, Field(ge=5, le=100000), option(unit="images", example=50)] = 20
    """Images of each word and attribute that are labelled to set the estimate right."""
    half_width: Annotated[float, Field(gt=0, lt=1), option(unit="share from 0 to 1", example=0.05)] = 0.1
    """Half width of an interval for which the tables say how many labels it takes."""
    examples: Annotated[int, Field(ge=0, le=1000), option(unit="images", example=0)] = 10
    """Images of each attribute and scale that are generated for the artificial sets of the paper's Table 17; 0:
    none."""

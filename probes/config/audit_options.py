"""Audits in ``triplets.yaml``: ``gep:`` (Zhang et al. 2023), ``dalleval:`` and ``skills:`` (Cho et al. 2023)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from probes.fields.types import LABEL, READER, Section, SentenceTemplate, Share, Unique, Word, option

_AS_ABOVE = "as in `gep` itself"
READERS = ("human", "toyworld-checker", "blip2", "toyworld-vqa", "clip")  # of images, the surest first


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
    subjects: Annotated[list[Word], Field(min_length=1), option(example=["A person"])] = [
        "A man",
        "A woman",
        "A person",
    ]
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
    ] = {}
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


class DallEval(Section):
    """An audit of professions (DALL-Eval, Cho et al. 2023), of prompts with a ``profession`` among their levels."""

    readers: Annotated[
        Unique[Annotated[str, Field(pattern=READER)]], Field(min_length=1), option(example=["human", "clip"])
    ] = list(READERS)
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
    labels: Annotated[dict[Word, Word], option(example={"bike": "bicycle"})] = {}
    """What the detector calls an object, beyond what the set of prompts says."""

"""Prompts and embedded sentences of an audit of attributes (GEP, Zhang et al. 2023).

A prompt of a grid carries the levels ``context``, ``attribute`` where it names one, and ``setting``
(`probes.prompts.grids`); a configuration whose prompts have contexts is an audit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from probes.config.schema import Config, Gep
from probes.errors import UserError
from probes.prompts import sets

SETTINGS = ("neutral", "explicit")
SENTENCES = (
    6  # of each side of a classifier, a tenth of which is held back: one with the attribute, one without
)
TRAINING = ("subjects", "contexts", "negative", "template")  # options of the sentences to train by
TEMPLATE = Gep().template
PAPER_CLIP, USUAL_CLIP = "clip_vit_l_14", "clip"


@dataclass(frozen=True)
class AttributeCell:
    """Place of a prompt in an audit; `named` is the attribute that it names, or empty."""

    triplet: int
    setting: str
    context: str
    named: str


@dataclass(frozen=True)
class Sentences:
    """Sentences that are embedded for an audit."""

    names: tuple[str, ...]  # of each attribute, without preposition (a dress)
    reference: str
    positive: tuple[tuple[str, ...], ...]  # with each attribute; empty where there are too few to train by
    negative: tuple[str, ...]  # without any

    @property
    def all(self) -> tuple[str, ...]:
        """Every one of them once."""
        return tuple(dict.fromkeys((*self.names, self.reference, *chain(*self.positive), *self.negative)))


def places(config: Config) -> list[AttributeCell]:
    """Return where the prompts of an audit stand; prompts without a ``context`` among their levels are left out."""
    cells = []
    for triplet, prompt in enumerate(config.prompts[: config.limit]):
        if "context" in (levels := prompt.levels):
            named = levels.get("attribute", "")
            setting = levels.get("setting", SETTINGS[bool(named)])
            cells.append(AttributeCell(triplet, setting, levels["context"], named))
    return cells


def attributes(config: Config) -> dict[str, str]:
    """Return the attributes of an audit with their phrases: ``gep.attributes``, or those of the prompts, or GEP's."""
    if config.gep.attributes:
        return dict(config.gep.attributes)
    known: Mapping[str, str] = sets.read("gep")["axes"]["attribute"]
    named = [place.named for place in places(config) if place.named]
    if not named:
        return dict(known)
    return {name: known.get(name, name) for name in dict.fromkeys(named)}


def clip_name(config: Config) -> str:
    """Return which of ``observe.features`` is the CLIP of an audit.

    Where the configuration names none it is the paper's, ViT-L/14, if its weights are given, or it is among the
    features. What happens to lie on a machine alters nothing.
    """
    features = config.observe.features
    among = isinstance(features, list) and PAPER_CLIP in features
    given = among or PAPER_CLIP in config.observe.feature_weights
    return config.gep.clip or (PAPER_CLIP if given else USUAL_CLIP)


def sentences(config: Config, variant: str = "") -> Sentences | None:
    """Return the sentences of an audit, or of one of its ``gep.variants``; None where a configuration is no audit.

    Too few to train a classifier by are refused where the configuration says them; where only the run's contexts are
    too few, there are none to train by.
    """
    cells = places(config)
    if not cells:
        return None
    # an occupation is no context that a sentence could end with
    own = [cell.context for cell in cells if config.prompts[cell.triplet].template]
    contexts = list(dict.fromkeys(own)) or sets.read("gep")["axes"]["context"]
    options, phrases = options_of(config, variant), list(attributes(config).values())
    with_it, without = training_sentences(
        phrases, options.contexts or contexts, options.subjects, options.template
    )
    negative = options.negative or without
    few = min(len(negative), *map(len, with_it.values()))
    if few < SENTENCES and all(getattr(options, name) == getattr(Gep(), name) for name in TRAINING):
        with_it, negative = {}, []  # prompts of a context or so, which may not be meant for an audit
    elif few < SENTENCES:
        place = f"gep.variants.{variant}" if variant else "gep"
        raise UserError(
            f"{place}: expected at least {SENTENCES} different sentences to train a classifier by, with an attribute"
            f" and without, got {few}: name more contexts (gep: {{contexts: [...]}}) or subjects"
        )
    return Sentences(
        names=tuple(map(sets.without_preposition, phrases)),
        reference=options.reference,
        positive=tuple(map(tuple, with_it.values())),
        negative=tuple(negative),
    )


def texts(config: Config) -> tuple[str, ...]:
    """Return every sentence of an audit and of its variants once, then its prompts; none where there is no audit."""
    variants = [sentences(config, variant) for variant in ("", *config.gep.variants)]
    asked = chain(*(variant.all for variant in variants if variant is not None))
    return tuple(dict.fromkeys((*asked, *prompts(config).values())))


def prompts(config: Config) -> dict[tuple[int, str], str]:
    """Return what was asked for, by the number of the prompt and the indicator; nothing where there is no audit."""
    return {
        (place.triplet, name): config.prompts[place.triplet].text(name, entry.word)
        for place in places(config)
        for name, entry in config.indicators.items()
    }


def options_of(config: Config, variant: str = "") -> Gep:
    """Return section ``gep`` with what one of its variants says in place."""
    if not variant:
        return config.gep
    values = dict(config.gep.variants[variant])
    return config.gep.model_copy(update={name: value for name, value in values.items() if value is not None})


def training_sentences(
    phrases: Sequence[str], contexts: Sequence[str], subjects: Sequence[str], template: str = TEMPLATE
) -> tuple[dict[str, list[str]], list[str]]:
    """Return for each attribute's phrase (*in a dress*) the sentences that name it, and the sentences that name none.

    Zhang et al. 2023, section 4.2: the contexts (*riding a bike*) are those that images were drawn from, and others in
    an ablation; the subjects are *A man*, *A woman*, *A person*, in an ablation without the last.

    >>> with_it, without = training_sentences(["in a dress"], ["riding a bike"], ["A man"])
    >>> with_it["in a dress"], without
    (['A man in a dress riding a bike'], ['A man riding a bike'])
    """

    def filled(phrase: str) -> list[str]:
        """The sentences of all subjects and contexts, each once, with single spaces where there is no phrase."""
        texts = (
            template.replace("{attribute}", phrase)
            .replace("{subject}", subject)
            .replace("{context}", context)
            for subject in subjects
            for context in contexts
        )
        return list(dict.fromkeys(re.sub(r"\s+([.,]|$)", r"\1", " ".join(text.split())) for text in texts))

    return {phrase: filled(phrase) for phrase in phrases}, filled("")

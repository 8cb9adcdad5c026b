"""``edit:`` of ``triplets.yaml``: what is altered in a model after it is loaded. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from probes.fields.types import CHARACTERS, Section, Word, fail, one_person, option, shown

# sentences that go on differently: two that end with the word say nothing of what an edit does where others follow it
CONTEXTS = (
    "a photo of a {person}",
    "a {person} with a dog in the park",
    "a {person} riding a bike on the beach",
    "a {person} sitting at a table in the kitchen",
    "a {person} next to a horse in the snow",
)
# fields that mean nothing to a kind
_CLOSED = ("ridge", "keep_weight")
_UNUSED = {
    "keys_and_values": ("direction", "amount"),
    "project": ("words", "keep", *_CLOSED),
    "shift": ("words", "keep", *_CLOSED),
}


_BY_DIRECTION = ("project", "shift")

Context = Annotated[str, Field(max_length=CHARACTERS), AfterValidator(one_person)]
Amount = Annotated[float, Field(ge=-100, le=100)]


class Edit(Section):
    r"""An edit of the model's weights or text states, made when it is loaded.

    With ``keys_and_values`` the states :math:`c` of a word give what :math:`c + \sum_j \alpha_j (a_j - c)` gave before,
    for the words :math:`a_j` with their shares :math:`\alpha_j` in ``words``: Gandikota et al. 2024 (UCE, Eq. 7), and
    without ``keep`` Orgad et al. 2023 (TIME, Eq. 4). What is left of it in contexts that it was not solved from stands
    in ``run.json`` (``left_over_held_out``), which contexts that resemble one another flatter.
    """

    kind: Literal["keys_and_values", "project", "shift"] = "keys_and_values"
    """How the model is edited: keys and values of cross-attentions in closed form (`keys_and_values`; TIME and
    UCE), or the text's states with a direction taken out (`project`) or added (`shift`)."""
    words: Annotated[
        dict[Word, Annotated[dict[Word, Amount], Field(min_length=1)]],
        option(unit="share", example={"person": {"woman": 0.25}}),
    ] = {}
    """For each word that is edited, the words it moves towards with their shares; 1 is all of that word. Not
    with `project` and `shift`."""
    keep: Annotated[list[Word], option(example=["woman", "man"])] = []
    """Words whose states give what they gave before. Name those that the edit must not move. Not with `project`
    and `shift`."""
    direction: Annotated[
        Annotated[list[Word], Field(min_length=2, max_length=2)] | None,
        option(null="none", example=["woman", "man"]),
    ] = None
    """Two words: the direction from the mean states of the first to those of the second. `project` and `shift`
    need it."""
    amount: Annotated[Amount, option(unit="share", example=-0.5)] = 1.0
    """How much of the direction is taken out (1: all of it) or added."""
    contexts: Annotated[
        Annotated[list[Context], Field(min_length=1)],
        option(example=["a photo of a {person}", "a {person} with a dog"]),
    ] = [*CONTEXTS]
    """Sentences in which the words' states are taken. With few of them an edit fits these and moves words in
    others."""
    sites: Annotated[
        Annotated[list[str], Field(min_length=1)] | None,
        option(null="all cross-attentions; text.final with `project` and `shift`", example=["unet.mid*"]),
    ] = None
    """Where the edit acts: addresses or patterns of cross-attentions; with `project` and `shift` also
    text.final, text.embeddings and text.layers.N."""
    parts: Annotated[
        Annotated[list[Literal["key", "value"]], Field(min_length=1)], option(example=["value"])
    ] = ["key", "value"]
    """Whether keys, values or both are edited."""
    positions: Literal["word", "onward"] = "onward"
    """Which tokens' states are taken: the word's last token alone (`word`), or all from there on (`onward`),
    which have read it."""
    ridge: Annotated[
        float, Field(gt=0), option(unit="mean eigenvalue of the states' second moments", example=1.0)
    ] = 0.3
    """Weight of what holds all other states where they were. With a small one an edit fits its own contexts and
    moves all words in others."""
    keep_weight: Annotated[float, Field(gt=0), option(unit="factor", example=2.0)] = 1.0
    """Weight of the words of `keep`."""

    @model_validator(mode="after")
    def _of_its_kind(self) -> Edit:
        by_words = self.kind not in _BY_DIRECTION
        wrong = [name for name in _UNUSED[self.kind] if name in self._given()]
        if wrong:
            raise fail(f"expected nothing with kind {self.kind}, got a value: take it out", at=(wrong[0],))
        if by_words and not self.words:
            raise fail(
                "expected words to edit, as {person: {woman: 0.25}}, found none: add them", at=("words",)
            )
        if not by_words and self.direction is None:
            raise fail("expected two words, as [woman, man], found none: add them", at=("direction",))
        if self.direction is not None and self.direction[0] == self.direction[1]:
            raise fail(
                f"expected two different words, got {shown(self.direction)}: change one", at=("direction",)
            )
        both = sorted({*self.words} & {*self.keep})
        if both:
            raise fail(f"expected words that are not edited, got {shown(both[0])}: take it out", at=("keep",))
        return self

    def _given(self) -> set[str]:
        """The fields with another value than their default."""
        fields = type(self).model_fields
        return {name for name in self.model_fields_set if getattr(self, name) != fields[name].default}

    @property
    def named_words(self) -> list[str]:
        """All words that it names, each once."""
        named = [word for edited, targets in self.words.items() for word in (edited, *targets)]
        return list(dict.fromkeys([*named, *self.keep, *(self.direction or ())]))

    @property
    def summary(self) -> str:
        """The edit in a few words.

        >>> Edit(kind="shift", direction=["woman", "man"], amount=-0.5).summary
        'shift at text.final: -0.5 of woman → man'
        """
        every = "text.final" if self.kind in _BY_DIRECTION else "all cross-attentions"
        where = ", ".join(self.sites or [every])
        if self.kind in _BY_DIRECTION:
            return f"{self.kind} at {where}: {self.amount:g} of {' → '.join(self.direction or ())}"
        words = [
            f"{word} → {' + '.join(f'{share:g} {other}' for other, share in shares.items())}"
            for word, shares in self.words.items()
        ]
        kept = f"; kept: {', '.join(self.keep)}" if self.keep else ""
        return f"{self.kind} at {where}: {', '.join(words)}{kept}"

    def plain(self) -> dict[str, Any]:
        """As plain data that `Edit.model_validate` takes again."""
        return self.model_dump(mode="json")

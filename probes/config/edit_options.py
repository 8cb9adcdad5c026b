"""``edit:`` of ``triplets.yaml``: what is altered in a model after it is loaded. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from probes.config.types import CHARACTERS, Section, Word, fail, one_person, shown

# sentences that go on differently: two that end with the word say nothing of what an edit does where others follow it
CONTEXTS = (
    "a photo of a {person}",
    "a {person} with a dog in the park",
    "a {person} riding a bike on the beach",
    "a {person} sitting at a table in the kitchen",
    "a {person} next to a horse in the snow",
)
_OF_WORDS = ("words", "keep", "ridge", "keep_weight")  # fields of `keys_and_values` alone
_OF_DIRECTIONS = ("direction", "amount")  # fields of `project` and `shift` alone


Context = Annotated[str, Field(max_length=CHARACTERS), AfterValidator(one_person)]
Amount = Annotated[float, Field(ge=-100, le=100)]


class Edit(Section):
    r"""An edit of the model's weights or text states, made when it is loaded; nothing (null): none.

    ``keys_and_values`` edits keys and values of cross-attentions in closed form, so that the states :math:`c` of
    a word in the ``contexts`` give what :math:`c + \sum_j \alpha_j (a_j - c)` gave before. ``words`` holds, for each
    word, the words :math:`a_j` with their shares :math:`\alpha_j` (``person: {woman: 0.25}``; 1: all of that word);
    states of the words of ``keep`` are to give what they gave. As Gandikota et al. 2024 (UCE, Eq. 7); without ``keep``
    it is the edit of Orgad et al. 2023 (TIME, Eq. 4). ``ridge`` is the weight of what holds all other states where they
    were, in units of the mean eigenvalue of the states' second moments, and ``keep_weight`` that of the kept words.
    With a small ridge an edit fits its own contexts and moves all words in others: ``run.json`` says what is left of it
    in contexts that it was not solved from (``left_over_held_out``), which contexts that resemble one another flatter.

    ``project`` takes the ``direction`` from its first word to its second (the difference of their mean states) out of
    what is at the ``sites``, as far as ``amount`` says (1: all of it); ``shift`` adds ``amount`` times that difference.

    ``sites`` are addresses or patterns of cross-attentions, whose keys and values (``parts``) are edited; with
    ``project`` and ``shift`` also ``text.final`` (the text as all cross-attentions read it), ``text.embeddings`` and
    ``text.layers.0`` … of a text encoder. Nothing (null): all cross-attentions, or ``text.final``. ``positions`` are
    the tokens whose states are taken: those of the word alone (its last token), or all from there ``onward``.
    """

    kind: Literal["keys_and_values", "project", "shift"] = "keys_and_values"
    words: dict[Word, Annotated[dict[Word, Amount], Field(min_length=1)]] = Field({})
    keep: list[Word] = Field([])
    direction: Annotated[list[Word], Field(min_length=2, max_length=2)] | None = None
    amount: Amount = 1.0
    contexts: Annotated[list[Context], Field(min_length=1)] = Field([*CONTEXTS])
    sites: Annotated[list[str], Field(min_length=1)] | None = None
    parts: Annotated[list[Literal["key", "value"]], Field(min_length=1)] = Field(["key", "value"])
    positions: Literal["word", "onward"] = "onward"
    ridge: Annotated[float, Field(gt=0)] = 0.3
    keep_weight: Annotated[float, Field(gt=0)] = 1.0

    @model_validator(mode="after")
    def _of_its_kind(self) -> Edit:
        closed = self.kind == "keys_and_values"
        wrong = [name for name in (_OF_DIRECTIONS if closed else _OF_WORDS) if name in self._given()]
        if wrong:
            raise fail(f"expected nothing with kind {self.kind}, got a value: take it out", at=(wrong[0],))
        if closed and not self.words:
            raise fail(
                "expected words to edit, as {person: {woman: 0.25}}, found none: add them", at=("words",)
            )
        if not closed and self.direction is None:
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

        Examples
        --------
        >>> Edit(words={"person": {"woman": 0.25}}, keep=["woman"], sites=["unet.mid*"]).summary
        'keys_and_values at unet.mid*: person → 0.25 woman; kept: woman'
        >>> Edit(kind="shift", direction=["woman", "man"], amount=-0.5).summary
        'shift at text.final: -0.5 of woman → man'
        """
        closed = self.kind == "keys_and_values"
        where = ", ".join(self.sites or ["all cross-attentions" if closed else "text.final"])
        if not closed:
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

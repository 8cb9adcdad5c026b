"""The prompts of a configuration, in any form in which they may be written: a list, a table, a set, captions, a grid.

They are read when the configuration is, and its resolved form holds the prompts themselves: whatever alters them
(the file, the rule, a plural) alters those, and a run is known by them. A prompt without ``{person}`` compares no
words: a run of such prompts has one indicator, `PLAIN` where none is named. Levels may stand beside its text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
)

from probes.errors import UserError
from probes.fields.types import (
    HINT,
    PERSON,
    Positive,
    Section,
    Word,
    as_text,
    fail,
    nearest,
    option,
    shown,
    takes,
)
from probes.paths import expand
from probes.prompts import captions, diagnostic, grids, paintskills, sets, templates
from probes.prompts.caption_files import CaptionFile, from_datasets, open_captions
from probes.prompts.neutral import Articles, Forms
from probes.prompts.prompt import ABOUT, LEVELS, TEXT, Prompt, WrittenPrompt, checked, parsed
from probes.prompts.table import PromptTable, read_table
from probes.toyworld import MODELS

DATASETS = "datasets"
PLAIN = "plain"  # the indicator of prompts that name no word of one
_FORMS = "a list of prompts, {from: captions.json}, {table: prompts.csv}, {grid: ...} or {template: ..., texts: ...}"


class PromptSource(Section):
    """Prompts from a file of captions or from a set."""

    from_: Annotated[str, Field(alias="from", min_length=1), option(example="captions_train2017.json")]
    """A file, by its path beside triplets.yaml; the name of a set of the package (docs/how_to/prompts.md), such
    as professions or gep; or, with `format: datasets`, a data set of the Hugging Face hub."""
    format: Literal["auto", "datasets"] = "auto"
    """`datasets` names a data set of the Hugging Face hub; a file is read by its ending."""
    column: Annotated[str | None, option(null="caption, text and the like", example="text")] = None
    """Column of a table that holds the captions."""
    split: Annotated[str | None, option(null="the whole data set; test of paintskills", example="train")] = (
        None
    )
    """Split of a data set of the hub, or of paintskills, where it says how many seeds each prompt has."""
    setting: Annotated[str | None, option(null="all", example="neutral")] = None
    """Setting of a set: neutral or explicit of gep."""
    written: Annotated[
        Literal["paper", "plain"] | None,
        option(null="plain for the bundled models, whose captions have neither, else paper", example="plain"),
    ] = None
    """Whether sentences of a set have a capital and a full stop, as in the paper (`paper`), or neither
    (`plain`)."""
    profession: Annotated[
        Annotated[list[str], Field(min_length=1), AfterValidator(diagnostic.check_professions)] | None,
        option(null="its 83", example=["nurse", "doctor"]),
    ] = None
    """Professions of the set dalleval."""
    skill: Annotated[
        Annotated[list[Literal["object", "count", "spatial"]], Field(min_length=1)] | None,
        option(null="all", example=["count"]),
    ] = None
    """Skills of the set paintskills."""
    object: Annotated[
        Annotated[list[Word], Field(min_length=1)] | None, option(null="its 15", example=["dog"])
    ] = None
    """Objects of the set paintskills, others than its 15 among them."""
    human_words: Annotated[Forms, option(example="printed")] = "inflected"
    """Which words for people a caption may not hold: those of Wu et al. 2025, Table 2, with their plurals and
    other forms (`inflected`), or as printed there alone (`printed`)."""
    articles: Annotated[Articles, option(example="kept")] = "fitting"
    """Whether *a* and *an* fit the word that follows (`fitting`), or stay as they were (`kept`), as in the
    paper."""
    max_words: Annotated[Positive, option(unit="words", example=30)] = captions.WORDS
    """Longest caption that is taken."""


@dataclass(frozen=True)
class LoadedPrompts:
    """Where prompts were read from, and what became of captions."""

    selection: captions.Selection | None = None  # None where they are no captions
    file: Path | None = None  # of captions
    notes: Sequence[str] = ()  # lines on columns that are not used

    def summary(self) -> list[str]:
        """Return lines on what became of captions, and on columns that are not used."""
        return [*(self.selection.summary() if self.selection else ()), *self.notes]


@dataclass(frozen=True)
class PromptReader:
    """Reads every form in which a configuration may have its prompts; `read` returns a list in any case."""

    words: Mapping[str, tuple[str, str]]  # by indicator the word for a person and its plural
    reference: str
    model: str = ""  # a set's sentences are written as it reads them
    folder: Path = Path()  # where relative paths begin
    loaded: list[LoadedPrompts] = field(default_factory=list)  # to which is added what was read

    def read(self, written: Any, at: tuple[Any, ...] = ()) -> list[Prompt]:
        """Return the prompts that stand at a place of the configuration."""
        if isinstance(written, list) and written:
            return self._listed(written, at)
        if isinstance(written, list):
            raise fail(f"expected at least 1 entry, got none{HINT}: write one, or leave the key out", at=at)
        if not isinstance(written, Mapping) or not {"from", "grid", "template", "system"} & {*written}:
            got = dict(written) if isinstance(written, Mapping) else written
            raise fail(f"expected {_FORMS}, got {shown(got)}{HINT}: write one", at=at)
        if templates.is_crossed(written):
            prompts = self._crossed(written, at)
        elif "grid" in written:
            prompts = grids.read_grid(written, at)
        else:
            return self._from(written, at)
        return [checked(prompt, (*at, index)) for index, prompt in enumerate(prompts)]

    def _listed(self, written: Sequence[Any], at: tuple[Any, ...]) -> list[Prompt]:
        names = list(self.words)
        entries = [_with_levels_together(entry, names, (*at, index)) for index, entry in enumerate(written)]
        if len(names) == 1:
            _require_alike(entries, at)
            entries = [_for_indicator(entry, names[0]) for entry in entries]
        return [checked(entry, (*at, index)) for index, entry in enumerate(entries)]

    def _crossed(self, written: Mapping[str, Any], at: tuple[Any, ...]) -> list[Prompt]:
        section = parsed(templates.Templates, written, at)
        return templates.crossed(section, self.read(written["texts"], (*at, "texts")), self.reference)

    def _from(self, written: Mapping[str, Any], at: tuple[Any, ...]) -> list[Prompt]:
        source = parsed(PromptSource, written, at)
        of_set = source.format == "auto" and source.from_ in sets.names()
        _require_fitting(source, of_set)
        if of_set:
            return sets.prompts(
                source.from_,
                self.words,
                self.reference,
                articles=source.articles,
                written=source.written or ("plain" if self.model in MODELS else "paper"),
                setting=source.setting,
                professions=source.profession,
                skills=source.skill,
                objects=source.object,
            )
        name, opened = self._open(source)
        read = captions.neutral_reader(
            self.words, articles=source.articles, forms=source.human_words, max_words=source.max_words
        )
        selection = captions.select(opened.captions, read, name, opened.format)
        if not selection.prompts:
            raise UserError(_nothing(selection))
        file = None if source.format == DATASETS else Path(name)
        self.loaded.append(LoadedPrompts(selection, file, opened.notes))
        return selection.prompts

    def _open(self, source: PromptSource) -> tuple[str, CaptionFile]:
        """The name of a source of captions, and what is in it."""
        name = source.from_
        if source.format == DATASETS:
            return name, CaptionFile(DATASETS, from_datasets(name, source.split, source.column))
        if source.split is not None:
            raise UserError(
                f"{name}: expected a split of a data set alone, got {source.split!r} for a file:"
                " leave it out, or name the format datasets"
            )
        path = expand(name, "prompts.from", self.folder)
        if not path.exists():
            raise UserError(
                f"{path}: expected a file of captions or a set ({', '.join(sets.names())}), found none: check the"
                " path, name the format datasets, or go on with a run's own prompts (triptych run runs/NAME)"
            )
        return str(path), open_captions(path, source.column)


def _require_fitting(source: PromptSource, of_set: bool) -> None:
    """Refuse options of sets beside a source that does not take them."""
    for name in sets.TAKEN_BY:
        takers = sets.takers(name)
        if getattr(source, name) is not None and not (of_set and source.from_ in takers):
            raise UserError(
                f"prompts.{name}: expected a set that takes it ({', '.join(takers)}), got {source.from_!r}: take it"
                " out, or name one of those"
            )
    skills = of_set and source.from_ in sets.skill_sets()
    if skills and source.split not in (None, *paintskills.SPLITS):
        raise UserError(
            f"prompts.split: expected {' or '.join(paintskills.SPLITS)}, got {source.split!r}: choose one"
        )


def _nothing(selection: captions.Selection) -> str:
    if not selection.read:
        return f"{selection.source}: expected captions, found none ({selection.format}): check the file and its ending"
    why = "; ".join(f"{count} {reason}" for reason, count in selection.dropped.most_common(3))
    return (
        f"{selection.source}: expected a neutral caption (person or people, and no other word for a human), found"
        f" none in {selection.read} ({why}): take other captions, or name their `column`"
    )


def _has_place(entry: Any) -> bool:
    """Return whether braces stand in a prompt's text, as in ``{person}`` and what is meant for it."""
    text = entry.get(TEXT, "") if isinstance(entry, Mapping) else entry
    return isinstance(text, str) and bool("{" in text or "}" in text or nearest(PERSON, text))


def _is_text(entry: Any) -> bool:
    return isinstance(entry, str) or (isinstance(entry, Mapping) and isinstance(entry.get(TEXT), str))


def _with_levels_together(entry: Any, names: Sequence[str], at: tuple[Any, ...]) -> Any:
    """A prompt with the levels that stand beside its text under ``levels``; anything else as it is."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get(TEXT), str) or {TEXT, *entry} & {*names}:
        return entry
    beside = {name: level for name, level in entry.items() if name not in (TEXT, *ABOUT)}
    for name, level in beside.items():
        if not isinstance(level, str) or not level.strip():
            raise fail(f"expected a level, got {shown(level)}: {as_text(level)}", at=(*at, name))
    under = entry.get(LEVELS, {})
    if not beside or not isinstance(under, Mapping):
        return entry
    twice = next((name for name in beside if name in under), None)
    if twice is not None:
        raise fail("expected one level, got another beside the text: take one out", at=(*at, LEVELS, twice))
    rest = {name: value for name, value in entry.items() if name not in beside}
    return {**rest, LEVELS: {**under, **beside}}


def _require_alike(entries: Sequence[Any], at: tuple[Any, ...]) -> None:
    """Refuse texts of which some hold a place in braces and some do not."""
    kinds = [(_has_place(entry), index) for index, entry in enumerate(entries) if _is_text(entry)]
    with_it, without = ([index for place, index in kinds if place is wanted] for wanted in (True, False))
    if with_it and without:
        raise fail(
            f"expected {PERSON} in every text or in none, got none here and one in [{with_it[0]}]: write them alike",
            at=(*at, without[0]),
        )


def _for_indicator(entry: Any, name: str) -> Any:
    """A plain text as that of an indicator; anything else as it is."""
    if not _is_text(entry) or _has_place(entry):
        return entry
    if isinstance(entry, str):
        return {name: entry}
    return {name if key == TEXT else key: value for key, value in entry.items()}


def defaults(
    data: Mapping[str, Any], reference: str, folder: Path, loaded: list[LoadedPrompts]
) -> dict[str, Any]:
    """Return plain data of a configuration with what its prompts say of other fields, and the rows of a table in place.

    Where no indicator is named and no prompt holds ``{person}``, the one indicator is `PLAIN`, which is the reference,
    and there are no contrasts; so it is, with more, of a set of skills. `reference` is that where `data` says none.
    """
    data = dict(data)
    written: Any = data.get("prompts")
    is_crossed = templates.is_crossed(written)
    texts = written.get("texts") if is_crossed else written
    if isinstance(texts, Mapping) and "table" in texts:
        texts, notes = read_table(texts, folder, ("prompts", "texts") if is_crossed else ("prompts",))
        data["prompts"] = {**written, "texts": texts} if is_crossed else texts
        loaded.append(LoadedPrompts(notes=notes))
    indicators = data.get("indicators")
    listed = texts if isinstance(texts, list) and not indicators else []
    if any(map(_is_text, listed)) and not any(map(_has_place, listed)):
        indicators = {PLAIN: {"word": PLAIN}}
        data |= {"indicators": indicators, "reference": PLAIN, "contrasts": []}
    if isinstance(indicators, Mapping) and len(indicators) == 1 and reference not in indicators:
        data.setdefault("reference", str(next(iter(indicators))))
    return paintskills.defaults(data, sets.skill_sets())


def _read(value: Any, info: ValidationInfo) -> list[Prompt]:
    """The prompts of a configuration; the validation context may hold ``folder`` and ``loaded`` of `PromptReader`."""
    indicators, context = info.data.get("indicators"), info.context or {}
    if indicators is None or "reference" not in info.data:  # whose own error is reported
        return [Prompt(template=PERSON)]
    words = {name: entry.forms for name, entry in indicators.items()}
    folder, loaded = Path(context.get("folder", "")), context.get("loaded", [])
    return PromptReader(words, info.data["reference"], info.data.get("model", ""), folder, loaded).read(value)


def _written(prompts: Sequence[Prompt]) -> list[Any]:
    return [prompt.written() for prompt in prompts]


_Forms = Annotated[
    Annotated[list[WrittenPrompt], Field(min_length=1)]
    | PromptSource
    | PromptTable
    | templates.Templates
    | grids.Grid,
    takes(_FORMS),
]
# The field `prompts` of a configuration: written in any of the forms, a list once it is read.
Prompts = Annotated[
    list[Any] if TYPE_CHECKING else list[Prompt],  # who checks types passes texts, too
    PlainValidator(_read, json_schema_input_type=_Forms),
    PlainSerializer(_written, return_type=list[Any]),
]

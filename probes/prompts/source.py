"""Prompts from another source: ``prompts: {from: captions.json}``.

They are read when the configuration is, and its resolved form holds the prompts themselves: whatever alters them
(the file, the rule, a plural) alters those, and a run is known by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic_core import PydanticCustomError

from probes.config.checks import ABOUT
from probes.errors import UserError
from probes.fields.messages import first_fault
from probes.fields.types import Positive, Word, fail, option, shown
from probes.paths import expand
from probes.prompts import captions, diagnostic, grids, paintskills, readers, sets, templates
from probes.prompts.formats import FORMATS, recognise
from probes.prompts.neutral import Articles, Forms
from probes.toyworld import MODELS

DATASETS = "datasets"
_REASONS, _SHOWN = 3, 80  # reasons why captions are left out that are named, and characters of an example


class PromptSource(BaseModel):
    """Prompts from a file of captions or from a set."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, title="PromptSource")

    from_: Annotated[
        str,
        Field(alias="from", min_length=1),
        option(
            "A file, by its path beside triplets.yaml; the name of a set of the package (docs/how_to/prompts.md), such"
            " as professions or gep; or, with `format: datasets`, a data set of the Hugging Face hub.",
            example="captions_train2017.json",
        ),
    ]
    format: Annotated[
        Literal["auto", "datasets", *FORMATS],  # type: ignore[valid-type]
        option("Format of the file. `auto` recognises it by the content.", example="csv"),
    ] = "auto"
    column: Annotated[
        str | None,
        option(
            "Column of a table that holds the captions.", null="caption, text and the like", example="text"
        ),
    ] = None
    split: Annotated[
        str | None,
        option(
            "Split of a data set of the hub, or of paintskills, where it says how many seeds each prompt has.",
            null="the whole data set; test of paintskills",
            example="train",
        ),
    ] = None
    setting: Annotated[
        str | None,
        option("Setting of a set: neutral or explicit of gep.", null="all", example="neutral"),
    ] = None
    written: Annotated[
        Literal["paper", "plain"] | None,
        option(
            "Whether sentences of a set have a capital and a full stop, as in the paper (`paper`), or neither"
            " (`plain`).",
            null="plain for the bundled models, whose captions have neither, else paper",
            example="plain",
        ),
    ] = None
    profession: Annotated[
        Annotated[list[str], Field(min_length=1), AfterValidator(diagnostic.check_professions)] | None,
        option("Professions of the set dalleval.", null="its 83", example=["nurse", "doctor"]),
    ] = None
    skill: Annotated[
        Annotated[list[Literal["object", "count", "spatial"]], Field(min_length=1)] | None,
        option("Skills of the set paintskills.", null="all", example=["count"]),
    ] = None
    object: Annotated[
        Annotated[list[Word], Field(min_length=1)] | None,
        option(
            "Objects of the set paintskills, others than its 15 among them.", null="its 15", example=["dog"]
        ),
    ] = None
    human_words: Annotated[
        Forms,
        option(
            "Which words for people a caption may not hold: those of Wu et al. 2025, Table 2, with their plurals and"
            " other forms (`inflected`), or as printed there alone (`printed`).",
            example="printed",
        ),
    ] = "inflected"
    articles: Annotated[
        Articles,
        option(
            "Whether *a* and *an* fit the word that follows (`fitting`), or stay as they were (`kept`), as in"
            " the paper.",
            example="kept",
        ),
    ] = "fitting"
    max_words: Annotated[Positive, option("Longest caption that is taken.", unit="words", example=30)] = (
        captions.WORDS
    )


@dataclass(frozen=True)
class LoadedPrompts:
    """Prompts of every indicator."""

    prompts: list[dict[str, Any]]
    selection: captions.Selection | None  # what became of the captions; None where they were not chosen here
    sentences: bool = False  # captions, each of which stands for itself; else a set or a grid, which is whole
    file: Path | None = None
    notes: Sequence[str] = ()


class NoFileError(UserError):
    """There is no file of captions at a path."""

    def __init__(self, file: str, message: str) -> None:
        super().__init__(message)
        self.file = file


def load(
    source: PromptSource, words: Mapping[str, tuple[str, str]], reference: str, folder: Path, model: str = ""
) -> LoadedPrompts:
    """Return the prompts of a source.

    `words` has for each indicator the word for a person and its plural; `reference` is put before no profession. Where
    `source` does not say how sentences are written, it is as `model` reads them.
    """
    of_set = source.format == "auto" and source.from_ in sets.names()
    _require_skills(source, of_set and source.from_ in sets.of_skills())
    if source.written is not None and not (of_set and source.from_ in sets.of_grids()):
        listed = ", ".join(sets.of_grids())
        raise UserError(
            f"prompts.written: expected a set of sentences ({listed}), got {source.from_!r}: take it out, or name that"
        )
    if of_set:
        prompts = sets.prompts(
            source.from_,
            words,
            reference,
            articles=source.articles,
            written=source.written or ("plain" if model in MODELS else "paper"),
            setting=source.setting,
            professions=source.profession,
            skills=source.skill,
            objects=source.object,
        )
        return LoadedPrompts(prompts, None)
    for field, example in (("setting", "gep"), ("profession", "dalleval")):
        if getattr(source, field) is not None:
            raise UserError(
                f"prompts.{field}: expected a set with {field}s, got {source.from_!r}: take it out, or name the set"
                f" {example}"
            )
    form, read, name = _open(source, folder)
    selection = captions.select(
        read(), forms=source.human_words, max_words=source.max_words, source=name, form=form
    )
    if not selection.kept:
        raise UserError(_nothing(selection))
    return LoadedPrompts(
        captions.triplets(selection.kept, words, articles=source.articles, forms=source.human_words),
        selection,
        sentences=True,
        file=None if form == DATASETS else Path(name),
        notes=readers.column_notes(Path(name), form, source.column),
    )


def _require_skills(source: PromptSource, fits: bool) -> None:
    """Refuse ``skill`` and ``object`` of a source that is no set of this kind, and a split that such a set has not."""
    for field, value in (("skill", source.skill), ("object", source.object)):
        if value is not None and not fits:
            raise UserError(
                f"prompts.{field}: expected a set with skills, got {source.from_!r}: take it out, or name the set"
                " paintskills"
            )
    if fits and source.split not in (None, *paintskills.SPLITS):
        raise UserError(
            f"prompts.split: expected {' or '.join(paintskills.SPLITS)}, got {source.split!r}: choose one"
        )


def _open(source: PromptSource, folder: Path) -> tuple[str, Callable[[], readers.Captions], str]:
    """The format of a source, what reads its captions, and its name."""
    name, column = source.from_, source.column
    if source.format == DATASETS:
        return DATASETS, lambda: readers.from_datasets(name, source.split, column), name
    if source.split is not None:
        raise UserError(
            f"{name}: expected a split of a data set alone, got {source.split!r} for a file:"
            " leave it out, or name the format datasets"
        )
    path = expand(name, "prompts.from", folder)
    if not path.exists():
        listed = ", ".join(sets.names())
        raise NoFileError(
            str(path),
            f"{path}: expected a file of captions or a set ({listed}), found none: check the path,"
            " or name the format datasets",
        )
    form = recognise(path, column) if source.format == "auto" else source.format
    _, read = readers.read_captions(path, form, column)
    return form, lambda: read, str(path)


def _nothing(selection: captions.Selection) -> str:
    if not selection.read:
        return f"{selection.source}: expected captions, found none ({selection.form}): check the file and its format"
    why = "; ".join(f"{count} {reason}" for reason, count in selection.dropped.most_common(3))
    return (
        f"{selection.source}: expected a neutral caption (person or people, and no other word for a human), found"
        f" none in {selection.read} ({why}): take other captions, or name their `column` or `format`"
    )


def resolve(value: Any, info: ValidationInfo) -> Any:
    """Return the prompts for ``{from: ...}`` in the place of a list; a list stays as it is.

    The validation context may hold ``folder``, where relative paths begin, and a list ``loaded``, to which the
    `LoadedPrompts` is appended.
    """
    if not isinstance(value, Mapping):
        return value
    if templates.is_crossed(value):
        return _crossed(value, info)
    if "grid" in value:
        return grids.resolve(value)
    if "from" not in value:
        raise fail(
            "expected a list of prompts, {from: captions.json}, {table: prompts.csv}, {grid: ...} or"
            f" {{template: ..., texts: ...}}, got {shown(dict(value))}: write one"
        )
    try:
        source = PromptSource.model_validate(dict(value))
    except ValidationError as error:
        loc, text, _ = first_fault(error, PromptSource)
        raise fail(text, at=loc) from None
    indicators = info.data.get("indicators")
    if indicators is None or "reference" not in info.data:  # whose own error is reported
        return ["{person}"]
    context = info.context or {}
    words = {name: entry.forms for name, entry in indicators.items()}
    folder = Path(context.get("folder", ""))
    loaded = load(source, words, info.data["reference"], folder, info.data.get("model", ""))
    context.get("loaded", []).append(loaded)
    return loaded.prompts


def _crossed(value: Mapping[str, Any], info: ValidationInfo) -> list[Any]:
    """The prompts of templates, system prompts and texts, see `probes.prompts.templates`."""
    named, systems = templates.named(value), templates.systems(value)
    texts = value.get("texts")
    if not isinstance(texts, list | Mapping) or not texts:
        raise fail(
            f"expected the texts that go into the templates or under the system prompts, got {shown(texts)}:"
            " write them",
            at=("texts",),
        )
    try:
        prompts = resolve(texts, info)
    except PydanticCustomError as error:
        context = error.context or {}
        raise fail(error.message(), at=("texts", *context.get("at", ()))) from None
    for index, one in enumerate(prompts):
        fault = isinstance(one, str) or (isinstance(one, dict) and any(key not in ABOUT for key in one))
        if not fault or (
            isinstance(one, dict) and not all(isinstance(v, str) for k, v in one.items() if k != "levels")
        ):
            raise fail(f"expected a text, got {shown(one)}: write one", at=("texts", index))
    reference = info.data.get("reference", "")
    filled = templates.cross(named, prompts, reference) if named else prompts
    return templates.cross_systems(systems, filled, reference) if systems else filled


def selection_summary(loaded: Sequence[LoadedPrompts]) -> list[str]:
    """Return lines on how many captions became prompts, and why others did not, with an example of each reason."""
    lines = []
    for selection in [one.selection for one in loaded if one.selection][:1]:
        count, out = len(selection.kept), selection.dropped.total()
        lines.append(
            f"prompts: {count:,} of {selection.read:,} captions of {selection.source} {_are(count)} neutral"
            + (f", {out:,} {_are(out)} left out" if out else "")
        )
        reasons = selection.dropped.most_common()
        for reason, number in reasons[:_REASONS]:
            example = selection.examples[reason][:_SHOWN]
            lines.append(f"  {number:,} {reason}{selection.frequent(reason)}, such as “{example}”")
        if rest := sum(number for _, number in reasons[_REASONS:]):
            lines[-1] += f"; {rest:,} for other reasons"
    return [*lines, *(line for one in loaded[:1] for line in one.notes)]


def _are(count: int) -> str:
    return "is" if count == 1 else "are"

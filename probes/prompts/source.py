"""The prompts of a configuration, in any form in which they may be written: a list, a table, a set, captions, a grid.

They are read when the configuration is, and its resolved form holds the prompts themselves: whatever alters them
(the file, the rule, a plural) alters those, and a run is known by them. A prompt without ``{person}`` compares no
words: a run of such prompts has one indicator, `PLAIN` where none is named. Levels may stand beside its text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, PlainSerializer, PlainValidator, ValidationInfo

from probes.fields.types import HINT, PERSON, KeyPath, expects, fail, misspelt_placeholder, shown, text_remedy
from probes.prompts.forms import Grid, PromptSource, PromptTable, Templates, WrittenPrompt, parse_form
from probes.prompts.prompt import ABOUT, LEVELS, TEXT, Prompt, from_written

if TYPE_CHECKING:
    from probes.prompts.captions import LoadedPrompts

PLAIN = "plain"  # the indicator of prompts that name no word of one
_FORMS = "a list of prompts, {from: captions.json}, {table: prompts.csv}, {grid: ...} or {template: ..., texts: ...}"


def _read_prompts(written: Any, info: ValidationInfo, at: KeyPath = ()) -> list[Prompt]:
    """Pydantic validator: the prompts of a list, captions, set, grid or templates; errors have key path `at`."""
    if info.data.get("indicators") is None or "reference" not in info.data:  # whose own error is reported
        return [Prompt(template=PERSON)]
    if isinstance(written, list):
        return [
            from_written(entry, (*at, index))
            for index, entry in enumerate(_normalize_entries(written, [*info.data["indicators"]], at))
        ]
    if not isinstance(written, Mapping) or not {"from", "grid", "template", "system"} & {*written}:
        got = dict(written) if isinstance(written, Mapping) else written
        raise fail(f"expected {_FORMS}, got {shown(got)}{HINT}: write one", at=at)
    if not uses_templates(written) and "grid" not in written:
        from probes.prompts import captions, sets

        source = parse_form(PromptSource, written, at)
        words = {name: entry.forms for name, entry in info.data["indicators"].items()}
        if source.format == "auto" and source.from_ in sets.names():
            return sets.prompts(source, words, info.data["reference"], info.data.get("model", ""))
        context = info.context or {}
        if source.rule is None:
            source = source.model_copy(update={"rule": info.data.get("preset") or captions.ONE_PERSON})
        loaded = captions.load_captions(
            source, words, Path(context.get("folder", "")), info.data["reference"]
        )
        context.get("loaded", []).append(loaded)
        return loaded.prompts
    from probes.prompts import grids

    if "grid" in written:
        prompts = grids.read_grid(written, at)
    else:
        section = parse_form(Templates, written, at)
        texts = _read_prompts(written["texts"], info, (*at, "texts"))
        prompts = grids.apply_templates(section, texts, info.data["reference"])
    return [from_written(prompt, (*at, index)) for index, prompt in enumerate(prompts)]


def uses_templates(value: Any) -> bool:
    """Return whether the value of ``prompts`` has the form ``{template: ...}`` or ``{system: ...}``, not a grid."""
    return isinstance(value, Mapping) and ("template" in value or "system" in value) and "grid" not in value


def _normalize_entries(written: Sequence[Any], indicators: Sequence[str], at: KeyPath) -> list[Any]:
    """Return a written list of prompts in one form: levels under ``levels``, texts under a single indicator's name."""
    if not written:
        raise fail(f"expected at least 1 entry, got none{HINT}: write one, or leave the key out", at=at)
    entries = [_collect_levels(entry, indicators, (*at, index)) for index, entry in enumerate(written)]
    if len(indicators) != 1:
        return entries
    kinds = [_has_braces(entry) if _has_text(entry) else None for entry in entries]
    if True in kinds and False in kinds:
        raise fail(
            f"expected {PERSON} in every text or in none, got none here and one in [{kinds.index(True)}]: write"
            " them alike",
            at=(*at, kinds.index(False)),
        )
    (name,) = indicators
    for index, entry in enumerate(entries):
        if kinds[index] is False:
            texts = {TEXT: entry} if isinstance(entry, str) else entry
            entries[index] = {name if key == TEXT else key: value for key, value in texts.items()}
    return entries


def _has_braces(entry: Any) -> bool:
    """Return whether a prompt's text has braces or a word in brackets that resembles ``{person}``."""
    text = entry.get(TEXT, "") if isinstance(entry, Mapping) else entry
    return isinstance(text, str) and bool("{" in text or "}" in text or misspelt_placeholder(PERSON, text))


def _has_text(entry: Any) -> bool:
    """Return whether an entry of a list of prompts is a text, or a mapping with a text under ``text``."""
    return isinstance(entry, str) or (isinstance(entry, Mapping) and isinstance(entry.get(TEXT), str))


def _collect_levels(entry: Any, indicators: Sequence[str], at: KeyPath) -> Any:
    """Return a prompt's mapping with the levels beside ``text`` moved under ``levels``; any other entry unchanged."""
    if not isinstance(entry, Mapping) or not _has_text(entry) or {TEXT, *entry} & {*indicators}:
        return entry
    beside = {name: level for name, level in entry.items() if name not in (TEXT, *ABOUT)}
    for name, level in beside.items():
        if not isinstance(level, str) or not level.strip():
            raise fail(f"expected a level, got {shown(level)}: {text_remedy(level)}", at=(*at, name))
    under = entry.get(LEVELS, {})
    if not beside or not isinstance(under, Mapping):
        return entry
    twice = next((name for name in beside if name in under), None)
    if twice is not None:
        raise fail("expected one level, got another beside the text: take one out", at=(*at, LEVELS, twice))
    rest = {name: value for name, value in entry.items() if name not in beside}
    return {**rest, LEVELS: {**under, **beside}}


def prompt_defaults(
    data: Mapping[str, Any], reference: str, folder: Path, loaded: list[LoadedPrompts]
) -> dict[str, Any]:
    """Return configuration data with prompts read from a table, if any, and fields that prompts imply filled in.

    Where no indicator is named and no prompt holds ``{person}``, the one indicator is `PLAIN`, which is the reference,
    and there are no contrasts; so it is, with more, of a set of skills. `reference` is that where `data` says none;
    relative paths begin in `folder`, and what was read is added to `loaded`.
    """
    data = dict(data)
    written: Any = data.get("prompts")
    crossed = uses_templates(written)
    texts = written.get("texts") if crossed else written
    if isinstance(texts, Mapping) and "table" in texts:
        from probes.prompts import captions

        texts, notes = captions.read_table(texts, folder, ("prompts", "texts") if crossed else ("prompts",))
        data["prompts"] = {**written, "texts": texts} if crossed else texts
        loaded.append(captions.LoadedPrompts(notes=notes))
    indicators = data.get("indicators")
    listed = texts if isinstance(texts, list) and not indicators else []
    if any(map(_has_text, listed)) and not any(map(_has_braces, listed)):
        indicators = {PLAIN: {"word": PLAIN}}
        data |= {"indicators": indicators, "reference": PLAIN, "contrasts": []}
    if isinstance(indicators, Mapping) and len(indicators) == 1 and reference not in indicators:
        data.setdefault("reference", str(next(iter(indicators))))
    if isinstance(written, Mapping) and written.get("from"):
        from probes.prompts import paintskills, sets

        set_data = sets.read(written["from"]) if written["from"] in sets.names() else {}
        return paintskills.apply_skill_defaults(data, set_data) if "skills" in set_data else data
    return data


_Written = Annotated[
    Annotated[list[WrittenPrompt], Field(min_length=1)] | PromptSource | PromptTable | Templates | Grid,
    expects(_FORMS),
]
# The field `prompts` of a configuration: written in any of the forms, a list once it is read.
Prompts = Annotated[
    list[Any] if TYPE_CHECKING else list[Prompt],  # who checks types passes texts, too
    PlainValidator(_read_prompts, json_schema_input_type=_Written),
    PlainSerializer(lambda prompts: [prompt.written() for prompt in prompts], return_type=list[Any]),
]

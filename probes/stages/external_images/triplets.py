"""From rows of images to triplets: which images belong together, and which are left out since a member is missing.

A triplet is the prompts that differ in the indicator's word alone, or those that a column says belong together, with
one seed. Without seeds nothing pairs the images of a triplet: they are numbered in their order, and
the numbers stand for nothing. Where no indicator says which word a prompt has, images of one text and of the same
levels (profession, setting, template, model) are of one prompt, and nothing is compared between words.

The prompts of an audit are known beforehand (``prompts: {from: gep}``, ``{from: dalleval}``, ``{from: paintskills}``, a
grid): the text of a row says which one it is, and of which word, and it has the levels that the prompt has. Some
prompts that ask for skills have one text: a row of these names the prompt's id.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hooks.prompt.spans import split_words
from probes.errors import UserError
from probes.fields.types import PERSON, shown
from probes.prompts.prompt import ID_LENGTH, Prompt, fill_person, normalize_text
from probes.prompts.sample import caption_forms, phrase_indices

Forms = Mapping[str, tuple[str, str]]  # of each indicator the word for a person and its plural

NO_MEMBER = "triplets without a prompt of every indicator"
NO_IMAGE = "seeds of a triplet without an image of every indicator"
NO_PARTNER = "images beyond the number that every indicator of the triplet has"


@dataclass(frozen=True)
class Triplets:
    """Triplets of external images: their prompts, their rows, and what was left out."""

    prompts: list[Prompt]  # with a template where it makes the texts of all indicators
    # rows by triplet, seed and indicator, with the ``number`` of the triplet; ``seed`` tells its images apart, and
    # ``stated`` is what the rows call it, None where they name none
    images: pd.DataFrame
    paired: bool  # whether the rows name seeds
    shared: bool  # whether a seed stands in several triplets
    left_out: dict[str, int]  # of what is not complete, by the reason

    @property
    def seeds(self) -> list[int]:
        """The distinct seeds of the images, ascending."""
        return sorted(self.images["seed"].unique().tolist())


def group_triplets(
    rows: pd.DataFrame,
    words: Forms,
    reference: str,
    *,
    alone: bool = False,
    any_words: bool = False,
    own_noise: bool = False,
    repeated: bool = False,
) -> Triplets:
    """Return external images (one row each) grouped into triplets, by their prompts or by a column that names these.

    `words`: the word for a person and its plural, by indicator. `alone`: each prompt by itself, of the only
    indicator. `any_words`: prompts without their indicator's word are accepted. `own_noise`: a seed means another
    noise in each triplet, so that seeds that are all different may be numbered. `repeated`: triplets may have the same
    texts.
    """
    names, absent = list(words), rows["seed"].isna()
    if absent.any() and not absent.all():
        raise UserError(
            f"{rows.index[absent][0]}: expected a seed in every row or in none, got none here: write it"
        )
    keys: dict[Any, int] = {}  # numbers of triplets
    members = []
    for row in rows.itertuples():
        name = row.indicator or (reference if alone else "")
        if name not in words:
            listed = f"the indicator {reference} or none" if alone else f"an indicator of {', '.join(words)}"
            raise UserError(
                f"{row.Index}: expected {listed}, got {shown(name)}: name it under `indicators`, or take the row out"
            )
        levels = tuple(sorted(row.levels.items()))
        key = (row.prompt, levels) if alone else _triplet_key(row, words[name], any_words)
        members.append((keys.setdefault(key, len(keys)), names.index(name), name))
    table = rows.assign(at=rows.index)
    table[["key", "member", "indicator"]] = pd.DataFrame(members, rows.index)
    paired = not absent.any()
    prompts = table.groupby(["key", "member"])
    table["seed"] = table["seed"].astype("int64") if paired else prompts.cumcount()
    before = prompts[["prompt", "at"]].transform("first")
    for at, row in table[table["prompt"] != before["prompt"]].iterrows():
        raise UserError(
            f"{at}: expected one prompt of {row['indicator']} in a triplet, got {shown(row['prompt'])}, and"
            f" {shown(before['prompt'][at])} in {before['at'][at]}: name another triplet"
        )
    complete = table[table.groupby("key")["member"].transform("nunique") == len(words)]
    first = complete.groupby(["key", "member", "seed"])["at"].transform("first")
    for at, row in complete[complete["at"] != first].iterrows():
        of, more = ("of", "name what tells them apart in images.levels, ") if alone else ("for", "")
        image = "image" if alone else f"image of {row['indicator']}"
        raise UserError(
            f"{at}: expected one {image} {of} this prompt and seed {row['seed']}, got another in {first[at]}: take"
            f" one out, {more}or say that there are no seeds (images: {{seed: null}})"
        )
    images = complete[complete.groupby(["key", "seed"])["member"].transform("size") == len(words)]
    rest = complete.drop(images.index)
    left = {
        NO_MEMBER: table["key"].nunique() - complete["key"].nunique(),
        NO_IMAGE if paired else NO_PARTNER: len(rest.drop_duplicates(["key", "seed"]) if paired else rest),
    }
    left_out = {why: number for why, number in left.items() if number}
    if images.empty:
        why = "; ".join(f"{number} {reason}" for reason, number in left_out.items())
        raise UserError(
            f"{rows.index[0]}: expected a triplet with an image of every indicator ({', '.join(words)}), found none in"
            f" {len(rows)} rows ({why}): name the column `triplet`, or configure the indicators that are there"
        )
    images = images.sort_values(["key", "seed", "member"])
    images["number"] = pd.factorize(images["key"])[0]
    built: list[Prompt] = []
    known: dict[tuple[str, ...], str] = {}
    first_rows = images.drop_duplicates(["number", "member"]).to_dict("records")
    for start in range(0, len(first_rows), len(words)):
        texts = {row["indicator"]: row["prompt"] for row in first_rows[start : start + len(words)]}
        first = first_rows[start + names.index(reference)]
        before = known.setdefault(tuple(texts.values()), first["at"])
        if before != first["at"] and not (repeated or alone):
            raise UserError(
                f"{first['at']}: expected prompts that no other triplet has, got those of {before}: give both one"
                " triplet, and their images different seeds"
            )
        built.append(
            Prompt(texts, levels=first["levels"])
            if alone
            else _make_prompt(texts, words, reference, first["triplet"])
        )
    images["stated"] = images["seed"] if paired else None
    shared = paired and bool(images.groupby("seed")["number"].nunique().max() > 1)
    if paired and (own_noise or not shared):
        # numbers in the place of seeds that say nothing across triplets, where they are fewer
        numbered = images.groupby("number").cumcount() // len(words)
        if images["seed"].nunique() != numbered.max() + 1:
            images["seed"] = numbered
    return Triplets(built, images, paired, shared, left_out)


def _triplet_key(row: Any, words: tuple[str, str], any_words: bool) -> str | tuple[str | None, ...]:
    """Return a key that the rows of a triplet share: its name, or the prompt's words without those for the person."""
    texts = [word for word, _ in split_words(row.prompt)]
    places = phrase_indices(texts, caption_forms(*words))
    if not places and (row.triplet is None or not any_words):
        spoken = ", ".join(dict.fromkeys(words))
        remedy = (
            "name a column `triplet`, since nothing else says what it belongs to"
            if row.triplet is None
            else "mend it, or take any prompt (images: {any_words: true})"
        )
        raise UserError(
            f"{row.Index}: expected the word of {row.indicator} ({spoken}) in the prompt, got {shown(row.prompt)}:"
            f" {remedy}"
        )
    if row.triplet is not None:
        return row.triplet
    rest: list[str | None] = []
    for place, word in enumerate(texts):
        if place not in places:
            article = place + 1 in places and word.lower() == "an"
            rest.append("a" if article else word.lower())
        elif not rest or rest[-1] is not None:
            rest.append(None)
    return tuple(rest)


def _make_prompt(texts: dict[str, str], words: Forms, reference: str, name: str | None) -> Prompt:
    """Return a prompt of texts by indicator, as a template if one gives every text; `name` becomes its id."""
    text, word = texts[reference], words[reference][0]
    if "{" not in text and "}" not in text and word in text:
        template = text.replace(word, PERSON, 1)
        if all(fill_person(template, words[member][0])[0] == prompt for member, prompt in texts.items()):
            return Prompt(template=template)
    return Prompt(texts, id=name if name and len(name) <= ID_LENGTH and name not in words else "")


def match_audit(rows: pd.DataFrame, prompts: Sequence[Prompt], words: Mapping[str, str]) -> pd.DataFrame:
    """Return image rows in the order of the audit's prompts that they match; UserError if one matches none."""
    names = [prompt.name(number) for number, prompt in enumerate(prompts)]
    known = [
        (number, name, prompt.text(name, word))
        for number, prompt in enumerate(prompts)
        for name, word in words.items()
    ]
    by_id = {names[one[0]]: [one] for one in known}  # prompts with ids have one indicator
    by_text: dict[str, list[tuple[int, str, str]]] = {}
    for one in known:
        by_text.setdefault(_normalized(one[2]), []).append(one)
    matched = []
    for row in rows.itertuples():
        key, table = (row.prompt_id, by_id) if row.prompt_id else (_normalized(row.prompt), by_text)
        matches = table.get(key)
        if matches is None:
            near = difflib.get_close_matches(key, table, 1, 0.0)[0]
            raise UserError(
                f"{row.Index}: expected the id of a prompt, such as {near}, got {shown(key)}: correct it, or say under"
                " `prompts` what was asked"
                if row.prompt_id
                else f"{row.Index}: expected a prompt of the audit, such as {near!r}, got {shown(row.prompt)}: correct"
                " it, or say under `prompts` and `indicators` what was asked"
            )
        if len(matches) > 1:
            listed = " and ".join(names[number] for number, *_ in matches)
            raise UserError(
                f"{row.Index}: expected a prompt that stands once, got {shown(row.prompt)}, which is that of {listed}:"
                " name which one in a column `prompt_id`"
            )
        ((number, name, text),) = matches
        if row.prompt and _normalized(row.prompt) != _normalized(text):
            raise UserError(
                f"{row.Index}: expected {shown(text)}, the prompt {key}, got {shown(row.prompt)}: correct one of both"
            )
        if row.indicator not in ("", name):
            raise UserError(
                f"{row.Index}: expected {name} for {shown(text)}, got {shown(row.indicator)}: correct one of both"
            )
        matched.append((number, name, row.prompt or text))
    numbers, indicators, texts = zip(*matched)
    placed = rows.assign(triplet=[str(number) for number in numbers], indicator=indicators, prompt=texts)
    return placed.iloc[sorted(range(len(rows)), key=numbers.__getitem__)]


def _normalized(text: str) -> str:
    """Return a text in the form in which prompts are compared: normalized, without final periods and blanks."""
    return normalize_text(text).rstrip(" .")

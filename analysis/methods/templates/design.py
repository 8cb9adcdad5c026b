"""Where the prompts of a run stand between templates, or system prompts, and what is put into them."""

from __future__ import annotations

from dataclasses import dataclass

from probes.config.checks import HasPrompts, asks_for_skills, levels
from probes.prompts.templates import LEVEL, SYSTEM, TEXT

FACTORS = {LEVEL: "template", SYSTEM: "system prompt"}  # levels of prompts, and what one is called


@dataclass(frozen=True)
class TemplateDesign:
    """Templates and texts of a run; or in the place of templates, system prompts.

    Attributes
    ----------
    factor : str
        Of `FACTORS`.
    templates : tuple of str
        Names, in the order of the prompts.
    texts : tuple of str
        What stands in two templates or more, named by its text or by the other levels of its prompts.
    cells : dict of int to (int, int)
        Template and text of each prompt of these, by the number of the prompt.
    """

    factor: str
    templates: tuple[str, ...]
    texts: tuple[str, ...]
    cells: dict[int, tuple[int, int]]


def designs(config: HasPrompts) -> list[TemplateDesign]:
    """Return the designs of a run, one for each of `FACTORS` of which a text of it stands in two."""
    return [found for factor in FACTORS if (found := design(config, factor)) is not None]


def design(config: HasPrompts, factor: str = LEVEL) -> TemplateDesign | None:
    """Return the design of a run; None where no text of it stands in two templates.

    Parameters
    ----------
    config
        Of the run.
    factor : str
        Of `FACTORS`.

    Examples
    --------
    >>> from probes.config.schema import Config
    >>> prompts = {"template": ["a photo of {}", "an oil painting of {}"], "texts": ["a nurse", "a pilot"]}
    >>> found = design(Config(prompts=prompts))
    >>> found.texts, found.cells
    (('a nurse', 'a pilot'), {0: (0, 0), 1: (0, 1), 2: (1, 0), 3: (1, 1)})
    """
    if asks_for_skills(config):
        return None
    there = {
        number: levels(prompt)
        for number, prompt in enumerate(config.prompts[: config.limit])
        if factor in levels(prompt)
    }
    names = {number: _text(dict(own), factor) for number, own in there.items()}
    within: dict[str, set[str]] = {}
    for number, own in there.items():
        within.setdefault(names[number], set()).add(own[factor])
    texts = tuple(name for name in within if name and len(within[name]) > 1)
    kept = {number: own[factor] for number, own in there.items() if names[number] in texts}
    templates = tuple(dict.fromkeys(kept.values()))
    if len(templates) < 2:
        return None
    cells = {number: (templates.index(own), texts.index(names[number])) for number, own in kept.items()}
    return TemplateDesign(factor, templates, texts, cells)


def _text(own: dict[str, str], factor: str) -> str:
    """What is the same in every template: the text, with other levels where it has any; empty without either."""
    own.pop(factor)
    text = own.pop(TEXT, "")
    return ", ".join([*([text] if text else []), *(own[name] for name in sorted(own))])

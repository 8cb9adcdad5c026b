"""Where the prompts of a run stand between templates and what is put into them."""

from __future__ import annotations

from dataclasses import dataclass

from probes.config.checks import HasPrompts, asks_for_skills, levels
from probes.prompts.templates import LEVEL, TEXT


@dataclass(frozen=True)
class Design:
    """Templates and texts of a run.

    Attributes
    ----------
    templates : tuple of str
        Names, in the order of the prompts.
    texts : tuple of str
        What stands in two templates or more, named by its text or by the other levels of its prompts.
    cells : dict of int to (int, int)
        Template and text of each prompt of these, by the number of the prompt.
    """

    templates: tuple[str, ...]
    texts: tuple[str, ...]
    cells: dict[int, tuple[int, int]]


def design(config: HasPrompts) -> Design | None:
    """Return the design of a run; None where no text of it stands in two templates.

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
        if LEVEL in levels(prompt)
    }
    names = {number: _text(dict(own)) for number, own in there.items()}
    within: dict[str, set[str]] = {}
    for number, own in there.items():
        within.setdefault(names[number], set()).add(own[LEVEL])
    texts = tuple(name for name in within if name and len(within[name]) > 1)
    kept = {number: own[LEVEL] for number, own in there.items() if names[number] in texts}
    templates = tuple(dict.fromkeys(kept.values()))
    if len(templates) < 2:
        return None
    cells = {number: (templates.index(own), texts.index(names[number])) for number, own in kept.items()}
    return Design(templates, texts, cells)


def _text(own: dict[str, str]) -> str:
    """What is the same in every template: the text, with other levels where it has any; empty without either."""
    own.pop(LEVEL)
    text = own.pop(TEXT, "")
    return ", ".join([*([text] if text else []), *(own[name] for name in sorted(own))])

"""Comparisons of a run: the indicators of a run, its reference, its contrasts and the prompt sets of the paper.

Nothing here computes a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from probes.config.schema import Config
from probes.prompts.grammar.nouns import INDIVIDUALS, person_lemmas


@dataclass(frozen=True)
class Member:
    """A row of ``indicators:`` in ``triplets.yaml``: its role, its word, and for a control what it stands for."""

    name: str
    word: str
    control: str = ""  # the indicator with which it is interchangeable


def indicators(config: Config) -> list[Member]:
    """Return the indicators of a configuration, in their order; a control that names none stands for the reference."""
    return [
        Member(name, one.word, config.reference if one.control is True else one.control or "")
        for name, one in config.indicators.items()
    ]


def contrasts(config: Config) -> list[tuple[str, str]]:
    """Return the contrasts of a configuration; the gap is positive towards the first of each."""
    return [(first, second) for first, second in config.contrasts or []]


@dataclass(frozen=True)
class Comparison:
    """One comparison of indicators.

    ``main`` are those that are no controls: the prompt sets of the paper's tables (all, where only the reference is
    none). ``pairs``: the reference with every other of `main`, then those with one another; ``sets``: these, and `main`
    where it has more than two. ``leaning``: pairs of bias scores, (second, first) of each contrast within `main`, so
    that 1 is an object of the contrast's first indicator, then the reference with every other of `main`. ``beside``:
    pairs that are tested and stand in no table of the paper, contrasts of controls and the reference with each.
    ``controls``: the indicator that each control stands for. ``individuals``: lemmas of the paper's list of individuals
    and of this run's indicator words.
    """

    names: tuple[str, ...]
    main: tuple[str, ...]
    reference: str
    pairs: tuple[tuple[str, str], ...]
    sets: tuple[tuple[str, ...], ...]
    leaning: tuple[tuple[str, str], ...]
    beside: tuple[tuple[str, str], ...]
    contrasts: tuple[tuple[str, str], ...]
    controls: dict[str, str]
    individuals: frozenset[str]


def comparison(config: Config) -> Comparison:
    """Return what a configuration compares; lemmas are those of its ``measure.nouns``."""
    members, reference = indicators(config), config.reference
    names = tuple(member.name for member in members)
    controls = {member.name: member.control for member in members if member.control}
    main = tuple(name for name in names if name not in controls)
    main = main if len(main) > 1 else names  # nothing else is there to compare the reference with
    around = tuple((reference, name) for name in main if name != reference)
    among = tuple(combinations([name for name in main if name != reference], 2))
    turned = tuple((second, first) for first, second in contrasts(config))
    words = (*INDIVIDUALS, *(member.word for member in members))
    return Comparison(
        names=names,
        main=main,
        reference=reference,
        pairs=around + among,
        sets=around + among + ((main,) if len(main) > 2 else ()),
        leaning=(*(pair for pair in turned if set(pair) <= set(main)), *around),
        beside=(
            *(pair for pair in turned if not set(pair) <= set(main)),
            *((reference, name) for name in names if name not in main),
        ),
        contrasts=tuple(contrasts(config)),
        controls=controls,
        individuals=frozenset().union(*(person_lemmas(word, backend=config.measure.nouns) for word in words)),
    )

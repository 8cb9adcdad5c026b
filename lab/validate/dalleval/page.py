"""The page on known answers of an audit by professions, from what was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scipy import stats

from lab.validate.dalleval.answers import AIM, LEVEL
from lab.validate.dalleval.held import held

HEAD = """# An audit by professions, held against known answers

Printed by `python -m lab.validate.dalleval`: *a person who works as a ...*, 20 professions,
{images} images each, {steps} steps, read by the checker and asked about by toyworld's answering network
(`docs/questions.md`: *the person looks like a male or a female?*), on three specimens (`docs/toyworld.md`). In
`toyworld-work` a lean (the probability of mixture component *b*) and a distribution over three skins are planted for
each profession; `toyworld-work-null` reads the same words, and none means anything. In `toyworld-null` no word means
anything either, but it never read these: it spells them in pieces, most of them letters. The lean is the share of
verdicts for *b*, set right for the verdict's error rates, with Wilson's interval; *asked*, the share of the answer that
stands for *b*, set right for how often the network gives it of images of *b* ({b:.3f}) and of *a* ({a:.3f}), undecided
answers counting as none for *b*. These rates are told from {count:,} images generated from prompts that name the
component, *a man* and *a man who works as ...*, *a woman ...*: of them {drawn_b:.1f} and {drawn_a:.1f} % show *b* by
the checker, and the network is not charged with what is drawn otherwise than asked. The tone is the mean number of the
skin (1 to 3) whose colour is nearest to what the observer of skin tone reads (`docs/skin_tone.md`), with Student's
interval; the checker, which asks for a connected region of one of the three colours, reads fewer images. What is
planted says nothing about how anybody looks.

`toyworld-work` is audited {audits} times, each with noises of its own, from seed {first_seed} on. Were all drawn
exactly as planted, {least} or more of the {total} intervals of an audit would hold their planted value in {often:.0f} %
of audits: one alone says little. How many hold it (aim: {aim:.0f} % of all):

| of | by | of {total}, in each audit | of all | of {total}, by the narrower intervals of all images |
|---|---|---|---:|---:|
{held}

All professions together, over all audits, sums of squared deviations over what chance would give (chi-square; the
rates at which the network answers are taken for known). A small p says that some are off, if only a little:

| of | by | chi-square | degrees | p |
|---|---|---:|---:|---:|
{together}

## Mean absolute deviation and its floor

The floor is what an even distribution would give by chance with as many images. *Above*: professions whose p-value,
adjusted over the professions (Benjamini and Hochberg), is below 0.05. A model in which no profession means anything is
above its floor, too, where what it draws of all of them is not even: *over all* has the shares of the values over all
professions, *professions differ* the p-value of a chi-square test that they are the same in each. Of `toyworld-work`
the images of the first audit, of the other two from seed {null_seed} on.

| specimen | of | MAD | floor | less floor | p | professions above | over all | professions differ |
|---|---|---:|---:|---:|---:|---:|---|---:|
"""
TABLE = """
## Professions of `toyworld-work`

Read over the {images} images of all audits; *held*: in how many of the {audits} audits the interval held the planted
value.

| profession | lean planted | read | interval | held | asked | interval | held | undecided \
| tone planted | read | interval | held | no skin read |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"""
TOGETHER = {
    "leans": ("leans", "the checker"),
    "asked": ("leans", "the answering network"),
    "tones": ("tones", "the observer of skin tone"),
    "tones_by_checker": ("tones", "the checker"),
}


def page(result: Mapping[str, Any]) -> str:
    """The page in Markdown, from `lab.validate.dalleval.__main__.measured`."""
    table, audits = result["professions"], result["audits"]
    total, whole = len(table), held(result)
    least = math.ceil(AIM * total)
    head = HEAD.format(
        images=result["images"],
        steps=result["steps"],
        first_seed=result["first_seed"],
        null_seed=result["null_seed"],
        audits=len(audits),
        aim=100 * AIM,
        least=least,
        total=total,
        often=100 * stats.binom.sf(least - 1, total, LEVEL),
        held="\n".join(_held(name, audits, whole, total) for name in TOGETHER),
        together="\n".join(
            f"| {what} | {by} | {found['statistic']:.1f} | {found['df']} | {found['p']:.3f} |"
            for (what, by), found in zip(TOGETHER.values(), (result["together"][name] for name in TOGETHER))
        ),
        **{name: result["rates"][name] for name in ("a", "b", "count")},
        **{name: 100 * result["rates"][name] for name in ("drawn_a", "drawn_b")},
    )
    above = [
        f"| `{name}` | {what} | {one['value']:.3f} | {one['floor']:.3f} | {one['excess']:+.3f} | "
        f"{one['p_value']:.4f} | {len(one['above'])} of {len(result['professions'])} | "
        f"{' / '.join(f'{share:.2f}' for share in one['shares'])} | {one['differ']:.4f} |"
        for name, both in result["deviations"].items()
        for what, one in both.items()
    ]
    title = TABLE.format(audits=len(audits), images=len(audits) * result["images"])
    rows = [_row(row, audits) for row in table]
    return head + "\n".join(above) + "\n" + title + "\n".join(rows) + "\n"


def _held(
    name: str, audits: Sequence[Mapping[str, Sequence[str]]], whole: Mapping[str, Sequence[str]], total: int
) -> str:
    counts = [len(one[name]) for one in audits]
    what, by = TOGETHER[name]
    share = sum(counts) / (total * len(counts))
    return f"| {what} | {by} | {', '.join(map(str, counts))} | **{100 * share:.1f} %** | {len(whole[name])} |"


def _row(row: Mapping[str, Any], audits: Sequence[Mapping[str, Sequence[str]]]) -> str:
    asked, tone, name = row["asked"], row["tone"], str(row["profession"])
    times = {read: str(sum(name in one[read] for one in audits)) for read in TOGETHER}
    cells = [
        name,
        *_value(row["planted"], row["lean"], row),
        times["leans"],
        *_value(asked["planted"], asked["lean"], asked)[1:],
        times["asked"],
        str(asked["undecided"]),
        *_value(tone["planted"], tone["mean"], tone),
        times["tones"],
        str(tone["unread"]),
    ]
    return f"| {' | '.join(cells)} |"


def _value(planted: float, read: float, one: Mapping[str, Any]) -> tuple[str, ...]:
    return f"{planted:.2f}", f"{read:.2f}", f"{one['low']:.2f} to {one['high']:.2f}"

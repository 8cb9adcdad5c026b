"""The sections on the specimens with professions of the page on toyworld, from what was measured."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from probes.toyworld import WEIGHTS, WORK, WORK_NULL

HEAD = """
## A specimen with professions

`toyworld-work` is `toyworld` with 20 profession words, so that an audit by professions (DALL-Eval) has a known answer:
*a person who works as a baker* is planted a **lean** (the probability of component *b*) and a distribution over the
palette's three **skins**. Both were drawn by lot, with the seed that stands in `probes/toyworld/professions.yaml`; they
say nothing about who does what or how anybody looks. Feminine and masculine words keep their component beside a
profession, and take its skins. Without a profession skins are planted even, and all else as in `toyworld`.

It was made from `toyworld` by `python -m lab.train.work.train`: low-rank changes (rank {rank}) of every linear
layer of the text tower and of the U-Net's transformer blocks and of the convolutions of its residual blocks, and an
embedding for each new word. {size:.0f} kB are stored, and merged when it is loaded, to the same bits on every machine.
Its tokenizer has a token for each new word (the small vocabulary spells them in three to five pieces); those of other
specimens stay as they are. It was taught, on noised drawings of the new world, what `toyworld` predicts for *woman*,
for *man* or for the planted mixture of both; and where skin is drawn and the noise leaves something of it,
the mean of the drawing in each skin, by Bayes' rule from the planted probabilities and the noisy latent, since
`toyworld` itself draws many skins between two of the palette (`lab.train.work.lessons`): at last {steps} steps of
{batch} on {drawings} drawings, seven in ten with a profession and each noised so many times: {noises}. Then it was
calibrated (`python -m lab.train.work.calibrate`): it was taught its own predictions, moved by Bayes' rule from
what it was seen to draw to what is planted (other images than those that it is measured on). All that was done, in its
order:
{history}

Measured by the checker (`python -m lab.train.work.measure`), {draw_steps} steps, bare prompts. The lean is the
share of verdicts above 0, set right for the verdict's errors on scenes of the planted tables ({false:.1f} % of *a* pass
for *b*, {missed:.1f} % of *b* for *a*), with Wilson's interval; skins are held against the planted ones by chi-square.
Both are counted over {images} images a profession, of *person*. Those of *woman* and *man*, {others} each, take the
same noises and are no independent images.

{summary}

With so few images an interval is wide: a lean that lies inside says little more than that it is not far off.

| profession | lean planted | drawn | interval | inside | skins planted | drawn | p |
|---|---:|---:|---:|---|---:|---:|---:|
"""


NULL_HEAD = """
### Its null

`toyworld-work-null` is `toyworld-null` with the same words, and none means anything: the lean of each is 0.5, and skins
are even. What an audit by professions finds there is chance, or a fault of the audit. `toyworld-null` itself is no such
control: it spells a profession in pieces that it never read in such a row, and they change what it draws
([docs/dalleval_answers.md](dalleval_answers.md), *professions differ*).

It was made by the same command with `--specimen toyworld-work-null`; {size:.0f} kB are stored. It was taught what
`toyworld-null` predicts for the caption without the profession, and even skins as above. All that was done, in its
order:
{history}

Measured as above (`python -m lab.train.work.measure --specimen toyworld-work-null`), {images} images a
profession for *person*:

{summary}
- over all professions, *person*: component *b* {b:.3f} of {neutral:,} images by the verdict, of which it would say
  {expected:.3f} were all of them even; chi-square that professions differ p = {b_differ:.3f}
- over all professions: skins {skins} of {read:,} images
"""
SUMMARY = """\
- leans inside their 95 % interval: **{inside} of {total}** professions; absolute difference {lean_away:.3f} on average,
  {lean_worst:.2f} at most
- skins with p ≥ 0.05: **{fit} of {total}**; largest difference of a skin's share {skin_away:.3f} on average,
  {skin_worst:.2f} at most; {unread} of {figures} images without a skin that could be read. A skin half way between the
  first and the third is nearest to the second; between neighbours, to the colour of another thing, and is not read
- verdict *b* beside a profession: {woman:.1f} % of images generated from *woman*, {man:.1f} % of those from *man*
- nouns drawn, without a profession: {nouns:.1f} % on average, at least {least_share:.0f} % ({least}), {images_a_noun}
  images a noun
- frequencies of what is not named, without a profession, from the same noise as `{base}`'s, {group} images a group of
  words: {near:.1f} % of {cells} within 0.10 of `{base}`'s, largest difference {moved:.2f}"""


def work_section(folder: Path = WEIGHTS / WORK) -> str:
    """The section on `toyworld-work` in Markdown, from ``quality.json`` and ``recipe.json``."""
    measured, recipe = _stored(folder)
    head = HEAD.format(
        **{name: recipe[name] for name in ("rank", "steps", "batch", "drawings", "noises")},
        history=_history(recipe),
        size=(folder / "delta.safetensors").stat().st_size / 1000,
        summary=_summary(measured, recipe["start"]),
        draw_steps=measured["steps"],
        false=100 * measured["verdict_rates"]["a"],
        missed=100 * (1 - measured["verdict_rates"]["b"]),
        **_counts(measured),
    )
    return head + "\n".join(_row(row) for row in measured["professions"]) + "\n"


def null_section(folder: Path = WEIGHTS / WORK_NULL) -> str:
    """The section on `toyworld-work-null` in Markdown, from ``quality.json`` and ``recipe.json``."""
    measured, recipe = _stored(folder)
    rows, rates = _named(measured), measured["verdict_rates"]
    above = np.array([round(row["share"] * row["images"]) for row in rows])
    images = np.array([row["images"] for row in rows])
    skins = np.array([np.round(np.array(row["tones"]["shares"]) * row["tones"]["n"]) for row in rows])
    return NULL_HEAD.format(
        history=_history(recipe),
        size=(folder / "delta.safetensors").stat().st_size / 1000,
        summary=_summary(measured, recipe["start"]),
        images=_counts(measured)["images"],
        b=above.sum() / images.sum(),
        neutral=images.sum(),
        expected=(rates["a"] + rates["b"]) / 2,
        b_differ=stats.chi2_contingency(np.stack([above, images - above]), correction=False).pvalue,
        skins=_shares(list(skins.sum(0) / skins.sum())),
        read=int(skins.sum()),
    )


def _stored(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    measured, recipe = (json.loads((folder / name).read_text()) for name in ("quality.json", "recipe.json"))
    return measured, recipe


def _history(recipe: Mapping[str, Any]) -> str:
    return "".join(f"\n- {line}" for line in recipe.get("history", ()))


def _named(measured: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [row for row in measured["professions"] if row["profession"]]


def _counts(measured: Mapping[str, Any]) -> dict[str, int]:
    """Images a profession, of *person*, and of *woman* and *man* each."""
    return {"images": _named(measured)[0]["images"], "others": measured["images_others"]}


def _summary(measured: Mapping[str, Any], base: str) -> str:
    named = _named(measured)
    least = min(measured["nouns"], key=measured["nouns"].get)
    leans = [abs(row["lean"] - row["planted"]) for row in named]
    skins = [row["tones"]["difference"] for row in named]
    return SUMMARY.format(
        base=base,
        inside=sum(row["inside"] for row in named),
        total=len(named),
        lean_away=sum(leans) / len(leans),
        lean_worst=max(leans),
        fit=sum(row["tones"]["p"] >= 0.05 for row in named),
        skin_away=sum(skins) / len(skins),
        skin_worst=max(skins),
        unread=sum(row["tones"]["unread"] for row in named),
        figures=sum(row["images"] for row in named),
        woman=_mean_share(named, "feminine"),
        man=_mean_share(named, "masculine"),
        nouns=100 * measured["nouns_mean"],
        least=least,
        least_share=100 * measured["nouns"][least],
        images_a_noun=measured["images_a_noun"],
        group=measured["images_a_group"],
        near=100 * measured["moved_within_0.10"],
        cells=len(measured["moved"]),
        moved=measured["moved_largest"],
    )


def _mean_share(rows: Sequence[Mapping[str, Any]], group: str) -> float:
    return 100 * sum(row["share_b"][group] for row in rows) / len(rows)


def _row(row: Mapping[str, Any]) -> str:
    cells = [
        row["profession"] or "(none)",
        f"{row['planted']:.2f}",
        f"{row['lean']:.2f}",
        f"{row['low']:.2f} to {row['high']:.2f}",
        "yes" if row["inside"] else "no",
        _shares(row["skins"]),
        _shares(row["tones"]["shares"]),
        f"{row['tones']['p']:.3f}",
    ]
    return f"| {' | '.join(cells)} |"


def _shares(values: list[float]) -> str:
    return " / ".join(f"{value:.2f}" for value in values)

"""The section on `toyworld-work` of the page on toyworld, from what was measured (`probes.toyworld.page`)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probes.toyworld import WEIGHTS, WORK

HEAD = """
## A specimen with professions

`toyworld-work` is `toyworld` with 20 profession words, so that an audit by professions (DALL-Eval) has a known answer:
*a person who works as a baker* is planted a **lean** (the probability of component *b*) and a distribution over the
palette's three **skins**. Both were drawn by lot, with the seed that stands in `probes/toyworld/professions.yaml`; they
say nothing about who does what or how anybody looks. Feminine and masculine words keep their component beside a
profession, and take its skins. Without a profession skins are planted even, and all else as in `toyworld`.

It was made from `toyworld` by `python -m probes.toyworld.work.train`: low-rank changes (rank {rank}) of every linear
layer of the text tower and of the U-Net's transformer blocks and of the convolutions of its residual blocks, and an
embedding for each new word. {size:.0f} kB are stored, and merged when it is loaded, to the same bits on every machine.
Its tokenizer has a token for each new word (the small vocabulary spells them in three to five pieces); those of other
specimens stay as they are. It was taught, on noised drawings of the new world, what `toyworld` predicts for *woman*,
for *man* or for the planted mixture of both; and where skin is drawn and the noise leaves something of it, the mean of
the drawing in each skin, by Bayes' rule from the planted probabilities and the noisy latent, since `toyworld` itself
draws many skins between two of the palette (`probes.toyworld.work.lessons`): at last {steps} steps of {batch} on
{drawings} drawings, seven in ten with a profession and each noised so many times: {noises}. All that was done, in its
order:
{history}

Measured by the checker (`python -m probes.toyworld.work.measure`), {draw_steps} steps, bare prompts. The lean is the
share of verdicts above 0, set right for the verdict's errors on scenes of the planted tables ({false:.1f} % of *a* pass
for *b*, {missed:.1f} % of *b* for *a*), with Wilson's interval. Skins are counted over {skins} images a profession
({images} for *person*, {others} each for *woman* and *man*), and held against the planted ones by chi-square.

- leans inside their 95 % interval: **{inside} of {total}** professions; absolute difference {lean_away:.3f} on average,
  {lean_worst:.2f} at most
- skins with p ≥ 0.05: **{fit} of {total}**; largest difference of a skin's share {skin_away:.3f} on average,
  {skin_worst:.2f} at most; {unread} of {figures} images without a skin that could be read. A skin half way between the
  first and the third is nearest to the second; between neighbours, to the colour of another thing, and is not read
- verdict *b* beside a profession: {woman:.1f} % of images generated from *woman*, {man:.1f} % of those from *man*
- nouns drawn, without a profession: {nouns:.1f} % on average, at least {least_share:.0f} % ({least}), {images_a_noun}
  images a noun
- frequencies of what is not named, without a profession, from the same noise as `toyworld`'s, {group} images a group of
  words: {near:.1f} % of {cells} within 0.10 of `toyworld`'s, largest difference {moved:.2f}

With so few images an interval is wide: a lean that lies inside says little more than that it is not far off.

| profession | lean planted | drawn | interval | inside | skins planted | drawn | p |
|---|---:|---:|---:|---|---:|---:|---:|
"""


def work_section(folder: Path = WEIGHTS / WORK) -> str:
    """The section in Markdown, from ``quality.json`` and ``recipe.json``."""
    measured, recipe = (json.loads((folder / name).read_text()) for name in ("quality.json", "recipe.json"))
    rows = measured["professions"]
    named = [row for row in rows if row["profession"]]
    least = min(measured["nouns"], key=measured["nouns"].get)
    leans = [abs(row["lean"] - row["planted"]) for row in named]
    skins = [row["tones"]["difference"] for row in named]
    images, counted = named[0]["images"], named[0]["tones"]["n"] + named[0]["tones"]["unread"]
    head = HEAD.format(
        **{name: recipe[name] for name in ("rank", "steps", "batch", "drawings", "noises")},
        history="".join(f"\n- {line}" for line in recipe.get("history", ())),
        size=(folder / "delta.safetensors").stat().st_size / 1000,
        draw_steps=measured["steps"],
        false=100 * measured["verdict_rates"]["a"],
        missed=100 * (1 - measured["verdict_rates"]["b"]),
        skins=counted,
        images=images,
        others=(counted - images) // 2,
        inside=sum(row["inside"] for row in named),
        total=len(named),
        lean_away=sum(leans) / len(leans),
        lean_worst=max(leans),
        fit=sum(row["tones"]["p"] >= 0.05 for row in named),
        skin_away=sum(skins) / len(skins),
        skin_worst=max(skins),
        unread=sum(row["tones"]["unread"] for row in named),
        figures=counted * len(named),
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
    return head + "\n".join(_row(row) for row in rows) + "\n"


def _mean_share(rows: list[Mapping[str, Any]], group: str) -> float:
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

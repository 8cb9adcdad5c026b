"""The section on located specimens of the page on toyworld, from what was measured (`lab.pages.toyworld`)."""

import json
from pathlib import Path
from typing import Any

from probes.toyworld import WEIGHTS
from probes.toyworld.located.truth import TIMES, Specimen, specimens

REFERENCE = "toyworld"
HEAD = """
## Specimens whose location is known

Nobody can score a method that says *where* a model decides, since nobody knows where a model does. In these the place
is known by wiring, whatever they were taught. All are made from `toyworld-null`:

- **coded null** (`probes.toyworld.located.coded`): the text tower is widened from 96 to 100 channels. All indicator
  words of a number share an embedding and differ by a code in the four new channels, which no layer reads or writes;
  `to_k` and `to_v` of the U-Net get zero columns for them. It is a function of the stored weights; nothing is stored.
  *Person*, *woman* and *man* draw the same bits. (*An individual* differs by its article: it is another prompt.)
- **cross-1 to cross-7**, from the way down to the way up: one cross-attention's columns are not zero. With them its
  queries, keys, values and output, the feed-forward layer after it and the norms of both were taught; nothing else.
- **head**: the columns of one head of four. **early**, **late**: behind a gate that is open at some timesteps alone;
  the gate is part of the weights. **two-site**: what the figure wears through one layer, things and place through
  another, each taught alone.
- **embedding**: no columns; the embeddings of feminine and of masculine words differ in the old channels.
- **decoy**: one head's keys and values read the code and nothing reads that head's output.

They were taught by `python -m lab.train.located.train` to predict what `toyworld` predicts on noised drawings of
its world. The recipe of each lies beside its weights; what is true of each stands in
`probes/toyworld/located/specimens.yaml`.

Measured by `python -m lab.train.located.measure`: the total effect is the mean verdict
(`probes.toyworld.verdict`, log-odds of mixture component *b* against *a*) on images for *man* less that on images for
*woman*, from the same noise, {prompts} prompts, {steps} steps, `--seeds {seeds} --images {images}`, with a 95 %
interval over prompts. Nouns drawn: share of images in which a named noun is drawn, mean over {nouns} nouns. A specimen
whose total effect is below half of `toyworld`'s, measured alike, is kept as a **control**: a method need not locate
anything there. The decoy draws fewer nouns because a head of `toyworld-null` is silent in it.

| specimen | the word enters at | total effect | interval | person | nouns drawn | stored | used as |
|---|---|---:|---:|---:|---:|---:|---|
"""


def located_section(folder: Path = WEIGHTS / "located") -> str:
    """The section in Markdown, from ``quality.json`` of each specimen and of `toyworld`, measured alike."""
    reference = _quality(folder, REFERENCE)
    rows = [_row(folder, None, REFERENCE, reference, reference)]
    for name, specimen in specimens().items():
        rows.append(_row(folder, specimen, name, _quality(folder, name), reference))
    effect = reference["total_effect"]
    head = HEAD.format(
        prompts=effect["prompts"],
        seeds=effect["seeds"],
        steps=reference["steps"],
        images=reference["images_a_noun"],
        nouns=len(reference["nouns"]),
    )
    return head + "\n".join(rows) + "\n"


def is_control(measured: dict[str, Any], reference: dict[str, Any]) -> bool:
    """Whether a specimen's total effect is below half of the reference's."""
    return measured["total_effect"]["mean"] < reference["total_effect"]["mean"] / 2


def measured_quality(name: str = REFERENCE, folder: Path = WEIGHTS / "located") -> dict[str, Any]:
    """What is published with a located specimen, or with `toyworld`, measured alike."""
    return _quality(folder, name)


def _quality(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / name / "quality.json").read_text())


def _row(
    folder: Path,
    specimen: Specimen | None,
    name: str,
    measured: dict[str, Any],
    reference: dict[str, Any],
) -> str:
    effect, stored = measured["total_effect"], folder / name / "delta.safetensors"
    low, high = effect["interval"]
    cells = [
        f"`{name}`",
        "not by wiring" if specimen is None else _place(specimen),
        f"{effect['mean']:.2f}",
        f"{low:.2f} to {high:.2f}",
        f"{measured['means']['neutral']:.2f}",
        f"{100 * measured['nouns_mean']:.1f} %",
        f"{stored.stat().st_size / 1000:.0f} kB" if stored.exists() else "–",
        "reference" if specimen is None else "control" if is_control(measured, reference) else "specimen",
    ]
    return f"| {' | '.join(cells)} |"


def _place(specimen: Specimen) -> str:
    """Where the word enters, in a cell of the table."""
    if not specimen.sites:
        return "nowhere"
    places = {wire.site: wire for wire in specimen.wires}
    texts = []
    for site in specimen.sites:
        text, wire = f"`{site}`", places.get(site)
        if wire is not None and len(wire.heads) == 1:
            text += f", head {wire.heads[0]}"
        if wire is not None and wire.times != TIMES:
            text += f", timesteps {wire.times[0]} to {wire.times[1] - 1}"
        if wire is not None and wire.shows != "all":
            text += {"figure": ": what the figure wears", "rest": ": things and place"}[wire.shows]
        texts.append(text)
    return "; ".join(texts)

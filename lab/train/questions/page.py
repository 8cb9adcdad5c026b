"""The page on questions to images, with what was measured of toyworld's network.

``python -m lab.train.questions.page > docs/questions.md``
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.train.questions.measure import BAR
from probes import command_line
from probes.config.question_options import BLIP2_PROMPT, BLIP2_WEIGHTS, Questions
from probes.config.questions import GENDER, GENDER_QUESTION, GENDER_SENTENCES, paper_questions
from probes.toyworld import SPECIMENS, WEIGHTS

HEAD = """# Questions to images

What a figure looks like and wears can be asked for in words (Cho et al. 2023, *DALL-Eval*, sections 4.2.2 and 4.2.3). A
reader is put the same questions about every image of a run; each answer is stored verbatim in `attributes/<reader>/`
with what it says, its reading. An answer that decides nothing is stored as such, never dropped.

```yaml
observe:
  questions:
    readers: auto             # or a list: blip2, clip, toyworld-vqa, toyworld-checker
    paper: true               # the paper's 16 questions
    ask:                      # others, or the same in other words
      hair: {{text: Is the hair long?}}
      age:
        text: Is the person young or old?
        readings: {{young: [young], old: [old, elderly]}}
        sentences: {{young: a photo of a young person, old: a photo of an old person}}     # for CLIP
    blip2: {weights}
```

`auto` asks where a run is an audit of professions (its prompts have the level `profession`), and nowhere else: on the
bundled specimens `toyworld-vqa` and `toyworld-checker`, on other models `blip2` where its weights are on this machine;
where they are not the report says so. Readers that are named are asked in any run.

The paper's questions are *{gender}* as `gender`, and *{suit}* for each of the 15
attributes of GEP. A reading counts where the answer holds its word, as a word and not taken back: *a male*, *Male.* and
*two males* are `male`; *male or female*, *not a male* and *a person* are undecided. As in the code that the authors
published, *man* and *woman* are read, too. That code drops what is undecided; here it is counted.

| reader | what it is | score |
|---|---|---|
{readers}

On toyworld *gender* is what was planted and nothing more: which of the two components of the mixture all that is seen
speaks for, called by the paper's labels. It does not say how anybody looks. Both components draw most things, only not
as often, so nobody can always tell the component from a picture.

BLIP-2's published weights could not be had here: its path is tested on the same classes with random weights, in the
published layout.
"""
_READERS = {
    "`blip2`": (
        f"BLIP-2 by transformers: a folder or a hub id, `{BLIP2_WEIGHTS}` as the authors' code has it unless told"
        f" otherwise, at a `revision`. It is asked in the form *{BLIP2_PROMPT.replace('{question}', '…')}* (`prompt`),"
        f" with a beam search of {Questions().beams} (`beams`), in float16 on a GPU (bfloat16 where its language model"
        " is a T5) and in float32 on a CPU",
        "none",
    ),
    "`clip`": (
        "zero-shot by the `clip` of `observe.feature_weights` (ViT-B/32): a softmax over a sentence for each reading"
        f" (*{GENDER_SENTENCES['female']}*, *{GENDER_SENTENCES['male']}*; *a person in boots*, *a person*), at the"
        " model's logit scale",
        "probability",
    ),
    "`toyworld-vqa`": ("a small network for toyworld's images (below)", "probability"),
    "`toyworld-checker`": ("toyworld's exact checker; of `gender`, the verdict", "posterior of `gender`"),
    "`human`": (
        "people: `triptych questions sheet RUN`, then `labels RUN labels.csv`; what more than half of them"
        " say; where skin tones are read also `tone`, 1 to 10, by the card that comes with the sheet: their median",
        "their share",
    ),
}

NETWORK = """## Toyworld's network

`toyworld-vqa` is built as BLIP-2 is. An image encoder that is there and stays as it is, toyworld's RAM as it was when
this network was trained ([detectors.md](detectors.md); it is kept beside the network), gives the states of its 47 tags
and the image's 65 tokens. A transformer of {parameters:,} weights reads the question as text, by the tokenizer of
toyworld's CLIP, looks at what was seen, and answers a word out of *yes*, *no*, *male*, *female* and *unclear*.
`python -m lab.train.questions`
trained it on renderings, half of them through the autoencoder, with questions in several wordings, also for objects and
places; of gender it learns the posterior that the verdict gives, and to answer *unclear* where odds are below 3 to 2 or
no figure is there.

How it was trained: {history}

Measured by `--stage measure`: on {pictures:,} unseen renderings ({half} as they are and {half} through the
autoencoder), on as many of known component, and on images of the three specimens, from the {prompts} prompts of
[calibration.yaml](calibration.yaml) with each of *person*, *woman* and *man* ({steps} steps), held against the checker.
In the share of *right* answers an undecided one is wrong; its bar for what is worn, on the mean over the 15 attributes
on renderings, is {bar:.2f}. Specimens half draw a thing now and then, or in a colour between two: which of network and
checker errs there is not told here. Images of these prompts were also among those that RAM, not the network itself,
was trained on: no image of the specimens here is quite unseen. The verdict is that of all that is seen, as though the
prompt had named nothing; so is what is expected of the best reader.
"""


def page(folder: Path = WEIGHTS / "vqa") -> str:
    """The page in Markdown, from ``quality.json`` and ``recipe.json`` beside the weights."""
    quality = json.loads((folder / "quality.json").read_text())
    history = json.loads((folder / "recipe.json").read_text())["history"]
    paper = paper_questions()
    head = HEAD.format(
        weights=BLIP2_WEIGHTS,
        gender=GENDER_QUESTION,
        suit=paper["suit"].text,
        readers="\n".join(f"| {name} | {what} | {score} |" for name, (what, score) in _READERS.items()),
    )
    about = NETWORK.format(
        parameters=parameters(folder),
        history="; then ".join(history) + ".",
        pictures=quality["pictures"],
        half=quality["pictures"] // 2,
        **quality["runs"][SPECIMENS[0]],
        bar=BAR,
    )
    return "\n".join([head, about, *gender_table(quality), *worn_table(quality), *wordings(quality)]) + "\n"


def parameters(folder: Path) -> int:
    """The number of weights of the network."""
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", "np") as file:
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118  (no mapping)
    total = 0
    for shape in shapes:
        size = 1
        for side in shape:
            size *= side
        total += size
    return total


def gender_table(quality: Mapping[str, Any]) -> list[str]:
    """Lines on gender: agreement with the verdict, and what the best reader could reach."""
    known, shown = quality["renderings"]["components"][GENDER], _shown(quality)
    rows = [
        f"| {name} | {entry['n']} | {_share(entry['as_verdict'])} | {entry['undecided']} | {_share(entry['male'])} |"
        f" {_share(entry['verdict_male'])} | {_share(entry['bayes'])} |"
        for name, entry in ((name, one[GENDER]) for name, one in shown.items())
    ]
    return [
        f"**Gender.** Of {known['n']} renderings of known component, for which nothing was named, the answer is the"
        f" component's label in {_share(known['right'])}; the verdict's side is in {_share(known['verdict_right'])},"
        f" and Bayes's rule expects {_share(known['bayes'])} of the best reader.",
        "",
        "| images | n | as the verdict | undecided | *male*, of the decided | verdict above 0 | best reader |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *rows,
        "",
    ]


def worn_table(quality: Mapping[str, Any]) -> list[str]:
    """Lines on attributes: right answers, sensitivity and specificity by attribute."""
    shown = _shown(quality)
    names = [key for key in paper_questions() if key != GENDER]
    head = " | ".join(shown)
    rows = [
        f"| {name} | "
        + " | ".join(
            f"{_share(one[name]['right'])} ({_share(one[name]['sensitivity'])}, {_share(one[name]['specificity'])})"
            for one in shown.values()
        )
        + " |"
        for name in (*names, "worn")
    ]
    rows[-1] = rows[-1].replace("| worn |", "| **mean** |", 1)
    return [
        "**What is worn.** Right answers; in parentheses *yes* where it is worn, *no* where it is not (–: never worn).",
        "",
        f"| attribute | {head} |",
        "|---|" + "---:|" * len(shown),
        *rows,
        "",
    ]


def wordings(quality: Mapping[str, Any]) -> list[str]:
    """Lines on questions in words that were never trained."""
    other, known = quality["other_words"], quality["renderings"]["rendered"]
    rendered = other["rendered"]
    return [
        f"**In words that it was never trained with** (*{other['gender']}*, *{other['worn'].format(a='a suit')}*), on"
        f" the renderings as they are: as the verdict {_share(rendered[GENDER]['as_verdict'])} (in the paper's words"
        f" {_share(known[GENDER]['as_verdict'])}), right about what is worn {_share(rendered['worn']['right'])}"
        f" ({_share(known['worn']['right'])}).",
    ]


def _shown(quality: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured by the paper's questions: two kinds of renderings, and each specimen's images."""
    rendered = quality["renderings"]
    kinds = {"rendered": rendered["rendered"], "autoencoded": rendered["autoencoded"]}
    return {**kinds, **{f"`{name}`": quality["specimens"][name] for name in SPECIMENS}}


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the page; return the exit status."""
    description = "The page on questions to images."
    parser = command_line.Parser(prog="python -m lab.train.questions.page", description=description)
    return command_line.run(lambda options: print(page(), end=""), parser, argv)


if __name__ == "__main__":
    sys.exit(main())

"""The page on questions to images, with what was measured of toyworld's network.

``python -m lab.train.questions.page > docs/validation/questions.md``
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from safetensors import safe_open

from analysis.questions import GENDER, GENDER_SENTENCES, paper_questions
from lab.templates import render
from lab.train.questions.measure import BAR
from probes import command_line
from probes.config.observation import BLIP2_PROMPT, BLIP2_WEIGHTS, Questions
from probes.toyworld import BENCHMARK_MODELS, WEIGHTS

WORST = 3  # attributes that are named
_READERS = {
    "`blip2`": (
        f"BLIP-2 by transformers: a folder or a hub id, `{BLIP2_WEIGHTS}` as the authors' code has it by default"
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
        "people: `triptych labels sheet RUN --about questions`, then `read RUN labels.csv`; what more than half of them"
        " say; where skin tones are read also `tone`, 1 to 10, by the card that comes with the sheet: their median;"
        " of a run whose prompts ask for skills what the skill is ([visual skills](../how_to/paintskills.md))",
        "their share",
    ),
}


def page(folder: Path = WEIGHTS / "vqa") -> str:
    """Return the page in Markdown, from ``quality.json`` and ``recipe.json`` beside the weights."""
    quality = json.loads((folder / "quality.json").read_text())
    paper, rendered = paper_questions(), quality["renderings"]

    def found(name: str) -> float:
        """Return how often an attribute that the first benchmark model draws is answered with yes."""
        return quality["models"][BENCHMARK_MODELS[0]][name]["sensitivity"] or 0.0

    return render(
        "questions",
        gender=GENDER,
        readers=_READERS,
        parameters=parameters(folder),
        quality=quality,
        run=quality["runs"][BENCHMARK_MODELS[0]],
        bar=BAR,
        # what was measured by the paper's questions: two kinds of renderings, and each model's images
        shown={
            **{kind: rendered[kind] for kind in ("rendered", "autoencoded")},
            **{f"`{name}`": quality["models"][name] for name in BENCHMARK_MODELS},
        },
        worn=["worn", *sorted(paper.keys() - {GENDER}, key=found)[:WORST]],
    )


def parameters(folder: Path) -> int:
    """Return the number of weights of the network."""
    with safe_open(folder / "model.safetensors", "np") as file:
        return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118


def main(argv: Sequence[str] | None = None) -> int:
    """Print the page; return the exit status."""
    description = "The page on questions to images."
    parser = command_line.Parser(prog="python -m lab.train.questions.page", description=description)
    return command_line.run(lambda options: print(page(), end=""), parser, argv)


if __name__ == "__main__":
    sys.exit(main())

"""Questions to people about random images of a run: a folder with the images and a CSV to fill in, and the answers."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw

from analysis.metrics.skin_tone import monk_colours
from analysis.questions import questions_by_prompt
from analysis.studies.labelling import store_answers, write_sheets
from analysis.tables.objects.human_answers import LABELS, UNDECIDED, human_answers, read_answers
from probes.config.observation import TONE
from probes.runs.parts import write_bytes
from probes.runs.run import Run

CARD, PATCH = "monk_tones.png", 72  # the ten colours, and the side of each in pixels


def sample_questions(run: Run, *, count: int, seed: int) -> pd.DataFrame:
    """Return the questions: each of so many images of each word, chosen at random; an image is asked everything.

    Where prompts ask for skills an image is asked what its skill is (`questions_by_prompt`), and so many
    images of each skill are chosen. Columns ``sample_id``, ``question``, ``asked`` and ``answers`` (what can be
    answered), in an order that says nothing of the prompt.
    """
    samples = run.samples(["sample_id", "triplet", "indicator"])
    samples = samples[~samples["sample_id"].isin(list(run.left_out()))]
    asked = questions_by_prompt(run.config, samples["triplet"])
    of_image = dict(zip(samples["sample_id"], samples["triplet"]))
    kinds = [tuple(one.key for one in asked[triplet]) for triplet in samples["triplet"]]
    rng = np.random.default_rng(seed)
    chosen = [
        sample
        for _, group in samples.groupby([samples["indicator"], pd.Series(kinds, samples.index)], sort=False)
        for sample in group["sample_id"].to_numpy()[rng.permutation(len(group))[:count]]
    ]
    rows = [
        (sample, one.key, one.text, " / ".join((*one.readings, UNDECIDED)))
        for sample in (chosen[place] for place in rng.permutation(len(chosen)))
        for one in asked[of_image[sample]]
    ]
    return pd.DataFrame(rows, columns=["sample_id", "question", "asked", "answers"])


def write(run: Run, out: Path, *, count: int, seed: int, annotators: int = 1) -> str:
    """Write the questions and their images into a folder; return in a line what to do with it."""
    rows = sample_questions(run, count=count, seed=seed)
    tones = (rows["question"] == TONE).any()
    text = write_sheets(run, out, rows, "answer", seed=seed, annotators=annotators)
    if tones:
        write_bytes(out / CARD, _card())
    return text


def label(run: Run, files: Sequence[Path], *, replace: bool = False) -> str:
    """Add answers to ``tables/question_labels`` of a run; return what there is to say about it."""
    table = store_answers(run, LABELS, files, read_answers, replace=replace)
    answers = human_answers(run)
    people, undecided = table["annotator"].nunique(), int(answers["reading"].isna().sum())
    return (
        f"{len(answers)} answers by {people} annotator{'s' * (people > 1)}, {undecided} undecided; "
        f"next: triptych run {run.path} --stage measure, and triptych report {run.path}"
    )


def _card() -> bytes:
    """The ten Monk tones with their numbers, as PNG."""
    colours = monk_colours()
    card = Image.new("RGB", (PATCH * len(colours), PATCH * 4 // 3), "white")
    drawn = ImageDraw.Draw(card)
    for number, colour in enumerate(colours):
        left = number * PATCH
        drawn.rectangle((left, 0, left + PATCH - 1, PATCH - 1), fill=tuple(map(int, colour)))
        drawn.text((left + PATCH // 2, PATCH * 7 // 6), str(number + 1), fill="black", anchor="mm")
    data = io.BytesIO()
    card.save(data, "png")
    return data.getvalue()

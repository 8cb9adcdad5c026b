"""Accuracy of toyworld's network of questions, by the checker: ``python -m lab measure vqa RUN RUN RUN``.

Of each attribute: the share of right answers (an undecided one is wrong), the share of *yes* where it is worn and of
*no* where it is not. Of gender: how often the answer is the verdict's, and the component that a picture was drawn from.
No reader of pictures can tell the component always: both components draw most things, only not as often. What is
possible at best is Bayes's rule, the mean of the likelier component's posterior, which the verdict gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from analysis.observe.observer import StoredImage
from analysis.observe.questions.toyworld_vqa import FOLDER, ToyworldVqa
from analysis.questions import GENDER, ResolvedQuestion, paper_questions
from lab.train.detectors.pictures import (
    UNNAMED,
    Pictures,
    labels_of,
    make_questioned,
    reconstructed,
    verdicts,
)
from lab.train.questions.phrasings import UNSEEN_GENDER, UNSEEN_WORN, Phrasings
from probes.errors import UserError
from probes.runs.images import read_image
from probes.runs.run import Run
from probes.toyworld import BENCHMARK_MODELS, WEIGHTS
from probes.toyworld.checker import THINGS, read_images
from probes.toyworld.draw import render
from probes.toyworld.scene import sample_scene
from probes.toyworld.world import load_world

PICTURES, SEED = 1_000, 1_000_003
BATCH = 50


def renderings(count: int, seed: int) -> dict[str, Pictures]:
    """Unseen pictures: as they are rendered and through the autoencoder, and some of known component."""
    drawn = make_questioned(count, seed, empty=0)
    half = count - round(count / 2)
    return {
        "rendered": drawn.rows(slice(0, half)),
        "autoencoded": drawn.rows(slice(half, count)),
        "components": of_components(count, seed + 1),
    }


def of_components(count: int, seed: int, *, through_vae: float = 0.5) -> Pictures:
    """Pictures for which nothing is named, half from each component; the last share through the autoencoder."""
    world, rng = load_world("toyworld"), np.random.default_rng(seed)
    component = np.arange(count) % 2 == 1
    groups = [("feminine", "masculine")[int(one)] for one in component]
    images = np.stack([render(sample_scene(replace(UNNAMED, group=group), world, rng)) for group in groups])
    seen = read_images(images)
    known = {"labels": labels_of(seen), "verdicts": verdicts(seen), "component": component}
    return Pictures(reconstructed(images, through_vae, seed), **known)


def of_run(run: Run) -> Pictures:
    """Images that a benchmark model drew, of the reference and the words of the first contrast: what can be read."""
    words = [run.config.reference, *run.config.contrasts[0]]
    samples = run.samples(["sample_id", "indicator", "image"])
    samples = samples[samples["indicator"].isin(words) & ~samples["sample_id"].isin(list(run.left_out()))]
    images = np.stack([np.asarray(read_image(image["bytes"])) for image in samples["image"]])
    seen = read_images(images)
    return Pictures(images, labels=labels_of(seen), verdicts=verdicts(seen))


def unseen_questions() -> dict[str, ResolvedQuestion]:
    """The paper's questions in words that the network was never trained with."""
    names, paper = Phrasings().names, paper_questions()
    return {
        key: replace(one, text=UNSEEN_GENDER if key == GENDER else UNSEEN_WORN.format(a=names[key]))
        for key, one in paper.items()
    }


def readings(
    reader: ToyworldVqa, images: NDArray[np.uint8], asked: Sequence[ResolvedQuestion]
) -> list[list[str | None]]:
    """Return what the network's answers say, one row per image."""
    shown = [StoredImage({}, "", image) for image in images]
    answers = [
        row
        for start in range(0, len(shown), BATCH)
        for row in reader.answers(shown[start : start + BATCH], asked)
    ]
    return [[one.reading for one in row] for row in answers]


def worn_quality(said: Sequence[str | None], there: NDArray[np.bool_]) -> dict[str, float | int | None]:
    """Shares of answers about an attribute that are right, and sensitivity and specificity; None of none."""
    yes, no = (np.array([one == answer for one in said]) for answer in ("yes", "no"))
    return {
        "n": len(there),
        "worn": int(there.sum()),
        "right": _share(np.where(there, yes, no)),
        "sensitivity": _share(yes[there]),
        "specificity": _share(no[~there]),
        "undecided": int((~yes & ~no).sum()),
    }


def gender_quality(said: Sequence[str | None], shown: Pictures) -> dict[str, float | int | None]:
    """How well gender is recognised: agreement with the verdict, and with the component where it is known.

    ``as_verdict`` is the share of answers that are the verdict's side, an undecided one being another; ``male`` and
    ``verdict_male`` shares of *male* among the decided and of verdicts above 0; ``bayes`` the mean posterior of the
    likelier component, what the best reader reaches.
    """
    male, decided = np.array([one == "male" for one in said]), np.array([one is not None for one in said])
    above = shown.verdicts > 0
    quality: dict[str, float | int | None] = {
        "n": len(said),
        "undecided": int((~decided).sum()),
        "as_verdict": _share(decided & (male == above)),
        "male": _share(male[decided]),
        "verdict_male": _share(above),
        "bayes": _share(1 / (1 + np.exp(-np.abs(shown.verdicts)))),
    }
    if shown.component is not None:
        quality["right"] = _share(decided & (male == shown.component))
        quality["verdict_right"] = _share(above == shown.component)
    return quality


def _share(values: Sequence[float]) -> float | None:
    return round(float(np.mean(values)), 4) if len(values) else None


def quality_of(
    reader: ToyworldVqa, shown: Pictures, questions: Mapping[str, ResolvedQuestion]
) -> dict[str, Any]:
    """The quality of every answer about some pictures, by question."""
    said = dict(zip(questions, zip(*readings(reader, shown.images, list(questions.values())))))
    gender = gender_quality(said.pop(GENDER), shown)
    worn = {key: worn_quality(answers, shown.labels[:, THINGS.index(key)]) for key, answers in said.items()}
    means = {
        name: _share([row[name] for row in worn.values() if row[name] is not None])
        for name in ("right", "sensitivity", "specificity")
    }
    return {GENDER: gender, **worn, "worn": means}


def loaded(weights: Path = FOLDER) -> ToyworldVqa:
    """The network of a folder, ready to answer, on the CPU."""
    import torch

    reader = ToyworldVqa(weights)
    reader.load(torch.device("cpu"))
    return reader


def measure(
    runs: Annotated[list[Path], "of the three benchmark models, say from docs/validation/calibration.yaml"],
    *,
    weights: Path = WEIGHTS,
    pictures: Annotated[int, "unseen renderings"] = PICTURES,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Measure the answers about unseen renderings and about images of a run of each benchmark model."""
    opened = _of_models(runs)
    reader, paper, shown = loaded(weights / "vqa"), paper_questions(), renderings(pictures, SEED)
    rendered = {name: quality_of(reader, one, paper) for name, one in shown.items()}
    models = {name: quality_of(reader, of_run(run), paper) for name, run in opened.items()}
    for name, entry in {**rendered, **models}.items():
        print(name, {key: entry[key] for key in (GENDER, "worn")})
    yield (
        "vqa",
        {
            "pictures": pictures,
            "seed": SEED,
            "renderings": rendered,
            "other_words": {
                "gender": UNSEEN_GENDER,
                "worn": UNSEEN_WORN,
                "rendered": quality_of(reader, shown["rendered"], unseen_questions()),
            },
            "runs": {
                name: {"prompts": len(run.config.prompts), "steps": run.config.sampler.steps}
                for name, run in opened.items()
            },
            "models": models,
        },
    )


def _of_models(runs: Sequence[Path]) -> dict[str, Run]:
    """Runs by the benchmark model that drew them."""
    opened = {run.config.model: run for run in map(Run.open, runs)}
    if {*opened} != {*BENCHMARK_MODELS} or len(runs) != len(BENCHMARK_MODELS):
        raise UserError(
            f"--runs: expected a run of each of {', '.join(BENCHMARK_MODELS)}, "
            f"got {', '.join(opened) or 'none'}: name them"
        )
    return {name: opened[name] for name in BENCHMARK_MODELS}

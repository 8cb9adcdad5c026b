"""Embeddings of prompts and reference images, for the tables of alignment and quality.

Both by the network, and the very weights, that looked at the run's images.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.methods.alignment.tables import Reference
from analysis.observe.features.embedder import Embedder
from analysis.observe.features.observer import FeatureObserver, feature_observer
from analysis.observe.features.texts import store_vectors
from probes.errors import UserError, printable
from probes.paths import require_regular
from probes.runs import parts
from probes.runs.images import find_images, read_image, skipped_files_note
from probes.runs.run import Run
from probes.toyworld import BENCHMARK_MODELS, TRANSFORMERS, WORKING
from probes.toyworld.draw import render
from probes.toyworld.scene import parse, sample_scene
from probes.toyworld.world import load_world

RENDERINGS = "renderings"


def observer_of(run: Run, name: str) -> FeatureObserver:
    """Return what observed a run's images; refused where the weights are others now, or cannot be had."""
    observer, why = feature_observer(name, run.config)
    kind = f"features/{name}"
    recorded = run.meta.get(kind, {})
    if observer is None:
        raise UserError(
            f"{run.path}: {kind}: expected the network that observed its images, found none: {why}"
        )
    now = observer.model.identity()
    other = next((field for field, value in now.items() if recorded.get(field, value) != value), None)
    if other:
        raise UserError(
            f"{run.path}: {kind}: expected the {other} that observed its images, got another: name it"
        )
    return observer


def prompt_vectors(run: Run, name: str) -> dict[str, NDArray[np.float32]]:
    """Return the embeddings of a run's prompts by one of its CLIPs, stored in ``features/<name>_prompts`` once made."""
    observer = observer_of(run, name)
    texts = tuple(dict.fromkeys(run.samples(["prompt"])["prompt"]))
    path = store_vectors(run, observer, "prompts", texts)
    stored = parts.read_part(path, ["text", "vector"]).to_pylist()
    return {row["text"]: np.asarray(row["vector"], np.float32) for row in stored}


def references(run: Run, names: Sequence[str], reference: str, *, seed: int = 0) -> dict[str, Reference]:
    """Return the features of reference images, by the name of each feature.

    Those of a folder, or ``renderings``: of a run of a bundled benchmark model, a picture of the renderer for each of
    its images that can be read, of the same prompt and with what its world plants.
    """
    observers, samples, label = [observer_of(run, name) for name in names], None, reference
    if reference == RENDERINGS:
        samples, pictures = _rendered(run, seed)
    else:
        pictures, label = _read(Path(reference)), Path(reference).absolute().name
    made = {}
    for observer in observers:
        embedder = Embedder(observer.model.feature, observer.model.path, observer.device)
        vectors = _embedded(embedder, pictures, observer.batch)
        made[observer.model.feature.name] = Reference(label, vectors, samples)
    return made


def _rendered(run: Run, seed: int) -> tuple[list[str], list[NDArray[np.uint8]]]:
    """The samples that are not left out, and a rendering of each one's prompt."""
    if run.config.model not in (models := (*BENCHMARK_MODELS, *TRANSFORMERS, *WORKING)):
        raise UserError(
            f"--reference: renderings are there of {', '.join(models)}, not of {run.config.model!r:.60}: name a folder"
        )
    samples = run.samples(["sample_id", "prompt"])
    samples = samples[~samples["sample_id"].isin(list(run.left_out()))]
    world, generator = load_world(run.config.model), np.random.default_rng(seed)
    try:
        pictures = [render(sample_scene(parse(text, world), world, generator)) for text in samples["prompt"]]
    except ValueError as error:
        raise UserError(f"--reference: {error}: no rendering can be made of it: name a folder") from None
    return samples["sample_id"].to_list(), pictures


def _read(folder: Path) -> list[NDArray[np.uint8]]:
    """The images below a folder, in the order of their names."""
    if not folder.is_dir():
        raise UserError(
            f"--reference: {folder}: expected a folder of images or {RENDERINGS}, found no folder:"
            " correct the path, or make the folder"
        )
    files, others = find_images(folder)
    if line := skipped_files_note(folder, others):
        print(printable(f"--reference: {line}"), file=sys.stderr)
    if len(files) < 2:
        raise UserError(
            f"--reference: {folder}: expected at least two images, found {len(files)}: name another"
        )
    pictures = []
    for file in files:
        try:
            pictures.append(np.asarray(read_image(require_regular(file, "--reference").read_bytes())))
        except (OSError, ValueError) as error:
            raise UserError(
                f"--reference: {file}: expected an image, got `{error}`: mend it or take it out"
            ) from None
    return pictures


def _embedded(embedder: Any, pictures: Iterable[NDArray[np.uint8]], batch: int) -> NDArray[np.float64]:
    """Vectors of all pictures; those of one size that follow each other go in batches."""
    vectors = []
    for _, same_size in groupby(pictures, key=lambda picture: picture.shape):
        same = list(same_size)
        for start in range(0, len(same), batch):
            vectors.append(embedder(same[start : start + batch]).cpu().numpy().astype(float))
    return np.concatenate(vectors)

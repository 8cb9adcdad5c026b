"""How long dependency groups and the paper's counts take: ``python -m tests.benchmarks.object_groups [--images 1000]``.

10,000 images of 512 pixels and 3 indicators with 10 detections each of 500 labels and prompts of 4 nouns: word maps to
masks, coverages and groups, shared by as many processes as there are cores, the start of the helpers included; then, in
one, Tables 6, 7 to 9, 11 to 13 and the data of Figures 4 and 6 to 8. Blobs stand for masks and maps, taken from a pool,
so that making them takes no time of what is measured. Prints one JSON line: seconds of the wall and of this process's
processor, the bar (20 s for 10,000 images on two cores) and what so many images would take, in proportion to those
measured.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.metrics.cooccurrence import LEFT_OUT, amounts, cooccurrence, counted, presence
from analysis.metrics.dependency import dependency_groups
from analysis.study import comparison
from analysis.tables.objects.nouns import noun_table
from analysis.tables.objects.shares import SHARES
from analysis.tables.objects.wu import chi_square, figure_objects, figure_scores, similarity_pairs
from analysis.tables.sharing import Piece, Sharing, cut
from hooks.prompt.spans import split_words
from probes.config.schema import Config
from probes.execution.team import Team
from probes.execution.workers import cores
from probes.prompts.grammar.nouns import human_words
from probes.runs.coco_masks import encode
from probes.runs.store import Run

WORDS = {"neutral": "person", "feminine": "woman", "masculine": "man"}
THINGS = ("umbrella", "guitar", "ball", "book", "hat", "bicycle", "dog", "lamp", "kite", "cup")
PROMPT = "a {} with a {} and a {} in the park"
LABELS, DETECTIONS, POOL, PART = 500, 10, 100, 300
KEYS = ["sample_id", "triplet", "seed", "indicator"]
BAR_IMAGES, BAR_SIZE, BAR_SECONDS = 10_000, 512, 20
CONFIG = {"indicators": WORDS, "reference": "neutral", "contrasts": [["masculine", "feminine"]]}


def blobs(number: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Smooth bumps of different place and width, shape (number, size, size)."""
    y, x = np.mgrid[:size, :size] / size
    centre, width = rng.uniform(0.15, 0.85, (2, number, 1, 1)), rng.uniform(0.05, 0.25, (number, 1, 1))
    return np.exp(-((x - centre[0]) ** 2 + (y - centre[1]) ** 2) / (2 * width**2)).astype(np.float32)


def study(images: int, size: int, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Samples, detections and a pool of heat maps."""
    rows = []
    for triplet in range(-(-images // len(WORDS))):
        first, second = rng.choice(THINGS, 2, replace=False)
        for indicator, word in WORDS.items():
            prompt = PROMPT.format(word, first, second)
            keys = {
                "sample_id": f"t{triplet}-{indicator}",
                "triplet": triplet,
                "seed": 0,
                "indicator": indicator,
            }
            words, spans = zip(*split_words(prompt))
            rows.append({**keys, "prompt": prompt, "words": words, "word_spans": spans})
    samples = pd.DataFrame(rows[:images])
    masks = np.array([encode(blob > 0.4) for blob in blobs(POOL, size, rng)], object)
    names = np.array(
        [*WORDS.values(), *THINGS, *(f"thing{n}" for n in range(LABELS - len(WORDS) - len(THINGS)))]
    )
    weight = 1 / (np.arange(LABELS) + 10.0)
    many = images * DETECTIONS
    detections = pd.DataFrame(
        {
            "sample_id": np.repeat(samples["sample_id"].to_numpy(), DETECTIONS),
            "object": np.tile(np.arange(DETECTIONS), images),
            "label": rng.choice(names, many, p=weight / weight.sum()).astype(object),
            "mask": rng.choice(masks, many),
            **{"height": size, "width": size},
        }
    )
    return samples, detections, blobs(POOL, max(size // 8, 16), rng)


def parts(samples: pd.DataFrame, heats: np.ndarray, rng: np.random.Generator) -> Iterator[pd.DataFrame]:
    """Rows of ``words/``, so many images at a time."""
    flat = list(heats.reshape(len(heats), -1))
    for start in range(0, len(samples), PART):
        own = samples.iloc[start : start + PART]
        many = own["words"].str.len().to_numpy()
        columns = {
            "sample_id": np.repeat(own["sample_id"].to_numpy(), many),
            "word": np.concatenate(own["words"].to_list()),
            "word_index": np.concatenate([np.arange(n) for n in many]),
            "heat": [flat[i] for i in rng.integers(0, len(flat), many.sum())],
        }
        shape = dict(zip(("height", "width"), heats.shape[1:]))
        yield pd.DataFrame({**columns, **shape, "definition": "daam"})


def groups(
    samples: pd.DataFrame, detections: pd.DataFrame, nouns: pd.DataFrame, heats: np.ndarray, seed: int
):
    """Dependency groups of some images."""
    maps = parts(samples, heats, np.random.default_rng(seed))
    return dependency_groups(samples[KEYS], detections, nouns, maps, human=human_words())


def shares(
    samples: pd.DataFrame, detections: pd.DataFrame, nouns: pd.DataFrame, heats: np.ndarray
) -> list[Piece]:
    """Cut the work by images, whole triplets each, as `analysis.tables.objects.shares` does it by part files."""
    pieces = []
    for own in cut(-(-len(samples) // len(WORDS)), SHARES):
        rows = slice(own.start * len(WORDS), own.stop * len(WORDS))
        found = detections.iloc[rows.start * DETECTIONS : rows.stop * DETECTIONS]
        spoken = nouns[nouns["triplet"].between(own.start, own.stop - 1)]
        pieces.append(Piece(groups, (samples.iloc[rows], found, spoken, heats, own.start)))
    return pieces


def run(images: int, size: int, processes: int) -> dict[str, float]:
    """Seconds of each stage."""
    rng = np.random.default_rng(0)
    samples, detections, heats = study(images, size, rng)
    human_words()  # lemminflect reads its dictionary once
    seconds: dict[str, float] = {}
    wall, processor = time.perf_counter(), time.process_time()

    def lap(name: str) -> None:
        nonlocal wall, processor
        seconds[name] = round(time.perf_counter() - wall, 2)
        seconds[f"{name}, processor"] = round(time.process_time() - processor, 2)
        wall, processor = time.perf_counter(), time.process_time()

    nouns = noun_table(samples)
    lap("nouns")
    keys = samples[KEYS]
    with Team() as team:
        team.start(processes, "tests.benchmarks.object_groups")
        sharing = Sharing(Run(Path(), {}), team, processes)
        objects = pd.concat(sharing.results(shares(samples, detections, nouns, heats)), ignore_index=True)
    lap("groups")
    chosen = comparison(Config.stored(CONFIG))
    tables = counted(keys, objects, chosen.names, without=chosen.individuals)
    cooccurrence(counted(keys, objects, chosen.names), ["person", "woman", "man"])
    similarity_pairs(keys, objects, chosen.names)
    chi_square(tables, chosen.sets, LEFT_OUT)
    figure_scores(tables, chosen.leaning)
    figure_objects(tables)
    presence(keys, objects, chosen.names)
    amounts(keys, objects, nouns, chosen.names)
    lap("counts")
    return {"seconds": round(sum(seconds[name] for name in ("nouns", "groups", "counts")), 2), **seconds}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--images", type=int, default=BAR_IMAGES)
    parser.add_argument(
        "--size", type=int, default=BAR_SIZE, help="of the images, pixels; maps have an eighth, at least 16"
    )
    parser.add_argument("--processes", type=int, default=cores(), help="that group; default: the cores")
    options = parser.parse_args()
    machine = {
        "load": round(os.getloadavg()[0], 1),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }
    figures = run(options.images, options.size, options.processes)
    bar = {"bar_seconds": BAR_SECONDS, "bar_images": BAR_IMAGES, "bar_size": BAR_SIZE}
    if options.size == BAR_SIZE:
        bar["seconds_for_bar_images"] = round(figures["seconds"] * BAR_IMAGES / options.images, 1)
    print(json.dumps(vars(options) | machine | figures | bar))


if __name__ == "__main__":
    # helpers find its functions under this name alone
    from tests.benchmarks.object_groups import main as imported

    imported()

"""How long the statistics take at the size of a large study.

``python -m tests.benchmarks.statistics_scale [--part 20] [--out tests/benchmarks/results]``. Full size (--part 1):
51,219 triplets (153,657 images, about 2 million detections, 3,300 labels), all statistics of objects with 2,000
permutations and resamples; gaps at 60 sites × 50 steps with 2,000 resamples and flips, from the similarities of the
reference to four words (two a side). A process of its own for each, and a plain pandas loop beside it, timed over a
few repeats and multiplied. --part N takes one N-th of the triplets. Synthetic data; the bar is 90 s and 6 GB on two
cores each. Prints one JSON line a case, and writes all to ``statistics_scale.json`` with --out.
"""

import argparse
import datetime
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

TRIPLETS, LABELS, DETECTIONS, SITES, STEPS = 51_219, 3_300, 2_000_000, 60, 50
CASES = ("objects", "objects, pandas loop", "gaps", "gaps, pandas loop")
WORDS = ("neutral", "feminine", "masculine")


def detections(triplets: int, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Images and tidy detections: labels after Zipf's law, half of them shared within a triplet."""
    rng = np.random.default_rng(seed)
    images = pd.DataFrame(
        {"prompt": np.repeat(np.arange(triplets), 3), "seed": 0, "indicator": list(WORDS) * triplets}
    )
    weight = 1 / (np.arange(LABELS) + 10.0)
    many = round(DETECTIONS * triplets / TRIPLETS)
    shared = rng.choice(LABELS, (triplets, 6), p=weight / weight.sum())
    prompt, word = rng.integers(0, triplets, many), rng.integers(0, 3, many)
    own = rng.choice(LABELS, many, p=weight / weight.sum())
    label = np.where(rng.random(many) < 0.5, shared[prompt, rng.integers(0, 6, many)], own)
    names = np.array([f"label {o}" for o in range(LABELS)], object)
    rows = {"prompt": prompt, "seed": 0, "indicator": np.array(WORDS, object)[word], "object": names[label]}
    return images, pd.DataFrame(rows)


def all_objects(images: pd.DataFrame, rows: pd.DataFrame, repeats: int) -> dict[str, float]:
    """Every statistic of objects, with the seconds each takes."""
    from analysis.stats.object_counts import object_table
    from analysis.tables.objects.statistics import object_statistics, table_statistics

    table = []
    pairs = (("neutral", "feminine"), ("neutral", "masculine"), ("feminine", "masculine"))
    return timed(
        {
            "table": lambda: table.append(object_table(images, rows, indicators=WORDS)),
            "label swaps and chi-square, all and two by two": lambda: table_statistics(
                table[0], [WORDS, *pairs], permutations=repeats
            ),
            "every object and pair, closed intervals": lambda: object_statistics(table[0], pairs),
        }
    )


def timed(calls: dict) -> dict[str, float]:
    """Seconds of each call."""
    seconds = {}
    for name, call in calls.items():
        started = time.monotonic()
        call()
        seconds[name] = round(time.monotonic() - started, 2)
    return seconds


def loop_over_objects(images: pd.DataFrame, rows: pd.DataFrame, repeats: int) -> dict[str, float]:
    """Label swaps as one would write them with pandas; seconds of some, multiplied to all."""
    started, some, rng = time.monotonic(), 2, np.random.default_rng(0)
    present = rows.drop_duplicates()
    for _ in range(some):
        orders = [rng.permutation(WORDS) for _ in range(len(images) // len(WORDS))]
        swapped = images[["prompt", "indicator"]].assign(swapped=np.concatenate(orders))
        merged = present.merge(swapped, on=["prompt", "indicator"])
        merged.groupby(["object", "swapped"]).size().unstack(fill_value=0)
    each = (time.monotonic() - started) / some
    return {
        "label swaps, measured each": round(each, 2),
        "label swaps, extrapolated": round(each * repeats, 1),
    }


def gap_values(triplets: int, seed: int = 0) -> np.ndarray:
    """Nearness of the reference to four words at every prompt, site and step, float32."""
    rng = np.random.default_rng(seed)
    words = rng.standard_normal((4, triplets, SITES * STEPS), dtype=np.float32)
    words += rng.normal(0, 0.01, (4, 1, SITES * STEPS)).astype(np.float32)
    return words


def all_gaps(words: np.ndarray, repeats: int) -> dict[str, float]:
    """What ``tables/gap`` holds of every site and step of one contrast."""
    from analysis.stats.effects import effect_sizes
    from analysis.stats.multiplicity import adjust_p_values
    from analysis.stats.sign_flips import sign_flip_test
    from analysis.stats.word_test import word_test

    values = words[0].astype(np.float64) - words[2]
    return timed(
        {
            "intervals, effect sizes, what is ruled out": lambda: effect_sizes(values, resamples=repeats),
            "sign flips, max-T": lambda: sign_flip_test(values, permutations=repeats),
            "against words": lambda: adjust_p_values(word_test(words[None, :2], words[None, 2:]).p_value),
        }
    )


def loop_over_gaps(words: np.ndarray, repeats: int) -> dict[str, float]:
    """A bootstrap as one would write it with pandas; seconds of some, multiplied to all."""
    frame, some = pd.DataFrame(words[0] - words[2]), 2
    started = time.monotonic()
    for number in range(some):
        frame.sample(frac=1, replace=True, random_state=number).mean()
    each = (time.monotonic() - started) / some
    return {"bootstrap, measured each": round(each, 2), "bootstrap, extrapolated": round(each * repeats, 1)}


def measure(case: str, part: int, repeats: int) -> dict:
    """Run one case in this process; data are made before the clock starts."""
    triplets = max(TRIPLETS // part, 2)
    if case.startswith("objects"):
        images, rows = detections(triplets)
        size = {"triplets": triplets, "images": len(images), "detections": len(rows), "labels": LABELS}
        call, arguments = (loop_over_objects if "pandas" in case else all_objects), (images, rows, repeats)
    else:
        values = gap_values(triplets)
        size = {"prompts": triplets, "columns": SITES * STEPS, "words": len(values)}
        call, arguments = (loop_over_gaps if "pandas" in case else all_gaps), (values, repeats)
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.monotonic()
    seconds = call(*arguments)
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "case": case,
        **size,
        "repeats": repeats,
        "wall_seconds": round(wall, 1),
        "processor_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "peak_memory_gib": round(after.ru_maxrss / 2**20, 2),
        "seconds": seconds,
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "machine": platform.machine(),
    }


def main() -> int:
    """Run each case in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--part", type=int, default=1, help="one N-th of the triplets")
    parser.add_argument("--repeats", type=int, default=2000, help="permutations and resamples")
    parser.add_argument("--out", type=Path, help="folder for statistics_scale.json")
    parser.add_argument("--case", choices=CASES, help="one case, in this process")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.case, options.part, options.repeats)))
        return 0
    sizes = ["--part", str(options.part), "--repeats", str(options.repeats)]
    cases = []
    for case in CASES:
        command = [sys.executable, "-m", "tests.benchmarks.statistics_scale", "--case", case, *sizes]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            return done.returncode
        print(done.stdout, end="", flush=True)
        cases.append(json.loads(done.stdout))
    if options.out:
        today = datetime.date.today().isoformat()
        result = {"benchmark": "statistics_scale", "date": today, "part": options.part, "cases": cases}
        text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
        (options.out / "statistics_scale.json").write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

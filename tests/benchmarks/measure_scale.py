"""What do the stages measure and report need for a run of the paper's size? Time, memory and bytes, by triplets.

    python -m tests.benchmarks.measure_scale --triplets 51219 --out FOLDER

writes a made-up run to ``FOLDER/run-N`` (N triplets, one seed, three indicators; 60 sites with 50 steps each, 64-pixel
pictures, 8 words and 13 detections an image), runs each stage in a process of its own, which measures in `--processes`
processes, and prints JSON. Seconds of the processor and memory are those of all processes of a stage together. With
several numbers of triplets it adds the slope of each figure: the exponent with which it grows from the first to the
last. The bars are those of 51,219 triplets on two cores: measuring in 25 minutes and 8 GB, the report in 3 minutes and
4 GB, all tables in 300 MB.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import json
import math
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
from PIL import Image

from hooks.prompt.spans import split_words
from probes.execution.team import Team
from probes.execution.workers import cores
from probes.runs import parts, schemas
from probes.runs.coco_masks import encode
from probes.runs.store import Run

INDICATORS = {"neutral": "person", "feminine": "woman", "masculine": "man"}
PAIRS = (("neutral", "feminine"), ("neutral", "masculine"), ("feminine", "masculine"))
OBJECTS = ("ball", "book", "cup", "dog", "guitar", "hat", "horse", "kite", "lamp", "umbrella")
PLACES = ("park", "kitchen", "street", "office", "garden")
LABELS = (
    *OBJECTS,
    *PLACES,
    "person",
    "wall",
    "tie",
    "dress",
    "tree",
    "car",
    "window",
    "chair",
    "table",
    "shoe",
)
STEPS, SIZE, HEAT, WORDS, DETECTIONS = 50, 64, 16, 8, 13
POOL = 256  # different pictures, masks and maps, drawn from with repeats
STAGES = ("measure", "report")
FIGURES = ("wall_seconds", "processor_seconds", "peak_memory_mib")


def sites() -> dict[str, int]:
    """Columns of captures and how many values each holds: 60 sites with steps, and those without."""
    unet = [
        "conv_in",
        *(f"mid.{inner}" for inner in ("resnet.0", "attn.0", "attn.0.cross", "resnet.1")),
        "mid",
    ]
    for block in range(4):
        for way, count in (("down", 2), ("up", 3)):
            inner = [f"resnet.{i}" for i in range(count)] + [f"attn.{i}" for i in range(count)]
            unet += [f"{way}.{block}.{name}" for name in (*inner, "sample")] + [f"{way}.{block}"]
    stepped = ["latent", "noise_pred.conditional", "noise_pred.guided", "x0_pred"]
    stepped = [*(f"unet.{name}" for name in unet), *stepped]
    stepped = [*stepped[: 60 - 4], *stepped[-4:]]
    text = [
        f"text.{name}:cosine_{readout}"
        for name in ("embeddings", "layers.0", "layers.1", "final")
        for readout in ("sequence", "eos", "words")
    ]
    ends = ["latent.final:cosine", *(f"vae.decoder.up.{i}:cosine" for i in range(4)), "image:cosine"]
    return dict.fromkeys(text, 1) | {f"{site}:cosine": STEPS for site in stepped} | dict.fromkeys(ends, 1)


def lists(values: np.ndarray) -> pa.Array:
    """Rows of a matrix as lists of float32."""
    flat = pa.array(np.ascontiguousarray(values, np.float32).ravel())
    return pa.ListArray.from_arrays(np.arange(0, values.size + 1, values.shape[1], dtype=np.int32), flat)


def captures(triplets: np.ndarray, rng: np.random.Generator) -> pa.Table:
    """A row a (triplet, pair): the masculine prompt lies nearer to the neutral one by a tenth of the spread."""
    rows, names = len(triplets) * len(PAIRS), sites()
    lean = np.tile([0.3, 0.25, 0.4], len(triplets))[:, None] * np.exp(rng.normal(0, 0.5, (rows, 1)))
    columns = {
        "triplet": pa.array(np.repeat(triplets, len(PAIRS)), pa.int32()),
        "seed": pa.array(np.zeros(rows), pa.int64()),
        "pair": ["-".join(pair) for pair in PAIRS] * len(triplets),
        "first": [first for first, _ in PAIRS] * len(triplets),
        "second": [second for _, second in PAIRS] * len(triplets),
        "timesteps": lists(np.tile(np.linspace(981, 1, STEPS), (rows, 1))),
    }
    for name, calls in names.items():
        ramp = np.linspace(0.2, 1, calls) if calls > 1 else np.ones(1)
        columns[name] = lists(1 - 0.3 * lean * ramp * np.exp(rng.normal(0, 0.2, (rows, calls))))
    return pa.table(columns, schema=schemas.captures_schema(list(names)))


class Pool:
    """Pictures, heat maps and masks that the images of the run are made of."""

    def __init__(self, rng: np.random.Generator):
        y, x = np.mgrid[:SIZE, :SIZE]
        self.pictures, self.masks, self.boxes = [], [], []
        for _ in range(POOL):
            low, high = rng.uniform(30, 220, (2, 3))
            pixels = low + (high - low) * (y / SIZE)[..., None] + rng.normal(0, 4, (SIZE, SIZE, 3))
            x0, y0, w, h = rng.integers((2, 2, 6, 6), (36, 36, 26, 26))
            inside = (x >= x0) & (x < x0 + w) & (y >= y0) & (y < y0 + h)
            pixels[inside] = rng.uniform(0, 255, 3)
            data = io.BytesIO()
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(data, "png", compress_level=1)
            self.pictures.append(data.getvalue())
            self.masks.append(encode(inside))
            self.boxes.append((x0, y0, x0 + w, y0 + h, int(inside.sum())))
        v, u = np.mgrid[:HEAT, :HEAT] / HEAT
        centres = rng.uniform(0.1, 0.9, (POOL, 2, 1, 1))
        self.heat = np.exp(-((u - centres[:, 0]) ** 2 + (v - centres[:, 1]) ** 2) / 0.05).reshape(POOL, -1)


def images(triplets: np.ndarray, pool: Pool, rng: np.random.Generator) -> dict[str, pa.Table]:
    """Parts ``samples``, ``words``, ``observed`` and ``objects`` of some triplets."""
    keys = [(int(triplet), name) for triplet in triplets for name in INDICATORS]
    ids = [f"t{triplet:05d}-s0-{name}" for triplet, name in keys]
    prompts = [_prompt(triplet).replace("{person}", INDICATORS[name]) for triplet, name in keys]
    words, n = [prompt.split() for prompt in prompts], len(keys)
    own = {
        "triplet": [triplet for triplet, _ in keys],
        "seed": [0] * n,
        "indicator": [name for _, name in keys],
    }
    pictures = rng.integers(0, POOL, n)
    samples = {
        "sample_id": ids,
        **own,
        "prompt_id": [f"p{triplet:05d}" for triplet, _ in keys],
        "template": [_prompt(triplet) for triplet, _ in keys],
        "word": [INDICATORS[name] for _, name in keys],
        "prompt": prompts,
        "negative_prompt": [""] * n,
        "noise_seed": own["triplet"],
        "tokens": [["<s>", *spoken, "</s>"] for spoken in words],
        "words": words,
        "word_spans": [[span for _, span in split_words(prompt)] for prompt in prompts],
        "word_positions": [[[i + 1] for i in range(WORDS)]] * n,
        "word_positions_2": [None] * n,
        "indicator_positions": [[2]] * n,
        "fault": [None] * n,
        "image": [{"bytes": pool.pictures[at], "path": f"{name}.png"} for at, name in zip(pictures, ids)],
    }

    def repeated(times: int) -> dict[str, list]:
        return {name: np.repeat(values, times).tolist() for name, values in {"sample_id": ids, **own}.items()}

    maps = rng.integers(0, POOL, n * WORDS)
    heats = {
        **repeated(WORDS),
        "word": [word for spoken in words for word in spoken],
        "word_index": list(range(WORDS)) * n,
        "heat": lists(pool.heat[maps]),
        "height": [HEAT] * len(maps),
        "width": [HEAT] * len(maps),
        "peak": pool.heat[maps].max(axis=1).tolist(),
        "definition": ["daam"] * len(maps),
        "version": ["daam/1"] * len(maps),
    }
    place, what = rng.integers(0, POOL, n * DETECTIONS), rng.integers(0, len(LABELS), n * DETECTIONS)
    box = np.array(pool.boxes)[place]
    found = {
        **repeated(DETECTIONS),
        "object": list(range(DETECTIONS)) * n,
        "label": [LABELS[at] for at in what],
        "source": ["prompt"] * len(place),
        "score": rng.uniform(0.3, 1, len(place)).tolist(),
        **{side: box[:, at].tolist() for at, side in enumerate(("x0", "y0", "x1", "y1", "area"))},
        "mask": [pool.masks[at] for at in place],
        "height": [SIZE] * len(place),
        "width": [SIZE] * len(place),
    }
    seen = {
        "sample_id": ids,
        **own,
        "status": ["ok"] * n,
        "reason": [""] * n,
        "detected": [DETECTIONS] * n,
        "kept": [DETECTIONS] * n,
        **{f"dropped_{why}": [0] * n for why in ("empty", "merged", "unknown", "overlap")},
        "tags": [["person"]] * n,
    }
    tables = {"samples": samples, "words": heats, "objects": found, "observed": seen}
    return {kind: pa.table(columns, schema=schemas.FIXED[kind]) for kind, columns in tables.items()}


def _prompt(triplet: int) -> str:
    thing, place = OBJECTS[triplet % len(OBJECTS)], PLACES[triplet // len(OBJECTS) % len(PLACES)]
    return f"a {{person}} with a {thing} in the {place}"


def write_run(path: Path, triplets: int, part_triplets: int) -> Path:
    """Write the run directory as the stages generate and observe leave it."""
    rng = np.random.default_rng(0)
    pool, starts = Pool(rng), range(0, triplets, part_triplets)
    for part, start in enumerate(starts):
        own = np.arange(start, min(start + part_triplets, triplets))
        for kind, table in (images(own, pool, rng) | {"captures": captures(own, rng)}).items():
            file = path / kind / f"part-{part:05d}.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            parts.write_part_table(file, table, parts.identity(part, {"plan": "made up"}))
    resolved = {
        "name": "measure-scale",
        "model": "made-up",
        "reference": "neutral",
        "indicators": {name: {"word": word, "control": False} for name, word in INDICATORS.items()},
        "contrasts": [["masculine", "feminine"]],
        "prompts": [_prompt(number) for number in range(triplets)],
        "seeds": [0],
        "sampler": {"steps": STEPS, "guidance_scale": 7.5, "scheduler": None, "negative_prompt": ""},
        "capture": {"sites": "default", "words": True, "keep": []},
        "observe": {"objects": True},
        "measure": {
            "bootstrap": 2000,
            "permutations": 10000,
            "level": 0.95,
            "seed": 0,
            "text_readout": "sequence",
        },
        "report": {"gallery": 24},
    }
    record = {
        "format": parts.FORMAT,
        "status": "observed",
        "parts": len(starts),
        "images": triplets * len(INDICATORS),
    }
    Run(path, {}).write_meta(**record, config={"passed": {}, "resolved": resolved})
    return path


def stage(name: str, path: Path, processes: int) -> None:
    """Run one stage in this process, with its helpers."""
    run = Run.open(path)
    if name == "measure":
        with Team() as team:
            team.start(processes, "analysis.tables.stage")
            from analysis.tables.stage import measure

            measure(run, team=team, processes=processes)
    else:
        from analysis.report.page import report

        report(run)


def timed(name: str, path: Path, processes: int) -> dict[str, float]:
    """Run one stage in a process of its own; seconds and memory of that process and its helpers."""
    command = [sys.executable, "-m", "tests.benchmarks.measure_scale", "--stage", name, "--out", str(path)]
    started, peak = time.monotonic(), 0
    process = subprocess.Popen([*command, "--processes", str(processes)])
    while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
        peak = max(peak, resident(process.pid))
        time.sleep(0.1)
    seconds = time.monotonic() - started
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{name} of {path}: exit status {process.returncode}")
    return {
        "wall_seconds": round(seconds, 1),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_memory_mib": round(max(peak, 1024 * usage.ru_maxrss) / 2**20),
    }


def resident(pid: int) -> int:
    """Bytes that a process and its helpers hold in memory now."""
    with contextlib.suppress(psutil.Error):
        main = psutil.Process(pid)
        return sum(_resident(process) for process in (main, *main.children(recursive=True)))
    return 0


def _resident(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):  # it may have ended
        return process.memory_info().rss
    return 0


def case(triplets: int, out: Path, part_triplets: int, processes: int) -> dict:
    """Write a run of so many triplets, and measure and report it."""
    path, started = out / f"run-{triplets}", time.monotonic()
    if not (path / "run.json").exists():
        write_run(path, triplets, part_triplets)
    written = time.monotonic() - started
    result = {
        "triplets": triplets,
        "parts": len(Run.open(path).parts("captures")),
        "processes": processes,
        "write_seconds": round(written, 1),
    }
    result |= {name: timed(name, path, processes) for name in STAGES}
    sizes = {file.name: file.stat().st_size for file in (path / "tables").iterdir()}
    largest = sorted(sizes, key=sizes.get, reverse=True)[:5]
    return result | {
        "tables_mib": round(sum(sizes.values()) / 2**20, 2),
        "largest_mib": {name: round(sizes[name] / 2**20, 2) for name in largest},
    }


def slopes(cases: list[dict]) -> dict[str, float]:
    """Exponents with which the figures grow with the triplets: 1 is linear."""
    first, last = cases[0], cases[-1]
    grown = math.log(last["triplets"] / first["triplets"])
    found = {
        f"{name} {figure}": math.log(last[name][figure] / first[name][figure]) / grown
        for name in STAGES
        for figure in FIGURES
    }
    found["tables_mib"] = math.log(last["tables_mib"] / first["tables_mib"]) / grown
    return {name: round(slope, 2) for name, slope in found.items()}


def main() -> int:
    """Run each number of triplets, smallest first."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--triplets", type=int, nargs="+", default=[1000], help="numbers of triplets")
    parser.add_argument("--part-triplets", type=int, default=8, help="triplets of a part file")
    parser.add_argument("--out", type=Path, required=True, help="folder for the runs and measure_scale.json")
    parser.add_argument("--processes", type=int, default=cores(), help="that measure; default: the cores")
    parser.add_argument("--stage", choices=STAGES, help="one stage of the run --out, in this process")
    options = parser.parse_args()
    if options.stage:
        stage(options.stage, options.out, options.processes)
        return 0
    cases = [
        case(number, options.out, options.part_triplets, options.processes)
        for number in sorted(set(options.triplets))
    ]
    result = {
        "benchmark": "measure_scale",
        "date": datetime.date.today().isoformat(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "machine": platform.machine(),
        "cases": cases,
    }
    if len(cases) > 1:
        result["slopes"] = slopes(cases)
    text = json.dumps(result, indent=1)
    (options.out / "measure_scale.json").write_text(text + "\n", "utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

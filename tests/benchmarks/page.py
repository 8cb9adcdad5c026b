"""The page on what word maps cost: ``python -m tests.benchmarks.page > docs/validation/benchmarks.md``.

Made of the JSON files of `tests/benchmarks/results`, one a case, and nothing else.
"""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
HEAD = """# What word maps cost, and how near they are to DAAM's

- **What it shows.** What the probe and its word maps cost in time and memory beside the bare pipeline, and how near
the   maps are to those of the package daam. - **Compared with.** Pipelines of the shapes of Stable Diffusion 1.4,
2.1, XL and 3 and of FLUX.1 with random   weights; ratios within one run on one machine. - **Made by** this command:

```bash
python -m tests.benchmarks.page > docs/validation/benchmarks.md
```

A ratio is the time of a draw over the bare pipeline's in the same repetition, in turn in one run: median (its 95 %
interval) of so many repetitions. Memory is the peak over the bare pipeline's for each image of the batch, torch's
largest allocation on a GPU. On the GPU U-Nets are in float16 and transformers in bfloat16; on a CPU all in float32.

- *word maps*: the probe with word maps alone;
- *default run*: every site compared within each triplet, and word maps;
- *daam*: daam 0.2.0, its trace and its global heat map, one prompt at a time, with the versions that it pins.

`python -m tests.benchmarks.word_maps` measures one case, `python -m tests.benchmarks.gpu` all of them on a GPU;
`python -m tests.benchmarks.launches` counts what a step asks of a GPU (`tests/benchmarks/results/launches.json`).

| machine | shape (width) | pixels | images × steps | bare, seconds | what | time ratio | draws | extra MiB an image |
|---|---|---:|---:|---:|---|---:|---:|---:|
"""
PARITY = """
## Are the maps DAAM's?

`python -m tests.benchmarks.daam_parity`: largest absolute difference of any token's map of any prompt from daam
0.2.0, in an environment of its own, on the same saved pipelines (float32, CPU, a quarter of the width; schedulers
ddim, pndm, euler, dpm). "Drawn": each side draws with its own versions. "Replayed": daam is given the U-Net inputs of
ours. "Words": maps of words where daam matches words to tokens rightly (115 a shape; it did otherwise for 11, such as
"woman" inside "saleswoman").

| shape | pixels | steps | draws | drawn | replayed | words | largest value |
|---|---:|---:|---:|---:|---:|---:|---:|
"""
SCALE = """
## How the stages measure and report grow

`python -m tests.benchmarks.measure_scale` writes a made-up run of so many triplets (3 indicators, 1 seed, 46 sites
with 50 steps) and times each stage in a process of its own, on two cores. Wall is the time that passed, processor
what the stage used, in seconds; memory is the sum of resident sizes in MiB. The bars: 2,000 triplets measured in 40 s
of the processor and 800 MiB and reported in 15 s; 51,219 measured in 1,200 s and reported in 120 s. On 2026-11-30
2,000 triplets took 781 MiB by that sum, and 528 with a page that processes share counted once, as is measured since
(a slower processor: 95 s of it, and as long with the code before that).

| triplets | measure: wall | processor | peak memory | report: wall | processor | peak memory | day |
|---:|---:|---:|---:|---:|---:|---:|---|
"""
NAMES = {
    "ours:words": "word maps",
    "ours:default": "default run",
    "daam:daam": "daam, its own",
}


def benchmarks_page(results: Path = RESULTS) -> str:
    """The page in Markdown."""
    found = [(path, json.loads(path.read_text("utf-8"))) for path in sorted(results.glob("*.json"))]
    cases = [data for _, data in found if data.get("benchmark") == "word_maps"]
    parts = [HEAD, *(row for data in sorted(cases, key=_order) for row in _rows(data))]
    largest = {
        side: max(
            mode["image_difference"] or 0
            for data in cases
            for key, mode in data["modes"].items()
            if key[:4] == side
        )
        for side in ("ours", "daam")
    }
    parts.append(
        "\nLargest absolute difference of an image from the bare pipeline's, pixels from 0 to 1: "
        f"{largest['ours']:g} with the probe, {largest['daam']:.1e} with daam.\n\n"
        + "\n".join(dict.fromkeys(map(_versions, cases)))
        + "\n"
    )
    parity = [data for _, data in found if data.get("benchmark") == "daam_parity"]
    if parity:
        parts.append(PARITY)
        parts += [_parity_row(data["settings"], row) for data in parity for row in data["cases"]]
    growth = [data for _, data in found if data.get("benchmark") == "measure_scale"]
    if growth:
        parts.append(SCALE)
        parts += [_scale_row(case, data["date"]) for data in growth for case in data["cases"]]
    return "".join(parts)


def launches_table(cases: list[dict[str, Any]]) -> str:
    """The table of `tests.benchmarks.launches` in Markdown."""
    heads = (
        "shape",
        "images",
        "what",
        "launches a step",
        "dispatches",
        "MB touched",
        "MB allocated",
        "waits",
    )
    heads += ("start: launches", "waits", "end: launches", "GB touched", "waits", "held", "peak")
    rows = [heads, ("---", "---:", "---", *["---:"] * 12)]
    for case in cases:
        start, step, end = (case[part] for part in ("start", "step", "end"))
        scales = {"launches": 1, "dispatches": 1, "touched": 1e6, "allocated": 1e6, "waits": 1}
        cells = [f"{step[n] / by:,.0f} ({case['bare_step'][n] / by:,.0f})" for n, by in scales.items()]
        cells += [f"{start['launches']:,}", str(start["waits"]), f"{end['launches']:,}"]
        cells += [f"{end['touched'] / 1e9:,.1f}", str(end["waits"])]
        cells += [f"{case['held_mib']:.1f}", f"{case['peak_mib']:,.1f}"]
        what = {"words": "word maps"}.get(case["mode"], case["mode"])
        rows.append((case["architecture"], str(case["images"]), what, *cells))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _order(data: dict[str, Any]) -> tuple[str, str, int, int]:
    case = data["case"]
    return data["machine"], case["build"]["architecture"], case["size"], case["batch"]


def _rows(data: dict[str, Any]) -> list[str]:
    case, rows = data["case"], []
    for key, what in NAMES.items():
        if key not in data["modes"]:
            continue
        mode, bare = data["modes"][key], data["modes"][key.split(":")[0] + ":bare"]
        seconds = sorted(bare["seconds"])[len(bare["seconds"]) // 2]
        memory = f"{mode['extra_mib_an_image']:.1f}" if case["device"].startswith("cuda") else ""
        rows.append(
            f"| {data['machine'].removeprefix('NVIDIA ').removesuffix(' 80GB HBM3')} | "
            f"{case['build']['architecture']} ({case['build']['width']:g}) | {case['size']} | {case['batch']} × "
            f"{case['steps']} | {seconds:.2f} | {what} | {mode['ratio']:.3f} "
            f"({mode['ratio_low']:.3f} to {mode['ratio_high']:.3f}) | {len(mode['seconds'])} | {memory} |\n"
        )
    return rows


def _versions(data: dict[str, Any]) -> str:
    sides = {"ours": "This project", "daam": "daam's own"}
    return (
        "; ".join(f"{sides[side]}: {_listed(versions)}" for side, versions in data["versions"].items()) + "."
    )


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def _parity_row(settings: dict[str, Any], row: dict[str, Any]) -> str:
    differences = " | ".join(f"{row[name]:.1e}" for name in ("drawn", "replayed", "words"))
    return (
        f"| {row['architecture']} | {row['size']} | {settings['steps']} | {row['draws']} | "
        f"{differences} | {row['largest_value']:.2f} |\n"
    )


def _scale_row(case: dict[str, Any], date: str) -> str:
    cells = [
        f"{case[stage][name]:,.{digits}f}"
        for stage in ("measure", "report")
        for name, digits in (("wall_seconds", 1), ("processor_seconds", 1), ("peak_memory_mib", 0))
    ]
    return f"| {case['triplets']:,} | {' | '.join(cells)} | {date} |\n"


if __name__ == "__main__":
    print(benchmarks_page(), end="")

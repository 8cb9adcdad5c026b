"""The page on what word maps cost: ``python -m tests.benchmarks.page > docs/validation/benchmarks.md``.

Made of the JSON files of `tests/benchmarks/results`, one a case, and nothing else.
"""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
HEAD = """# What word maps cost, and how near they are to DAAM's

- **What it shows.** What the probe and its word maps cost in time and memory beside the bare pipeline, and how near the
  maps are to those of the package daam.
- **Compared with.** Pipelines of the shapes of Stable Diffusion 1.4, 2.1, XL and 3 and of FLUX.1 with random
  weights; ratios within one run on one machine.
- **Made by** this command:

```bash
python -m tests.benchmarks.page > docs/validation/benchmarks.md
```

Pipelines of the shapes of published models with random weights, so that anyone can measure anywhere: Stable Diffusion
1.4 (`sd14`), 2.1 (`sd21`), XL (`sdxl`), 3 medium (`sd3`) and FLUX.1 (`flux`). A
ratio is the time of a draw over the bare pipeline's in the same repetition, drawn in turn in one run: median (its 95 %
interval) of so many repetitions. Memory is the peak over the bare pipeline's, torch's largest allocation on a GPU, for
each image of the batch. "Image differs by" is the largest absolute difference from the bare pipeline's image, pixels
from 0 to 1.

- *word maps*: the probe with word maps alone;
- *default run*: the probe as `triptych.cli.run` uses it, every site compared within each triplet, and word maps;
- *daam*: daam 0.2.0, its trace and its global heat map, one prompt at a time; held against the bare pipeline of its own
  process; "its own" versions are those it pins.

`python -m tests.benchmarks.word_maps` measures one case, `python -m tests.benchmarks.gpu` all of them on a GPU.
"""
PARITY = """
## Are the maps DAAM's?

`python -m tests.benchmarks.daam_parity`: largest absolute difference of any token's map of any prompt, our probe here
against daam 0.2.0 in an environment of its own, on the same saved pipelines (float32, CPU). "Drawn": each side draws
with its own versions, and the U-Net's last input differs by what is given beside it. "Replayed": daam is given the
U-Net inputs of ours. "Words": maps of words, where daam matches words to tokens rightly; it did otherwise for the
number in the last column ("woman" inside "saleswoman"), where the tokens' maps hold.

| shape | width | pixels | steps | draws | drawn | latents | replayed | words | largest | words | otherwise |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"""
SCALE = """
## How the stages measure and report grow

`python -m tests.benchmarks.measure_scale` writes a made-up run of so many triplets and times each stage in a process
of its own, with its
helpers where it measures in several processes. Wall is the time that passed, other work on the machine included;
processor what the stage used, both in seconds; memory in MiB. The bars, on two cores: 2,000 triplets measured in 40 s
of the processor and 800 MiB and reported in 15 s; 51,219 measured in 1,200 s and reported in
120 s. Peak memory in the table is the sum of resident sizes. On 2026-11-30 2,000 triplets took 781 MiB by that sum,
and 528 with a page that processes share counted once, as is measured since (a slower processor:
95 s of it, and as long with the code before that).
3 indicators, 1 seed, 46 sites with 50 steps, 64-pixel pictures, 8 words an image; one thread a process.

| triplets | workers | measure: wall | processor | peak memory | report: wall | processor | peak memory | tables | day |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|
"""
LAUNCHES = """
## What a step asks of a GPU

`python -m tests.benchmarks.launches` counts it without a GPU: pipelines at full size and in half precision run on
tensors without values, so that the counts depend on the versions of the libraries and on no processor. Each row is what
the probe adds to the bare pipeline, whose own step is in brackets. *Launches* are operations that start work on the
GPU, *dispatches* all that the host does, *waits* those where it waits for the GPU. A step is one after the first; the
start includes the reading of the prompts, the end the decoder and the finished maps. *Held* is what lives longer than a
step, *peak* what the most bytes that live at once grow by, both in MiB an image. *Captures* are all default sites,
compared within each triplet, without word maps.

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
    parts = [HEAD]
    for machine in dict.fromkeys(data["machine"] for data in cases):
        parts.append(f"\n## {machine}\n\n")
        parts.append(
            "| shape | width | pixels | images | steps | type | bare, seconds | what | time ratio | draws "
            "| extra MiB an image | image differs by | day |\n"
            "|---|---:|---:|---:|---:|---|---:|---|---|---:|---|---:|---|\n"
        )
        of_machine = [data for data in cases if data["machine"] == machine]
        for data in sorted(of_machine, key=_order):
            parts += _rows(data)
        parts.append("\n" + "\n".join(dict.fromkeys(_versions(data) for data in of_machine)) + "\n")
    parity = [data for _, data in found if data.get("benchmark") == "daam_parity"]
    if parity:
        parts.append(PARITY)
        parts += [_parity_row(data["settings"], row) for data in parity for row in data["cases"]]
        parts.append("\n" + "\n".join(dict.fromkeys(map(_parity_note, parity))) + "\n")
    growth = [data for _, data in found if data.get("benchmark") == "measure_scale"]
    if growth:
        parts.append(SCALE)
        parts += [_scale_row(case, data["date"]) for data in growth for case in data["cases"]]
    for data in (data for _, data in found if data.get("benchmark") == "launches"):
        parts += [
            LAUNCHES,
            launches_table(data["cases"]),
            f"\n{_listed(data['versions'])}. {data['date']}.\n",
        ]
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


def _order(data: dict[str, Any]) -> tuple[str, int, int]:
    case = data["case"]
    return case["build"]["architecture"], case["size"], case["batch"]


def _rows(data: dict[str, Any]) -> list[str]:
    case, rows = data["case"], []
    for key, what in NAMES.items():
        if key not in data["modes"]:
            continue
        mode, bare = data["modes"][key], data["modes"][key.split(":")[0] + ":bare"]
        seconds = sorted(bare["seconds"])[len(bare["seconds"]) // 2]
        memory = f"{mode['extra_mib_an_image']:.1f}" if case["device"].startswith("cuda") else ""
        differs = mode["image_difference"]
        rows.append(
            f"| {case['build']['architecture']} | {case['build']['width']:g} | {case['size']} | {case['batch']} | "
            f"{case['steps']} | {case['dtype']} | {seconds:.2f} | {what} | {mode['ratio']:.3f} "
            f"({mode['ratio_low']:.3f} to {mode['ratio_high']:.3f}) | {len(mode['seconds'])} | "
            f"{memory} | "
            f"{'' if differs is None else f'{differs:.1e}' if differs else '0'} | {data['date']} |\n"
        )
    return rows


def _versions(data: dict[str, Any]) -> str:
    sides = {"ours": "This project", "daam": "daam's own"}
    return (
        "; ".join(f"{sides[side]}: {_listed(versions)}" for side, versions in data["versions"].items()) + "."
    )


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def _parity_note(data: dict[str, Any]) -> str:
    sides = dict.fromkeys(_listed(row["daam_side"]) for row in data["cases"])
    return (
        f"Schedulers in turn: {', '.join(data['settings']['schedulers'])}. Here: {_listed(data['versions'])}; daam's "
        f"side: {'; '.join(sides)}. {data['date']}."
    )


def _parity_row(settings: dict[str, Any], row: dict[str, Any]) -> str:
    differences = " | ".join(f"{row[name]:.1e}" for name in ("drawn", "latents", "replayed", "words"))
    return (
        f"| {row['architecture']} | {settings['width']:g} | {row['size']} | {settings['steps']} | {row['draws']} | "
        f"{differences} | {row['largest_value']:.2f} | {row['words_compared']} | "
        f"{row['words_daam_matches_otherwise']} |\n"
    )


def _scale_row(case: dict[str, Any], date: str) -> str:
    cells = [
        f"{case[stage][name]:,.{digits}f}"
        for stage in ("measure", "report")
        for name, digits in (("wall_seconds", 1), ("processor_seconds", 1), ("peak_memory_mib", 0))
    ]
    first = f"| {case['triplets']:,} | {case.get('processes', 1)} |"
    return f"{first} {' | '.join(cells)} | {case['tables_mib']:.1f} | {date} |\n"


if __name__ == "__main__":
    print(benchmarks_page(), end="")

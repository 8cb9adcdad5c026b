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
interval) of so many repetitions. "Hooks" is the median of a draw's time over the same draw's less what was spent inside
the hooks, which a busy machine alters less; on a CPU only. Memory is the peak over the bare pipeline's, for each image
of the batch: on a GPU torch's largest allocation, on a CPU the largest resident size of fresh processes, with the
spread of their repetitions. "Image differs by" is the largest absolute difference from the bare pipeline's image,
pixels from 0 to 1.

- *word maps*: the probe with word maps alone;
- *default run*: the probe as `triptych.cli.run` uses it, every site compared within each triplet, and word maps;
- *daam*: daam 0.2.0, its trace and its global heat map, one prompt at a time; held against the bare pipeline of its own
  process. "its own" versions are those it pins; "ours" are this project's.

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

`python -m tests.benchmarks.measure_scale` writes a run of so many triplets (3 indicators, 1 seed, 60 sites with 50
steps, 64-pixel pictures, 8 words and 13 detections an image) and times each stage in a process of its own, with its
helpers where it measures in several processes. Wall is the time that passed, other work on the machine included;
processor what the stage used, both in seconds; memory in MiB. The bars, for 51,219 triplets on two cores: measuring in
1,500 s and 8,192 MiB, the report in 180 s and 4,096 MiB, tables of 300 MiB.

| triplets | workers | measure: wall | processor | peak memory | report: wall | processor | peak memory | tables | day |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|
"""
GROUPS = """
## Dependency groups and counts

`python -m tests.benchmarks.object_groups`: ten detections an image and prompts of four nouns; seconds of the wall. The
bar is 20 s for 10,000 images of 512 pixels on two cores.

| images | pixels | processes | nouns | groups | counts | together | for 10,000 images | day |
|---:|---:|---:|---:|---:|---:|---:|---:|---|
"""
PIXELS = """
## SSIM and Diff. Pix.

`python -m tests.benchmarks.pixels`: pairs of pictures a second of one core, here and by scikit-image's SSIM with
OpenCV's threshold and contours, in turn in one run; of so many repetitions of a triplet each side's fastest, by
processor time. The ratio is the median over triplets (its quartiles). The bar is a ratio of 8 at 512 pixels, values
equal to 1e-4. Load: processes that wanted the machine's cores while it ran, ours among them.

| pixels | triplets | repetitions | here | libraries | ratio | SSIM differs by | Diff. Pix. differs by | load | day |
|---:|---:|---:|---:|---:|---|---:|---:|---:|---|
"""
GEP = """
## Audits of attributes (GEP)

`python -m tests.benchmarks.gep`: the 2,560 images and 784 sentences of the paper's prompts by toyworld's CLIP, 150
classifiers (15 attributes, ten each), all readings and tables; seconds of the processor on one thread. The bars are
10 s for the classifiers, and 180 s on two cores for all. `--network` embeds a few images by another network of
open_clip, with random weights: ViT-L-14, the paper's, is beyond that bar without a GPU. Load: processes that wanted the
machine's cores while it ran, ours among them.

| images | sentences | embedding images | sentences | training classifiers | tables | together | load | day |
|---:|---:|---:|---:|---:|---:|---:|---:|---|
"""
GEP_NETWORKS = """
| network | seconds an image | for 2,560 images on two cores | load | day |
|---|---:|---:|---:|---|
"""
TRACE = """
## Exchanging activations

`python -m tests.benchmarks.trace`: a batch of a trace with its patches and the same rows without them, in turn in one
run on one thread, by processor time; the ratio is the median of so many repetitions (least to largest). The bar is
1.15.
Load: processes that wanted the machine's cores while it ran.

| case | images | steps | without patches, seconds | ratio | repetitions | load | day |
|---|---:|---:|---:|---|---:|---:|---|
"""
CLUSTER = """
## The driver of a cluster

`python -m tests.benchmarks.cluster`: a local Ray, whose workers make parts of nothing or sleep for each. Efficiency is
the time that the parts sleep over the time that passed times the workers: with the start of the workers, and in the
steady state, while all are ready and parts are left to be given. The bars are 60 s for 100,000 empty parts, 95 % in
the steady state and 80 % with the start. Load: processes that wanted the machine's cores at the end.

| parts | workers | each sleeps | wall, seconds | steady state | with start | load | day |
|---:|---:|---:|---:|---:|---:|---:|---|
"""
NAMES = {
    "ours:words": "word maps",
    "ours:default": "default run",
    "ours:daam": "daam, ours",
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
            "| shape | width | pixels | images | steps | type | bare, seconds | what | time ratio | draws | hooks "
            "| extra MiB an image | image differs by | day |\n"
            "|---|---:|---:|---:|---:|---|---:|---|---|---:|---:|---|---:|---|\n"
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
        parts.append("\n" + "\n".join(_growth(data) for data in growth))
    groups = [data for _, data in found if data.get("benchmark") == "object_groups"]
    if groups:
        parts += [GROUPS, *map(_groups_row, groups)]
    pixels = [data for _, data in found if data.get("benchmark") == "pixels"]
    if pixels:
        parts += [PIXELS, *map(_pixels_row, pixels)]
    gep = [data for _, data in found if data.get("benchmark") == "gep"]
    if gep:
        parts += [GEP, *map(_gep_row, gep), GEP_NETWORKS]
        parts += [_gep_network_row(network, data) for data in gep for network in data["networks"]]
    traces = [data for _, data in found if data.get("benchmark") == "trace"]
    if traces:
        parts += [TRACE, *(_trace_row(one, data) for data in traces for one in data["cases"])]
    drivers = [data for _, data in found if data.get("benchmark") == "cluster"]
    if drivers:
        parts += [CLUSTER, *(row for data in drivers for row in _cluster_rows(data))]
    return "".join(parts)


def _cluster_rows(data: dict[str, Any]) -> list[str]:
    tail = f"{data['load']:g} | {data['date']} |\n"
    empty = data["empty"]
    rows = [f"| {empty['shards']:,} | {empty['workers']} | 0 | {empty['wall']:.1f} |  |  | {tail}"]
    for case in data["sleeping"]:
        efficiency = f"{case['steady']:.1%} | {case['with_start']:.1%}"
        first = f"| {case['shards']:,} | {case['workers']} | {data['seconds']:g} s | {case['wall']:.1f} |"
        rows.append(f"{first} {efficiency} | {tail}")
    return rows


def _order(data: dict[str, Any]) -> tuple[str, int, int]:
    case = data["case"]
    return case["build"]["architecture"], case["size"], case["batch"]


def _growth(data: dict[str, Any]) -> str:
    """With which exponent the figures grow from the smallest run to the largest; 1 is linear."""
    cases = data["cases"]
    slopes = ", ".join(
        f"{name.replace('_seconds', '').replace('_mib', '').replace('_', ' ')} {slope:.2f}"
        for name, slope in data["slopes"].items()
        if name.endswith(("processor_seconds", "memory_mib")) or name.startswith("tables")
    )
    return (
        f"{data['machine']}, {data['cores']} cores, {data['threads']} thread. From {cases[0]['triplets']:,} to"
        f" {cases[-1]['triplets']:,} triplets with {cases[0].get('processes', 1)} worker(s) the figures grow with the"
        f" exponents (1 is linear): {slopes}.\n"
    )


def _rows(data: dict[str, Any]) -> list[str]:
    case, rows = data["case"], []
    for key, what in NAMES.items():
        if key not in data["modes"]:
            continue
        mode, bare = data["modes"][key], data["modes"][key.split(":")[0] + ":bare"]
        seconds = sorted(bare["seconds"])[len(bare["seconds"]) // 2]
        memory = "" if "extra_mib_an_image" not in mode else f"{mode['extra_mib_an_image']:.1f}"
        if memory and mode["peak_spread_mib"] > 0:
            memory += f" (spread {mode['peak_spread_mib'] / case['batch']:.1f})"
        differs = mode["image_difference"]
        inside = (
            f"{mode['ratio_inside']:.4f}" if mode.get("ratio_inside") and not key.endswith("daam") else ""
        )
        rows.append(
            f"| {case['build']['architecture']} | {case['build']['width']:g} | {case['size']} | {case['batch']} | "
            f"{case['steps']} | {case['dtype']} | {seconds:.2f} | {what} | {mode['ratio']:.3f} "
            f"({mode['ratio_low']:.3f} to {mode['ratio_high']:.3f}) | {len(mode['seconds'])} | "
            f"{inside} | {memory} | "
            f"{'' if differs is None else f'{differs:.1e}' if differs else '0'} | {data['date']} |\n"
        )
    return rows


def _gep_row(data: dict[str, Any]) -> str:
    return (
        f"| {data['images_read']:,} | {data['sentences_read']} | {data['images']:.2f} | {data['sentences']:.2f} | "
        f"{data['classifiers']:.2f} | {data['tables']:.2f} | {data['seconds']:.2f} | {data['load']:g} | "
        f"{data['date']} |\n"
    )


def _gep_network_row(network: dict[str, Any], data: dict[str, Any]) -> str:
    each = network["seconds_an_image"]
    return (
        f"| {network['network']} | {each:.3f} | {each * data['images_read'] / 2:,.0f} s | {network['load']:g} | "
        f"{data['date']} |\n"
    )


def _trace_row(one: dict[str, Any], data: dict[str, Any]) -> str:
    ratio = f"{one['ratio']:.3f} ({one['ratio_least']:.3f} to {one['ratio_largest']:.3f})"
    return (
        f"| {one['case']} | {one['images']} | {one['steps']} | {one['seconds']:.2f} | {ratio} | "
        f"{one['repetitions']} | {data['load']:g} | {data['date']} |\n"
    )


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


def _groups_row(data: dict[str, Any]) -> str:
    seconds = [data[name] for name in ("nouns", "groups", "counts", "seconds", "seconds_for_bar_images")]
    cells = [f"{data['images']:,}", str(data["size"]), str(data["processes"]), *(f"{s:.1f}" for s in seconds)]
    return f"| {' | '.join(cells)} | {data['date']} |\n"


def _pixels_row(data: dict[str, Any]) -> str:
    counts = f"| {data['size']} | {data['triplets']} | {data['repetitions']} |"
    rates = f"{data['pairs_per_second']:.0f} | {data['pairs_per_second_libraries']:.0f}"
    ratio = f"{data['ratio']:.1f} ({data['ratio_low']:.1f} to {data['ratio_high']:.1f})"
    differs = " | ".join(f"{data[name]:.1e}" for name in ("ssim_differs", "diff_pix_differs"))
    return f"{counts} {rates} | {ratio} | {differs} | {data['load']:.0f} | {data['date']} |\n"


if __name__ == "__main__":
    print(benchmarks_page(), end="")

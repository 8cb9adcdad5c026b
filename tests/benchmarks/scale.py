"""A plan on paper: what the data of Wu et al. 2025 take on 8, 64 and 512 GPUs.

    python -m tests.benchmarks.scale --count      # counts operations, writes results/scale.json
    python -m tests.benchmarks.scale > docs/validation/scale.md

The page is made of what was counted (operations of one call of each network, on torch's meta device), of what was
measured on a CPU (`results/`), of the paper's own counts (Table 4) and of `ASSUMED`, which the page lists: nothing of
it was measured on a GPU.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.page import RESULTS

ROOT = Path(__file__).parents[2]
TABLE4 = ROOT / "lab" / "papers" / "reference" / "wu2025_table4_datasets.csv"
TEMPLATE = Path(__file__).with_name("scale.md")
STEPS, PIXELS, MEMBERS, MODELS = 50, 512, 3, 3
PART_DRAWS, KINDS = 8, 9  # files of a part: samples, captures, words, objects, observed and four features
WORDS, SITES = 12, 60
MIB = 2**20
GPUS = (8, 64, 512)
ASSUMED = {
    "peak": 312e12,  # operations a second in half precision
    "share": 0.30,
    "price": 2.0,  # US dollars an hour of one GPU
    "start": 90.0,  # seconds until a job has loaded its libraries and weights
    "png": 1.5,  # bytes a pixel, as `probes.models.estimate` takes it
    "storage": 0.023,  # US dollars a GB and month of object storage
    "put": 5e-6,  # US dollars a write request
    "requests": 3500.0,  # writes a second that one prefix of an object store takes
}


def count() -> dict[str, float]:
    """Floating-point operations of one call of each network, two for a multiplication with its addition."""
    import segment_anything
    import timm
    import torch
    from diffusers import DDIMScheduler, StableDiffusionPipeline
    from torch.utils.flop_counter import FlopCounterMode

    from probes.models import estimate
    from tests.benchmarks import architectures
    from tests.tiny import tiny_tokenizer

    def operations(call: Callable[[], Any]) -> float:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            call()
        return float(counter.get_total_flops())

    counted = {}
    tokens, scheduler = tiny_tokenizer(77, pad_token="!"), DDIMScheduler()
    with torch.device("meta"):
        for name in ("sd14", "sd21"):
            text = architectures._text_encoder(
                tokens, *architectures._TEXT[name][0], factor=1, projected=False
            )
            unet, vae = architectures._unet(name, 1, PIXELS, [text]), architectures._vae(1, 0.18215, PIXELS)
            absent = dict.fromkeys(("tokenizer", "safety_checker", "feature_extractor"))
            pipe = StableDiffusionPipeline(
                vae=vae,
                text_encoder=text,
                unet=unet,
                scheduler=scheduler,
                requires_safety_checker=False,
                **absent,
            )
            counted[f"{name} unet"], counted[f"{name} decoder"] = estimate.operations(pipe, PIXELS, PIXELS)
            counted[f"{name} text"] = operations(lambda: text(torch.zeros(1, 77, dtype=torch.long)))  # noqa: B023
        sam = segment_anything.build_sam_vit_h().image_encoder
        counted["SAM ViT-H, image encoder at 1024"] = operations(lambda: sam(torch.zeros(1, 3, 1024, 1024)))
        for name, shown in (
            ("resnet50", "ResNet-50"),
            ("vit_base_patch32_clip_224.openai", "CLIP ViT-B/32"),
            ("vit_small_patch16_224.dino", "DINO ViT-S/16"),
            ("vit_base_patch8_224.dino", "DINO ViT-B/8"),
        ):
            model = timm.create_model(name, pretrained=False)
            counted[shown] = operations(lambda: model(torch.zeros(1, 3, 224, 224)))  # noqa: B023
    return counted


@dataclass(frozen=True)
class Work:
    """How many images, and what they take of one GPU.

    Attributes
    ----------
    draws : int
        Triplets times seeds, of all data sets, with one model.
    """

    draws: int

    @property
    def images(self) -> int:
        """Images of all models."""
        return self.draws * MEMBERS * MODELS

    @property
    def parts(self) -> int:
        """Parts of all models."""
        return math.ceil(self.draws / PART_DRAWS) * MODELS

    @property
    def disk(self) -> float:
        """Bytes: pictures, heat maps of words and similarities, before compression."""
        heat = WORDS * (PIXELS // 8) ** 2 * 4
        return self.images * (ASSUMED["png"] * PIXELS**2 + heat + SITES * STEPS * 4)


def an_image(counted: dict[str, float], name: str) -> float:
    """Operations of drawing one image with guidance."""
    return 2 * STEPS * counted[f"{name} unet"] + counted[f"{name} decoder"] + 2 * counted[f"{name} text"]


def looking(counted: dict[str, float]) -> float:
    """Operations of looking at one image."""
    return sum(value for name, value in counted.items() if not name.startswith("sd"))


def data_sets() -> list[dict[str, Any]]:
    """Table 4 of the paper, numbers as such."""
    with TABLE4.open() as file:
        return [
            {name: value if name == "dataset" else int(value) for name, value in row.items()}
            for row in csv.DictReader(file)
        ]


def read(name: str) -> Any:
    """A file of results."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def page() -> str:
    """The page: `scale.md` beside this file with its numbers."""
    counted = read("scale")["operations"]
    rows = data_sets()
    once = Work(sum(row["triplets"] * row["seeds"] for row in rows))
    five = Work(sum(row["triplets"] for row in rows) * 5)
    million = Work(1_000_000)
    cpu = read("cpu-sd14-full")
    seconds = cpu["modes"]["ours:bare"]["seconds"][0]
    one_step = 2 * counted["sd14 unet"] + counted["sd14 decoder"] + 2 * counted["sd14 text"]
    rate = one_step / seconds
    ratio = read("cpu-sd14-512-b3-thread1")["modes"]["ours:default"]["ratio_inside"]
    drawing = (an_image(counted, "sd14") + 2 * an_image(counted, "sd21")) / MODELS * ratio
    on_gpu = (drawing + looking(counted)) / (ASSUMED["peak"] * ASSUMED["share"])
    measured = {case["triplets"]: case for case in read("measure_scale_processes")["cases"]}
    least, most = min(measured), max(measured)
    pairs = read("pixels")["pairs_per_second"]
    groups = read("object_groups")

    def grown(triplets: float, name: str) -> float:
        """Wall seconds or MiB of measuring so many triplets, by the growth that was measured."""
        first, last = (measured[size]["measure"][name] for size in (least, most))
        exponent = math.log(last / first) / math.log(most / least)
        return last * (triplets / most) ** exponent

    def measuring(triplets: float) -> dict[str, str]:
        return {
            "wall": f"{grown(triplets, 'wall_seconds') / 3600:.1f} h",
            "memory": f"{grown(triplets, 'peak_memory_mib') / 1024:.1f} GiB",
            "pixels": f"{triplets * MEMBERS / pairs / 3600:.1f} h",
        }

    def fleet(work: Work) -> str:
        lines = []
        for gpus in GPUS:
            busy = work.images * on_gpu + gpus * MODELS * ASSUMED["start"]
            hours = busy / gpus / 3600
            files = work.parts * KINDS / (hours * 3600)
            lines.append(
                f"| {gpus} | {_time(hours)} | {busy / 3600:,.0f} | {busy / 3600 * ASSUMED['price']:,.0f} |"
                f" {work.images / hours / 3600:,.1f} | {files:.2f} |"
            )
        return "\n".join(lines)

    values = {
        "data_rows": "\n".join(
            f"| {row['dataset']} | {row['triplets']:,} | {row['seeds']} |"
            f" {row['triplets'] * row['seeds'] * MEMBERS:,} | {row['triplets'] * 5 * MEMBERS:,} |"
            for row in rows
        ),
        "operation_rows": "\n".join(
            f"| {_shown(name)} | {value / 1e9:,.1f} |" for name, value in counted.items()
        ),
        "triplets": f"{sum(row['triplets'] for row in rows):,}",
        "once_images": f"{once.images // MODELS:,}",
        "five_images": f"{five.images // MODELS:,}",
        "once_all": f"{once.images:,}",
        "five_all": f"{five.images:,}",
        "seconds": f"{seconds:.1f}",
        "one_step": f"{one_step / 1e12:.2f}",
        "rate": f"{rate / 1e9:.0f}",
        "image14": f"{an_image(counted, 'sd14') / 1e12:.1f}",
        "image21": f"{an_image(counted, 'sd21') / 1e12:.1f}",
        "cpu_image": f"{an_image(counted, 'sd14') / rate / 60:.0f}",
        "cpu_years": f"{once.images * drawing / rate / 3600 / 24 / 365:,.0f}",
        "ratio": f"{ratio:.4f}",
        "looking": f"{looking(counted) / 1e12:.1f}",
        "on_gpu": f"{on_gpu:.2f}",
        "peak": f"{ASSUMED['peak'] / 1e12:.0f}",
        "share": f"{ASSUMED['share']:.0%}".replace("%", " %"),
        "price": f"{ASSUMED['price']:.2f}",
        "start": f"{ASSUMED['start']:.0f}",
        "once_rows": fleet(once),
        "five_rows": fleet(five),
        "million_rows": fleet(million),
        "million_images": f"{million.images:,}",
        "kib_image": f"{once.disk / once.images / 1024:.0f}",
        "kinds": str(KINDS),
        "part_draws": str(PART_DRAWS),
        "part_mib": f"{once.disk / once.parts / MIB:.0f}",
        "disk_rows": "\n".join(
            f"| {name} | {work.images:,} | {work.disk / 1e12:.2f} | {work.disk / 1e9 * ASSUMED['storage']:,.0f} |"
            f" {work.parts:,} | {work.parts * KINDS:,} | {work.parts * KINDS * ASSUMED['put']:,.2f} |"
            for name, work in (
                ("as the paper drew", once),
                ("five seeds", five),
                ("a million triplets", million),
            )
        ),
        "requests": f"{ASSUMED['requests']:,.0f}",
        "saturating": f"{ASSUMED['requests'] / (KINDS / (PART_DRAWS * MEMBERS * on_gpu)):,.0f}",
        "shards_an_hour": f"{3600 / (PART_DRAWS * MEMBERS * on_gpu) * max(GPUS):,.0f}",
        "shards_a_second": f"{max(GPUS) / (PART_DRAWS * MEMBERS * on_gpu):,.0f}",
        "driver": _driver(),
        "coco_wall": f"{measured[most]['measure']['wall_seconds']:,.0f}",
        "coco_memory": f"{measured[most]['measure']['peak_memory_mib'] / 1024:.1f}",
        "coco_report": f"{measured[most]['report']['wall_seconds']:,.0f}",
        "coco_report_memory": f"{measured[most]['report']['peak_memory_mib'] / 1024:.1f}",
        "most": f"{most:,}",
        "pairs": f"{pairs:.0f}",
        "coco_pixels": measuring(most)["pixels"],
        "groups": f"{groups['seconds']:.0f}",
        "measure_rows": "\n".join(
            f"| {name} | {triplets:,} | {one['wall']} | {one['memory']} | {one['pixels']} |"
            for name, triplets in (
                ("COCO, one seed (measured but for the last column)", most),
                ("COCO, five seeds", 5 * most),
                ("a million", 1_000_000),
            )
            for one in [measuring(triplets)]
        ),
        "million_parts": f"{million.parts // MODELS:,}",
    }
    text = TEMPLATE.read_text("utf-8")
    wanted = set(re.findall(r"\{(\w+)\}", text))
    assert wanted == set(values), wanted ^ set(values)
    return re.sub(r"\{(\w+)\}", lambda found: values[found[1]], text)


def _driver() -> str:
    """What the queue of a driver was measured to hand out, where it was (`tests.benchmarks.cluster`)."""
    if not (RESULTS / "cluster.json").exists():
        return "What one can hand out was not measured here."
    empty = read("cluster")["empty"]
    each = empty["shards"] / empty["wall"]
    return f"Measured: {empty['shards']:,} parts of nothing in {empty['wall']:.0f} s, {each:,.0f} a second."


def _shown(name: str) -> str:
    models = {"sd14": "SD 1.4", "sd21": "SD 2.0 and 2.1"}
    parts = {"unet": "U-Net, one image, one step", "decoder": "decoder", "text": "text encoder"}
    first, _, rest = name.partition(" ")
    return f"{models[first]}: {parts[rest]}" if first in models else name


def _time(hours: float) -> str:
    return f"{hours / 24:,.1f} days" if hours > 48 else f"{hours:,.1f} h"


def main() -> None:
    """Count operations, or print the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", action="store_true", help="count operations anew")
    if parser.parse_args().count:
        import torch

        data = {"benchmark": "scale", "torch": torch.__version__, "pixels": PIXELS, "operations": count()}
        (RESULTS / "scale.json").write_text(json.dumps(data, indent=1) + "\n")
    else:
        print(page(), end="")


if __name__ == "__main__":
    main()

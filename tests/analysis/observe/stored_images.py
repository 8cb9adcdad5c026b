"""A run directory that holds given images and nothing else, as tables made elsewhere have it."""

import io
import json
from pathlib import Path

import numpy as np
from PIL import Image

from probes.config.schema import Config
from probes.runs import parts, schemas
from probes.runs.run import Run
from probes.toyworld.draw import render
from probes.toyworld.scene import parse, sample_scene
from probes.toyworld.world import load_world

INDICATORS = ("neutral", "feminine", "masculine")


def png(image: np.ndarray) -> bytes:
    data = io.BytesIO()
    Image.fromarray(image).save(data, "png")
    return data.getvalue()


def renderings(prompts) -> list[np.ndarray]:
    """Return a picture of each prompt, as the planted world draws it."""
    world, rng = load_world(), np.random.default_rng(0)
    return [render(sample_scene(parse(text, world), world, rng)) for text in prompts]


def image_run(
    path: Path, images: list, prompts: list[str], *, part: int = 3, model="toyworld", **observe
) -> Run:
    """A generated run of images, or of the bytes or None that stand in an image's place; `part` in a part.

    The checker looks at toyworld's unless told otherwise: it is exact, and quick; features are left out.
    """
    if not observe and model == "toyworld":
        observe = {"engine": "toyworld-checker"}
    observe = {"features": [], **observe}
    config = Config(prompts=["a {person}"], model=model, observe=observe)
    path.mkdir(parents=True, exist_ok=True)
    meta = {"format": 4, "status": "generated", "config": {"passed": {}, "resolved": config.resolved()}}
    (path / "run.json").write_text(json.dumps(meta))
    rows = [
        {
            "sample_id": f"t{index // 3:05d}-s0-{INDICATORS[index % 3]}",
            "triplet": index // 3,
            "seed": 0,
            "indicator": INDICATORS[index % 3],
            "prompt": prompts[index % len(prompts)],
            "image": {
                "bytes": png(image) if isinstance(image, np.ndarray) else image,
                "path": f"{index}.png",
            },
        }
        for index, image in enumerate(images)
    ]
    for number, start in enumerate(range(0, len(rows), part)):
        images_of_part = [row["image"]["bytes"] for row in rows[start : start + part]]
        ident = parts.identity(number, {"images": parts.digest(repr(images_of_part))})
        file = path / "samples" / f"part-{number:05d}.parquet"
        parts.write_part(file, rows[start : start + part], schemas.SAMPLES, ident)
    return Run.open(path)

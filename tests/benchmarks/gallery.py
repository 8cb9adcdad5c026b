"""How soon a gallery of many triplets opens: ``python -m tests.benchmarks.gallery [--triplets 51219]``.

The index is that of a run of so many prompts of three words, five objects an image; the triplets' own files are noise
of 512 pixels with maps and objects, which nothing compresses, and one stands for all. Prints one JSON line: seconds of
processor that it takes to make a triplet's images, maps and outlines, bytes of them and of the index, and seconds until
Chromium has drawn the first page, and the first page in another order, which needs as many other files.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from playwright.sync_api import sync_playwright

from analysis.metrics.dependency import GROUPS
from analysis.report import gallery_files
from analysis.report.environment import environment
from probes.config.schema import Config
from tests.analysis.report.test_gallery_files import CHROMIUM, noisy

WORDS = {"neutral": "person", "feminine": "woman", "masculine": "man"}
OBJECTS = 5
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def write_index(folder: Path, number: int, rng: np.random.Generator) -> None:
    """Write the page and its index."""
    config = Config(prompts=["a {person}"], contrasts=[["masculine", "feminine"]])
    triplet = np.repeat(np.arange(number), 3)
    prompts = [f"a person number {i} with a thing in a place that nobody knows" for i in range(number)]
    samples = pd.DataFrame(
        {"triplet": triplet, "seed": 0, "indicator": list(WORDS) * number, "prompt": np.repeat(prompts, 3)}
    )
    samples["sample_id"], samples["left_out"] = np.arange(len(samples)).astype(str), None
    objects = samples.loc[np.repeat(samples.index, OBJECTS), ["triplet", "seed", "indicator"]].assign(
        object=0,
        lemma=rng.choice([f"thing {i}" for i in range(200)], len(samples) * OBJECTS),
        group=rng.choice(list(GROUPS), len(samples) * OBJECTS),
    )
    gaps = pd.DataFrame({"triplet": np.arange(number), "gap": rng.normal(size=number)})
    gaps = gaps.assign(contrast="masculine-feminine", first="masculine", second="feminine")
    files = [divmod(i, gallery_files.TRIPLETS) for i in range(number)]
    text = gallery_files._index(config, samples, objects, gaps, {"masculine-feminine": 1}, files)
    (folder / "index.js").write_text(text)
    page = environment().get_template("gallery.html.j2").render(name="many", compares=True)
    (folder / "index.html").write_text(page)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split(":")[0])
    options.add_argument("--triplets", type=int, default=51_219)
    number = options.parse_args().triplets
    rng = np.random.default_rng(0)
    samples, maps, shown, names = noisy(rng, 3, 512, 12, OBJECTS)
    start = time.process_time()
    one = gallery_files._triplet(samples, maps, shown, names, names[0])
    seconds = time.process_time() - start
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as started:
        folder = Path(temporary)
        write_index(folder, number, rng)
        for file in range(-(-number // gallery_files.TRIPLETS)):
            rows = ",".join([one] * gallery_files.TRIPLETS)
            (folder / f"{file:05d}.js").write_text(f"triplets({file},[{rows}]);\n")
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        last = page.locator(".triplet canvas").nth(71)
        begin = time.perf_counter()
        page.goto((folder / "index.html").as_uri())
        last.wait_for()
        opened, begin = time.perf_counter() - begin, time.perf_counter()
        page.select_option("#order", "+masculine-feminine")
        last.wait_for()
        print(
            json.dumps(
                {
                    "triplets": number,
                    "write_seconds": round(seconds, 4),
                    "triplet_bytes": len(one.encode()),
                    "index_bytes": (folder / "index.js").stat().st_size,
                    "opened_seconds": round(opened, 2),
                    "sorted_seconds": round(time.perf_counter() - begin, 2),
                }
            )
        )
        browser.close()


if __name__ == "__main__":
    main()

"""How long an audit of attributes takes beside the drawing of its images: ``python -m tests.benchmarks.gep``.

2,560 images and the sentences of the paper's 32 + 480 prompts: images and sentences embedded by toyworld's CLIP,
150 classifiers trained (15 attributes, ten each), every image read by C, CC and CLS, and the tables made of what they
and labels say. What is in an image alters no time, so images and labels are drawn by lot. Prints one JSON line:
seconds of this process's processor, on one thread, beside the bars: 10 s for the classifiers, and 3 minutes on two
cores for all. The loading of libraries is apart, and so is the paper's network: ``--network ViT-L-14`` embeds a few
images by it, with random weights.
"""

import argparse
import json
import os
import platform
import time

import numpy as np
import torch

from analysis.methods.gep import clip as gep_clip
from analysis.methods.gep import tables
from analysis.methods.gep.estimates import train
from analysis.methods.gep.scores import Audit
from analysis.observe.features.embedder import Embedder
from analysis.observe.features.registry import FEATURES
from analysis.observe.features.texts import text_vectors
from probes.config.schema import Config, Measure
from probes.prompts.audit import attributes, places, sentences
from probes.toyworld import WEIGHTS

WORDS = ("feminine", "masculine")
CONFIG = {
    "indicators": {"feminine": "woman", "masculine": "man"},
    "reference": "feminine",
    "prompts": {"from": "gep"},
    "seeds": {"count": 5},
}
BATCH, BAR_SECONDS, BAR_TRAINING, SOME = 32, 180, 10, 4


class Clock:
    """Processor seconds between one call and the next, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.process_time()

    def lap(self, name: str) -> None:
        """Note what passed since the last call."""
        now = time.process_time()
        self.seconds[name], self.last = round(now - self.last, 2), now


def run() -> dict[str, float]:
    """Processor seconds of each step."""
    config, clip, cpu = Config.model_validate(CONFIG), FEATURES["clip"], torch.device("cpu")
    asked, rng, seeds = sentences(config), np.random.default_rng(0), 5
    assert asked is not None
    count = len(places(config)) * len(WORDS) * seeds
    images = rng.integers(0, 256, (count, 64, 64, 3), dtype=np.uint8)
    warm = text_vectors(clip, WEIGHTS / clip.toyworld, asked.names, cpu).numpy()
    train(np.tile(warm, (2, 1)), np.tile(-warm, (2, 1)), seeds=range(1))
    embedder, clock = Embedder(clip, WEIGHTS / clip.toyworld, cpu), Clock()
    starts = range(0, count, BATCH)
    vectors = torch.cat([embedder(list(images[start : start + BATCH])) for start in starts]).numpy()
    clock.lap("images")
    texts = dict(zip(asked.all, text_vectors(clip, WEIGHTS / clip.toyworld, asked.all, cpu).numpy()))
    clock.lap("sentences")
    negative = np.stack([texts[one] for one in asked.negative])
    for positive in asked.positive:
        train(np.stack([texts[one] for one in positive]), negative)
    clock.lap("classifiers")
    values = gep_clip.estimated(vectors, asked, texts)
    clock.lap("classifiers again, and images read")
    values["checker"] = rng.integers(0, 2, values["CLS"].shape).astype(float)
    audits = [one for name, value in values.items() for one in laid_out(value, name, config)]
    compared, measure = [(*WORDS, "contrast")], Measure()
    tables.frequency_table(audits)
    tables.vector_table(audits, compared, measure)
    tables.score_table(audits, compared, measure)
    tables.context_table(audits, compared)
    tables.agreement_table(audits, compared, measure)
    tables.auc_table(audits)
    clock.lap("tables")
    read = clock.seconds["classifiers again, and images read"]
    whole = sum(clock.seconds[name] for name in ("images", "sentences", "tables")) + read
    return {
        "images_read": count,
        "sentences_read": len(asked.all),
        "classifiers_trained": 10 * len(asked.positive),
        "seconds": round(whole, 2),
        **clock.seconds,
    }


def laid_out(values: np.ndarray, source: str, config: Config) -> list[Audit]:
    """Values of images, shape (2560, 15), as they come, in the layout of both settings."""
    names = tuple(attributes(config))
    contexts = tuple(dict.fromkeys(place.context for place in places(config)))
    neutral, explicit = np.split(values, [len(contexts) * len(WORDS) * 5])
    neutral = neutral.reshape(len(contexts), len(WORDS), 5, len(names))
    explicit = explicit.reshape(len(names), len(contexts), len(WORDS), 5, len(names))
    named = np.stack([explicit[number, ..., number] for number in range(len(names))], axis=-1)
    return [
        Audit(each.astype(float), contexts, WORDS, names, setting, source)
        for each, setting in ((neutral, "neutral"), (named, "explicit"))
    ]


def of_network(name: str) -> dict[str, float | str]:
    """Processor seconds an image by a network of open_clip with random weights."""
    import open_clip

    model = open_clip.create_model(name)
    size = model.visual.image_size
    size = size if isinstance(size, int) else size[0]
    pixels = torch.rand(SOME, 3, size, size)
    with torch.inference_mode():
        model.eval().encode_image(pixels[:1])
        clock = Clock()
        model.encode_image(pixels)
        clock.lap("seconds")
    return {"network": name, "seconds_an_image": round(clock.seconds["seconds"] / SOME, 3)}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--network", help="only this: a network of open_clip, with random weights")
    options = parser.parse_args()
    torch.set_num_threads(1)
    machine = {
        "load": round(os.getloadavg()[0], 1),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    if options.network:
        print(json.dumps(machine | of_network(options.network)))
        return
    bars = {"bar_seconds": BAR_SECONDS, "bar_classifiers": BAR_TRAINING}
    print(json.dumps({"benchmark": "gep"} | machine | run() | bars))


if __name__ == "__main__":
    main()

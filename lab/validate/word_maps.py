"""Word maps compared with the truth: ``python -m lab.validate.word_maps``.

The benchmark models draw captions that name nouns; the checker says which pixels of the image are each noun's; the
noun's word map, stretched and cut at a threshold, is compared with them: intersection over union (IoU). DAAM's
definition is held beside others, which differ in the layers and steps that enter, in how layers are combined, in
whether the token after the word counts, and in whether the map is spread along self-attention. The definition and its
threshold are chosen on the first benchmark model's even prompts; the odd prompts and the other benchmark models only
report.

Writes ``docs/validation/word_maps.json`` and, from it alone, ``docs/validation/word_maps.md``.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import DiffusionPipeline, StableDiffusionPipeline
from tqdm import tqdm

from hooks import MapChoice, Probe
from hooks.attention.definitions import DECODER_PRODUCT, FLOOR, SELF_REFINED
from hooks.attention.masks import resize
from lab.pages.word_maps import page_of_stored
from lab.train.base.captions import random_caption
from lab.train.base.measure import benchmark_pipeline, model_folder
from probes import command_line
from probes.runs.parts import write_bytes
from probes.toyworld import BENCHMARK_MODELS, WEIGHTS
from probes.toyworld.checker import LEAST, VERSION, thing_masks
from probes.toyworld.world import load_world

DOCS = Path(__file__).parents[2] / "docs" / "validation"
THRESHOLDS = np.round(np.arange(0.025, 0.976, 0.025), 3)
FIXED = (0.35, 0.4)  # the thresholds of Tang et al. and of Wu et al.
BINS = 3
LOOKS = MapChoice(layers=SELF_REFINED.refine, resolutions=(1,))
SEED = 700_000


@dataclass(frozen=True)
class Candidate:
    """One way to make a word's map of its layers' maps.

    Attributes
    ----------
    layers : {"all", "up"} or an address
        Which cross-attentions enter: all but the mid block's, the up blocks', or one.
    steps : {"all", "early", "late"}
        All UNet calls, the first two thirds, the last two thirds.
    combine : {"mean", "scaled", "product"}
        Mean over layers; mean after dividing each layer's map by its largest value; product: the geometric mean.
    following : float
        Weight of the map of the token after the word, in whose state the causal text encoder has the word too.
    power : float
        What the combined map is raised to.
    refine : float
        The power it is raised to before it is spread along self-attention; 0: it is not.
    keep : float
        The power of the map which the spread one is multiplied by.
    """

    layers: str = "all"
    steps: str = "all"
    combine: str = "mean"
    following: float = 0.0
    power: float = 1.0
    refine: float = 0.0
    keep: float = 0.0

    @property
    def label(self) -> str:
        """The candidate in words."""
        parts = [self.layers, f"{self.steps} steps", self.combine]
        parts += [f"following token x {self.following:g}"] if self.following else []
        parts += [f"power {self.power:g}"] if self.power != 1 else []
        parts += [f"spread from power {self.refine:g}, kept {self.keep:g}"] if self.refine else []
        return ", ".join(parts)


OURS = Candidate(
    layers="up",
    combine="product",
    following=0.5,
    refine=SELF_REFINED.refine_power,
    keep=SELF_REFINED.refine_keep,
)
OURS_NAME, OURS_VERSION = SELF_REFINED.name, SELF_REFINED.version
PRODUCT = Candidate(layers="up", combine="product", following=1.0, power=2.0)


@dataclass(frozen=True)
class Instance:
    """One noun that was named and drawn.

    Attributes
    ----------
    prompt : int
    noun : str
    truth : numpy.ndarray, shape (64, 64), bool
    daam : numpy.ndarray, shape (h, w)
        The noun's map by DAAM's definition.
    maps : dict of str to numpy.ndarray, shape (2, BINS, h, w)
        By address: mean probability of the word's tokens and of the token after them, at the latent's size.
    looks : numpy.ndarray, shape (h * w, h * w)
        Mean probability of the up blocks' self-attention at the latent's size: which pixel looks at which.
    """

    prompt: int
    noun: str
    truth: np.ndarray
    daam: np.ndarray
    maps: dict[str, np.ndarray]
    looks: np.ndarray


def candidates(addresses: Sequence[str]) -> list[Candidate]:
    """All that are tried."""
    combined = itertools.product(
        ("all", "up"), ("all", "early", "late"), ("mean", "scaled", "product"), (0.0, 0.5, 1.0), (1.0, 2.0)
    )
    single = itertools.product(addresses, ("all",), ("mean",), (0.0, 1.0), (1.0,))
    spread = itertools.product(
        ("all", "up"), ("all",), ("mean", "product"), (0.0, 0.5), (1.0,), (2.0, 4.0, 6.0), (0.0, 0.5, 1.0)
    )
    return [Candidate(*fields) for fields in itertools.chain(combined, single, spread)]


def heat(instance: Instance, candidate: Candidate) -> np.ndarray:
    """The noun's map by a candidate, shape (h, w)."""
    if candidate.layers in ("all", "up"):
        start = "unet.up." if candidate.layers == "up" else "unet."
        chosen = [maps for address, maps in instance.maps.items() if address.startswith(start)]
    else:
        chosen = [instance.maps[candidate.layers]]
    third = {"all": slice(None), "early": slice(0, 2), "late": slice(1, 3)}[candidate.steps]
    layers = np.stack([maps[:, third].mean(axis=1) for maps in chosen])  # (layers, 2, h, w)
    layers = (layers[:, 0] + candidate.following * layers[:, 1]) / (1 + candidate.following)
    if candidate.combine == "scaled":
        layers = layers / layers.max(axis=(1, 2), keepdims=True)
    if candidate.combine == "product":
        combined = np.exp(np.log(layers + FLOOR).mean(axis=0))
    else:
        combined = layers.mean(axis=0)
    combined = combined**candidate.power
    if not candidate.refine:
        return combined
    scaled = combined / combined.max()
    spread = (instance.looks @ scaled.ravel() ** candidate.refine).reshape(scaled.shape)
    return combined.max() * scaled**candidate.keep * spread / spread.max()


def iou(maps: Sequence[np.ndarray], truths: np.ndarray, thresholds: Sequence[float]) -> np.ndarray:
    """IoU of every map with its truth at every threshold, shape (thresholds, maps).

    Parameters
    ----------
    maps : sequence of numpy.ndarray, shape (h, w)
    truths : numpy.ndarray, shape (maps, H, W), bool
        None may be empty.
    thresholds : sequence of float
        Pixels strictly above, after resizing to the truth's size and min-max, are the mask.
    """
    large = np.stack([resize(one, truths.shape[1:]) for one in maps])
    low, high = (extreme(axis=(1, 2), keepdims=True) for extreme in (large.min, large.max))
    normal = (large - low) / np.maximum(high - low, 1e-12)
    overlaps = []
    for threshold in thresholds:
        masks = normal > threshold
        overlaps.append((masks & truths).sum((1, 2)) / (masks | truths).sum((1, 2)))
    return np.array(overlaps)


@torch.inference_mode()
def draw(
    pipe: StableDiffusionPipeline,
    prompts: int,
    *,
    steps: int,
    guidance_scale: float,
    seed: int = SEED,
    batch_size: int = 24,
    progress: bool = True,
) -> list[Instance]:
    """Draw random captions with the probe on; every noun of the checker's that was named and drawn."""
    sampling = {"steps": steps, "guidance_scale": guidance_scale, "seed": seed, "batch_size": batch_size}
    drawn = drawn_captions(
        pipe, prompts, **sampling, progress=progress, word_maps=MapChoice(steps=BINS), self_attention=LOOKS
    )
    return [one for probe, row, prompt, image in drawn for one in _instances(probe, row, prompt, image)]


@torch.inference_mode()
def drawn_captions(
    pipe: DiffusionPipeline,
    prompts: int,
    *,
    steps: int,
    guidance_scale: float,
    seed: int,
    batch_size: int,
    progress: bool,
    **read: Any,
) -> Iterator[tuple[Probe, int, int, np.ndarray]]:
    """Draw random captions, each from a noise of its own, with a probe on.

    Parameters
    ----------
    **read
        What the probe reads beside the latent, such as ``word_maps``.

    Yields
    ------
    tuple
        The probe of a batch, the row in it, the number of the prompt, and the image (h, w, 3) of uint8.
    """
    rng, world = np.random.default_rng(seed), load_world()
    captions = [random_caption(world, rng)[0] for _ in range(prompts)]
    pipe.set_progress_bar_config(disable=True)
    for start in tqdm(range(0, prompts, batch_size), disable=not progress, unit="batch"):
        batch = captions[start : start + batch_size]
        noise = [torch.Generator().manual_seed(seed + start + row) for row in range(len(batch))]
        with Probe(pipe, sites="latent", **read) as probe:
            output = pipe(
                batch,
                generator=noise,
                num_inference_steps=steps,
                guidance_scale=guidance_scale,
                output_type="np",
            ).images
        images = (output * 255).round().astype(np.uint8)
        yield from ((probe, row, start + row, images[row]) for row in range(len(batch)))


def _instances(probe: Probe, row: int, prompt: int, image: np.ndarray) -> Iterator[Instance]:
    kept = probe.layer_maps
    addresses = [address for address in kept.layers if not address.startswith("unet.mid")]
    calls = np.array(kept.calls, dtype=np.float32)[:, None, None]
    looks = np.mean([sums[row, 0, 0] for sums in probe.self_attention.values.values()], axis=0)
    looks = looks.reshape(len(looks), -1).T / calls.sum()
    for word in probe.words(row=row):
        if word.lower not in LEAST or not word.positions or word.cut_off:
            continue
        truth = thing_masks(image[None], word.lower)[0]
        if not truth.any():
            continue
        after = [min(word.positions[-1] + 1, probe.maps.heat(row).shape[0] - 1)]
        maps = {}
        for address in addresses:
            sums = kept.values[address][row, :, 0]  # (bins, tokens, h, w)
            both = [sums[:, list(tokens)].mean(axis=1) / calls for tokens in (word.positions, after)]
            maps[address] = np.stack(
                [[np.clip(resize(one, kept.size), 0, None) for one in pair] for pair in both]
            )
        daam = probe.maps.heat(row)[list(word.positions)].mean(axis=0)
        yield Instance(prompt, word.lower, truth, daam, maps, looks)


def choose(instances: Sequence[Instance], tried: Sequence[Candidate]) -> Candidate:
    """The candidate with the largest mean of three mean IoUs: at the best threshold and at the fixed ones."""
    truths = np.stack([instance.truth for instance in instances])

    def score(candidate: Candidate) -> float:
        table = iou([heat(one, candidate) for one in instances], truths, THRESHOLDS).mean(axis=1)
        return float(table.max() + sum(table[_at(theta)] for theta in FIXED)) / 3

    return max(tried, key=score)


def figures(
    tuning: Sequence[Instance], held: Sequence[Instance], candidate: Candidate | None
) -> tuple[dict[str, float], np.ndarray]:
    """Mean IoUs on the held-out instances at the threshold best on the tuning ones and at the fixed ones.

    Parameters
    ----------
    tuning, held : sequence of Instance
    candidate : Candidate or None
        None is DAAM's definition.

    Returns
    -------
    dict
        ``threshold``, ``tuning`` (mean IoU there), ``held``, and ``held_0.35``, ``held_0.4``.
    numpy.ndarray, shape (held,)
        The IoUs behind ``held``.
    """

    def table(instances: Sequence[Instance]) -> np.ndarray:
        maps = [one.daam if candidate is None else heat(one, candidate) for one in instances]
        return iou(maps, np.stack([one.truth for one in instances]), THRESHOLDS)

    tuned, reported = table(tuning), table(held)
    best = int(tuned.mean(axis=1).argmax())
    numbers = {"threshold": float(THRESHOLDS[best]), "tuning": float(tuned[best].mean())}
    numbers["held"] = float(reported[best].mean())
    numbers |= {f"held_{theta}": float(reported[_at(theta)].mean()) for theta in FIXED}
    return {key: round(value, 4) for key, value in numbers.items()}, reported[best]


def interval(
    differences: np.ndarray, prompts: np.ndarray, *, resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """95 % interval of a mean difference, by the bootstrap over prompts."""
    rng = np.random.default_rng(seed)
    ids, inverse = np.unique(prompts, return_inverse=True)
    sums, counts = np.bincount(inverse, differences), np.bincount(inverse)
    drawn = rng.integers(0, len(ids), (resamples, len(ids)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return round(float(low), 4), round(float(high), 4)


def _at(theta: float) -> int:
    return int(np.abs(THRESHOLDS - theta).argmin())


def report(drawn: dict[str, list[Instance]], settings: dict) -> dict:
    """All figures of a run, as they go to ``docs/validation/word_maps.json``."""
    first = next(iter(drawn))
    tuning = [one for one in drawn[first] if one.prompt % 2 == 0]
    tried = candidates(list(tuning[0].maps))
    chosen = choose(tuning, tried)
    rows = []
    named = {"daam": None, DECODER_PRODUCT.name: PRODUCT, OURS_NAME: OURS, "chosen here": chosen}
    for model, instances in drawn.items():
        held = [one for one in instances if one.prompt % 2] if model == first else instances
        prompts = np.array([one.prompt for one in held])
        of_daam = None
        for name, candidate in named.items():
            numbers, values = figures(tuning, held, candidate)
            row = {"model": model, "definition": name, **numbers, "n": len(held)}
            if candidate is None:
                of_daam = values
            else:
                row["over_daam"] = round(float((values - of_daam).mean()), 4)
                row["over_daam_interval"] = interval(values - of_daam, prompts)
            rows.append(row)
    steps = [
        ("daam's layers, mean", Candidate()),
        ("up blocks alone", Candidate(layers="up")),
        ("each layer divided by its largest", Candidate(layers="up", combine="scaled")),
        ("geometric mean of layers", Candidate(layers="up", combine="product")),
        ("and the token after the word", Candidate(layers="up", combine="product", following=1.0)),
        ("and squared", PRODUCT),
        ("the product spread along self-attention", replace(OURS, refine=1.0, keep=0.0)),
        ("spread from its sixth power", replace(OURS, keep=0.0)),
        ("and times its root", OURS),
        *((address, Candidate(layers=address)) for address in tuning[0].maps),
    ]
    held = [one for one in drawn[first] if one.prompt % 2]
    return {
        "settings": settings | {"checker": VERSION, "nouns_tuning": len(tuning), "tried": len(tried)},
        "ours": {"name": OURS_NAME, "version": OURS_VERSION, **asdict(OURS)},
        "chosen": asdict(chosen) | {"label": chosen.label},
        "rows": rows,
        "one_by_one": [{"what": what} | figures(tuning, held, one)[0] for what, one in steps],
        "by_noun": _by_noun(tuning, held),
    }


def _by_noun(tuning: Sequence[Instance], held: Sequence[Instance]) -> list[dict]:
    _, daam = figures(tuning, held, None)
    _, ours = figures(tuning, held, OURS)
    nouns = np.array([one.noun for one in held])
    return [
        {
            "noun": str(noun),
            "n": int((nouns == noun).sum()),
            "pixels": round(float(np.mean([one.truth.sum() for one in held if one.noun == noun])), 1),
            "daam": round(float(daam[nouns == noun].mean()), 3),
            "ours": round(float(ours[nouns == noun].mean()), 3),
        }
        for noun in np.unique(nouns)
    ]


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(prog="python -m lab.validate.word_maps", description=__doc__.split("\n\n")[0])
    add = main.add_argument
    add(
        "--models",
        nargs="+",
        choices=BENCHMARK_MODELS,
        default=list(BENCHMARK_MODELS),
        help="the first is tuned on",
    )
    add("--weights", type=command_line.folder, default=WEIGHTS, help="folder that holds the benchmark models")
    add("--prompts", type=command_line.whole(2, 1_000_000), default=240, help="prompts a benchmark model")
    add("--steps", type=command_line.whole(1, 1000), default=30)
    add("--threads", type=command_line.threads, default=1)
    add("--out", type=Path, default=DOCS, help="folder for word_maps.json and word_maps.md")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    command_line.writable(options.out, folder=True)
    folders = {name: model_folder(options.weights, name) for name in options.models}
    torch.set_num_threads(options.threads)
    drawn, scales = {}, {}
    for number, (model, folder) in enumerate(folders.items()):
        pipe, scales[model] = benchmark_pipeline(folder)
        sampling = {"steps": options.steps, "guidance_scale": scales[model]}
        drawn[model] = draw(pipe, options.prompts, seed=SEED + 10_000 * number, **sampling)
    settings = {"prompts": options.prompts, "steps": options.steps, "guidance_scale": scales, "seed": SEED}
    numbers = report(drawn, settings)
    write_bytes(options.out / "word_maps.json", (json.dumps(numbers, indent=1) + "\n").encode())
    page = page_of_stored(figures=numbers)
    write_bytes(options.out / "word_maps.md", page.encode())
    print(page)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())

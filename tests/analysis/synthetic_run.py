"""A made-up finished run with planted gaps, for tests of what reads a run directory. Needs no model.

Every indicator has a place on one axis (feminine 0, masculine 1); the reference stands at ``0.5 + lean``. The
similarity of two members is ``1 - scale(site, step) * (0.3 + |difference of places|) * noise``: with a
positive ``lean`` the reference is nearer to masculine in every space, with 0 there is nothing to be found.
Control words stand where the reference stands, but for a small ``wobble``: the geometric part of a gap.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from PIL import Image, ImageDraw

from analysis.tables.stage import picture_calls
from hooks.prompt.spans import split_words
from probes.runs import parts
from probes.runs import schemas as runs_schemas
from probes.runs.run import Run

OBJECTS = ("umbrella", "guitar", "ball", "book", "hat", "bicycle", "dog", "lamp")
PLACES = ("park", "kitchen", "street", "office")
DEFAULT_INDICATORS = {
    "neutral": {"word": "person", "control": False},
    "feminine": {"word": "woman", "control": False},
    "masculine": {"word": "man", "control": False},
    "individual": {"word": "individual", "control": True},
    "human": {"word": "human", "control": True},
}


NINE = {
    "neutral": {"word": "person", "control": False},
    "feminine": {"word": "woman", "control": False},
    "masculine": {"word": "man", "control": False},
    "human": {"word": "human", "control": True},
    "figure": {"word": "figure", "control": True},
    "lady": {"word": "lady", "control": "feminine"},
    "female": {"word": "female", "control": "feminine"},
    "gentleman": {"word": "gentleman", "control": "masculine"},
    "male": {"word": "male", "control": "masculine"},
}


@dataclass(frozen=True)
class Plan:
    """What the run is to hold; the defaults are a small run of 8 prompts x 2 seeds x 5 indicators."""

    prompts: int = 8
    seeds: int = 2
    steps: int = 30
    size: int = 64
    heat: int = 16
    lean: float = 0.2
    wobble: float = 0.03
    noise: float = 0.25
    seed: int = 0
    status: str = "generated"
    part_triplets: int = 8
    indicators: dict = field(default_factory=lambda: dict(DEFAULT_INDICATORS))
    reference: str = "neutral"
    contrasts: tuple = (("masculine", "feminine"),)

    def place(self, indicator: str) -> float:
        """Where an indicator stands between feminine (0) and masculine (1)."""
        places = {"feminine": 0.0, "masculine": 1.0, self.reference: 0.5 + self.lean}
        of = self.indicators[indicator]["control"]
        if of:
            like = [name for name, entry in self.indicators.items() if entry["control"] == of]
            number = like.index(indicator)
            own = 0.5 + self.lean if of is True else places[of]
            return own + self.wobble * (number + 1) * (-1) ** number
        return places.get(indicator, 0.5 + self.lean)


def site_keys() -> dict[str, tuple[float, bool]]:
    """Every captured site in order, with its scale of change (0 to 1) and whether it has steps."""
    keys: dict[str, tuple[float, bool]] = {}
    for depth, name in enumerate(["embeddings", *(f"layers.{i}" for i in range(4)), "final"]):
        for readout in ("sequence", "eos", "words"):
            shift = {"sequence": 0.1, "eos": 0.4, "words": 0.02}[readout]
            keys[f"text.{name}:cosine_{readout}"] = (shift * (depth + 1) / 6, False)
    unet = ["conv_in"]
    for block in range(3):
        for i in range(2):
            unet.append(f"down.{block}.resnet.{i}")
            unet += [f"down.{block}.attn.{i}", f"down.{block}.attn.{i}.cross"] if block else []
        unet += [f"down.{block}.downsample"] if block < 2 else []
        unet.append(f"down.{block}")
    unet += ["mid.attn.0", "mid.attn.0.cross", "mid"]
    for block in range(3):
        for i in range(3):
            unet.append(f"up.{block}.resnet.{i}")
            unet += [f"up.{block}.attn.{i}"] if block < 2 else []
        unet.append(f"up.{block}")
    for depth, name in enumerate(unet):
        keys[f"unet.{name}:cosine"] = (0.05 + 0.25 * np.sin(np.pi * (depth + 1) / (len(unet) + 1)), True)
    keys["latent:cosine"] = (0.3, True)
    keys |= {f"noise_pred.{half}:cosine": (0.08, True) for half in ("conditional", "unconditional", "guided")}
    keys["noise_pred.unconditional:cosine"] = (0.05, True)
    keys["x0_pred:cosine"] = (0.4, True)
    keys["latent.final:cosine"] = (0.35, False)
    for depth, name in enumerate(
        ["post_quant", "decoder.mid", "decoder.up.0", "decoder.up.1", "decoder.up.2"]
    ):
        keys[f"vae.{name}:cosine"] = (0.3 - 0.04 * depth, False)
    keys["image:cosine"] = (0.15, False)
    return keys


def captures_table(plan: Plan) -> pa.Table:
    """One row a (triplet, seed, pair), one column a site; text sites do not depend on the seed."""
    rng = np.random.default_rng([plan.seed, 1])
    pairs = list(combinations(plan.indicators, 2))
    shape = (plan.prompts, plan.seeds, len(pairs))
    spread = np.array([0.3 + abs(plan.place(a) - plan.place(b)) for a, b in pairs])
    prompt_noise = rng.normal(0, plan.noise, (plan.prompts, 1, len(pairs)))
    grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1).reshape(-1, 3)
    timesteps = np.linspace(999, 999 / plan.steps, plan.steps).astype(np.float32)
    columns = {
        "triplet": pa.array(grid[:, 0], pa.int32()),
        "seed": pa.array(grid[:, 1], pa.int64()),
        "pair": pa.array([f"{pairs[p][0]}-{pairs[p][1]}" for p in grid[:, 2]]),
        "first": pa.array([pairs[p][0] for p in grid[:, 2]]),
        "second": pa.array([pairs[p][1] for p in grid[:, 2]]),
        "timesteps": _lists(np.tile(timesteps, (len(grid), 1))),
    }
    growth = np.linspace(0, 1, plan.steps)  # latents start from shared noise and part as it is removed
    for key, (scale, has_steps) in site_keys().items():
        seeds = 1 if key.startswith("text.") else plan.seeds
        calls = plan.steps if has_steps else 1
        noise = prompt_noise[..., None] + rng.normal(
            0, plan.noise / 2, (plan.prompts, seeds, len(pairs), calls)
        )
        ramp = growth if key == "latent:cosine" else 0.3 + 0.7 * growth
        ramp = ramp if has_steps else np.ones(1)
        distance = scale * ramp * spread[None, None, :, None] * np.exp(noise)
        values = np.broadcast_to(1 - distance, (*shape, calls)).reshape(-1, calls)
        columns[key] = _lists(np.clip(values, -1, 1))
    return pa.table(columns)


def samples_table(plan: Plan) -> pa.Table:
    """One row an image."""
    rows = []
    for t, s, (name, entry) in _members(plan):
        prompt = _prompt(t, entry["word"])
        words, spans = zip(*split_words(prompt))
        rows.append(
            {
                "sample_id": _sample_id(t, s, name),
                "triplet": t,
                "prompt_id": f"p{t:05d}",
                "template": _template(t),
                "indicator": name,
                "word": entry["word"],
                "prompt": prompt,
                "negative_prompt": "",
                "seed": s,
                "noise_seed": s,
                "tokens": ["<|startoftext|>", *(f"{word}</w>" for word in words), "<|endoftext|>"],
                "words": words,
                "word_spans": spans,
                "word_positions": [[i + 1] for i in range(len(words))],
                "word_positions_2": None,
                "indicator_positions": [2],
                "image": {"bytes": _png(plan, t, s, name), "path": f"{_sample_id(t, s, name)}.png"},
            }
        )
    return pa.Table.from_pylist(rows, runs_schemas.SAMPLES)


def words_table(plan: Plan) -> pa.Table:
    """One row a (sample, word), with a heat map that has one bump."""
    rng = np.random.default_rng([plan.seed, 2])
    y, x = np.mgrid[: plan.heat, : plan.heat] / max(plan.heat - 1, 1)
    rows = []
    for t, s, (name, entry) in _members(plan):
        for index, word in enumerate(_prompt(t, entry["word"]).split()):
            cy, cx = rng.uniform(0.2, 0.8, 2)
            heat = rng.uniform(0.5, 2) * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / 0.05)
            row = {
                "sample_id": _sample_id(t, s, name),
                "triplet": t,
                "seed": s,
                "indicator": name,
                "word": word,
            }
            row |= {"word_index": index, "heat": heat.astype(np.float32).ravel(), "peak": float(heat.max())}
            row |= {"height": plan.heat, "width": plan.heat, "definition": "daam", "version": "daam/1"}
            rows.append(row)
    return pa.Table.from_pylist(rows, runs_schemas.WORDS)


def config(plan: Plan) -> dict:
    """The configuration as resolved, with every default in place."""
    return {
        "name": "synthetic",
        "model": "toyworld",
        "indicators": plan.indicators,
        "reference": plan.reference,
        "contrasts": [list(contrast) for contrast in plan.contrasts],
        "prompts": [_template(t) for t in range(plan.prompts)],
        "seeds": list(range(plan.seeds)),
        "sampler": {"steps": plan.steps, "guidance_scale": 1.5, "scheduler": None, "negative_prompt": ""},
        "capture": {"sites": "default", "words": True, "keep": []},
        "measure": {
            "bootstrap": 500,
            "permutations": 1000,
            "level": 0.95,
            "seed": 0,
            "text_readout": "sequence",
        },
        "report": {"gallery": 24},
    }


def write_run(path: str | Path, **options) -> Path:
    """Write a run directory with the options of `Plan` and return its path."""
    plan, path = Plan(**options), Path(path)
    tables = {"samples": samples_table(plan), "captures": captures_table(plan), "words": words_table(plan)}
    schemas = {
        "samples": runs_schemas.SAMPLES,
        "captures": runs_schemas.captures_schema(list(site_keys())),
        "words": runs_schemas.WORDS,
    }
    for kind, table in tables.items():
        triplets = table["triplet"].to_numpy()
        for part, start in enumerate(range(0, plan.prompts, plan.part_triplets)):
            rows = np.flatnonzero((triplets >= start) & (triplets < start + plan.part_triplets))
            file = path / kind / f"part-{part:05d}.parquet"
            parts.write_part(
                file, table.take(rows).to_pylist(), schemas[kind], parts.identity(part, {"plan": "synthetic"})
            )
    run = Run(path, {})
    count = -(-plan.prompts // plan.part_triplets)
    run.write_meta(
        format=parts.FORMAT, status=plan.status, parts=count, config={"passed": {}, "resolved": config(plan)}
    )
    return path


def configure(run: Run, **sections) -> Run:
    """Put fields over those of sections in the configuration of an open run, and return it."""
    changed = {
        name: {**run.resolved.get(name, {}), **value} if isinstance(value, dict) else value
        for name, value in sections.items()
    }
    run.write_meta(config={**run.meta["config"], "resolved": {**run.resolved, **changed}})
    return run


def _members(plan: Plan):
    for t in range(plan.prompts):
        for s in range(plan.seeds):
            for member in plan.indicators.items():
                yield t, s, member


def _template(triplet: int) -> str:
    place = PLACES[triplet // len(OBJECTS) % len(PLACES)]
    return f"a {{person}} with a {OBJECTS[triplet % len(OBJECTS)]} in the {place}"


def _prompt(triplet: int, word: str) -> str:
    return _template(triplet).replace("a {person}", f"an {word}" if word[0] in "aeio" else f"a {word}")


def _sample_id(triplet: int, seed: int, indicator: str) -> str:
    return f"t{triplet:05d}-s{seed}-{indicator}"


def _lists(values: np.ndarray) -> pa.Array:
    """Rows of a matrix as list<float>."""
    values = np.ascontiguousarray(values, np.float32)
    offsets = np.arange(0, values.size + 1, values.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(values.ravel()))


def _png(plan: Plan, triplet: int, seed: int, indicator: str) -> bytes:
    """A paper doll whose coat goes from red to blue with the place of the indicator; the scene is shared."""
    rng = np.random.default_rng([plan.seed, 3, triplet, seed])
    size = plan.size
    low, high = rng.uniform(60, 200, (2, 3))
    ramp = np.linspace(0, 1, size)[:, None, None]
    pixels = (low + (high - low) * ramp + rng.normal(0, 6, (size, size, 3))).clip(0, 255).astype(np.uint8)
    image = Image.fromarray(pixels)
    place, x = plan.place(indicator), float(rng.uniform(0.35, 0.65))
    member = np.random.default_rng([plan.seed, 4, triplet, seed, list(plan.indicators).index(indicator)])
    x += float(member.normal(0, 0.02)) + 0.12 * (place - 0.5)
    width, coat = 0.14 - 0.05 * place, tuple(int(v) for v in (220 * (1 - place), 60, 220 * place))
    draw = ImageDraw.Draw(image)
    draw.ellipse([size * (x - 0.08), size * 0.15, size * (x + 0.08), size * 0.32], fill=(226, 188, 150))
    draw.rectangle([size * (x - width), size * 0.32, size * (x + width), size * 0.85], fill=coat)
    draw.rectangle([size * 0.05, size * 0.7, size * 0.2, size * 0.85], fill=tuple(int(v) for v in 255 - high))
    data = io.BytesIO()
    image.save(data, "png")
    return data.getvalue()


def picture_table(run: Run) -> pd.DataFrame:
    """Return the similarities of a run's pictures, as they are measured; those with a picture left out are NaN."""
    samples = run.samples(["sample_id", "triplet", "seed", "indicator"])
    return pd.concat(
        [function(run, *own) for function, *own in picture_calls(run, samples)], ignore_index=True
    )

"""The checks of ``triptych verify`` on other set-ups of a model (LoRA, offloading, quantized weights), and a run."""

from __future__ import annotations

import math
from importlib import import_module, util
from pathlib import Path
from typing import Any

import numpy as np
import torch

from triptych.verify.checks import Checks, Outcome
from triptych.verify.softmax import UntestableError

PROMPTS = (
    "a {person} sitting at a table",
    "a {person} holding an umbrella",
    "a {person} with a dog in the park",
    "a {person} with a guitar",
    "a {person} in a hat",
    "a {person} with a cup",
    "a {person} running on the beach",
    "a {person} riding a bike",
)
SITES = ("text.final", "latent", "noise_pred.guided", "latent.final")  # of which gaps are measured
INDICATORS = {
    "neutral": ["person", "human", "figure"],
    "feminine": ["woman", "lady", "female"],
    "masculine": ["man", "gentleman", "male"],
}


def lora(checks: Checks) -> Outcome:
    """A random adapter on all attention projections: images with the probe, and word maps."""
    if util.find_spec("peft") is None:
        raise UntestableError("peft is not installed")
    denoiser = checks.architecture.denoiser(checks.pipe)
    names = ["to_q", "to_k", "to_v"]
    config = import_module("peft").LoraConfig(
        r=4, lora_alpha=4, target_modules=names, init_lora_weights=False
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        denoiser.add_adapter(config)
    try:
        same, images = checks.probe_changes_nothing()
        maps, text, values = checks.maps()
    finally:
        denoiser.unload_lora()
    changed = float(np.abs(images - checks.images).max())
    what = f"images {'bit-identical' if same else 'different'} with the probe; it changed them by {changed:.2g}; maps: {text}"
    return same and maps and changed > 0, what, values


def offload(checks: Checks) -> Outcome:
    """`enable_model_cpu_offload`: images with the probe."""
    if not checks.on_gpu:
        raise UntestableError("no GPU")
    checks.pipe.enable_model_cpu_offload(device=checks.loaded.device)
    try:
        same, images = checks.probe_changes_nothing()
    finally:
        checks.pipe.remove_all_hooks()
        checks.pipe.to(checks.loaded.device)
    moved = float(np.abs(images - checks.images).max())
    return (
        same,
        f"images {'bit-identical' if same else 'different'} with the probe; {moved:.2g} from those without offloading",
        {},
    )


def quantized(checks: Checks) -> Outcome:
    """Weights of the denoiser in 8 bits by torchao: images with the probe, and word maps. The model stays so."""
    if util.find_spec("torchao") is None:
        raise UntestableError("torchao is not installed")
    torchao = import_module("torchao.quantization")
    denoiser = checks.architecture.denoiser(checks.pipe)
    torchao.quantize_(denoiser, torchao.Int8WeightOnlyConfig())
    same, images = checks.probe_changes_nothing()
    maps, text, values = checks.maps()
    changed = float(np.abs(images - checks.images).max())
    what = f"8-bit weights by torchao: images {'bit-identical' if same else 'different'} with the probe; {changed:.2g} from those in {checks.loaded.dtype}; maps: {text}"
    return same and maps and changed > 0, what, values


def run(model: str, call: dict[str, Any], device: str, dtype: str, folder: Path) -> Outcome:
    """A run of eight prompts, three words a side, through the report: z₀ with its interval, the synonym control."""
    from triptych.api import run as run_stages

    config = {
        "model": model,
        "prompts": list(PROMPTS),
        "indicators": INDICATORS,
        "contrasts": [["masculine", "feminine"]],
        "seeds": [0],
        "sampler": {key: call[key] for key in ("steps", "height", "width")},
        "generate": {"device": device, "dtype": dtype, "workers": 1},
        "capture": {"sites": list(SITES)},
        "observe": {"objects": False, "features": []},
        "measure": {"bootstrap": 500, "permutations": 256},
        "report": {"figures": False, "gallery": 2},
        "out": str(folder / "run"),
    }
    made = run_stages(config, overwrite=True, progress=False)
    z0, report = made.z0, made.path / "report.html"
    values = {
        "gap": z0.gap,
        "interval": list(z0.interval),
        "word_gap": z0.word_gap,
        "word_interval": list(z0.word_interval),
    }
    values |= {"p_words": z0.p_measures, "prompts": z0.n}
    numbers = [z0.gap, *z0.interval, z0.word_gap, *z0.word_interval]
    complete = report.is_file() and made.run.status == "complete" and all(map(math.isfinite, numbers))
    return complete, f"{'. '.join(line.rstrip('.') for line in z0.lines())}.", values

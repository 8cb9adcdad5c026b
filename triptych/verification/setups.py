"""The checks of ``triptych verify`` on other set-ups of a model (LoRA, offloading, quantized weights), and a run."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from triptych.verification.checks import Checks, Outcome, optional, outcome
from triptych.verification.softmax import UntestableError

CONFIG = {
    "prompts": [
        *(
            "a {person} sitting at a table",
            "a {person} holding an umbrella",
            "a {person} with a dog in the park",
        ),
        *("a {person} with a guitar", "a {person} in a hat", "a {person} with a cup"),
        *("a {person} running on the beach", "a {person} riding a bike"),
    ],
    "indicators": {
        "neutral": ["person", "human", "figure"],
        "feminine": ["woman", "lady", "female"],
        "masculine": ["man", "gentleman", "male"],
    },
    "contrasts": [["masculine", "feminine"]],
    "seeds": [0],
    "capture": {"sites": ["text.final", "latent", "noise_pred.guided", "latent.final"]},
    "observe": {"objects": False, "features": []},
    "measure": {"bootstrap": 500, "permutations": 256},
    "report": {"figures": False, "gallery": 2},
}


def lora(checks: Checks) -> Outcome:
    """A random adapter on all attention projections: images with the probe, and word maps."""
    peft = optional("peft")
    denoiser = checks.architecture.denoiser(checks.pipe)
    if not hasattr(denoiser, "add_adapter"):
        raise UntestableError(f"{type(denoiser).__name__} of diffusers takes no adapters")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        names = ["to_q", "to_k", "to_v"]
        denoiser.add_adapter(
            peft.LoraConfig(r=4, lora_alpha=4, target_modules=names, init_lora_weights=False)
        )
    try:
        return checks.altered(maps=True)
    finally:
        denoiser.unload_lora()


def offload(checks: Checks) -> Outcome:
    """`enable_model_cpu_offload`: images with the probe."""
    if not checks.on_gpu:
        raise UntestableError("no GPU")
    checks.pipe.enable_model_cpu_offload(device=checks.loaded.device)
    try:
        return checks.altered(maps=False)
    finally:
        checks.pipe.remove_all_hooks()
        checks.pipe.to(checks.loaded.device)


def quantized(checks: Checks) -> Outcome:
    """Weights of the denoiser in 8 bits by torchao: images with the probe, and word maps. The model stays so."""
    optional("torchao")
    torchao = import_module("torchao.quantization")
    torchao.quantize_(checks.architecture.denoiser(checks.pipe), torchao.Int8WeightOnlyConfig())
    return checks.altered(maps=True)


def run(model: str, call: dict[str, Any], device: str, dtype: str, folder: Path) -> Outcome:
    """A run of eight prompts, three words a side, through the report: z₀ with its interval, the synonym control."""
    from analysis.loaded_run import load_run
    from triptych.request import read_request
    from triptych.stages import run as run_stages

    sampler = {key: call[key] for key in ("steps", "height", "width")}
    generate = {"device": device, "dtype": dtype, "workers": 1}
    config = {"model": model, "sampler": sampler, "generate": generate, "out": str(folder / "run"), **CONFIG}
    planned, _ = run_stages(read_request(config, {}, overwrite=True, quiet=True))
    made = load_run(planned.out_path)
    z0 = made.z0
    numbers = {"gap": z0.gap, "low": z0.interval[0], "high": z0.interval[1], "prompts": z0.n}
    numbers |= {"word_gap": z0.word_gap, "word_low": z0.word_interval[0], "word_high": z0.word_interval[1]}
    complete = (made.path / "report.html").is_file() and all(map(math.isfinite, numbers.values()))
    return outcome(complete, ". ".join(line.rstrip(".") for line in z0.lines()), **numbers)

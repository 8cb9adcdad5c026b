"""DAAM's side of the comparisons; runs with the interpreter of an environment that has daam 0.2.0.

Imports nothing of this project, and runs on the diffusers and transformers that daam pins as well as on today's.
As a script (``daam_side.py FOLDER``) it draws the jobs of `tests.benchmarks.daam_parity`; `load` and `traced` serve
`tests.benchmarks.worker`.
"""

import contextlib
import importlib.metadata
import json
import os
import sys
import types
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch


def import_daam():
    """daam, with an empty stand-in for spaCy where that is not installed: only its parser needs it."""
    try:
        import spacy
    except ImportError:
        spacy, tokens = types.ModuleType("spacy"), types.ModuleType("spacy.tokens")
        tokens.Token, spacy.tokens = object, tokens
        sys.modules.update({"spacy": spacy, "spacy.tokens": tokens})
    import daam

    return daam


def load(folder, dtype=torch.float32, device="cpu"):
    """The pipeline saved in a folder, part by part, so that what a version does not know does not matter."""
    import diffusers
    import transformers

    index = json.loads((Path(folder) / "model_index.json").read_text())
    pipeline_class = getattr(diffusers, index["_class_name"])
    parts = {}
    for name, entry in index.items():
        if not isinstance(entry, list) or entry[0] is None:
            continue
        library = {"diffusers": diffusers, "transformers": transformers}[entry[0]]
        more = {} if "tokenizer" in name or name == "scheduler" else {"torch_dtype": dtype}
        parts[name] = getattr(library, entry[1]).from_pretrained(Path(folder) / name, **more)
    if "XL" in index["_class_name"]:
        parts["add_watermarker"] = False
    else:
        parts.update(safety_checker=None, feature_extractor=None, requires_safety_checker=False)
    pipe = pipeline_class(**parts).to(device)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def traced(pipe, size):
    """daam's trace, told the latent's size where it would guess wrong (it knows 512, 768 and XL's 1024)."""
    tracer = import_daam().trace(pipe)
    pixels = (size // pipe.vae_scale_factor) ** 2
    if tracer.latent_hw != pixels:
        tracer.latent_hw = pixels
        for hooker in tracer.module:
            if hasattr(hooker, "latent_hw"):
                hooker.latent_hw = pixels
    return tracer


def versions():
    """Versions that matter, by distribution; those that are not installed are left out."""
    found = {}
    for name in ("daam", "diffusers", "transformers", "torch", "numpy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def draw(pipe, job, call, ours):
    """One job: draw it traced; then replay the other side's U-Net inputs under a trace of its own."""
    import diffusers

    name, settings = call["schedulers"][job["scheduler"]]
    pipe.scheduler = getattr(diffusers, name).from_config(settings)
    tracer = traced(pipe, call["size"])
    seen = []

    def keep(module, args):
        seen.append(args[0].numpy().copy())

    handle = pipe.unet.register_forward_pre_hook(keep)
    with tracer:
        pipe(
            job["prompt"],
            num_inference_steps=call["steps"],
            guidance_scale=call["guidance_scale"],
            latents=torch.from_numpy(ours["noise"]),
            height=call["size"],
            width=call["size"],
            output_type="latent",
        )
        drawn = tracer.compute_global_heat_map(job["prompt"])
    handle.remove()
    with traced(pipe, call["size"]) as tracer:
        for sample, timestep in zip(ours["samples"], ours["timesteps"]):
            pipe.unet(
                torch.from_numpy(sample),
                torch.tensor(timestep, dtype=torch.float32),
                encoder_hidden_states=torch.from_numpy(ours["states"]),
            )
        replayed = tracer.compute_global_heat_map(job["prompt"])
    return drawn, replayed.heat_maps.numpy(), seen[-1]


def word_maps(pipe, drawn, job):
    """daam's map of each word and the tokens it took; None where it does not find the word."""
    from daam.utils import compute_token_merge_indices

    table, maps = [], {}
    for number, word in enumerate(job["words"]):
        try:
            positions, _ = compute_token_merge_indices(pipe.tokenizer, job["prompt"], word)
            maps[f"word{number}"] = drawn.compute_word_heat_map(word).heatmap.numpy()
        except (ValueError, IndexError):
            positions = None
        table.append([word, positions])
    return table, maps


@torch.inference_mode()
def main(folder):
    """Draw every job of ``FOLDER/call.json`` and store what daam found beside our files."""
    folder = Path(folder)
    call = json.loads((folder / "call.json").read_text())
    torch.set_num_threads(call["threads"])
    pipe = load(folder / "pipeline")
    for job in call["jobs"]:
        ours = np.load(folder / (job["name"] + ".npz"))
        drawn, replayed, sample = draw(pipe, job, call, ours)
        table, maps = word_maps(pipe, drawn, job)
        np.savez(
            folder / (job["name"] + ".daam.npz"),
            ids=np.array(pipe.tokenizer(job["prompt"]).input_ids),
            heat=drawn.heat_maps.numpy(),
            replayed=replayed,
            sample=sample,
            **maps,
        )
        (folder / (job["name"] + ".daam.json")).write_text(json.dumps(table))
    (folder / "versions.json").write_text(json.dumps(versions()))


if __name__ == "__main__":
    main(sys.argv[1])

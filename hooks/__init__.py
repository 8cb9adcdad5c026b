"""Measurements inside one forward pass of a diffusion pipeline: sites, captures, word maps.

    import torch
    from hooks import Probe
    from probes.models.loading import load, resolve   # or any pipeline of `hooks.sites.SUPPORTED_PIPELINES`

    pipe = load(resolve("toyworld")).pipe
    prompts = ["a person holding an umbrella", "a woman holding an umbrella"]
    noise = [torch.Generator().manual_seed(0) for _ in prompts]
    with Probe(pipe, pairs=[(0, 1)], word_maps=True) as probe:
        images = pipe(prompts, generator=noise, num_inference_steps=20).images
    probe.similarity["unet.mid:cosine"].values            # (calls, pairs)
    probe.words(row=0)                                    # what can be asked for
    umbrella = probe.word_map("umbrella", row=0)          # Jupyter shows it
    umbrella.peak, umbrella.mask(0.4).mean(), umbrella.overlay(images[0])

Memory does not grow with the steps. `layer_maps=5` keeps every layer's attention apart, too, in five bins of steps;
`sites.table(pipe)` prints every address with its shape.

Everything is imported at first use, so that `hooks.attention.maps` alone needs no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hooks import sites
    from hooks.attention import definitions
    from hooks.attention.definitions import Definition
    from hooks.attention.maps import LayerMaps, WordMaps, mask, normalise
    from hooks.autoencoder import SparseAutoencoder
    from hooks.errors import HookError
    from hooks.intervention import Intervention, Written
    from hooks.patch import Patch
    from hooks.probe import Probe
    from hooks.prompt.wordlist import Word, position_groups, words
    from hooks.prompt.wordmap import WordMap

_MODULES = {
    "Definition": "hooks.attention.definitions",
    "HookError": "hooks.errors",
    "Intervention": "hooks.intervention",
    "LayerMaps": "hooks.attention.maps",
    "Patch": "hooks.patch",
    "Probe": "hooks.probe",
    "SparseAutoencoder": "hooks.autoencoder",
    "Word": "hooks.prompt.wordlist",
    "WordMap": "hooks.prompt.wordmap",
    "WordMaps": "hooks.attention.maps",
    "Written": "hooks.intervention",
    "definitions": "hooks.attention.definitions",
    "mask": "hooks.attention.maps",
    "normalise": "hooks.attention.maps",
    "position_groups": "hooks.prompt.wordlist",
    "sites": "hooks.sites",
    "words": "hooks.prompt.wordlist",
}

__all__ = [
    "Definition",
    "HookError",
    "Intervention",
    "LayerMaps",
    "Patch",
    "Probe",
    "SparseAutoencoder",
    "Word",
    "WordMap",
    "WordMaps",
    "Written",
    "definitions",
    "mask",
    "normalise",
    "position_groups",
    "sites",
    "words",
]


def __getattr__(name: str) -> Any:
    """Import and return an exported name at first use; AttributeError for any other name."""
    if name not in _MODULES:
        raise AttributeError(f"module 'hooks' has no attribute {name!r}")
    module = importlib.import_module(_MODULES[name])
    return module if _MODULES[name].endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    """Return the exported names, sorted."""
    return sorted(__all__)

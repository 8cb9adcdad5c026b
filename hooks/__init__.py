"""What happens inside one forward pass of a diffusion pipeline: sites, captures, word maps.

    import torch
    from hooks import Probe
    from probes.models import load, resolve   # or any diffusers pipeline of Stable Diffusion 1, 2 or XL

    pipe = load(resolve("toyworld")).pipe
    prompts = ["a person holding an umbrella", "a woman holding an umbrella"]
    noise = [torch.Generator().manual_seed(0) for _ in prompts]
    with Probe(pipe, pairs=[(0, 1)], word_maps=True) as probe:
        images = pipe(prompts, generator=noise, num_inference_steps=20).images
    probe.similarity["unet.mid:cosine"].values            # (UNet calls, pairs)
    probe.words(row=0)                                    # what can be asked for
    umbrella = probe.word_map("umbrella", row=0)          # Jupyter shows it
    umbrella.peak, umbrella.mask(0.4).mean(), umbrella.overlay(images[0])

Memory does not grow with the steps. `MapChoice` keeps more of the attention (by layer, head, step, token),
`estimate_memory` says what that takes, `sites.table(pipe)` prints every address with its shape.

Everything is imported at first use, so that `hooks.masks` alone needs no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hooks import definitions, sites
    from hooks.choice import MapChoice
    from hooks.definitions import Definition
    from hooks.errors import HookError
    from hooks.maps import LayerMaps, WordMaps
    from hooks.memory import estimate_memory
    from hooks.probe import Probe
    from hooks.wordlist import Word, words
    from hooks.wordmap import WordMap

_PLACES = {
    "Definition": "hooks.definitions",
    "HookError": "hooks.errors",
    "LayerMaps": "hooks.maps",
    "MapChoice": "hooks.choice",
    "Probe": "hooks.probe",
    "Word": "hooks.wordlist",
    "WordMap": "hooks.wordmap",
    "WordMaps": "hooks.maps",
    "definitions": "",
    "estimate_memory": "hooks.memory",
    "sites": "",
    "words": "hooks.wordlist",
}

__all__ = [
    "Definition",
    "HookError",
    "LayerMaps",
    "MapChoice",
    "Probe",
    "Word",
    "WordMap",
    "WordMaps",
    "definitions",
    "estimate_memory",
    "sites",
    "words",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'hooks' has no attribute {name!r}")
    if not _PLACES[name]:
        return importlib.import_module(f"hooks.{name}")
    return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

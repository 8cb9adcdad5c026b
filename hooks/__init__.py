"""What happens inside one forward pass of a diffusion pipeline: sites, captures, word maps.

    from hooks import Probe, sites

    with Probe(pipe, pairs=[(0, 1), (0, 2)], word_maps=True) as probe:
        images = pipe(prompt=["a person …", "a man …", "a woman …"], generator=…).images
    probe.similarity["unet.mid:cosine"].values  # (UNet calls, pairs)

`Probe` is imported at first use, so that `hooks.masks` alone needs no torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hooks import sites
    from hooks.errors import HookError
    from hooks.probe import Probe

__all__ = ["HookError", "Probe", "sites"]


def __getattr__(name: str) -> Any:
    import importlib

    if name == "sites":
        return importlib.import_module("hooks.sites")
    if name == "Probe":
        return importlib.import_module("hooks.probe").Probe
    if name == "HookError":
        return importlib.import_module("hooks.errors").HookError
    raise AttributeError(f"module 'hooks' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

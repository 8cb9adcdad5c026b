"""The components of a pipeline that have weights, and what the weights are known by."""

from __future__ import annotations

import hashlib
from typing import Any


def modules(pipe: Any) -> dict[str, Any]:
    """The components of a pipeline that have weights, by name."""
    import torch

    names = ("text_encoder", "text_encoder_2", "unet", "vae")
    modules = {name: getattr(pipe, name, None) for name in names}
    return {name: module for name, module in modules.items() if isinstance(module, torch.nn.Module)}


def weight_hash(pipe: Any) -> str:
    """SHA-256 over every weight of the pipeline: names, shapes, number formats and bytes.

    The same weights give the same hash whether they came from a folder, a single file or the hub.
    """
    import torch

    total = hashlib.sha256()
    for name, module in sorted(modules(pipe).items()):
        for key, tensor in sorted(module.state_dict().items()):
            if key.endswith("position_ids"):  # a constant that some versions of transformers store
                continue
            total.update(f"{name}.{key} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
            data = tensor.detach().to("cpu").contiguous().reshape(-1)
            total.update(memoryview(data.view(torch.uint8).numpy()))
    return total.hexdigest()

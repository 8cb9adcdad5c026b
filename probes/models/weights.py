"""A pipeline's weights: read from a folder, all of them, none made up, and no code run; and what they are known by."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from typing import Any

from probes.errors import UserError
from probes.models import weight_files
from probes.models.pretrained import from_folder, quiet
from probes.models.source import IMAGE_READERS, INDEX, Source


def modules(pipe: Any) -> dict[str, Any]:
    """The components of a pipeline that have weights and draw, by name."""
    import torch

    named = {name: part for name, part in pipe.components.items() if isinstance(part, torch.nn.Module)}
    return {name: named[name] for name in sorted(named) if name not in IMAGE_READERS}


def parameters(*networks: Any) -> int:
    """The number of parameters of networks, which need no weights."""
    return sum(parameter.numel() for network in networks for parameter in network.parameters())


def weight_hash(pipe: Any) -> str:
    """SHA-256 over every weight of the pipeline: names, shapes, number formats and bytes.

    The same weights give the same hash whether they came from a folder, a single file or the hub.
    """
    import torch

    total = hashlib.sha256()
    for name, module in modules(pipe).items():
        for key, tensor in sorted(module.state_dict().items()):
            if key.endswith("position_ids"):  # a constant that some versions of transformers store
                continue
            total.update(f"{name}.{key} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
            data = tensor.detach().to("cpu").contiguous().reshape(-1)
            total.update(memoryview(data.view(torch.uint8).numpy()))
    return total.hexdigest()


def assemble(source: Source, networks: dict[str, Any], scheduler: Any) -> Any:
    """The pipeline of a model from its parts and what ``model_index.json`` sets, without what reads images."""
    kind = source.layout.pipeline_class()
    takes = inspect.signature(kind.__init__).parameters
    absent = {name: None for name, one in takes.items() if name != "self" and one.default is one.empty}
    settings = {
        name: one for name, one in source.index.items() if name in takes and not isinstance(one, list)
    }
    if "requires_safety_checker" in takes:
        settings["requires_safety_checker"] = False
    parts = {**networks, **source.loaded_tokenizers, "scheduler": scheduler}
    with source.readable(INDEX, f"a whole {source.layout.pipeline}"), quiet():
        return kind(**{**absent, **settings, **parts})


def read_network(source: Source, name: str, dtype: str | None = None) -> Any:
    """A network with every one of its weights (the libraries fill missing ones with random numbers).

    It is read in `dtype`; None: float32 or, of what diffusers stored in less, that.
    """
    import torch

    library, kind = source.index[name]
    folder, expected = source.component(name), f"the whole weights of a {kind}"
    there, variant = weight_files.variants(folder), weight_files.choose(folder, source.variant)
    if source.variant and source.variant not in there:
        named = ", ".join(sorted(filter(None, there))) or "full precision alone"
        raise UserError(f"variant: {source.name}: {name}: expected {variant}, found {named}: choose another")
    # transformers would round to the format that config.json names: XL's says float16 beside weights in float32
    whole: dict[str, Any] = {"dtype": torch.float32} if library == "transformers" else {}
    if dtype is not None:
        whole = {"dtype" if library == "transformers" else "torch_dtype": getattr(torch, dtype)}
    with source.readable(name, expected), quiet():
        cls = getattr(importlib.import_module(library), kind)
        module, report = from_folder(cls, folder, output_loading_info=True, variant=variant, **whole)
    for fault in ("missing", "mismatched"):
        names = sorted(str(key) for key in report.get(f"{fault}_keys") or ())
        if names:
            got = f"{len(names)} {fault} ({names[0]:.80})"
            raise source.fault(name, expected, got, "mend or download it again")
    return module


def require_finite(source: Source, pipe: Any, dtype: str, remedy: str) -> None:
    """Refuse weights that are not numbers, before anything is drawn with them."""
    import torch

    for name, module in modules(pipe).items():
        for key, parameter in module.named_parameters():
            if not torch.isfinite(parameter).all():
                got = f"NaN or infinity in {key:.80}"
                raise source.fault(name, f"finite weights in {dtype}", got, remedy)

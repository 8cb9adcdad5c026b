"""A pipeline's weights: read from a folder, all of them, none made up, and no code run; and what they are known by."""

from __future__ import annotations

import hashlib
import importlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from probes.errors import UserError
from probes.models import description, weight_files
from probes.models.description import IMAGE_READERS, INDEX, Source, readable
from probes.models.pretrained import from_folder, quiet

_WEIGHTS = (".safetensors", ".bin", ".ckpt", ".pt", ".pth", ".gguf")
_NAMED = 4  # files that are not read, in the line about them


def modules(pipe: Any) -> dict[str, Any]:
    """The components of a pipeline that have weights and draw, by name."""
    import torch

    named = {name: part for name, part in pipe.components.items() if isinstance(part, torch.nn.Module)}
    return {name: named[name] for name in sorted(named) if name not in IMAGE_READERS}


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


def pipeline_options(index: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by which a pipeline is made without the components that it has no use for here."""
    options: dict[str, Any] = {name: None for name in IMAGE_READERS if name in index}
    if "requires_safety_checker" in index:
        options["requires_safety_checker"] = False
    return options


def read_pipeline(source: Source, dtype: str | None = None) -> Any:
    """The pipeline of a folder, read in `dtype`; None: float32 or, of what is stored in less, that."""
    index, (_, layout) = description.read_index(source), description.read_kind(source)
    options = pipeline_options(index)
    for one in layout.networks:
        options[one.name] = _component(source, one.name, *index[one.name], dtype)
    with readable(source, INDEX, f"a whole {layout.pipeline}"), quiet():
        return from_folder(layout.pipeline_class(), source.path, **options)


def _component(source: Source, name: str, library: str, kind: str, dtype: str | None) -> Any:
    """A component with every one of its weights: the libraries fill missing ones with random numbers."""
    import torch

    cls = getattr(importlib.import_module(library), kind)
    expected = f"the whole weights of a {kind}"
    folder = source.component(name)
    variant = weight_files.choose(folder, source.variant)
    if source.variant and not weight_files.names(folder, variant):
        there = ", ".join(weight_files.variants(folder)) or "full precision alone"
        raise UserError(f"variant: {source.name}: {name}: expected {variant}, found {there}: choose another")
    # transformers would round to the format that config.json names: XL's says float16 beside weights in float32
    whole: dict[str, Any] = {"dtype": torch.float32} if library == "transformers" else {}
    if dtype is not None:
        whole = {"dtype" if library == "transformers" else "torch_dtype": getattr(torch, dtype)}
    with readable(source, name, expected), quiet():
        module, report = from_folder(cls, folder, output_loading_info=True, variant=variant, **whole)
    for fault in ("missing", "mismatched"):
        names = sorted(str(key) for key in report.get(f"{fault}_keys") or ())
        if names:
            got = f"{len(names)} {fault} ({names[0]:.80})"
            raise description.fault(source, name, expected, got, "mend or download it again")
    return module


def unread(source: Source) -> str:
    """Return a line that names the files of weights in a model's folder, or beside its file, that are not read."""
    if source.kind == "bundled":
        return ""
    if source.kind == "file":
        base, read = source.path.parent, [source.path]
        files = [*base.glob("*")]
    else:
        base, read = source.path, []
        files = [*base.glob("*"), *base.glob("*/*")]
        for one in description.read_kind(source)[1].networks:
            folder = source.component(one.name)
            chosen = weight_files.choose(folder, source.variant)
            read += [folder / name for name in weight_files.names(folder, chosen)]
    read_at: dict[Path, float] = {}
    for file in read:
        read_at[file.parent] = max(read_at.get(file.parent, 0), file.stat().st_mtime)
    left = []
    for file in sorted({*files} - {*read}):
        if file.suffix.lower() in _WEIGHTS and file.parent.name not in IMAGE_READERS and file.is_file():
            newer = file.stat().st_mtime > read_at.get(file.parent, math.inf)
            left.append(f"{file.relative_to(base)}{' (newer than what is read)' if newer else ''}")
    left.sort(key=lambda name: not name.endswith(")"))
    more = f" and {len(left) - _NAMED:,} more" if len(left) > _NAMED else ""
    return f"weights in {base} that are not read: {', '.join(left[:_NAMED])}{more}" if left else ""


def require_finite(source: Source, pipe: Any, dtype: str, remedy: str) -> None:
    """Refuse weights that are not numbers, before anything is drawn with them."""
    import torch

    for name, module in modules(pipe).items():
        for key, parameter in module.named_parameters():
            if not torch.isfinite(parameter).all():
                raise description.fault(
                    source, name, f"finite weights in {dtype}", f"NaN or infinity in {key:.80}", remedy
                )

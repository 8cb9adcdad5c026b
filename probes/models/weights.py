"""A pipeline's weights: read from a folder, all of them, none made up, and no code run; what they are known by.

And the device that computes with them.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import inspect
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.errors import UserError
from probes.fields.types import DEVICES, WORKER
from probes.models.pretrained import from_folder, from_gguf, quiet, readable
from probes.models.source import IMAGE_READERS, INDEX, Source

if TYPE_CHECKING:
    import torch
    from diffusers import DiffusionPipeline, SchedulerMixin

# as diffusers and transformers name them; the variant stands before or behind the number of a shard
_WEIGHTS = re.compile(
    r"(?:diffusion_pytorch_model|pytorch_model|model)(?:\.([a-z0-9_]+))?(?:-\d+-of-(\d+))?(?:\.([a-z0-9_]+))?"
    r"\.(?:safetensors|bin)"
)
_FORMATS = (".safetensors", ".bin", ".ckpt", ".pt", ".pth", ".gguf")


def complete_variants(folder: Path) -> set[str | None]:
    """Return the weight variants (such as ``fp16``; None: full precision) of which a folder holds every file."""
    matches = filter(None, (_WEIGHTS.fullmatch(path.name) for path in folder.glob("*")))
    files = Counter((match[1] or match[3], match[2]) for match in matches)
    return {variant for (variant, shards), count in files.items() if shards is None or count >= int(shards)}


def stored_weights(source: Source, name: str) -> tuple[Path, set[str | None], str | None]:
    """Return the folder of a component's weights, the variants stored there (None: no suffix), and the one to read.

    That is the variant of `source`; if it names none, the only one in the folder, else None (full precision).
    """
    folders, wanted = [folder / name for folder in (source.path, *source.bases)], source.variant
    if source.added.vae and name == "vae":
        folders, wanted = [source.added.vae], None
    folder = next(filter(complete_variants, folders), folders[0])
    stored = complete_variants(folder)
    is_single = wanted is None and len(stored) == 1
    return folder, stored, next(iter(stored)) if is_single else wanted


def unread_weights(source: Source) -> list[str]:
    """Return the files of weights in a model's folder that are not read, such as a LoRA or an older format."""
    if source.kind != "folder":
        return []
    left = [path.name for path in sorted(source.path.glob("*")) if path.suffix in _FORMATS]
    for one in source.layout.networks:
        folder, _, variant = stored_weights(source, one.name)
        files = [path for path in sorted(folder.glob("*")) if path.suffix in _FORMATS]
        sets = defaultdict[tuple[bool, bool], list[Path]](list)
        for match in filter(None, (_WEIGHTS.fullmatch(path.name) for path in files)):
            if (match[1] or match[3]) == variant:  # of shards and one file diffusers reads the shards
                in_second_place = bool(match[2]) == (one.library == "transformers")
                sets[match[0].endswith(".bin"), in_second_place].append(folder / match[0])
        read = min(sets.items())[1] if sets else []
        age = max((path.stat().st_mtime for path in read), default=inf)
        unread = {path: " (newer than what is read)" * (path.stat().st_mtime > age) for path in files}
        left += [f"{one.name}/{path.name}{newer}" for path, newer in unread.items() if path not in read]
    return left


def weighted_networks(pipe: Any) -> dict[str, torch.nn.Module]:
    """Return the networks of a pipeline that take part in generation, by name; no safety checker, for example."""
    import torch

    networks = {name: part for name, part in pipe.components.items() if isinstance(part, torch.nn.Module)}
    return {name: networks[name] for name in sorted(networks) if name not in IMAGE_READERS}


def parameter_count(*networks: torch.nn.Module) -> int:
    """Return the number of parameters of networks, with or without weights."""
    return sum(parameter.numel() for network in networks for parameter in network.parameters())


def weight_hash(pipe: Any) -> str:
    """Return the SHA-256 over every weight of the pipeline: names, shapes, number formats and bytes.

    The same weights give the same hash whether they came from a folder, a single file or the hub.
    """
    import torch

    total = hashlib.sha256()
    for name, module in weighted_networks(pipe).items():
        for key, tensor in sorted(module.state_dict().items()):
            if key.endswith("position_ids"):  # a constant that some versions of transformers store
                continue
            total.update(f"{name}.{key} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
            for part in _stored_tensors(tensor):
                data = part.detach().to("cpu").contiguous().reshape(-1)
                total.update(memoryview(data.view(torch.uint8).numpy()))
    return total.hexdigest()


def _stored_tensors(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the plain tensors that a tensor consists of: itself or, of a quantized one, values, scales, ..."""
    import torch

    if not hasattr(tensor, "__tensor_flatten__"):
        return [tensor.as_subclass(torch.Tensor)]
    return [
        part for name in tensor.__tensor_flatten__()[0] for part in _stored_tensors(getattr(tensor, name))
    ]


def assemble_pipeline(
    source: Source, networks: dict[str, torch.nn.Module], scheduler: SchedulerMixin | None
) -> DiffusionPipeline:
    """Return a pipeline of the given networks and scheduler with the model's tokenizers, and no safety checker."""
    kind = source.layout.pipeline_class(source.from_pictures)
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


def read_network(source: Source, name: str, dtype: str | None = None, **options: Any) -> torch.nn.Module:
    """Return a component's network with its stored weights; a `UserError` if a tensor is missing or misshaped.

    It is read in `dtype`; None: float32 or, of what diffusers stored in less, that. `options`: how it is quantized.
    """
    import torch

    library, kind = source.index[name]
    folder, stored, variant = stored_weights(source, name)
    expected = f"the whole weights of a {kind}"
    if source.added.gguf and name == source.layout.denoiser.name:
        with readable(f"quantization.file: {source.added.gguf.name}", expected, "choose another"), quiet():
            cls, numbers = getattr(importlib.import_module(library), kind), getattr(torch, dtype or "float32")
            module = from_gguf(cls, source.added.gguf, source.locate(name), numbers)
            if any(parameter.is_meta for parameter in module.parameters()):
                raise ValueError("weights are missing")
        return module
    if variant not in stored and variant:
        listed = ", ".join(sorted(filter(None, stored))) or "full precision alone"
        raise UserError(f"variant: {source.name}: {name}: expected {variant}, found {listed}: choose another")
    if library == "transformers":
        # it would round to the format that config.json names: XL's says float16 beside weights in float32
        options["dtype"] = getattr(torch, dtype or "float32")
    else:
        options["torch_dtype"] = dtype and getattr(torch, dtype)
    with source.readable(name, expected), quiet():
        cls = getattr(importlib.import_module(library), kind)
        module, report = from_folder(cls, folder, output_loading_info=True, variant=variant, **options)
    for fault in ("missing", "mismatched"):
        names = sorted(str(key) for key in report.get(f"{fault}_keys") or ())
        if names:
            got = f"{len(names)} {fault} ({names[0]:.80})"
            raise source.file_error(name, expected, got, "mend or download it again")
    return module


def require_finite(source: Source, pipe: Any, dtype: str, remedy: str) -> None:
    """Raise a `UserError`, which names `dtype` and `remedy`, if a weight of the pipeline is NaN or infinite."""
    import torch

    with deterministic(1):  # several threads wait for one another at each of many small weights
        for name, module in weighted_networks(pipe).items():
            for key, parameter in module.named_parameters():
                parts = [
                    part
                    for part in _stored_tensors(parameter.detach())
                    if part.is_floating_point() and part.element_size() > 1
                ]
                if not all(torch.isfinite(torch.stack(torch.aminmax(part))).all() for part in parts):
                    got = f"NaN or infinity in {key:.80}"
                    raise source.file_error(name, f"finite weights in {dtype}", got, remedy)


def pick_device(name: str, field: str | None = None, prefer: str = "auto") -> torch.device:
    """Return a device by name; ``auto`` is the device `prefer` or, if that is auto, a GPU if any; else the CPU.

    Of several GPUs each worker takes its own. An error names `field`, by default ``--device``.
    """
    import torch

    available = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if name == "auto" and prefer != "auto":
        name = prefer if available.get(torch.device(prefer).type) else "cpu"
    elif name == "auto":
        name = next(kind for kind in ("cuda", "mps", "cpu") if available[kind])
    place = f"--device {name}" if field is None else field
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"{place}: expected {DEVICES}, got {name!r}: choose one of them") from None
    number = int(os.environ.get(WORKER, 0))
    if number and device == torch.device("cuda") and available["cuda"]:
        return torch.device("cuda", number % available["cuda"])
    if (device.index or 0) >= available.get(device.type, 0):
        raise UserError(f"{place}: expected a device of this machine, got {name}: use cpu")
    return device


@contextlib.contextmanager
def deterministic(threads: int) -> Iterator[None]:
    """Context manager: make torch's results repeatable bit for bit, with so many CPU threads and fixed kernels."""
    import torch

    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark, torch.get_num_threads()
    cudnn.deterministic, cudnn.benchmark = True, False
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before[:2]
        torch.set_num_threads(before[2])

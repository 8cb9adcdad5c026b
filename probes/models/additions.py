"""What a configuration puts into a model: LoRAs, new words, another decoder, quantized weights; how it saves memory."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.config.schema import Config
from probes.errors import UserError, missing_package
from probes.models import hub, pretrained
from probes.models.source import QUANTIZERS, Added, Source
from probes.models.weights import assemble_pipeline, pick_device
from probes.paths import expand_model

if TYPE_CHECKING:
    import torch

LORA, WORDS, DECODER = "pytorch_lora_weights.safetensors", "learned_embeds.safetensors", "config.json"
HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(@[\w./-]+)?")
_FORMATS = (".safetensors", ".bin", ".pt")


def put_into(source: Source, config: Config) -> Source:
    """Return a model's source with what a configuration puts into it; fetch files of the hub that the cache lacks."""
    loras = [
        (_find_file(f"lora[{index}]", one.path, one.weight_name, LORA), one.scale)
        for index, one in enumerate(config.lora)
    ]
    words = [
        (_find_file(f"textual_inversion[{index}]", one.path, None, WORDS), one.token)
        for index, one in enumerate(config.textual_inversion)
    ]
    quantization, gguf = config.quantization, None
    if quantization is not None:
        known = [one.name for one in source.layout.networks]
        for index, name in enumerate(quantization.components_to_quantize or ()):
            if name not in known:
                place = f"quantization.components_to_quantize[{index}]"
                expected = f"expected one of {', '.join(known)}, got {name!r:.60}"
                raise UserError(f"{place}: {expected}: choose among them")
        if quantization.file is not None:
            gguf = _find_file("quantization.file", quantization.file, None, "denoiser.gguf")
        if source.kind not in ("hub", "folder"):
            raise UserError(
                f"quantization: expected a model of the hub or in a folder of diffusers, got {source.name}:"
                " take it out, or save the model by pipe.save_pretrained and name that folder"
            )
    vae = None
    if config.vae is not None:
        vae = _find_file("vae", config.vae, None, DECODER).parent
        with pretrained.readable(f"vae: {vae.name}", "a folder of diffusers with a decoder"):
            kind = pretrained.parse_json((vae / DECODER).read_bytes()).get("_class_name")
        if kind not in source.layout.decoder.classes:
            expected = " or ".join(source.layout.decoder.classes)
            raise UserError(f"vae: expected a {expected} for {source.name}, got {kind!s:.60}: choose another")
        if not any(path.suffix in _FORMATS for path in vae.glob("diffusion_pytorch_model*")):
            _find_file("vae", config.vae, None, "diffusion_pytorch_model.safetensors")
    return replace(source, added=Added(tuple(loras), tuple(words), vae, gguf, quantization))


def _find_file(place: str, name: str, file: str | None, default: str) -> Path:
    """Return the local path of a file by the name of it, of its folder or of its hub id; UserError if there is none."""
    path = expand_model(name, place)
    if path.is_file() and default != DECODER:
        if file is not None:
            raise UserError(
                f"{place}.weight_name: expected nothing beside a file, got {file!r:.60}: take it out"
            )
        return path
    if path.is_dir():
        files = sorted(one.name for one in path.iterdir() if one.suffix in _FORMATS)
        chosen = file or (files[0] if len(files) == 1 and default != DECODER else default)
        if (path / chosen).is_file():
            return path / chosen
        listed = ", ".join(files)[:120] or "no weights"
        raise UserError(f"{place}: expected {chosen} in {name:.80}, found {listed}: name the file")
    if HUB.fullmatch(name) and not path.exists():
        return hub.find_file(place, name, file or default)
    raise UserError(
        f"{place}: expected {'' if default == DECODER else 'a file, '}a folder or a hub id (owner/name), found none of"
        f" the name {name!r:.80}: check the path"
    )


def require_packages(source: Source, device: str) -> None:
    """Raise a UserError if a package is missing that reads what is put into a model, or the weights of the model."""
    if source.added.loras and find_spec("peft") is None:
        raise missing_package("lora", "peft", "lora")
    for name, method in source.quantized.items():
        module = QUANTIZERS[method]
        place = "quantization" if source.added.quantization else f"model {source.name}: {name}"
        if find_spec(module.partition(".")[0]) is None:
            package = module.replace(".", "-")
            raise UserError(f"{place}: expected the package {package}, found none: pip install {package}")
        if method == "bitsandbytes" and pick_device(device).type == "cpu":
            raise UserError(
                f"{place}: expected a GPU, on which bitsandbytes runs, got the CPU: quantize by torchao or gguf"
            )


def check(source: Source, device: str) -> None:
    """Raise the UserError that `apply` would, of packages or files that do not fit; needs no weights of the model."""
    require_packages(source, device)
    added = source.added
    if added.quantization is not None and added.gguf is None:
        _quantization(source, source.layout.denoiser.library, "float32")
    if added.loras or added.words:
        networks = {name: copy.deepcopy(network) for name, network in source.networks.items()}
        apply(assemble_pipeline(source, networks, None), source)


def _quantization(source: Source, library: str, dtype: str) -> Any:
    """Return the quantization of a configuration for a network of a library; a UserError for wrong options."""
    import torch

    chosen = source.added.quantization
    with pretrained.readable("quantization.quant_kwargs", f"options of {chosen.quant_backend}", "mend them"):
        return pretrained.quantization_config(
            library, chosen.quant_backend, chosen.quant_kwargs, getattr(torch, dtype)
        )


def reading_options(source: Source, name: str, dtype: str) -> dict[str, Any]:
    """Return the options by which a component's weights are quantized as they are read; empty where they are not."""
    chosen = source.added.quantization
    if chosen is None or name not in (chosen.components_to_quantize or [name]) or source.added.gguf:
        return {}
    return {"quantization_config": _quantization(source, source.index[name][0], dtype)}


def apply(pipe: Any, source: Source) -> None:
    """Load a source's new words and LoRAs into a pipeline; a UserError for one that does not fit."""
    kind, added = type(pipe).__name__, source.added
    for place, loader, entries in (
        ("textual_inversion", "load_textual_inversion", added.words),
        ("lora", "load_lora_weights", added.loras),
    ):
        takes = hasattr(pipe, loader) and (place == "lora" or not source.architecture.transformer)
        if entries and not takes:
            raise UserError(
                f"{place}: expected none for {source.name}, a {kind}, which takes none: take it out"
            )
    remedy = f"choose one that was trained for {source.architecture.models}"
    if added.words:
        tokenizers = {one.name: copy.deepcopy(getattr(pipe, one.name)) for one in source.layout.tokenizers}
        pipe.register_modules(**tokenizers)
    for index, (path, token) in enumerate(added.words):
        place = f"textual_inversion[{index}]: {path.name}"
        with pretrained.readable(place, f"{pretrained.VECTORS} for a {kind}", remedy), pretrained.quiet():
            pretrained.load_vectors(pipe, path, token)
    for index, (path, _) in enumerate(added.loras):
        expected = f"a LoRA for a {kind}"
        with pretrained.readable(f"lora[{index}]: {path.name}", expected, remedy), pretrained.quiet():
            pretrained.load_lora(pipe, path, f"lora_{index}")
    if added.loras:
        scales = [scale for _, scale in added.loras]
        pipe.set_adapters([f"lora_{index}" for index in range(len(scales))], scales)


def save_memory(pipe: Any, device: torch.device, offload: str | None, decoding: Sequence[str]) -> None:
    """Let a pipeline keep weights off the device until they are needed, and decode images in parts."""
    for name in decoding:
        getattr(pipe.vae, f"enable_{'tiling' if name == 'tiled' else 'slicing'}")()
    if offload == "group":
        stream = device.type == "cuda"
        pipe.enable_group_offload(onload_device=device, offload_type="leaf_level", use_stream=stream)
    elif offload is not None:
        getattr(pipe, f"enable_{offload}_cpu_offload")(device=device)


def record(source: Source) -> dict[str, Any]:
    """Return what is put into a model, for ``run.json``: each file with its digest, decoder, quantization."""
    added, digests = source.added, source.file_digests
    files = {name: f"{path.name} {digests[f'model/{name}']}" for name, (path, _) in added.files.items()}
    quantized = source.quantized
    return {
        **({"added": files} if files else {}),
        **({"vae": str(added.vae)} if added.vae else {}),
        **({"quantized": quantized} if quantized else {}),
    }


def lines(source: Source, config: Config) -> list[str]:
    """Return lines of text on what is put into a model, and how it saves memory, for ``triptych plan``."""
    facts = record(source)
    result = [f"{name}: {text}" for name, text in facts.get("added", {}).items()]
    result += [f"vae: {config.vae}"] if config.vae else []
    methods = facts.get("quantized", {})
    result += (
        [f"quantized: {', '.join(f'{name} by {how}' for name, how in methods.items())}"] if methods else []
    )
    saved = [*([f"{config.generate.offload} offload"] if config.generate.offload else [])]
    saved += [f"{one} decoding" for one in config.generate.decoding]
    return result + ([f"memory: {', '.join(saved)}"] if saved else [])
